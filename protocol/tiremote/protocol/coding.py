"""Array bytes made smaller: differences of neighbours, a byte shuffle, and zstd. Bytes in, bytes out.

An array of smooth or sparse contents shrinks by 3 to 1,000 times. A coding's name says its steps in order: ``delta``
replaces each element's bits, as an unsigned integer, by the difference to the one before, and folds the sign into the
lowest bit; ``delta2`` takes the differences of the differences; ``shuffle`` puts the first bytes of all elements
before the second bytes of all; ``zstd`` is one frame that tells its content's size.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tiremote.protocol.errors import ProtocolError, shown

#: Name, and how often differences are taken.
_DIFFERENCES = {"shuffle-zstd": 0, "delta-shuffle-zstd": 1, "delta2-shuffle-zstd": 2}

#: Measured on one core: 0.7 to 1.2 GB/s; the next level halves that for a few percent.
_LEVEL = 1

#: Below this an array goes as it is: the round trip costs more than its bytes.
_SMALLEST = 16 << 10

#: What is looked at of an array to choose a coding: so many stretches of so many bytes.
_STRETCHES, _STRETCH = 4, 8 << 10

#: A sample has to shrink to less than this part of it. Below, the time is better spent on sending.
_WORTH = 0.9


@cache
def known_codings() -> tuple[str, ...]:
    """The names of all codings that this side reads and makes; none where there is no zstd."""
    try:
        _zstd()
    except ImportError:
        # Somebody has left it out: arrays go as they are.
        return ()
    return tuple(_DIFFERENCES)


def check_coding(name: Any) -> None:
    """Raises `ProtocolError` for what is not the name of a coding."""
    if not isinstance(name, str) or name not in _DIFFERENCES:
        raise ProtocolError(f"an array's coding is one of {', '.join(_DIFFERENCES)}, not {shown(name)}")


@cache
def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def encoded(data: Any, itemsize: int, coding: str) -> bytes:
    """``data``, whole elements of that size, coded."""
    return bytes(_zstd().compress(filtered(_bytes_of(data), itemsize, coding), _LEVEL))


def decoded(data: Any, itemsize: int, coding: str, nbytes: int) -> np.ndarray:
    """The ``nbytes`` bytes that were coded, as a writeable 1-d array of u8.

    Never makes more than that. Raises `ProtocolError` for anything else than exactly these.
    """
    zstd = _zstd()
    try:
        size = zstd.get_frame_info(data).decompressed_size
        if size != nbytes:
            raise ProtocolError(f"a coded array is {nbytes} bytes, but its frame is of {shown(size)}")
        decompressor = zstd.ZstdDecompressor()
        plain = decompressor.decompress(data, max_length=nbytes)
        # The end of a frame without contents shows only when it is asked for more.
        if not decompressor.eof:
            plain += decompressor.decompress(b"", max_length=1)
    except zstd.ZstdError as error:
        raise ProtocolError(f"a coded array does not decode: {error}") from None
    if not decompressor.eof or len(plain) != nbytes:
        raise ProtocolError(f"a coded array of {nbytes} bytes ends after {len(plain)}: its frame is cut off")
    if decompressor.unused_data:
        raise ProtocolError(f"{len(decompressor.unused_data)} bytes follow the frame of a coded array")
    return _unfiltered(np.frombuffer(plain, np.uint8), itemsize, coding)


def chosen(data: Any, itemsize: int, codings: Sequence[str]) -> str | None:
    """The one of these codings that makes a sample of the data smallest; None where none is worth it."""
    flat = _bytes_of(data)
    if flat.size < _SMALLEST:
        return None
    stretch = _STRETCH - _STRETCH % itemsize
    step = (flat.size - stretch) // (_STRETCHES - 1)
    starts = [number * step - number * step % itemsize for number in range(_STRETCHES)]
    stretches = [flat[start : start + stretch] for start in starts]
    best, least = None, _WORTH * stretch * _STRETCHES
    for coding in codings:
        if coding in _DIFFERENCES:
            # One by one: where two stretches meet there is no neighbour to take a difference to.
            planes = [filtered(one, itemsize, coding).reshape(itemsize, -1) for one in stretches]
            size = len(_zstd().compress(np.concatenate(planes, axis=1), _LEVEL))
            if size < least:
                best, least = coding, size
    return best


def _bytes_of(data: Any) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def filtered(flat: np.ndarray, itemsize: int, coding: str) -> np.ndarray:
    """Bytes, as u8, in the shape and order in which a coding hands them to zstd."""
    differences = _DIFFERENCES[coding]
    if differences:
        values = flat.view(f"<u{itemsize}")
        for _ in range(differences):
            values = np.diff(values, prepend=values.dtype.type(0))
        signs = values.view(f"<i{itemsize}") >> (8 * itemsize - 1)
        flat = ((values << 1) ^ signs.view(values.dtype)).view(np.uint8)
    return flat if itemsize == 1 else np.ascontiguousarray(flat.reshape(-1, itemsize).T)


def _unfiltered(planes: np.ndarray, itemsize: int, coding: str) -> np.ndarray:
    differences = _DIFFERENCES[coding]
    flat = np.array(planes.reshape(itemsize, -1).T, order="C").reshape(-1)
    if differences:
        values = flat.view(f"<u{itemsize}")
        # The mask is all ones where the lowest bit says that the difference was negative.
        np.bitwise_xor(values >> 1, np.negative(values & 1), out=values)
        for _ in range(differences):
            np.add.accumulate(values, out=values)
    return flat
