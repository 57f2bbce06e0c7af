"""The state that launches begin from: what arrays, objects, lists and names hold, to be put back as often as needed."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil

from tiremote.protocol.errors import OutOfMemory, TiremoteError
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.declarations import is_array, members
from tiremote.worker.engine.lending import same_bytes
from tiremote.worker.engine.likeness import is_a
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object
from tiremote.worker.engine.places import why_not_copied
from tiremote.worker.engine.put_back import again, content_of, names_again, own_names, random_numbers_again

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_MOST_VALUES: Final = 200_000
_DEEPEST: Final = 16
_PLAIN = (str, int, float, complex, bytes, type(None))


class StartingPoint:
    """Goes through everything that can be reached from what is `add`-ed, and remembers it.

    ``contents``: of arrays that were read already, by identity. ``skip``: ids of what another starting point has.
    """

    def __init__(
        self,
        arrays: Arrays,
        runtime: TaichiRuntime,
        contents: Mapping[int, np.ndarray] | None = None,
        skip: Container[int] = (),
    ) -> None:
        self._arrays = arrays
        self._runtime = runtime
        self._known = contents or {}
        self._skip = skip
        #: By identity, which also keeps them alive so that no id is used twice.
        self._seen: dict[int, Any] = {}
        self._put_back: list[Callable[[], None]] = [random_numbers_again()]
        self._contents: dict[str, tuple[Any, np.ndarray]] = {}
        #: Paths of what cannot be put back, and why.
        self.skipped: dict[str, str] = {}
        self._why: dict[int, str] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._seen

    def add(self, path: str, value: Any) -> None:
        """Remembers a value, known as ``path``, and what it leads to. Raises `OutOfMemory`."""
        self._visit(path, value, 0)

    def add_namespace(self, namespace: dict[str, Any], prefix: str = "") -> None:
        """Remembers what the names of a unit stand for; its arrays are known by ``prefix`` and name."""
        if self._is_new(namespace):
            self._put_back.append(names_again(namespace))
            # Names first: an array that an object refers to as well is known by its own name.
            for name in sorted(
                own_names(namespace), key=lambda one: (not is_array(namespace[one], self._runtime), one)
            ):
                self._visit(f"{prefix}{name}", namespace[name], 0)

    def restore(self) -> None:
        """Has everything hold again what it held."""
        for put_back in self._put_back:
            put_back()
        for value, content in self._contents.values():
            if type(value) is np.ndarray:
                np.copyto(value, content)
            else:
                self._arrays.write(value, content)

    def arrays(self) -> dict[str, np.ndarray]:
        """What every array holds at the start, by path."""
        return {path: content for path, (_, content) in self._contents.items()}

    def why_skipped(self, array: Any) -> str | None:
        """Why an array that was added cannot be put back, None where it can."""
        return self._why.get(id(array))

    def path_of(self, array: Any) -> str | None:
        """What an array is known as, None for one that is not remembered."""
        return next((path for path, (value, _) in self._contents.items() if value is array), None)

    def written(self) -> dict[str, np.ndarray]:
        """What the arrays hold now that hold something else than at the start, by path."""
        found = {}
        for path, (value, content) in self._contents.items():
            now = value.copy() if type(value) is np.ndarray else self._arrays.read(value)
            if not same_bytes(now, content):
                found[path] = now
        return found

    def _is_new(self, value: Any) -> bool:
        if id(value) in self._seen or id(value) in self._skip:
            return False
        self._seen[id(value)] = value
        return True

    def _visit(self, path: str, value: Any, depth: int) -> None:
        if is_a(value, _PLAIN) or not self._is_new(value):
            return
        if depth > _DEEPEST or len(self._seen) > _MOST_VALUES:
            self.skipped[path.partition("[")[0]] = "it leads to too many values, or too deep"
            return
        if type(value) is np.ndarray:
            self._host_array(path, value)
            return
        if is_array(value, self._runtime):
            self._array(path, value, depth)
            return
        put_back = again(value)
        if put_back is not None:
            self._put_back.append(put_back)
        for where, inner in self._inside(value):
            self._visit(f"{path}{where}", inner, depth + 1)

    def _array(self, path: str, value: Any, depth: int) -> None:
        runtime = self._runtime
        if runtime.is_struct_field(value):
            for name, member in value.field_dict.items():
                self._visit(f"{path}.{name}", member, depth + 1)
            return
        if runtime.is_field(value) and not any(True for _ in members(value, runtime)):
            return
        why = why_not_copied(value, runtime)
        try:
            if why is None:
                self._contents[path] = value, self._content(value)
        except OutOfMemory:
            raise
        except TiremoteError as error:
            why = error.message
        if why is not None:
            self.skipped[path] = why
            self._why[id(value)] = why
        for grad in gradients(value, runtime):
            self._visit(f"{path}.grad", grad, depth + 1)

    def _host_array(self, path: str, value: np.ndarray) -> None:
        if not value.flags.writeable:
            return
        _check_memory(value.nbytes)
        content = value.copy()
        if value.dtype.hasobject:
            self._put_back.append(lambda: np.copyto(value, content))
        else:
            self._contents[path] = value, content

    def _content(self, value: Any) -> np.ndarray:
        known = self._known.get(id(value))
        if known is not None:
            return known
        _check_memory(self._arrays.meta(value).nbytes)
        return self._arrays.read(value)

    def _inside(self, value: Any) -> Iterator[tuple[str, Any]]:
        if is_a(value, (list, tuple, set, frozenset, collections.deque)):
            yield from ((f"[{number}]", each) for number, each in enumerate(list(value)))
        elif is_a(value, dict):
            yield from ((f"[{key!r}]", each) for key, each in list(value.items()))
        elif is_unit_object(value) or is_a(value, types.SimpleNamespace):
            yield from ((f".{name}", each) for name, each in list(attributes(value).items()))
            yield "", type(value)
        elif self._runtime.is_kernel(value) or self._runtime.is_func(value):
            yield "", self._runtime.python_function(value)
        elif is_a(value, types.FunctionType):
            yield from (("", cell) for cell in value.__closure__ or ())
            self._of_unit(value.__globals__)
        elif is_a(value, types.CellType):
            yield from (("", each) for each in content_of(value))
        elif is_a(value, types.MethodType):
            yield from (("", each) for each in (value.__self__, value.__func__))
        elif self._runtime.is_bound(value):
            yield "", self._runtime.bound_to(value)
        elif is_a(value, type) and str(value.__module__).startswith(MODULE_PREFIX):
            yield from ((f".{name}", _unwrapped(each)) for name, each in own_names(vars(value)).items())
        elif is_a(value, types.ModuleType):
            self._of_unit(value.__dict__)

    def _of_unit(self, namespace: dict[str, Any]) -> None:
        """What a function of another unit may change there."""
        module = str(namespace.get("__name__", ""))
        if module.startswith(MODULE_PREFIX):
            unit = module.removeprefix(MODULE_PREFIX).rpartition("] v")[0]
            self.add_namespace(namespace, f"{unit}.")


def gradients(value: Any, runtime: TaichiRuntime) -> list[Any]:
    """The arrays of an array's gradients that have memory of their own."""
    if runtime.is_ndarray(value):
        return [value.grad] if value.grad is not None else []
    if type(value) is np.ndarray:
        return []
    found = [each for each in (value.grad, value.dual) if each is not None]
    return [each for each in found if each.vars[0].ptr.snode() is not None]


def _check_memory(requested: int) -> None:
    available = int(psutil.virtual_memory().available)
    if requested > available:
        raise OutOfMemory(
            f"{requested:,} bytes are to be copied in the host's memory, and {available:,} are free there: "
            "clean up arrays that are no longer used",
            requested=requested,
            available=available,
        )


def _unwrapped(value: Any) -> Any:
    return value.__func__ if is_a(value, (staticmethod, classmethod)) else value
