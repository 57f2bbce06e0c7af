"""Two versions of a unit side by side: built beside what is loaded, launched in turns, and taken away again."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.code_requests import Compare, Side
from tiremote.protocol.comparison import Comparison, Difference, quartiles
from tiremote.protocol.errors import Refused
from tiremote.protocol.values import Ref
from tiremote.worker.engine.array_difference import array_difference, value_differences
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.building import Builder
from tiremote.worker.engine.compared_side import ComparedSide, Outcome, argument_name
from tiremote.worker.engine.frames import poison_in
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.pairing import is_unit_object
from tiremote.worker.engine.references import References, attribute
from tiremote.worker.engine.starting_point import StartingPoint
from tiremote.worker.engine.unit import LoadedUnit

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class Comparer:
    """Serves `Compare`. ``may_stop`` is called between two launches, and raises where that is wanted."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        arrays: Arrays,
        loader: KernelLoader,
        references: References,
        may_stop: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._arrays = arrays
        self._loader = loader
        self._references = references
        self._may_stop = may_stop

    def compare(self, request: Compare) -> Comparison:
        """Launches both sides, and leaves everything as it was. Raises what a load or a run raises, saying of which."""
        loaded = self._loader.loaded(request.target.unit)
        bench = _Bench(loaded, self._loader, self._arrays, self._runtime, self._references.resolve)
        failure: BaseException
        try:
            comparison = self._compared(request, bench)
        except BaseException as error:
            if poison_in(error) is not None:
                # Nothing can be put back any more: the engine is replaced.
                raise
            failure = error
        else:
            bench.clear()
            return comparison
        # Without what it drags along: its frames hold the sides' namespaces, and so the fields to be given back.
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
        bench.clear()
        raise failure

    def _compared(self, request: Compare, bench: _Bench) -> Comparison:
        loaded = bench.loaded
        before, after = bench.build("before", request.before), bench.build("after", request.after)
        name = request.target.name
        targets = [side.aim(lambda unit: attribute(unit, name, loaded.unit)) for side in bench.sides]
        names = _parameter_names(targets[0], self._runtime)
        self._know_arguments(request, names, bench)
        one, other = (side.first(request.args, request.kwargs, names) for side in bench.sides)
        for _ in range(request.repeats):
            for side in bench.sides:
                self._may_stop()
                side.again(request.args, request.kwargs)
        pairs = zip(before.launches, after.launches, strict=True)
        lower, ratio, upper = quartiles([then / now if now else 1.0 for now, then in pairs])
        return Comparison(
            unit=loaded.unit,
            name=name,
            before=before.timed(),
            after=after.timed(),
            ratio=ratio,
            ratio_lower_quartile=lower,
            ratio_upper_quartile=upper,
            differences=tuple(bench.differences(one, other)),
            warnings=tuple(dict.fromkeys(bench.warnings + before.warnings() + after.warnings())),
        )

    def _know_arguments(self, request: Compare, names: Sequence[str], bench: _Bench) -> None:
        given: dict[int | str, Any] = dict(enumerate(request.args))
        given.update(request.kwargs)
        for key, value in given.items():
            bench.know_argument(argument_name(key, names), self._references.argument(value))


class _Bench:
    """What both sides share and what is to be put back in the end."""

    def __init__(
        self,
        loaded: LoadedUnit,
        loader: KernelLoader,
        arrays: Arrays,
        runtime: TaichiRuntime,
        resolve: Callable[[Ref], Any],
    ) -> None:
        self.loaded = loaded
        self._resolve = resolve
        self.sides: list[ComparedSide] = []
        self.warnings: list[str] = []
        self._loader = loader
        self._arrays = arrays
        self._runtime = runtime
        self._builder = Builder(runtime, self._owner, lambda unit: self._known(loader.loaded(unit)))
        #: Contents of the loaded version's arrays, by identity.
        self._read: dict[int, np.ndarray] = {}
        #: What arguments that are arrays are known as, None for others.
        self._arguments: list[str | None] = []
        #: What the session holds and either side can reach; not the unit itself, of which each side has its own.
        self._session = StartingPoint(arrays, runtime)
        self._compiled = runtime.compiled_instances()
        self._trees = runtime.trees.count()
        # A field that waits for its place would keep both sides from being launched.
        self._put_back = loaded.waiting.set_aside(runtime)

    def build(self, name: str, asked: Side | None) -> ComparedSide:
        """Makes a side; without a text it is that of what is loaded."""
        asked = asked or Side()
        is_loaded = asked.source is None
        version = self.loaded.version if is_loaded else asked.version
        text = self.loaded.source.text if asked.source is None else asked.source
        side = ComparedSide(name, version, text, self._session, self._arrays, self._runtime, self._resolve)
        self.sides.append(side)
        side.build(self.loaded, self._builder, self._read)
        return side

    def know_argument(self, name: str, value: Any) -> None:
        """Remembers what an argument holds, but for what each side has of its own. Raises `Refused`."""
        if all(side.has(value) for side in self.sides):
            self._arguments.append(self.sides[0].path_of(self.sides[0].own(value)))
            return
        if is_unit_object(value):
            self.warnings.append(f"{name} is an object of what is loaded: both sides call the methods it has there")
        known = set(self._session.skipped)
        self._session.add(name, value)
        failing = {path: why for path, why in self._session.skipped.items() if path not in known}
        if (why := self._session.why_skipped(value)) is not None:
            # Another unit's, known already.
            failing = {name: why}
        for path, why in failing.items():
            raise Refused(f"{path} could not be put back after a launch: {why}")
        self._arguments.append(self._session.path_of(value))

    def differences(self, before: Outcome, after: Outcome) -> list[Difference]:
        """Of every array argument, what either side wrote besides, and the returned value."""
        held = self._session.arrays()
        sides = [{**held, **side.held(), **outcome.arguments, **outcome.written}
                 for side, outcome in zip(self.sides, (before, after), strict=True)]  # fmt: skip
        paths = dict.fromkeys([*before.arguments, *self._arguments, *before.written, *after.written])
        told = []
        for path in paths:
            if path is None:
                # An argument that is no array.
                continue
            if all(path in side for side in sides):
                told.append(array_difference(path, sides[0][path], sides[1][path]))
            else:
                only = "before" if path in sides[0] else "after"
                told.append(Difference(name=path, same_bits=False, note=f"it is there in {only} only"))
        if before.value is not None or after.value is not None:
            told += value_differences("returned value", before.value, after.value)
        return told

    def clear(self) -> None:
        """Puts everything back, and gives back what was built."""
        self._session.restore()
        while self.sides:
            self.sides.pop().take_away()
        self._put_back()
        # Before trees go, kernels must not hold what was compiled for them.
        self._compiled.forget_later(self._runtime)
        gc.collect()
        self._runtime.trees.collect_after(self._trees, ())

    def _owner(self, name: str, for_unit: str) -> LoadedUnit | None:
        owner = self._loader.owner(name, for_unit)
        return None if owner is None else self._known(owner)

    def _known(self, other: LoadedUnit) -> LoadedUnit:
        """Remembers what another unit holds, before a side gets hold of it."""
        known = set(self._session.skipped)
        self._session.add_namespace(other.namespace, f"{other.unit}.")
        for path, why in self._session.skipped.items():
            if path not in known:
                self.warnings.append(f"{path} is not put back after a launch that writes to it: {why}")
        return other


def _parameter_names(target: Any, runtime: TaichiRuntime) -> tuple[str, ...]:
    """Those that positional arguments go to."""
    if runtime.is_kernel(target) or runtime.is_bound_kernel(target):
        kernel, filled = runtime.kernel_behind(target)
        return tuple(name for name, _ in runtime.parameter_types(kernel))[filled:]
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(each.name for each in parameters if each.kind in positional)
