"""About forty odd arrays that must travel unharmed, and those that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def _counted(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def _extremes(dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False, True])
    if kind.kind == "f":
        info = np.finfo(kind)
        return np.array([info.min, -0.0, 0.0, info.tiny, info.max, np.inf, -np.inf, np.nan], kind)
    return np.array([np.iinfo(kind).min, 0, 1, np.iinfo(kind).max], kind)


def _read_only() -> np.ndarray:
    array = _counted((3, 4))
    array.flags.writeable = False
    return array


#: Each array is made anew for each test, so that none can spoil another's.
ZOO: Mapping[str, Callable[[], np.ndarray]] = {
    **{f"extremes of {dtype}": (lambda dtype=dtype: _extremes(dtype)) for dtype in DTYPES},
    **{f"big-endian {dtype}": (lambda dtype=dtype: _extremes(dtype).astype(f">{dtype}")) for dtype in DTYPES[2:]
       if np.dtype(dtype).itemsize > 1},
    "0-d": lambda: np.array(3.5, "f4"),
    "0-d big-endian": lambda: np.array(3.5, ">f8"),
    "0-d bool": lambda: np.array(True),
    "empty": lambda: np.empty(0, "f4"),
    "empty in the middle": lambda: np.empty((2, 0, 3), "i4"),
    "empty Fortran": lambda: np.empty((0, 3), "f8", order="F"),
    "one element": lambda: np.array([[[7]]], "i4"),
    "C, 3-d": lambda: _counted((2, 3, 4)),
    "Fortran, 2-d": lambda: np.asfortranarray(_counted((3, 4))),
    "Fortran, 3-d": lambda: np.asfortranarray(_counted((2, 3, 4), "i8")),
    "Fortran big-endian": lambda: np.asfortranarray(_counted((3, 4), ">i4")),
    "transposed": lambda: _counted((3, 4)).T,
    "axes moved": lambda: np.moveaxis(_counted((2, 3, 4)), 0, 1),
    "every other": lambda: _counted((10,))[::2],
    "every other column": lambda: _counted((4, 6))[:, ::2],
    "reversed": lambda: _counted((10,))[::-1],
    "reversed in both axes": lambda: _counted((3, 4))[::-1, ::-1],
    "a column": lambda: _counted((3, 4))[:, 1],
    "broadcast": lambda: np.broadcast_to(_counted((3,)), (4, 3)),
    "broadcast from 0-d": lambda: np.broadcast_to(np.float32(2), (2, 2)),
    "sliding windows": lambda: np.lib.stride_tricks.sliding_window_view(_counted((6,)), 3),
    "read-only": _read_only,
    "unaligned": lambda: np.frombuffer(b"\0" + _counted((5,)).tobytes(), "u1")[1:].view("f4"),
    "over immutable bytes": lambda: np.frombuffer(_counted((5,)).tobytes(), "f4"),
    "64 dimensions": lambda: np.full((1,) * 64, 9, "i2"),
    "long long": lambda: np.array([1, -1], np.longlong),
    "a field of a structure": lambda: np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])["b"],
    "the real part": lambda: np.array([1 + 2j, 3 + 4j]).real,
    "a matrix": lambda: _counted((2, 2)).view(np.matrix),
    "a dtype with metadata": lambda: np.zeros(2, np.dtype("f4", metadata={"unit": "m"})),
}  # fmt: skip

REFUSED: Mapping[str, Callable[[], np.ndarray]] = {
    "object": lambda: np.array([None, {}], object),
    "complex64": lambda: np.array([1j], "c8"),
    "complex128": lambda: np.array([1j], "c16"),
    "longdouble": lambda: np.array([1], np.longdouble),
    "datetime": lambda: np.array(["2020-01-01"], "M8[D]"),
    "timedelta": lambda: np.array([1], "m8[s]"),
    "str": lambda: np.array(["a"]),
    "bytes": lambda: np.array([b"a"]),
    "void": lambda: np.zeros(2, "V3"),
    "structured": lambda: np.zeros(2, [("a", "i4"), ("b", "f4")]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
}
