"""Tapes of clients: what the runs of one client launch is recorded, and differentiated when it closes its tape.

Taichi has one place for a tape and records there whatever is launched. Between two runs it is empty here, so that
nothing else is recorded: no other client's call, and no copy of an array.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import KernelArgumentError, Refused, TiremoteError
from tiremote.protocol.messages import ClearGradients, OpenTape, Run
from tiremote.protocol.tapes import ClosedTape, TapeResult
from tiremote.protocol.values import Ref
from tiremote.worker.engine.frames import gradient_error
from tiremote.worker.engine.references import References, shown

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Where Taichi has the tape of either mode.
_PLACES = {"reverse": "target_tape", "forward": "fwd_mode_manager"}


class ClientTape:
    """What a handle of kind ``object`` stands for: one client's tape, which is Taichi's only during that one's runs."""

    def __init__(
        self, runtime: TaichiRuntime, manager: Any, mode: str, token: str | None, may_stop: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._may_stop = may_stop
        self._manager = manager
        self._mode = mode
        self._token = token
        self._trouble: str | None = None
        self._count = 0

    def check_owner(self, token: str | None) -> None:
        """Raises `Refused` for a request of another client."""
        if token != self._token:
            raise Refused("this tape belongs to another client of the session, and records that one's calls alone")

    @contextlib.contextmanager
    def recording(self, name: str) -> Iterator[None]:
        """What is launched while it lasts is recorded; ``name`` is what is called."""
        self.check_sound()
        state, place, calls = self._runtime.state, _PLACES[self._mode], self._manager.calls
        before = len(calls)
        setattr(state, place, self._manager)
        try:
            yield
            if getattr(state, place) is not self._manager:
                raise Refused(f"{name} opened a tape of its own within that of its client: Taichi records on one only")
            self._check_recorded(before)
        except BaseException:
            if len(calls) > before:
                self._trouble = f"{name} failed after a part of it was recorded"
            raise
        finally:
            setattr(state, place, None)
            self._restore_modes(before)

    def check_sound(self) -> None:
        """Raises `Refused` where what was recorded is not what ran."""
        if self._trouble is not None:
            raise Refused(f"{self._trouble}: gradients from this tape would be wrong, so begin a new one")

    def close(self, *, evaluate: bool) -> ClosedTape:
        """Ends it. In reverse mode the gradient of the loss becomes 1, and the calls run backwards.

        It may be stopped between two of them. Raises what they raise, with the kernel whose it is, and `Refused` where
        what was recorded is not what ran.
        """
        if self._mode == "forward":
            self._manager.clear_seed()
        if not evaluate:
            return ClosedTape()
        self.check_sound()
        if self._mode == "reverse":
            self._run_adjoints()
        return ClosedTape(calls=self._count)

    def _run_adjoints(self) -> None:
        manager = self._manager
        manager.loss.grad.fill(1.0)
        for function, arguments in reversed(manager.calls):
            self._may_stop()
            # What Python code writes into single elements is recorded as well, and has no gradient.
            if not hasattr(function, "grad"):
                continue
            try:
                function.grad(*arguments)
            except Exception as error:
                raise gradient_error(error, getattr(function, "func", None), self._runtime) from None
        if manager.grad_checker:
            manager.grad_checker.add_calls(manager.calls)
            manager.grad_checker.check_grad()

    def _check_recorded(self, before: int) -> None:
        if self._mode != "reverse":
            return
        for function, _ in self._manager.calls[before:]:
            if getattr(function, "grad", self) is None:
                raise Refused(
                    "a function that is ti.ad.grad_replaced was called, and no ti.ad.grad_for has its gradient"
                )

    def _restore_modes(self, before: int) -> None:
        """Has the kernels be again what they were before the run: others call them as well."""
        manager = self._manager
        # From the last: of one that was called twice the first mode is the one it had.
        for call, mode in reversed(list(zip(manager.calls[before:], manager.modes[before:], strict=True))):
            (call[0] if self._mode == "reverse" else call).autodiff_mode = mode
        self._count += len(manager.calls) - before
        if self._mode == "forward":
            manager.calls.clear()
            manager.modes.clear()


class Tapes:
    """Opens tapes, and finds them for runs."""

    def __init__(self, runtime: TaichiRuntime, references: References, may_stop: Callable[[], None]) -> None:
        self._may_stop = may_stop
        self._runtime = runtime
        self._references = references

    def open(self, request: OpenTape) -> ClientTape:
        """Checks what Taichi would only assert, zeroes gradients and the loss. Raises `KernelArgumentError`."""
        losses = [self._derivable(ref, "loss", request.mode) for ref in request.loss]
        checked = [self._derivable(ref, "grad_check", request.mode) for ref in request.check]
        ad, state = self._runtime.ti.ad, self._runtime.state
        if request.mode == "reverse":
            self._check_loss(losses[0], shown(request.loss[0], losses[0]), bool(checked))
            manager = ad.Tape(losses[0], request.clear, request.validation, checked or None)
        else:
            parameter = self._derivable(request.parameter, "param", request.mode)
            self._check_seed(parameter, request.seed)
            manager = ad.FwdMode(losses, parameter, list(request.seed) or None, request.clear)
        try:
            manager.__enter__()
        finally:
            setattr(state, _PLACES[request.mode], None)
        return ClientTape(self._runtime, manager, request.mode, request.token, self._may_stop)

    def of(self, ref: Ref, token: str | None) -> ClientTape:
        """The tape of a handle. Raises `KernelArgumentError`, `Refused`, `StaleHandle`."""
        tape = self._references.resolve(ref)
        if not isinstance(tape, ClientTape):
            raise KernelArgumentError(f"{shown(ref, tape)} is no tape: open_tape gives one", parameter="tape")
        tape.check_owner(token)
        return tape

    def recording(self, request: Run, name: str) -> contextlib.AbstractContextManager[None]:
        """Records what is launched meanwhile, where the request names a tape. Raises as `of`."""
        if request.tape is None:
            return contextlib.nullcontext()
        return self.of(request.tape, request.token).recording(name)

    def clear_gradients(self, _request: ClearGradients) -> TapeResult:
        """Of all fields, as Taichi does by itself where a tape is opened."""
        self._runtime.ti.ad.clear_all_gradients()
        self._runtime.sync()
        return TapeResult()

    def _derivable(self, ref: Ref | None, parameter: str, mode: str) -> Any:
        """An array that has a gradient, or in forward mode a scalar field that has a dual."""
        if ref is None:
            raise AssertionError("a message of that mode has a parameter")
        runtime, value = self._runtime, self._references.resolve(ref)
        is_field = runtime.is_field(value) and not runtime.is_struct_field(value)
        if not is_field and not (runtime.is_ndarray(value) and mode == "reverse" and parameter == "loss"):
            takes = "a field or an ndarray" if mode == "reverse" and parameter == "loss" else "a scalar field"
            raise _wrong(parameter, f"takes {takes}, but {shown(ref, value)} came, a {type(value).__name__}")
        meta = runtime.array_meta(value)
        if meta.element_shape and (mode == "forward" or parameter == "loss"):
            raise _wrong(
                parameter, f"takes numbers, but {shown(ref, value)} has elements of shape {meta.element_shape}"
            )
        option = "needs_grad" if mode == "reverse" else "needs_dual"
        if option not in runtime.derivatives(value):
            raise _wrong(parameter, f"needs an array with {option}=True, and {shown(ref, value)} was made without")
        return value

    def _check_loss(self, loss: Any, name: str, checked: bool) -> None:
        meta = self._runtime.array_meta(loss)
        if self._runtime.is_field(loss) and meta.shape:
            raise _wrong("loss", f"takes a field of shape (), but {name} has the shape {meta.shape}")
        if meta.size != 1:
            raise _wrong("loss", f"takes an ndarray of one element, but {name} has the shape {meta.shape}")
        if checked and meta.dtype != "f64":
            raise _wrong("grad_check", f"compares in f64, but the loss {name} is of {meta.dtype}")

    def _check_seed(self, parameter: Any, seed: tuple[float, ...]) -> None:
        meta = self._runtime.array_meta(parameter)
        if len(meta.shape) > 1:
            raise _wrong("param", f"takes a field of at most one axis, but one of shape {meta.shape} came")
        if not seed and meta.size > 1:
            raise _wrong(
                "seed", f"is needed for a parameter of shape {meta.shape}: one number for each of its elements"
            )
        if seed and len(seed) != meta.size:
            raise _wrong("seed", f"has {len(seed)} numbers, and the parameter {meta.size} elements")


def _wrong(parameter: str, what: str) -> TiremoteError:
    return KernelArgumentError(f"parameter {parameter!r} {what}", parameter=parameter)
