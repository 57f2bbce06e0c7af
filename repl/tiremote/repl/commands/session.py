"""Commands about the session: what it keeps, what it does, and how it is left and taken up."""

from __future__ import annotations

from tiremote.client import RemoteArray
from tiremote.protocol.errors import TiremoteError
from tiremote.repl.ask_status import sessions_beside
from tiremote.repl.collecting import Collecting, NotCollected, requests_text
from tiremote.repl.commands.entry import CommandError, Context, Entry, Given, Quit, nearest
from tiremote.repl.render import size_text, table
from tiremote.repl.snapshotting import read_plan
from tiremote.repl.status_text import HEAD, session_row, status_text


def commands(context: Context) -> tuple[Entry, ...]:
    """The group."""
    return _Session(context).entries()


class _Session:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._collecting = Collecting()

    def entries(self) -> tuple[Entry, ...]:
        return (
            Entry(
                name="snapshot",
                run=self._snapshot,
                does="copies arrays, to be there after a crash",
                given="[SECONDS|off]",
                more="""\
:snapshot                 now
:snapshot 10              now, and from now on by itself 10 s later, if anything ran
:snapshot every 5 min     likewise
:snapshot every 100 runs  likewise, after so many
:snapshot off             now, and not by itself any more
When an engine is lost, arrays hold again what was last copied, put or fetched.""",
                words=(("every", "off"),),
            ),
            Entry(
                name="cleanup",
                run=self._cleanup,
                does="drops a kernel, an array, or everything",
                given="NAME|all",
                more="Its memory on the worker comes back.",
                words=(Given.NAME,),
            ),
            Entry(
                name="status",
                run=lambda _: self._status(),
                does="the worker and this session",
            ),
            Entry(
                name="sessions",
                run=lambda _: self._sessions(),
                does="this worker's sessions, and how to join one",
            ),
            Entry(
                name="requests",
                run=lambda _: self._context.show(requests_text(self._context.gpu.requests())),
                does="what runs, waits, or was answered to nobody",
                more="""\
Of all clients of this session, also of programs that were killed or have left.
:collect takes one up.""",
            ),
            Entry(
                name="collect",
                run=self._collect,
                does="output and result of a request of before",
                given="ID",
                more="""\
What it printed comes from the start, then what it gives, which is _ afterwards:
of a call that gives nothing the arrays that it wrote to, by their position.
Ctrl-C ends the wait alone; the request goes on.""",
            ),
            Entry(
                name="explain",
                run=lambda _: self._context.show(str(self._context.gpu.explain_crash())),
                does="what the last crash was: the line, the index",
                more="""\
Runs the request again that the engine died with, in a debug engine of its own:
with the text as it was, on copies of the arrays. What is here is not touched.
Ctrl-C ends it.""",
            ),
            Entry(
                name="reconnect",
                run=lambda _: self._reconnect(),
                does="a new session, after the worker was gone",
                more="""\
What was typed here is loaded again; what was in arrays and fields is lost.
A local worker that has ended is started anew.""",
            ),
            Entry(
                name="quit",
                run=self._quit,
                does="leaves, as Ctrl-D does",
            ),
        )

    def _status(self) -> None:
        self._context.show(status_text(self._context.gpu.status(), self._context.gpu.address))

    def _sessions(self) -> None:
        gpu = self._context.gpu
        rows = [("", *HEAD)]
        rows += [("*" if gpu.name in (each.name, each.id) else "", *session_row(each)) for each in sessions_beside(gpu)]
        self._context.show(f"{table(rows)}\n* is this one. Join a named one: tiremote {gpu.address} --session NAME")

    def _snapshot(self, rest: str) -> None:
        try:
            plan = read_plan(rest)
        except ValueError as error:
            raise CommandError(str(error)) from None
        self._context.show(self._context.evaluator.names.named(str(self._context.gpu.snapshot(**plan))))

    def _cleanup(self, name: str) -> None:
        names = self._context.evaluator.names
        if not name:
            raise CommandError("say what to drop: the name of a kernel or an array, or all")
        if name == "all":
            result = self._context.gpu.cleanup_all()
            self._context.evaluator.forget_everything()
            self._context.show(f"dropped everything: {len(result.units)} units, {size_text(result.nbytes)} came back")
            return
        value = names.values.get(name)
        unit = names.remote_unit(name)
        if isinstance(value, RemoteArray) and unit is None:
            size = value.nbytes
            value.free()
            del names.values[name]
            self._context.show(f"dropped {name}, {size_text(size)} came back")
            return
        held = {holding.unit for holding in self._context.gpu.describe().units}
        chosen = unit if unit in held else name
        if chosen not in held:
            raise CommandError(f"nothing is called {name!r}{nearest(name, [*held, *dict(names.arrays())])}")
        result = self._context.gpu.cleanup(chosen)
        self._context.evaluator.forget_unit(chosen)
        self._context.show(f"dropped {chosen}, {size_text(result.nbytes)} came back")

    def _collect(self, request: str) -> None:
        if not request:
            raise CommandError("say which request: :collect ID; :requests lists them")
        try:
            value = self._collecting.collect(self._context.gpu, request)
        except NotCollected as error:
            raise CommandError(str(error)) from None
        if value is None:
            self._context.show(f"{request} is done")
        else:
            self._context.evaluator.show_value(value)

    def _reconnect(self) -> None:
        try:
            there = self._context.gpu.status().session is not None
        except TiremoteError:
            there = False
        if there:
            self._context.show(
                f"session {self._context.gpu.name} on {self._context.gpu.address} is there: nothing is lost"
            )
        else:
            self._context.evaluator.reconnect()

    def _quit(self, _: str) -> None:
        raise Quit
