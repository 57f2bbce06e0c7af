"""What a unit defines, ready to be used: kernels, functions and classes to call, and the objects they make."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from tiremote.client.arguments import prepare
from tiremote.client.directory import Directory, UnknownAttribute
from tiremote.client.exchange import Exchange, RequestFuture
from tiremote.client.proxies import array_proxy, register_object_proxy, thawed
from tiremote.protocol.errors import UnknownName
from tiremote.protocol.messages import Fetch, Run
from tiremote.protocol.receipts import Definition
from tiremote.protocol.results import FetchResult, RunResult
from tiremote.protocol.values import Handle, Name, Ref

_CALLABLE = ("kernel", "func", "function", "class")


class RemoteUnit:
    """What is loaded under an id, or (id None) the newest. Attributes, or items, are what its source defines.

    Kernels, functions and classes come as `RemoteKernel`, fields and ndarrays as `RemoteField` and `RemoteArray`,
    anything else as its value. It has no other public attributes, so no name of the source is hidden; names that
    begin with an underscore are reached as items.
    """

    __slots__ = ("_directory", "_unit")

    def __init__(self, directory: Directory, unit: str | None) -> None:
        self._directory = directory
        self._unit = unit

    def __getattr__(self, name: str) -> Any:
        # Copying, pickling and notebooks probe for such names: they must not cost a request.
        if name.startswith("_"):
            raise AttributeError(f"a unit has no attribute {name!r}; a definition of that name is gpu[id][{name!r}]")
        try:
            return self[name]
        except UnknownName as error:
            raise UnknownAttribute(error.message) from None

    def __getitem__(self, name: str) -> Any:
        """The definition of that name. Raises `UnknownName`."""
        directory = self._directory
        unit, definition = directory.definition(self._unit, name)
        if definition.kind in _CALLABLE:
            return RemoteKernel(directory, Name(unit=self._unit, name=name), definition)
        # Data stays what it is when a newer unit is loaded: pinned to the unit that defines it now.
        target = Name(unit=unit, name=name)
        if definition.kind in ("field", "ndarray"):
            return array_proxy(directory.exchange, target, definition.kind, definition.meta)
        exchange = directory.exchange
        result = exchange.call(Fetch(id="", target=target), FetchResult)
        return thawed(exchange, result.value if result.handle is None else result.handle)

    def __contains__(self, name: object) -> bool:
        return any(definition.name == name for definition in self._definitions())

    def __iter__(self) -> Iterator[str]:
        return (definition.name for definition in self._definitions())

    def __dir__(self) -> list[str]:
        return [definition.name for definition in self._definitions()]

    def _definitions(self) -> tuple[Definition, ...]:
        return self._directory.unit(self._unit).definitions

    def __repr__(self) -> str:
        return f"<RemoteUnit {'newest' if self._unit is None else repr(self._unit)}>"


class RemoteKernel:
    """A kernel, function, class or method on the worker.

    Call it as if it were here: NumPy arrays hold afterwards what the kernel wrote into them, remote arrays stay
    where they are. Raises `KernelArgumentError` before a launch, `KernelRuntimeError`, `EngineCrashed`,
    `Interrupted`, `DeadlineExceeded`, `OutOfMemory`, `StaleHandle`, `UnknownName`, `UnsupportedType`.
    """

    __slots__ = ("__doc__", "_deadline", "_definition", "_exchange", "_forget", "_method", "_target")

    def __init__(
        self,
        directory: Directory,
        target: Ref,
        definition: Definition | None = None,
        *,
        method: str | None = None,
        deadline: float | None = None,
    ) -> None: ...

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs it and waits; returns plain values, NumPy arrays and remote things."""

    def submit(self, /, *args: Any, **kwargs: Any) -> RequestFuture[Any]:
        """Sends it and returns at once. Arrays among the arguments are read now, and written to when it is done."""

    @property
    def grad(self) -> RemoteKernel:
        """The kernel's gradient, called with the same arguments."""

    def with_options(self, *, deadline: float | None = None) -> RemoteKernel:
        """The same, with a limit in seconds on how long each run may take: `DeadlineExceeded` above it."""


class RemoteObject:
    """An object that is kept on the worker, such as an instance of a class in loaded source. Attributes are methods."""
