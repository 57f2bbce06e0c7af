"""What the worker tells about code and data: receipts, definitions, holdings, summaries. All of it travels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tiremote.protocol.errors import AsOf
from tiremote.protocol.values import Handle, Name


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter of a kernel or function. ``takes`` is readable: ``f32``, ``ndarray(f32, ndim=1)``, ``template``.

    ``shape`` is that of the NumPy array which an ndarray, vector or matrix takes, with its dtype: ``(N, 3) f32``.
    ``...`` stands for any number of axes. Empty for all others.
    """

    name: str
    takes: str
    shape: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """A name from outside that a kernel or function uses; ``what`` is for people: ``field of f32, shape (3,)``."""

    name: str
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One public name of a unit.

    ``kind`` is ``kernel``, ``func``, ``function``, ``class``, ``field``, ``ndarray`` or ``value``.
    ``checked``: the kernel was compiled when it was loaded (front end only, nothing was launched).
    ``meta`` of fields and ndarrays: ``dtype``, ``shape``, ``element_shape``; of classes ``methods``, by name.
    ``captures`` are what was behind the names that it uses when it was loaded.
    """

    name: str
    kind: str
    line: int | None = None
    parameters: tuple[Parameter, ...] = ()
    returns: str | None = None
    doc: str | None = None
    checked: bool = False
    captures: tuple[Capture, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.kind in ("kernel", "func", "function"):
            inside = ", ".join(f"{p.name}: {p.takes}" if p.takes else p.name for p in self.parameters)
            return f"{self.name}({inside})" + (f" -> {self.returns}" if self.returns else "")
        if self.kind in ("field", "ndarray"):
            return f"{self.name}: {self.meta.get('dtype')} {tuple(self.meta.get('shape', ()))}"
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a load did to one name that code is behind: a kernel, func, function or class.

    ``status`` is ``added``, ``removed``, ``changed`` (its own text), ``rebuilt`` (something it uses changed, named in
    ``because``) or ``unchanged``. ``unit`` is another one's where that was rebuilt. ``seconds`` is what compiling it
    for its last call's types took, 0 where it was not compiled.
    """

    name: str
    status: str
    unit: str
    because: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What a load did. ``seconds`` is the worker's time; ``version`` counts from 1 for each unit.

    ``previous`` is the version that was replaced. ``kept`` names the fields, ndarrays and objects that go on with their
    contents, ``reset`` those that were declared anew. ``lines_added`` and ``lines_removed`` are a diff's. ``memory`` is
    the engine's resident bytes afterwards.
    """

    unit: str
    version: int
    previous: int | None = None
    unchanged: bool = False
    definitions: tuple[Definition, ...] = ()
    removed: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    kept: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    lines_added: int = 0
    lines_removed: int = 0
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    memory: int | None = None

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.definitions)) or "nothing that can be called"
        tail = " unchanged" if self.unchanged else ""
        lines = [f"{self.unit} version {self.version}{tail}: {shown} ({self.seconds * 1e3:.0f} ms)"]
        for status in ("changed", "rebuilt", "removed"):
            names = [_told(each, self.unit) for each in self.changes if each.status == status]
            if names:
                lines.append(f"  {status}: {', '.join(names)}")
        if self.kept:
            lines.append(f"  kept: {', '.join(self.kept)}")
        if self.reset:
            lines.append(f"  made anew: {', '.join(self.reset)}")
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def _told(change: Change, unit: str) -> str:
    name = change.name if change.unit == unit else f"{change.unit}.{change.name}"
    return f"{name} (because of {', '.join(change.because)})" if change.because else name


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Where the time of a request went, in seconds.

    ``compile`` is a load as a whole, or all that a call compiled. ``launch`` is the rest of a call, with the wait for
    the device and, where that cannot be told apart, the machine code that a kernel's first launch makes.
    """

    queue: float = 0.0
    compile: float = 0.0
    launch: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Statistics of an array, made on the worker; NaNs are counted and left out of the rest.

    ``minimum``, ``maximum`` and ``mean`` are None for an array without a number in it.
    ``corners`` is the readable text of the first and last elements, as NumPy prints a long array.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    nan_count: int = 0
    corners: str = ""

    def __str__(self) -> str:
        text = f"{self.dtype} {self.shape}, {self.nbytes:,} bytes"
        if self.minimum is not None and self.mean is not None:
            text += f", min {self.minimum:.6g}, mean {self.mean:.6g}, max {self.maximum:.6g}"
        if self.nan_count:
            text += f", {self.nan_count} NaN"
        return f"{text}\n{self.corners}" if self.corners else text


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitHolding:
    """A loaded unit, as ``describe`` lists it.

    ``sizes`` maps its names of arrays, and of what arrays are behind, to the bytes of those, gradients included;
    ``nbytes`` is their sum. ``held`` are replaced versions that somebody holds still. ``owner`` is what the client is
    called that loaded it, ``unused`` the seconds since a request named it.
    """

    unit: str
    version: int
    definitions: tuple[Definition, ...] = ()
    source_bytes: int = 0
    loaded_by: str | int | None = None
    nbytes: int = 0
    sizes: dict[str, Any] = field(default_factory=dict)
    held: tuple[int, ...] = ()
    owner: str | None = None
    unused: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayHolding:
    """An array, field or object that is kept under a handle, as ``describe`` lists it.

    ``label`` is the client's name for it. ``nbytes`` is 0 for objects. ``place`` is the name in a unit that leads to
    the same thing, where one does. ``owner`` is what the client is called that made it, ``unused`` the seconds since a
    request named its handle.
    """

    handle: Handle
    label: str | None = None
    nbytes: int = 0
    made_by: str | int | None = None
    place: Name | None = None
    owner: str | None = None
    unused: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What a session holds: the answer to ``describe``.

    ``as_of`` lists the arrays that were put back when its last engine was lost, but for those that were put as a whole
    since. ``runtime`` is the session's, ``version`` that of its engine, empty while it starts.
    """

    session: str
    generation: int
    runtime: str = ""
    version: str = ""
    newest: str | None = None
    units: tuple[UnitHolding, ...] = ()
    arrays: tuple[ArrayHolding, ...] = ()
    nbytes: int = 0
    as_of: tuple[AsOf, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitVersion:
    """One version in a unit's history. ``loaded_at`` is seconds since 1970; ``source`` comes where it was asked for."""

    version: int
    loaded_by: str | int | None = None
    loaded_at: float = 0.0
    source_bytes: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    source: str | None = None

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.loaded_at))
        return f"version {self.version}  {when}  +{self.lines_added} -{self.lines_removed} lines"
