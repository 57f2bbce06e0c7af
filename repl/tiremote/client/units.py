"""What a unit defines, ready to be used: kernels, functions and classes to call, and the objects they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiremote.client.arguments import PackedCall, pack_call, travels_by_parameter
from tiremote.client.arrays import array_proxy
from tiremote.client.directory import CALLABLE, Directory, UnknownAttribute
from tiremote.client.exchange import Exchange
from tiremote.client.lane import Site
from tiremote.client.recording import recording_on, tape_for_run
from tiremote.client.remote import Remote
from tiremote.client.request_future import RequestFuture
from tiremote.client.transfer import fetch_copy, local_array
from tiremote.protocol.attributes import AttributeResult, GetAttribute, SetAttribute
from tiremote.protocol.benchmarking import Bench, Benchmark
from tiremote.protocol.errors import PayloadTooLarge, UnknownName
from tiremote.protocol.messages import Fetch, Run
from tiremote.protocol.receipts import Definition, Parameter
from tiremote.protocol.results import FetchResult, RunResult
from tiremote.protocol.values import Handle, Name, Ref, WireArray


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
            raise UnknownAttribute(error.message, name=error.name, known=error.known) from None

    def __getitem__(self, name: str) -> Any:
        """The definition of that name. Raises `UnknownName`."""
        directory = self._directory
        unit, definition = directory.definition(self._unit, name)
        if definition.kind in CALLABLE:
            return RemoteKernel(directory.exchange, Name(unit=self._unit, name=name), definition)
        # Data stays what it is when a newer unit is loaded: pinned to the unit that defines it now.
        target = Name(unit=unit, name=name)
        exchange = directory.exchange
        if definition.kind in ("field", "ndarray"):
            if "dtype" in definition.meta:
                return array_proxy(exchange, target, definition.kind, definition.meta)
            # Placed after its source was loaded, or a field of structs or of numbers of odd widths.
            return thawed(exchange, exchange.call(Fetch(id="", target=target, form="handle"), FetchResult).handle)
        with exchange.releases.receiving():
            try:
                result = exchange.call(Fetch(id="", target=target), FetchResult)
            except PayloadTooLarge:
                return fetch_copy(exchange, target)
            return thawed(exchange, result.value if result.handle is None else result.handle, ours=True)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in RemoteUnit.__slots__:
            raise AttributeError(
                f"{name!r} is not set from here: send its source again, or call a function of the source that sets it"
            )
        object.__setattr__(self, name, value)

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


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many seconds a run may take; with a second limit that one is on what compiles, the first on the rest."""

    deadline: float | None = None
    compile_deadline: float | None = None


_NO_LIMITS = _Limits()


class RemoteKernel(Remote):
    """A kernel, function, class or method on the worker.

    Call it as if it were here: NumPy arrays hold afterwards what the kernel wrote into them, remote arrays stay
    where they are. Raises `KernelArgumentError` before a launch, `KernelRuntimeError`, `EngineCrashed`,
    `Interrupted`, `DeadlineExceeded`, `OutOfMemory`, `StaleHandle`, `UnknownName`, `UnsupportedType`.
    """

    __slots__ = ("_definition", "_limits", "_method", "_owner")

    def __init__(
        self,
        exchange: Exchange,
        target: Ref,
        definition: Definition | None = None,
        *,
        method: str | None = None,
        limits: _Limits = _NO_LIMITS,
        owner: Any = None,
    ) -> None:
        super().__init__(exchange, target)
        #: The object whose method this is, which must stay there as long.
        self._owner = owner
        self._definition = definition
        self._method = method
        self._limits = limits

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs it and waits; returns plain values, NumPy arrays and remote things."""
        site = self._site(args, kwargs)
        if site is not None and self._exchange.lane.takes(site):
            was_made, value = self._exchange.lane.call(site, args)
            if was_made:
                return value
        call = pack_call(self._exchange, args, kwargs, parameters=self._parameters(args, kwargs))
        with self._exchange.releases.receiving():
            try:
                result = self._exchange.call(self._request(call, site), RunResult)
                call.write_back(result.written)
                call.return_loans()
            finally:
                call.drop_loans()
            if site is not None:
                self._exchange.lane.made(site, result)
            return thawed(self._exchange, result.value, ours=True)

    def submit(self, /, *args: Any, **kwargs: Any) -> RequestFuture[Any]:
        """Sends it and returns at once. Arrays among the arguments are read now, and written to when it is done.

        In asyncio the future can be awaited.
        """
        call = pack_call(self._exchange, args, kwargs, parameters=self._parameters(args, kwargs), snapshot=True)

        def finish(result: RunResult) -> Any:
            call.write_back(result.written)
            call.return_loans()
            return thawed(self._exchange, result.value, ours=True)

        def end(_: object = None) -> None:
            call.drop_loans()
            self._exchange.releases.received()

        self._exchange.releases.receive()
        try:
            future = self._exchange.submit(self._request(call), RunResult, finish, in_background=call.has_loans)
        except BaseException:
            end()
            raise
        future.add_done_callback(end)
        return future

    @property
    def grad(self) -> RemoteKernel:
        """The kernel's gradient, called with the same arguments."""
        target, method, definition = self._target, self._method, self._definition
        if isinstance(target, Name):
            target = Name(unit=target.unit, name=f"{target.name}.grad")
        else:
            method = f"{method}.grad"
        if definition is not None:
            definition = replace(definition, name=f"{definition.name}.grad")
        return RemoteKernel(self._exchange, target, definition, method=method, limits=self._limits, owner=self._owner)

    def with_options(self, *, deadline: float | None = None, compile_deadline: float | None = None) -> RemoteKernel:
        """The same, with limits in seconds on how long each run may take: `DeadlineExceeded` above them.

        ``deadline`` counts all of it. With a ``compile_deadline`` that one counts what compiles kernels, before their
        launch or in the middle of a function, and ``deadline`` the rest.
        """
        limits = _Limits(deadline, compile_deadline)
        return RemoteKernel(
            self._exchange, self._target, self._definition, method=self._method, limits=limits, owner=self._owner
        )

    def _bench(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, repeats: int, warmup: int, deadline: float | None
    ) -> Benchmark:
        """`Session.bench` of it."""
        call = pack_call(self._exchange, args, kwargs, parameters=self._parameters(args, kwargs))
        request = Bench(
            id="",
            target=self._target,
            method=self._method,
            args=call.args,
            kwargs=call.kwargs,
            repeats=repeats,
            warmup=warmup,
            deadline=deadline,
            events=self._exchange.events,
        )
        try:
            return self._exchange.call(request, Benchmark)
        finally:
            call.drop_loans()

    def __getattr__(self, name: str) -> RemoteKernel:
        """What lies inside a class or an object, such as a static method, or ``solar.x.to_numpy``."""
        is_class = self._definition is not None and self._definition.kind == "class"
        if name.startswith("_") or not (is_class or self._method):
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        if isinstance(self._target, Name):
            return RemoteKernel(self._exchange, Name(unit=self._target.unit, name=f"{self._target.name}.{name}"))
        return RemoteKernel(
            self._exchange, self._target, method=f"{self._method}.{name}", limits=self._limits, owner=self._owner
        )

    @property
    def definition(self) -> Definition | None:
        """Signature, line and kind, as far as they were known when this was made."""
        return self._definition

    def __repr__(self) -> str:
        unit = self._target.unit if isinstance(self._target, Name) else self._target.meta.get("type", self._target.id)
        shown = self._definition or self._method or self._target
        kind = self._definition.kind if self._definition else "attribute" if self._method else "callable"
        return f"<remote {kind} {shown} of {'the newest unit' if unit is None else repr(unit)}>"

    def _parameters(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Parameter, ...]:
        """What a kernel takes. Of one that lies in an object or a class the worker is asked, where that matters."""
        definition = self._definition
        if definition is None and any(map(travels_by_parameter, (*args, *kwargs.values()))):
            definition = self._asked()
        return definition.parameters if definition is not None and definition.kind == "kernel" else ()

    def _asked(self) -> Definition | None:
        target, name = self._target, self._method
        if name is None and isinstance(target, Name):
            owner, _, name = target.name.rpartition(".")
            target = Name(unit=target.unit, name=owner)
        if not name or (isinstance(target, Name) and not target.name):
            return None
        with self._exchange.releases.receiving():
            result = self._exchange.call(GetAttribute(id="", target=target, name=name), AttributeResult)
            # An object that can be called, perhaps: it is asked for by this, and goes again.
            thawed(self._exchange, result.value, ours=True)
        return result.definition

    def _site(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Site | None:
        if kwargs or self._limits is not _NO_LIMITS or recording_on(self._exchange) is not None:
            return None
        return self._exchange.lane.site(self._target, self._method, args)

    def _request(self, call: PackedCall, site: Site | None = None) -> Run:
        return Run(
            id="",
            target=self._target,
            method=self._method,
            args=call.args,
            kwargs=call.kwargs,
            deadline=self._limits.deadline,
            compile_deadline=self._limits.compile_deadline,
            events=self._exchange.events,
            tape=tape_for_run(self._exchange),
            codings=self._exchange.thrift.compression.asked(),
            site=None if site is None else site.number,
        )


class RemoteObject(Remote):
    """An object that is kept on the worker, such as an instance of a class in loaded source.

    Its attributes are what they are there: methods as `RemoteKernel`, numbers and text as values, fields and ndarrays
    as remote arrays, other objects as this. Plain ones can be set. One that can be called there can be called here.
    In a private session it stays there as long as something here stands for it, else until `Session.cleanup` gets it.
    """

    __slots__ = ()
    # Python would else iterate by asking for item 0, item 1 and so on, of which there is no end.
    __iter__ = None
    __contains__ = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the object itself. Raises as `RemoteKernel` does."""
        return RemoteKernel(self._exchange, self._target)(*args, **kwargs)

    def __init__(self, exchange: Exchange, target: Ref) -> None:
        super().__init__(exchange, target)
        if isinstance(target, Handle):
            exchange.releases.track(self, target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(
                f"a remote object has no attribute {name!r}; its attribute of that name is object[{name!r}]"
            )
        try:
            return self[name]
        except UnknownName as error:
            raise UnknownAttribute(error.message, name=error.name, known=error.known) from None

    def __getitem__(self, name: str) -> Any:
        """The attribute of that name, a private one too. Raises `UnknownName`."""
        if not isinstance(name, str):
            raise TypeError(f"a remote object's items are its attributes, by name; {name!r} came")
        meta = self._target.meta if isinstance(self._target, Handle) else {}
        if name not in meta.get("methods", ()) and not name.startswith("__"):
            get = GetAttribute(id="", target=self._target, name=name, events=self._exchange.events)
            with self._exchange.releases.receiving():
                result = self._exchange.call(get, AttributeResult)
                if not result.callable:
                    return thawed(self._exchange, result.value, ours=True)
        return RemoteKernel(self._exchange, self._target, method=name, owner=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Remote.__slots__:
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets an attribute that is there and plain to a number, text or None. Raises `KernelArgumentError`,
        `UnknownName`."""
        call = pack_call(self._exchange, (value,), {})
        try:
            request = SetAttribute(id="", target=self._target, name=name, value=call.args[0])
            self._exchange.call(request, AttributeResult)
        finally:
            call.drop_loans()

    def __repr__(self) -> str:
        meta = self._target.meta if isinstance(self._target, Handle) else {}
        return f"<RemoteObject {meta.get('type', 'object')}>"


def thawed(exchange: Exchange, value: Any, *, ours: bool = False) -> Any:
    """A value that came: arrays writeable and in memory of their own, handles as proxies.

    ``ours``: objects in it were made, or asked for, by this client, and go with their last proxy.
    """
    if isinstance(value, WireArray):
        return local_array(value)
    if isinstance(value, Handle):
        if value.kind in ("ndarray", "field", "array") and "dtype" in value.meta:
            return array_proxy(exchange, value, value.kind, value.meta)
        if ours:
            exchange.releases.adopt(value)
        return RemoteObject(exchange, value)
    if isinstance(value, list):
        return [thawed(exchange, item, ours=ours) for item in value]
    if isinstance(value, tuple):
        return tuple(thawed(exchange, item, ours=ours) for item in value)
    if isinstance(value, dict):
        return {key: thawed(exchange, item, ours=ours) for key, item in value.items()}
    return value
