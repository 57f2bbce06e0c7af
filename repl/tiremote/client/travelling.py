"""What a call is given, as values that travel: tensors as arrays, mappings and dataclasses as dicts, all checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tiremote.client.access import ACCESS
from tiremote.client.exchange import Exchange
from tiremote.client.remote import Remote
from tiremote.client.tensors import is_tensor, memory_of
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType
from tiremote.protocol.values import Handle, Name, WireArray

_PLAIN = (type(None), bool, int, float, str, bytes, bytearray, memoryview, np.generic, Handle, Name, WireArray)


def travelling(value: Any, name: str, exchange: Exchange) -> Any:
    """The value as None, numbers, text, bytes, arrays, remote things, and lists, tuples and dicts of these.

    An array is the caller's own, that of a tensor over its memory. ``name`` is the argument's, for errors.
    Raises `UnsupportedType`, and `KernelArgumentError` for what belongs to another session.
    """
    if is_tensor(value):
        value = memory_of(value, name)
    if isinstance(value, np.ndarray | np.generic):
        _check_dtype(value, name)
    elif isinstance(value, Remote):
        if value._exchange is not exchange:
            raise KernelArgumentError(f"{name} belongs to another session: fetch it there, and send it here")
    elif is_too_wide(value):
        raise UnsupportedType(f"{name} is an integer of over 64 bits, which does not travel: send it as text")
    elif isinstance(value, list | tuple):
        items = [travelling(item, f"{name}[{number}]", exchange) for number, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    elif isinstance(value, Mapping):
        return {key: travelling(item, f"{name}[{key!r}]", exchange) for key, item in value.items()}
    elif type(value) in ACCESS:
        raise UnsupportedType(f"{name} is {type(value).__name__}(...) inside another value: it is for whole arguments")
    elif is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: travelling(getattr(value, each.name), f"{name}.{each.name}", exchange) for each in fields(value)
        }
    elif not isinstance(value, _PLAIN):
        hint = ""
        if hasattr(value, "__array__"):
            hint = ": pass numpy.asarray(...) of it"
        elif is_indexable(value):
            hint = ": pass list(...) of it"
        raise UnsupportedType(
            f"{name} is of type {type(value).__name__}, which does not travel: None, numbers, str, bytes, "
            f"NumPy arrays, lists, tuples, dicts, dataclasses and remote things do{hint}"
        )
    return value


def is_indexable(value: Any) -> bool:
    """Whether it is a sequence of another kind than those that travel, such as a range or a deque."""
    if isinstance(value, (*_PLAIN, list, tuple, Mapping, np.ndarray, Remote, type)):
        return False
    return all(hasattr(value, name) for name in ("__len__", "__getitem__")) and not hasattr(value, "__array__")


def is_too_wide(value: Any) -> bool:
    """Whether it is an integer that no type of 64 bits holds."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _check_dtype(value: np.ndarray | np.generic, name: str) -> None:
    try:
        name_of(value.dtype)
    except UnsupportedType as error:
        raise UnsupportedType(f"{name}: {error.message}") from None
    if isinstance(value, np.ma.MaskedArray):
        raise UnsupportedType(f"{name} is a masked array: pass .filled(...) of it, or its data and mask")
