"""Saved files on the worker: `Session.watch` follows files of source and loads each that changes.

``signals`` tells that something may have happened in the file system, and alone knows watchfiles; ``settling`` reads
the files until they hold still and makes batches of those that changed; ``reloader`` sends a batch as one, or what does
not go so file after file, in the order that ``order`` finds from their imports; ``places`` tells errors by file and
line; ``handle`` is the thread around it. ``files`` is what one file is: a unit whose id is the file's stem.
"""

from tiremote.client.watch.files import WatchedFile, watched_files
from tiremote.client.watch.handle import Watch
from tiremote.client.watch.places import failure_text, place_text
from tiremote.client.watch.reloader import Reload, print_reloads
from tiremote.client.watch.settling import Edit, changes
from tiremote.client.watch.signals import signals

__all__ = [
    "Edit",
    "Reload",
    "Watch",
    "WatchedFile",
    "changes",
    "failure_text",
    "place_text",
    "print_reloads",
    "signals",
    "watched_files",
]
