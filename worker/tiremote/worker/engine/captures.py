"""What a kernel or function takes from outside: the global names and closure cells that it uses, and what these are."""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any

from tiremote.protocol.receipts import Capture
from tiremote.worker.engine.converters import described
from tiremote.worker.engine.global_names import names_used
from tiremote.worker.engine.unit import GIVEN

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_PLAIN = (bool, int, float, str, type(None), tuple)
_LONGEST = 80


def captures(function: Any, runtime: TaichiRuntime) -> tuple[Capture, ...]:
    """By name. Modules, builtins and what every text has are left out, and names that are not there yet."""
    if not isinstance(function, types.FunctionType):
        return ()
    found = {
        name: function.__globals__[name]
        for name in names_used(function.__code__)
        if name in function.__globals__ and name not in GIVEN and not hasattr(builtins, name)
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return tuple(
        Capture(name=name, what=_what(value, runtime))
        for name, value in sorted(found.items())
        if not isinstance(value, types.ModuleType)
    )


def _what(value: Any, runtime: TaichiRuntime) -> str:
    try:
        text = _shown(value, runtime)
    except Exception:
        # A user's object may raise whatever is asked of it.
        text = type(value).__name__
    text = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _shown(value: Any, runtime: TaichiRuntime) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    for kind, found in (
        ("kernel", runtime.is_kernel(value)),
        ("func", runtime.is_func(value)),
        ("function", isinstance(value, types.FunctionType)),
        ("class", isinstance(value, type) or runtime.is_struct_type(value)),
    ):
        if found:
            return kind
    if runtime.is_field(value) or runtime.is_ndarray(value):
        return described(value, runtime).removeprefix("a ").removeprefix("an ")
    matrix = runtime.matrix_values(value)
    return str(matrix.tolist()) if matrix is not None else type(value).__name__
