"""Dtypes by every name that people give them: Taichi's, NumPy's and Python's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import UnsupportedType


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype by Taichi's name."""

    name: str

    def __repr__(self) -> str:
        return f"ti.{self.name}"

    def __str__(self) -> str:
        return self.name


#: Taichi's names on the left, the wire's on the right.
TAICHI_NAMES: Mapping[str, str] = {**{name: name for name in DTYPES if name != "bool"}, "u1": "bool"}
LONG_NAMES: Mapping[str, str] = {
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (1, 8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
}


def wire_name(dtype: Any, options: Mapping[str, Any]) -> str:
    """A dtype's name on the wire; ``float`` and ``int`` are what the session's options say.

    ``dtype`` is ``ti.f32``, ``"f32"``, ``numpy.float32``, ``float`` or ``int``. Raises `UnsupportedType`.
    """
    if isinstance(dtype, DType | str):
        name = LONG_NAMES.get(str(dtype), str(dtype))
        if name == "bool" or name in TAICHI_NAMES:
            return TAICHI_NAMES.get(name, name)
    elif dtype is float:
        return str(options.get("default_fp", "f32"))
    elif dtype is int:
        return str(options.get("default_ip", "i32"))
    elif dtype is not None:  # which NumPy takes for float64
        try:
            return name_of(np.dtype(dtype))
        except TypeError:
            pass
    raise UnsupportedType(f"{dtype!r} is no dtype of an array; there are {', '.join(TAICHI_NAMES)}")
