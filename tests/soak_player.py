"""A client that does whatever a client can, by a seed, and knows at every moment what its arrays must hold.

The model: of each array what it holds, and what the newest copy of it holds that the worker can have. After an engine
was lost the arrays hold their copies, and the error has to say so; what has no copy is lost, and has to be named.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tiremote.client import RemoteArray, Session
from tiremote.protocol.errors import CompileError, EngineError, KernelRuntimeError, StaleHandle

#: Numbers in the field ``total``; a second shape, so that a reload can declare it otherwise.
SIZES = (16, 24)

#: What the client sends in one part at most.
PART_BYTES = 4 << 20

TEXT = """
import os, signal

C = {constant}
total = ti.field(ti.i32, {size})

@ti.kernel
def step(x: ti.types.ndarray(dtype=ti.i32), k: ti.i32):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + k + C

@ti.kernel
def bump(k: ti.i32):
    for i in total:
        total[i] += k + C

@ti.kernel
def endless() -> ti.i32:
    n = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            n += (i ^ j) % 7
    return n

def drive(x, times):
    for _ in range(times):
        step(x, 1)
        bump(2)

def spin():
    while True:
        pass

def die(number):
    os.kill(os.getpid(), number)

def fail():
    raise ValueError("on purpose")
"""

BROKEN = (
    ("    for i in total:\n", "    for i in totl:\n"),
    ("def drive(x, times):\n", "def drive(x, times:\n"),
    ("        total[i] += k + C\n", "        total[i] += k + ti.no_such_thing(C)\n"),
    ("C = ", "C = 1 // 0 + "),
)


class Wrong(AssertionError):
    """Something is not as the model says."""


@dataclass
class Known:
    """An array: what it holds, and what of it is in a copy; None where there is none.

    ``exact``: nothing ran since the copy was made, so that what is put into a part goes into the copy too.
    ``copies``: the digests of all that were made: the newest may not have been on the disk yet when the worker died.
    ``torn``: a snapshot was broken off, which may have come as far as this array.
    ``unsure``: a transfer of several parts was broken off, of which some may have been written.
    """

    holds: np.ndarray
    copy: np.ndarray | None = None
    exact: bool = False
    unsure: bool = False
    copies: set[bytes] = field(default_factory=set)
    #: What comes back may be any of ``copies``.
    any_copy: bool = False
    torn: bool = False

    def copied(self) -> None:
        """The worker has it as it is now."""
        self.copy, self.exact, self.unsure, self.torn = self.holds.copy(), True, False, False
        self.copies.add(digest(self.copy))


def digest(array: np.ndarray) -> bytes:
    """What tells contents apart."""
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


@dataclass
class Tally:
    """What was done and what went wrong on purpose, over all players."""

    done: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    #: How often the worker itself was ended.
    restarts: int = 0


class Player:
    """One client with a session of its own."""

    def __init__(self, gpu: Session, seed: int, tally: Tally) -> None:
        self._gpu = gpu
        self._random = random.Random(seed)
        self._tally = tally
        self._arrays: dict[str, RemoteArray] = {}
        self._known: dict[str, Known] = {}
        self._made = 0
        self._restarts = tally.restarts
        self._moves: deque[str] = deque(maxlen=20)
        #: Of every version that was loaded: its constant and the size of ``total``.
        self._texts: dict[int, tuple[int, int]] = {}
        self._version = 0
        while not self._texts:
            with contextlib.suppress(EngineError):
                self._load(constant=1, size=SIZES[0])

    # -- what the model knows of the unit

    @property
    def _constant(self) -> int:
        return self._texts[self._version][0]

    @property
    def _total(self) -> Known:
        return self._known["sim.total"]

    # -- one move

    def play(self) -> None:
        """Does one thing, and brings the model to what came of it. Raises `Wrong`."""
        moves: list[tuple[int, Callable[[], None]]] = [
            (8, self._step), (4, self._steps), (6, self._bump), (4, self._drive), (6, self._put), (4, self._put_part),
            (6, self._fetch),
            (2, self._snapshot), (3, self._make), (1, self._drop), (4, self._reload), (2, self._reload_broken),
            (1, self._redeclare), (1, self._roll_back), (1, self._die), (1, self._interrupt), (1, self._deadline),
            (1, self._fail), (2, self._check_all), (1, self._describe),
        ]  # fmt: skip
        (move,) = self._random.choices([move for _, move in moves], [weight for weight, _ in moves])
        self._do(move)

    def finish(self) -> None:
        """Looks at everything once more."""
        while not self._do(self._check_all):
            pass

    def _do(self, move: Callable[[], None]) -> bool:
        """Whether it came to its end, and not to that of an engine. Raises `Wrong`."""
        name = move.__name__.strip("_")
        self._tally.done[name] += 1
        self._moves.append(name)
        try:
            try:
                move()
            except EngineError as error:
                self._moves.append(str(error))
                self._lost(error)
                return False
        except Wrong as wrong:
            raise Wrong(f"{wrong}; the last moves were {', '.join(self._moves)}") from wrong
        return True

    # -- runs

    def _ran(self) -> None:
        for known in self._known.values():
            known.exact = False

    def _step(self) -> None:
        name = self._some_array()
        k = self._random.randrange(100)
        self._gpu["sim"].step(self._arrays[name], k)
        self._after_step(name, k)
        self._ran()

    def _steps(self) -> None:
        """So many in a row that they go straight to the engine."""
        name, step = self._some_array(), self._gpu["sim"].step
        for _ in range(self._random.randrange(10, 200)):
            k = self._random.randrange(100)
            step(self._arrays[name], k)
            self._after_step(name, k)
            self._ran()

    def _after_step(self, name: str, k: int) -> None:
        known = self._known[name]
        known.holds = known.holds * np.int32(3) + np.int32(k + self._constant)

    def _bump(self) -> None:
        k = self._random.randrange(100)
        self._gpu["sim"].bump(k)
        self._total.holds = self._total.holds + np.int32(k + self._constant)
        self._ran()

    def _drive(self) -> None:
        name, times = self._some_array(), self._random.randrange(1, 5)
        self._gpu["sim"].drive(self._arrays[name], times)
        for _ in range(times):
            self._after_step(name, 1)
        self._total.holds = self._total.holds + np.int32(times * (2 + self._constant))
        self._ran()

    def _fail(self) -> None:
        try:
            self._gpu["sim"].fail()
        except KernelRuntimeError as error:
            if error.type != "ValueError":
                raise Wrong(f"a ValueError came as {error.type}") from error
            self._ran()
            return
        raise Wrong("a function that raises has returned")

    # -- arrays

    def _some_array(self) -> str:
        if not self._arrays:
            self._make()
        return self._random.choice(sorted(self._arrays))

    def _new_values(self, size: int) -> np.ndarray:
        start = self._random.randrange(1 << 20)
        return np.arange(start, start + size, dtype=np.int32)

    def _make(self) -> None:
        if len(self._arrays) >= 8:
            return
        # Above 4 MiB an array travels in several parts.
        size = self._random.choice([1, 7, 1000, 40_000, 3_000_000])
        name = f"x{self._made}"
        self._made += 1
        known = Known(np.zeros(size, np.int32))
        array = self._gpu.ti.ndarray(self._gpu.ti.i32, size, label=name)
        self._arrays[name], self._known[name] = array, known
        if self._random.random() < 0.8:
            self._put_whole(name)

    def _put_whole(self, name: str) -> None:
        values = self._new_values(self._known[name].holds.size)
        with self._sending(name, values):
            self._array(name).from_numpy(values)
        self._known[name].holds = values
        self._known[name].copied()

    @contextlib.contextmanager
    def _sending(self, name: str, values: np.ndarray) -> Iterator[None]:
        """What travels in one part arrives or does not."""
        try:
            yield
        except EngineError:
            self._known[name].unsure |= values.nbytes > PART_BYTES
            raise

    def _array(self, name: str) -> RemoteArray:
        return self._gpu["sim"].total if name == "sim.total" else self._arrays[name]  # type: ignore[no-any-return]

    def _put(self) -> None:
        self._put_whole(self._random.choice([self._some_array(), "sim.total"]))

    def _put_part(self) -> None:
        name = self._random.choice([self._some_array(), "sim.total"])
        known = self._known[name]
        half = known.holds.size // 2
        if not half:
            return
        values = self._new_values(half)
        with self._sending(name, values):
            self._array(name)[:half] = values
        known.holds = known.holds.copy()
        known.holds[:half] = values
        if known.exact and not known.unsure:
            known.copied()

    def _fetch(self) -> None:
        self._look_at(self._random.choice([self._some_array(), "sim.total"]))

    def _look_at(self, name: str) -> None:
        came, known = self._array(name).to_numpy(), self._known[name]
        if known.unsure:
            if known.any_copy and digest(came) not in known.copies:
                raise Wrong(f"{name} came back as {came[:6]}..., which it never was")
            known.holds, known.any_copy = came, False
        if not np.array_equal(came, known.holds):
            wrong = np.flatnonzero(came != known.holds)
            raise Wrong(
                f"{name} ({known}) holds {came[wrong[:6]]} at {wrong[:6]}..., {len(wrong)} of {came.size} are wrong"
            )
        known.copied()

    def _check_all(self) -> None:
        for name in [*self._arrays, "sim.total"]:
            self._look_at(name)

    def _snapshot(self) -> None:
        try:
            told = self._gpu.snapshot()
        except EngineError:
            # Each array was copied as it was then, or not yet.
            for known in self._known.values():
                known.copies.add(digest(known.holds))
                known.torn = True
            raise
        expected = {*self._arrays, "sim.total"}
        if set(told.copied) != expected or told.skipped:
            raise Wrong(f"{told!r} was copied, and there are {sorted(expected)}")
        for known in self._known.values():
            if not known.unsure:
                known.copied()

    def _drop(self) -> None:
        name = self._some_array()
        # It may be lost already, and that not told yet: what is dropped depends on nothing.
        with contextlib.suppress(StaleHandle):
            self._arrays[name].free()
        self._forget(name)

    def _forget(self, name: str) -> None:
        del self._arrays[name], self._known[name]

    # -- code

    def _load(self, constant: int, size: int) -> None:
        receipt = self._gpu.compile_and_load(TEXT.format(constant=constant, size=size), "sim")
        self._loaded(receipt.version, constant, size)

    def _loaded(self, version: int, constant: int, size: int) -> None:
        before = self._texts.get(self._version)
        self._version = version
        self._texts[version] = (constant, size)
        if before is None or before[1] != size:
            self._known["sim.total"] = Known(np.zeros(size, np.int32))
        self._ran()

    def _reload(self) -> None:
        self._load(self._random.randrange(1000), self._texts[self._version][1])

    def _redeclare(self) -> None:
        self._load(self._random.randrange(1000), self._random.choice(SIZES))

    def _reload_broken(self) -> None:
        good = TEXT.format(constant=self._random.randrange(1000), size=self._texts[self._version][1])
        try:
            self._gpu.compile_and_load(good.replace(*self._random.choice(BROKEN), 1), "sim")
        except CompileError:
            self._ran()
            return
        raise Wrong("a broken text was loaded")

    def _roll_back(self) -> None:
        version = self._random.choice(sorted(self._texts)[-20:])
        receipt = self._gpu.rollback("sim", version)
        self._loaded(receipt.version, *self._texts[version])

    def _describe(self) -> None:
        told = self._gpu.describe()
        labels = {holding.label for holding in told.arrays if holding.label}
        # What is lost meanwhile, and not told yet, is not there any more.
        if not labels <= set(self._arrays):
            raise Wrong(f"{labels} are there, and {sorted(self._arrays)} were made")

    # -- what goes wrong on purpose

    def _die(self) -> None:
        self._gpu["sim"].die(self._random.choice([6, 9, 11]))

    def _deadline(self) -> None:
        name = self._random.choice(["spin", "endless"])
        self._gpu.kernel(f"sim.{name}").with_options(deadline=0.2)()

    def _interrupt(self) -> None:
        future = self._gpu.kernel(f"sim.{self._random.choice(['spin', 'endless'])}").submit()
        self._gpu.interrupt(future)
        error = future.exception()
        if not isinstance(error, EngineError):
            raise Wrong(f"an interrupt was answered by {error!r}")
        raise error

    def _lost(self, error: EngineError) -> None:
        """Brings the model to where the error says that the session is."""
        self._tally.losses[type(error).__name__] += 1
        if not (error.restored or error.lost or error.as_of):
            # The code stopped by itself, or never began: everything is as it was.
            self._ran()
            return
        # What two engines in a row died over while they loaded it is not loaded into a third.
        given_up = any(each.startswith("sim (") for each in error.lost)
        if not error.restored and not given_up and self._texts:
            raise Wrong(f"{error} does not say what is loaded again") from error
        there = {one.name for one in error.as_of}
        lost = {each.partition(" (")[0]: each for each in error.lost}
        gone = []
        restarted, self._restarts = self._tally.restarts > self._restarts, self._tally.restarts
        for name, known in list(self._known.items()):
            if name in there:
                if (restarted or known.torn) and not known.unsure:
                    known.unsure = known.any_copy = True
                known.torn = False
                if known.unsure:
                    continue
                if known.copy is None:
                    raise Wrong(f"{name} is said to be back, and there never was a copy of it: {error}") from error
                known.holds, known.exact = known.copy.copy(), True
                continue
            # What two engines in a row have died over, here of the one who kills them, is not put into a third.
            feared = "while it was put back" in lost.get(name, "")
            feared |= given_up and name == "sim.total"
            if known.copy is not None and not (known.unsure or restarted or known.torn or feared):
                raise Wrong(f"{name} had a copy and is not back: {error}") from error
            if name not in lost:
                raise Wrong(f"{name} is neither back nor lost: {error}") from error
            if name == "sim.total":
                # Nothing is left of a copy that was feared, either.
                self._known[name] = Known(np.zeros_like(known.holds))
            else:
                gone.append(self._arrays[name])
                self._forget(name)
        try:
            for array in gone:
                self._is_stale(array)
            for name, known in list(self._known.items()):
                if known.any_copy:
                    self._look_at(name)
        except EngineError as again:
            # Another engine is gone: that is told here, and once.
            self._lost(again)
        if given_up:
            self._load_again()

    def _is_stale(self, array: RemoteArray) -> None:
        try:
            array.to_numpy()
        except StaleHandle:
            return
        raise Wrong(f"{array} is lost, and can be fetched")

    def _load_again(self) -> None:
        """The unit, of which nothing is left, not even its versions."""
        self._texts.clear()
        while not self._texts:
            try:
                self._load(constant=1, size=SIZES[0])
            except EngineError as error:
                self._lost(error)
