"""Plain msgpack to typed dataclasses, every field checked against its annotation, errors in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar

from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from tiremote.protocol.errors import ProtocolError, shown
from tiremote.protocol.messages import Axis, FlatRange, Request, Side, UnitText
from tiremote.protocol.values import Handle, Name, Ref, WireArray

T = TypeVar("T")


def structure(cls: type[T], value: Any, what: str) -> T:
    """``value`` (plain msgpack) as an instance of ``cls``, every field checked. Raises `ProtocolError`."""
    try:
        return _converter.structure(value, cls)
    except BaseValidationError as error:
        raise ProtocolError(f"{what}: {'; '.join(_sentences(error))}") from None
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"{what}: {error}") from None


def _sentences(error: BaseValidationError) -> list[str]:
    def one(exception: BaseException, _: type | None) -> str:
        if isinstance(exception, KeyError):
            return f"field {exception} is missing"
        if isinstance(exception, ForbiddenExtraKeysError):
            return f"unknown fields {shown(sorted(exception.extra_fields))} came"
        return str(exception)

    texts = transform_error(error, format_exception=one)
    return [text.replace(" @ $.", " in ").replace(" @ $", "") for text in texts]


def _make_converter() -> Converter:
    converter = Converter()

    def strict(*types: type, name: str) -> Callable[[Any, Any], Any]:
        def hook(value: Any, _: Any) -> Any:
            if type(value) not in types:
                raise TypeError(f"{name} was expected, {shown(value)} came")
            return value

        return hook

    converter.register_structure_hook(str, strict(str, name="a string"))
    converter.register_structure_hook(int, strict(int, name="an int"))
    converter.register_structure_hook(bytes, strict(bytes, name="bytes"))
    converter.register_structure_hook(bool, strict(bool, name="a boolean"))

    def number(value: Any, _: Any) -> float:
        if type(value) not in (int, float):
            raise TypeError(f"a number was expected, {shown(value)} came")
        return float(value)

    converter.register_structure_hook(float, number)
    nothing = type(None)
    converter.register_structure_hook(str | int, strict(str, int, name="a string or an int"))
    converter.register_structure_hook(int | str, strict(str, int, name="a string or an int"))
    converter.register_structure_hook(str | int | None, strict(str, int, nothing, name="a string, an int or nil"))
    for cls, name in ((Handle, "a handle"), (Name, "a name"), (WireArray, "an array")):
        converter.register_structure_hook(cls, strict(cls, name=name))
    converter.register_structure_hook(Name | None, strict(Name, nothing, name="a name or nil"))
    converter.register_structure_hook(Handle | None, strict(Handle, nothing, name="a handle or nil"))
    converter.register_structure_hook(Ref, strict(Handle, Name, name="a handle or a name"))
    converter.register_structure_hook(Ref | None, strict(Handle, Name, nothing, name="a handle, a name or nil"))
    converter.register_structure_hook(float | int | None, strict(int, float, nothing, name="a number or nil"))
    converter.register_structure_hook_func(lambda cls: cls == FlatRange, _flat_range)
    converter.register_structure_hook(Axis, _axis)
    converter.register_structure_hook_func(_is_plain_map, strict(dict, name="a map"))
    converter.register_structure_hook_factory(
        lambda cls: getattr(cls, "__origin__", None) is tuple and cls.__args__[-1:] == (Ellipsis,),
        _tuple_hook,
    )
    converter.register_structure_hook_factory(
        lambda cls: isinstance(cls, type) and is_dataclass(cls), lambda cls: _dataclass_hook(cls, converter)
    )
    return converter


def _dataclass_hook(cls: type[Any], converter: Converter) -> Callable[[Any, Any], Any]:
    # The peer of a later version may say more than we know: only requests are strict about extra fields.
    asked = issubclass(cls, (Request, UnitText, Side))
    read = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=asked)

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not dict:  # cattrs would take whatever answers to ``in``
            raise TypeError(f"a map was expected, {shown(value)} came")
        return read(value, cls)

    return hook


def _is_plain_map(cls: Any) -> bool:
    return getattr(cls, "__origin__", None) is dict and cls.__args__ == (str, Any)


def _tuple_hook(cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    item = cls.__args__[0]
    each = None if item is Any else converter.get_structure_hook(item)

    def hook(value: Any, _: Any) -> Any:
        if type(value) not in (list, tuple):
            raise TypeError(f"an array was expected, {shown(value)} came")
        return tuple(value) if each is None else tuple(each(one, item) for one in value)

    return hook


def _flat_range(value: Any, _: Any) -> FlatRange:
    if type(value) not in (list, tuple) or len(value) != 2 or not all(type(one) is int for one in value):
        raise TypeError(f"[int, int] was expected, {shown(value)} came")
    return (value[0], value[1])


def _axis(value: Any, _: Any) -> Axis:
    if type(value) is int:
        return value
    if type(value) in (list, tuple) and len(value) == 3 and all(one is None or type(one) is int for one in value):
        if value[2] == 0:
            raise TypeError("a step of 0 came, it is any other int or nil")
        return (value[0], value[1], value[2])
    raise TypeError(f"an index or [start, stop, step] was expected, {shown(value)} came")


_converter = _make_converter()
