"""The requests of automatic differentiation: a tape on which a client's runs are recorded, and what ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiremote.protocol.errors import ProtocolError, shown
from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import Handle, Ref

#: ``reverse`` is Taichi's ``ti.ad.Tape``, ``forward`` its ``ti.ad.FwdMode``.
MODES = ("reverse", "forward")


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTape(EngineRequest):
    """Opens a tape: `Run` requests of this client that name it are recorded on it, and no others.

    ``loss`` is one array of one element, or in ``forward`` mode any number of scalar fields; ``parameter`` and ``seed``
    are for that mode alone. ``clear``: gradients are zeroed first. ``validation`` checks in a debug session that what
    is recorded can be differentiated; ``check`` lists fields whose gradients are compared with finite differences.
    """

    op: ClassVar[str] = "open_tape"

    mode: str = "reverse"
    loss: tuple[Ref, ...]
    parameter: Ref | None = None
    seed: tuple[float, ...] = ()
    clear: bool = True
    validation: bool = False
    check: tuple[Ref, ...] = ()

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        if self.mode not in MODES:
            raise ProtocolError(f"mode is one of {', '.join(MODES)}; {shown(self.mode)} came")
        if not self.loss or (self.mode == "reverse" and len(self.loss) > 1):
            raise ProtocolError(f"a tape of mode {self.mode} takes a loss; {len(self.loss)} came")
        if (self.parameter is None) == (self.mode == "forward"):
            raise ProtocolError("a parameter is for mode forward, which needs one")
        if self.mode == "reverse" and self.seed:
            raise ProtocolError("a seed is for mode forward; the loss of a tape has the gradient 1")
        if self.mode == "forward" and (self.validation or self.check):
            raise ProtocolError("validation and check are for mode reverse")


@dataclass(frozen=True, kw_only=True, slots=True)
class CloseTape(EngineRequest):
    """Ends a tape. With ``evaluate`` what was recorded is differentiated, from the last call to the first."""

    op: ClassVar[str] = "close_tape"

    tape: Handle
    evaluate: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ClearGradients(EngineRequest):
    """Sets the gradients of all fields to zero, as ``ti.ad.clear_all_gradients()``."""

    op: ClassVar[str] = "clear_gradients"


@dataclass(frozen=True, kw_only=True, slots=True)
class TapeResult:
    """Of ``open_tape``: its handle. Of the others there is none."""

    tape: Handle | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedTape:
    """``calls``: how many kernels and functions with gradients of their own were recorded."""

    calls: int = 0
