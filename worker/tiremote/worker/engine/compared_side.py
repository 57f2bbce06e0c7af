"""One side of a comparison: a version built beside what is loaded, with state of its own, ready to be launched."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.comparison import Timed, quartiles, timed
from tiremote.protocol.values import Ref
from tiremote.worker.engine.arguments import BoundCall, bind_call
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.building import Builder, Built
from tiremote.worker.engine.copied_state import Copied, copy_state
from tiremote.worker.engine.frames import poison_in, run_error
from tiremote.worker.engine.results import Kept, to_plain
from tiremote.worker.engine.source import read_source
from tiremote.worker.engine.starting_point import StartingPoint
from tiremote.worker.engine.unit import LoadedUnit, Unit

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: What a module is named by besides unit and version: above what rebuilds of anything loaded ever reach.
_builds = itertools.count(1 << 32)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a launch left behind: ``written`` are the arrays that hold something else than before, by path,
    ``arguments`` those that came with the request, by name. ``value`` is plain."""

    value: Any
    written: Mapping[str, np.ndarray]
    arguments: Mapping[str, np.ndarray]


class ComparedSide:
    """``name`` is ``before`` or ``after``; ``version`` None for a text that is only tried.

    ``session`` is what the session holds and a launch may reach, ``resolve`` gives what a handle or a name stands for
    there. Whatever raises here raises as a load or a run does, with the side in front of the message.
    """

    def __init__(
        self,
        name: str,
        version: int | None,
        text: str,
        session: StartingPoint,
        arrays: Arrays,
        runtime: TaichiRuntime,
        resolve: Callable[[Ref], Any],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.label = f"{name} ({'the text' if version is None else f'version {version}'})"
        self._version = version
        self._text = text
        self._session = session
        self._arrays = arrays
        self._runtime = runtime
        self._resolve = resolve
        self._clock = clock
        self._built: Built | None = None
        self._start: StartingPoint | None = None
        self._copied = Copied()
        self._target: Any = None
        self._build_seconds = 0.0
        self._launches: list[float] = []

    # Being made and taken away ------------------------------------------------------------------------------

    def build(self, loaded: LoadedUnit, builder: Builder, read: dict[int, np.ndarray]) -> None:
        """Executes the text, and copies what the loaded version holds. ``read``: see `copy_state`."""
        with self._blamed():
            self._session.restore()
            started = self._clock()
            source = read_source(self._text, loaded.unit, self._version or 0, next(_builds))
            self._built = builder.build(source, None, keep=False)
            self._build_seconds = self._clock() - started
            copy = self._built.loaded
            self._copied = copy_state(loaded, copy, read, self._session, self._arrays, self._runtime)
            self._start = StartingPoint(self._arrays, self._runtime, self._copied.contents, self._session)
            self._start.add_namespace(copy.namespace)

    def aim(self, find: Callable[[Any], Any]) -> Any:
        """Looks up what is to be launched: ``find`` gives it for the unit."""
        with self._blamed():
            self._target = find(Unit(self._made()[0].loaded))
        return self._target

    def take_away(self) -> None:
        """As if it had never been built."""
        built, self._built, self._start, self._target = self._built, None, None, None
        self._copied = Copied()
        if built is not None:
            built.undo(self._runtime)

    # Launching ----------------------------------------------------------------------------------------------

    def first(self, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> Outcome:
        """The launch that compiles, and what it did. Arguments are as they came; ``names`` are the parameters'."""
        with self._blamed():
            call, value = self._launch(args, kwargs)
            written = {**self._made()[1].written(), **self._session.written()}
            return Outcome(
                self._plain(value), written, {argument_name(key, names): one for key, one in call.lent().items()}
            )

    def again(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """One more launch from the same state, for its time alone."""
        with self._blamed():
            self._launch(args, kwargs)

    def _launch(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[BoundCall, Any]:
        _, start = self._made()
        start.restore()
        # The session's last: what random numbers it has, both sides draw.
        self._session.restore()
        call = bind_call(
            self._runtime,
            self._target,
            args,
            kwargs,
            "the target",
            lambda ref: self.own(self._resolve(ref)),
        )
        self._runtime.sync()
        started = self._clock()
        value = call.launch()
        self._runtime.sync()
        self._launches.append(self._clock() - started)
        return call, value

    def has(self, value: Any) -> bool:
        """Whether it has something of its own that stands for this one of the loaded version."""
        return id(value) in self._copied.stands

    def own(self, value: Any) -> Any:
        """What stands for a value of the loaded version, also inside lists, tuples and dicts; else the value."""
        if id(value) in self._copied.stands:
            return self._copied.stands[id(value)]
        if type(value) in (list, tuple):
            return type(value)(self.own(each) for each in value)
        if type(value) is dict:
            return {key: self.own(each) for key, each in value.items()}
        return value

    # Telling ------------------------------------------------------------------------------------------------

    @property
    def launches(self) -> list[float]:
        """Seconds of each launch but the first."""
        return self._launches[1:]

    def timed(self) -> Timed:
        """Its times."""
        late = max(self._launches[0] - quartiles(self.launches)[1], 0.0)
        return timed(self._version, self._build_seconds + late, self.launches)

    def held(self) -> dict[str, np.ndarray]:
        """What its arrays hold before a launch, by path."""
        return self._made()[1].arrays()

    def path_of(self, array: Any) -> str | None:
        """What an array of its own is known as."""
        return self._made()[1].path_of(array)

    def warnings(self) -> list[str]:
        """What is not as in the session, or not the same before each launch."""
        told = list(self._copied.warnings)
        told += [f"{path} is not put back between launches: {why}" for path, why in self._made()[1].skipped.items()]
        return [f"{self.label}: {each}" for each in told]

    def _made(self) -> tuple[Built, StartingPoint]:
        if self._built is None or self._start is None:
            raise AssertionError("a side is built before it is used")
        return self._built, self._start

    def _plain(self, value: Any) -> Any:
        return self._read(to_plain(value, self._runtime))

    def _read(self, value: Any) -> Any:
        """Arrays that would stay here are read."""
        if isinstance(value, Kept) and self._arrays.kind(value.value) != "object":
            return self._arrays.read(value.value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._read(each) for each in value)
        if isinstance(value, dict):
            return {key: self._read(each) for key, each in value.items()}
        return value.copy() if isinstance(value, np.ndarray) else value

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            if poison_in(error) is not None:
                raise
            told = run_error(error, self._runtime)
            raise type(told)(f"{self.label}: {told.message}", **told.data()) from None


def argument_name(key: int | str, names: Sequence[str]) -> str:
    """What an argument, or what is inside of one, is called: by its parameter, where that is known."""
    place, dot, path = str(key).partition(".")
    known = place.isdigit() and int(place) < len(names)
    return f"argument {names[int(place)] if known else place}{dot}{path}"
