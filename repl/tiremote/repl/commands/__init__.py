"""The commands at the prompt, each a line that begins with a colon.

entry    what a command is, and what every group of them has
table    all of them by name; a new group gets a line there
arrays, kernels, session    the groups, one module each
"""

from tiremote.repl.commands.arrays import read_slice
from tiremote.repl.commands.entry import CommandError, Context, Entry, Given, Quit
from tiremote.repl.commands.table import Commands

__all__ = ["CommandError", "Commands", "Context", "Entry", "Given", "Quit", "read_slice"]
