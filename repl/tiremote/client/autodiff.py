"""``gpu.ti.ad``: Taichi's automatic differentiation over calls of this client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Any

from tiremote.client.arrays import RemoteArray
from tiremote.client.exchange import Exchange
from tiremote.client.recording import Recording, enter, leave
from tiremote.protocol.errors import KernelArgumentError, Refused, TiremoteError
from tiremote.protocol.messages import ClearGradients, CloseTape, OpenTape
from tiremote.protocol.tapes import ClosedTape, TapeResult
from tiremote.protocol.values import Ref

_IN_SOURCE = ("grad_replaced", "grad_for", "no_grad")
_ours = threading.Lock()


class Autodiff:
    """``Tape``, ``FwdMode`` and ``clear_all_gradients``; decorators belong into the source on the worker."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def Tape(  # noqa: N802 - Taichi's name
        self,
        loss: RemoteArray,
        clear_gradients: bool = True,
        validation: bool = False,
        grad_check: Sequence[RemoteArray] | None = None,
    ) -> RemoteTape:
        """``with gpu.ti.ad.Tape(loss):`` records the calls in the block, and computes gradients where it ends.

        ``loss`` is a field of shape () or an ndarray of one element, made with ``needs_grad``; it is set to 0 first.
        ``clear_gradients`` zeroes those of all fields first. ``validation`` checks, in a debug session, that what runs
        can be differentiated. ``grad_check`` compares gradients of these fields with finite differences, in f64.

        A block that an exception leaves computes nothing. Raises `KernelArgumentError`, `Refused` inside another block.
        """
        return RemoteTape(
            self._exchange,
            "Tape",
            OpenTape(
                id="",
                loss=(_target(self._exchange, loss, "loss"),),
                clear=clear_gradients,
                validation=validation,
                check=tuple(_target(self._exchange, each, "grad_check") for each in grad_check or ()),
            ),
        )

    def FwdMode(  # noqa: N802 - Taichi's name
        self,
        loss: RemoteArray | Sequence[RemoteArray],
        param: RemoteArray,
        seed: Sequence[float] | None = None,
        clear_gradients: bool = True,
    ) -> RemoteTape:
        """``with gpu.ti.ad.FwdMode(loss, param, seed):`` has the calls in the block compute ``loss.dual`` as well.

        ``param`` and each ``loss`` are scalar fields made with ``needs_dual``; ``seed`` has a number for each element
        of ``param``. Raises as `Tape`.
        """
        losses = [loss] if isinstance(loss, RemoteArray) else list(loss)
        return RemoteTape(
            self._exchange,
            "FwdMode",
            OpenTape(
                id="",
                mode="forward",
                loss=tuple(_target(self._exchange, each, "loss") for each in losses),
                parameter=_target(self._exchange, param, "param"),
                seed=tuple(float(each) for each in seed or ()),
                clear=clear_gradients,
            ),
        )

    def clear_all_gradients(self) -> None:
        """Sets the gradients of all fields of the session to zero."""
        self._exchange.call(ClearGradients(id=""), TapeResult)

    def __getattr__(self, name: str) -> Any:
        if name in _IN_SOURCE:
            raise AttributeError(f"gpu.ti.ad has no {name!r}: decorate functions in the source that is loaded")
        close = get_close_matches(name, ("Tape", "FwdMode", "clear_all_gradients"), n=1)
        raise AttributeError(
            f"gpu.ti.ad has no {name!r}{f'; did you mean {close[0]!r}?' if close else ':'} "
            "it has Tape, FwdMode and clear_all_gradients"
        )


class RemoteTape:
    """A block whose calls are differentiated. ``calls``: how many kernels were, once it has ended."""

    def __init__(self, exchange: Exchange, what: str, request: OpenTape) -> None:
        self.calls: int | None = None
        self._exchange = exchange
        self._what = what
        self._request = request
        self._recording: Recording | None = None

    def __enter__(self) -> RemoteTape:
        exchange = self._exchange
        with _ours:
            if exchange.tape is not None:
                raise Refused(f"a block of ti.ad.{exchange.tape} has not ended in this session: end it first")
            exchange.tape = self._what
        try:
            tape = exchange.call(self._request, TapeResult).tape
            if tape is None:
                raise AssertionError("open_tape was answered without a tape")
        except BaseException:
            exchange.tape = None
            raise
        self._recording = Recording(exchange, tape, self._what)
        enter(self._recording)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recording = self._recording
        if recording is None:
            return
        leave(recording)
        self._recording = self._exchange.tape = None
        if error is None:
            self.calls = self._exchange.call(CloseTape(id="", tape=recording.tape), ClosedTape).calls
            return
        # What was raised in the block is what matters: the tape may have gone with the engine, or the session.
        with contextlib.suppress(TiremoteError):
            self._exchange.submit(CloseTape(id="", tape=recording.tape, evaluate=False), ClosedTape, lambda _: None)


def _target(exchange: Exchange, array: Any, parameter: str) -> Ref:
    if not isinstance(array, RemoteArray):
        raise KernelArgumentError(
            f"parameter {parameter!r} takes a remote field or ndarray, but a {type(array).__name__} came",
            parameter=parameter,
        )
    if array._exchange is not exchange:
        raise KernelArgumentError(f"parameter {parameter!r} belongs to another session", parameter=parameter)
    return array._alive()
