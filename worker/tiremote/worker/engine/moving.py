"""The steps by which a session goes from one engine to the next. The front passes on what one says to the other.

``survey`` and ``give`` are for the engine that the session leaves, ``build``, ``take`` and ``settle`` for the next.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tiremote.protocol.packing import unpack
from tiremote.protocol.values import wire_array
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.carriers import Carriers
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.landmarks import NotMovable
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.moving_in import MovingIn
from tiremote.worker.engine.moving_out import Estate, MovingOut
from tiremote.worker.engine.surroundings import Surroundings
from tiremote.worker.engine.unit_reports import UnitReports
from tiremote.worker.engine.whereabouts import Whereabouts

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Seconds that one step may take which nobody has asked for.
_BIT: Final = 0.03
#: How many times what the arrays take has to be free.
_ROOM: Final = 1.5


class Moving:
    """One engine's part, whichever it is."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        loader: KernelLoader,
        holdings: Holdings,
        arrays: Arrays,
        reports: UnitReports,
        whereabouts: Whereabouts,
    ) -> None:
        surroundings = Surroundings()
        runtime.baked.draws = False
        self._runtime = runtime
        self._carriers = Carriers(arrays, runtime)
        self._arrays = arrays
        told = (reports, whereabouts)
        self._out = MovingOut(runtime, loader, holdings, self._carriers, surroundings, *told)
        self._in = MovingIn(runtime, loader, holdings, arrays, self._carriers, surroundings, *told)
        self._estate: Estate | None = None
        #: As it was when the next engine got its seed.
        self._draws = False
        #: Everything was given away.
        self.has_left = False

    def interrupted(self) -> None:
        """Something else was done: what was looked at is not as it was."""
        self._estate = None
        self.has_left = False

    def step(self, step: str, body: bytes, buffers: Sequence[Any]) -> dict[str, Any]:
        """What the front is told; ``refused`` says why the session cannot be moved."""
        told = unpack(body)
        try:
            match step:
                case "survey":
                    return self._survey(told["options"])
                case "build":
                    self._in.build(pickle.loads(buffers[0]), thorough=told["thorough"])
                case "give":
                    return self._give(told["number"])
                case "take":
                    self._take(told["number"], buffers)
                case "settle":
                    self._in.settle()
                case "warm up":
                    self._in.warm_up()
            return _told()
        except NotMovable as error:
            return _told(refused=str(error))

    def _survey(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self._draws = self._runtime.baked.draws
        estate = self._out.estate()
        self._check_room(estate)
        # Where arrays lie is found out while nobody waits for it, a few at a time.
        started, left = time.perf_counter(), 0
        for value in estate.arrays:
            if time.perf_counter() - started > _BIT:
                left += 1
            else:
                self._carriers.locate(value)
        return _told(
            nbytes=estate.nbytes,
            left=left,
            options=self._out.options(options),
            arrays=[_bytes(pickle.dumps(self._out.blueprint()))],
        )

    def _check_room(self, estate: Estate) -> None:
        # For a while everything is there twice, and pieces are on their way.
        where, available = self._arrays.available()
        if estate.nbytes * _ROOM > available:
            raise NotMovable(f"it holds {estate.nbytes:,} bytes, and {available:,} of the {where}'s memory are free")

    def _give(self, number: int) -> dict[str, Any]:
        if number == 0:
            if self._runtime.baked.draws and not self._draws:
                raise NotMovable("its kernels have begun to draw random numbers meanwhile")
            self._estate = self._out.estate()
            self.has_left = not self._estate.inventory.pieces
            head = pickle.dumps(self._estate.inventory)
            return _told(pieces=len(self._estate.inventory.pieces), arrays=[_bytes(head), _bytes(self._estate.data)])
        if self._estate is None:
            raise NotMovable("something was done in between")
        self.has_left = number == len(self._estate.inventory.pieces)
        piece = self._estate.inventory.pieces[number - 1]
        data = self._carriers.read(self._estate.arrays[piece.array], piece)
        return _told(arrays=[_bytes(data)])

    def _take(self, number: int, buffers: Sequence[Any]) -> None:
        if number == 0:
            self._in.begin(pickle.loads(buffers[0]), bytes(buffers[1]))
        else:
            self._in.take(number - 1, buffers[0])


def _told(**found: Any) -> dict[str, Any]:
    return {"refused": None, **found}


def _bytes(data: bytes | np.ndarray) -> Any:
    flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    return wire_array(flat)
