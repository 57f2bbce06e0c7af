"""Commands about what is loaded."""

from __future__ import annotations

from tiremote.repl.commands.entry import CommandError, Context, Entry, Given
from tiremote.repl.render import table
from tiremote.repl.typed_call import TypedCall, called, read_call


def commands(context: Context) -> tuple[Entry, ...]:
    """The group."""
    return _Kernels(context).entries()


class _Kernels:
    def __init__(self, context: Context) -> None:
        self._context = context

    def entries(self) -> tuple[Entry, ...]:
        return (
            Entry(
                name="kernels",
                run=lambda _: self._kernels(),
                does="what is loaded, with signatures and versions",
            ),
            Entry(
                name="ast",
                run=self._ast,
                does="the tree that a kernel is made from",
                given="KERNEL",
                more="""\
:ast add           of a kernel, func, function or class
:ast Model.step    of a method
gpu.ast(unit, name).json has it as JSON.""",
                words=(Given.KERNEL,),
            ),
            Entry(
                name="compare",
                run=self._compare,
                does="two versions of a kernel side by side",
                given="CALL [VERSION [VERSION]]",
                more="""\
:compare add(x, 5.0)      what is loaded with the version before it
:compare add(x, 5.0) 1    version 1 with what is loaded
:compare add(x, 5.0) 1 3  version 1 with version 3
Tells how far the results differ and how long each takes. Both run on copies:
arrays, fields and what is loaded stay as they are.""",
                words=(Given.CODE,),
            ),
            Entry(
                name="bench",
                run=self._bench,
                does="how long a call takes on the worker",
                given="CALL [REPEATS]",
                more="""\
:bench add(x, 5.0)      thirty calls, after three that do not count
:bench add(x, 5.0) 500  so many
Tells the median, the quartiles, and how the times are distributed from the
least to the largest. Each call is made: arrays and fields change by it.""",
                words=(Given.CODE,),
            ),
        )

    def _kernels(self) -> None:
        rows = [("unit", "version", "defines")]
        for holding in self._context.gpu.describe().units:
            shown = [str(each) for each in holding.definitions if each.kind not in ("value", "field", "ndarray")]
            for position, text in enumerate(shown):
                rows.append((holding.unit, str(holding.version), text) if position == 0 else ("", "", text))
        self._context.show(table(rows) if len(rows) > 1 else "No kernel is loaded: type one.")

    def _ast(self, name: str) -> None:
        if not name:
            raise CommandError("say of what: :ast KERNEL; :kernels lists what is loaded")
        first = name.partition(".")[0]
        unit = self._context.evaluator.names.remote_unit(first)
        if unit is None:
            raise CommandError(f"nothing on the worker is called {first!r}: :kernels lists what is loaded")
        self._context.show(str(self._context.gpu.ast(unit, name)))

    def _compare(self, rest: str) -> None:
        asked = self._call(rest, "and which versions: :compare add(x, 5.0) 1 2", 2)
        before, after = [*asked.numbers, None, None][:2]
        compare = self._context.gpu.compare
        told = compare(asked.unit, asked.name, *asked.args, kwargs=asked.kwargs, before=before, after=after)
        self._context.show(str(told))

    def _bench(self, rest: str) -> None:
        asked = self._call(rest, "and how often: :bench add(x, 5.0) 100", 1)
        repeats = dict(zip(("repeats",), asked.numbers, strict=False))
        try:
            callee = called(asked, self._context.evaluator.names)
        except ValueError as error:
            raise CommandError(str(error)) from None
        # The picture shows how far apart they are.
        told = self._context.gpu.bench(callee, *asked.args, kwargs=asked.kwargs, max_spread=None, **repeats)
        self._context.show(str(told))

    def _call(self, rest: str, usage: str, most_numbers: int) -> TypedCall:
        try:
            return read_call(rest, self._context.evaluator.names, usage=usage, most_numbers=most_numbers)
        except ValueError as error:
            raise CommandError(str(error)) from None
