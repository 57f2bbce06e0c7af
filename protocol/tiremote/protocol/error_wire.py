"""Errors to the wire and back: a code, a message, and the attributes that the error's class carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiremote.protocol.errors import AsOf, SourceFrame, TiremoteError


def _tree(cls: type[TiremoteError]) -> list[type[TiremoteError]]:
    return [cls, *(found for child in cls.__subclasses__() for found in _tree(child))]


#: Wire code to class. Private classes only share an implementation and never travel; others may be derived elsewhere.
BY_CODE: Mapping[str, type[TiremoteError]] = {
    cls.code: cls
    for cls in _tree(TiremoteError)
    if cls.__module__ == TiremoteError.__module__ and not cls.__name__.startswith("_")
}


def error_from_wire(code: str, message: str, data: Mapping[str, Any]) -> TiremoteError:
    """Builds the typed error. An unknown code gives the root class; data that is unknown or malformed is left out."""
    cls = BY_CODE.get(code, TiremoteError)
    error = cls(message)
    for name in cls.carries:
        try:
            setattr(error, name, _thaw(name, data[name]))
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return error


#: What is not a plain value among the attributes that errors carry.
_FRAMES = frozenset({"frames"})
_NAMES = frozenset({"restored", "coming", "lost", "known"})
_POSITIONS = frozenset({"chunks"})
_PAIRS = frozenset({"supported"})
_AS_OF = frozenset({"as_of"})


def _thaw(name: str, value: Any) -> Any:
    if name in _FRAMES:
        return tuple(SourceFrame(**{field: kind(frame[field]) for field, kind in _FRAME_FIELDS}) for frame in value)
    if name in _NAMES:
        return tuple(str(one) for one in value)
    if name in _POSITIONS:
        return tuple(int(one) for one in value)
    if name in _AS_OF:
        return tuple(_as_of(one) for one in value)
    if name in _PAIRS:
        lowest, highest = value
        return int(lowest), int(highest)
    return value


def _as_of(value: Mapping[str, Any]) -> AsOf:
    request = value.get("request")
    if not isinstance(request, str | int | None):
        raise TypeError("a request's id is text or a number")
    return AsOf(
        name=str(value["name"]),
        target=str(value["target"]),
        request=request,
        op=str(value["op"]),
        seconds=float(value["seconds"]),
    )


def error_to_wire(error: TiremoteError) -> tuple[str, str, dict[str, Any]]:
    """Code, message and `TiremoteError.data`, in plain msgpack types."""
    data = {name: _freeze(name, value) for name, value in error.data().items() if value is not None}
    return error.code, _text(error.message), data


def _freeze(name: str, value: Any) -> Any:
    if name in _FRAMES:
        return [{field: _freeze(field, getattr(frame, field)) for field, _ in _FRAME_FIELDS} for frame in value]
    if name in _AS_OF:
        return [
            {
                "name": _text(one.name),
                "target": _text(one.target),
                "request": one.request,
                "op": one.op,
                "seconds": one.seconds,
            }
            for one in value
        ]
    if isinstance(value, tuple):
        return [_freeze("", one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    # It may quote a user's exception, and hold what UTF-8 does not.
    return text.encode("utf-8", "backslashreplace").decode()


_FRAME_FIELDS: tuple[tuple[str, type], ...] = (
    ("unit", str),
    ("version", int),
    ("function", str),
    ("line", int),
    ("column", int),
    ("end_column", int),
    ("text", str),
)
