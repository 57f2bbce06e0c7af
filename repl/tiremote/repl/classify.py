"""Where a statement belongs: on the worker as a definition or a declaration, or on the laptop as Python."""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum, auto

from tiremote.repl.drivers import is_driver

#: What a laptop's `Session.ti` makes or does itself. Everything else that is called on Taichi is the worker's.
_LOCAL_CALLS = frozenset(
    {"init", "sync", "ndarray", "Vector.ndarray", "Matrix.ndarray", "types.vector", "types.matrix"}
)
#: Methods of SNodes, by which Taichi programs lay out fields.
_LAYOUT = frozenset(
    {"place", "dense", "pointer", "hash", "dynamic", "bitmasked", "quant_array", "lazy_grad", "finalize"}
)
#: Position of ``shape`` in each way to declare a field; without one the field waits to be placed.
_SHAPE_POSITION = {"field": 1, "Vector.field": 2, "Matrix.field": 3}


class Place(Enum):
    """``DEFINITION``: kernels, functions, classes, whose names are looked up when they are used.
    ``DECLARATION``: fields, types and values, made at once. ``LAYOUT``: those that only make sense together."""

    LOCAL = auto()
    DEFINITION = auto()
    DECLARATION = auto()
    LAYOUT = auto()


class Classifier:
    """``taichi_path`` gives ``types.vector`` for the expression ``ti.types.vector``, None where it is not Taichi's;
    ``callable_here`` tells whether such a path can be called on the laptop, ``on_worker`` whether a name stands
    for something that the worker holds or is about to get, and ``goes_along`` whether another name means the same
    there (None: it is none of the prompt's)."""

    def __init__(
        self,
        taichi_path: Callable[[ast.expr], str | None],
        callable_here: Callable[[str], bool],
        on_worker: Callable[[str], bool],
        goes_along: Callable[[str], bool | None],
    ) -> None:
        self._taichi_path = taichi_path
        self._callable_here = callable_here
        self._on_worker = on_worker
        self._goes_along = goes_along

    def place(self, node: ast.stmt) -> Place:
        """Never runs anything."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            there = self._is_decorated(node) or self._needs_the_worker(node) or self._is_driver(node)
            return Place.DEFINITION if there else Place.LOCAL
        if isinstance(node, ast.ClassDef):
            return Place.DEFINITION if self._is_worker_class(node) else Place.LOCAL
        if isinstance(node, ast.Expr):
            return Place.LAYOUT if self._lays_out(node.value) else Place.LOCAL
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if all(_is_plain_target(target) for target in targets):
                return self._place_of_value(node.value)
        return Place.LOCAL

    def _place_of_value(self, value: ast.expr) -> Place:
        calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
        if any(self._lays_out(call) or self._waits_for_placement(call) for call in calls):
            return Place.LAYOUT
        if any(self._is_worker_call(call) for call in calls):
            return Place.DECLARATION
        return Place.LOCAL

    def _is_driver(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return isinstance(node, ast.FunctionDef) and is_driver(node, self._on_worker, self._goes_along)

    def _needs_the_worker(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """A plain function that calls what only Taichi has, such as ``ti.ad.Tape``, drives kernels on the worker."""
        paths = [self._taichi_path(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)]
        # Tapes are there on both sides: a loop on the worker is one request.
        return any(path is not None and (path.startswith("ad.") or not self._callable_here(path)) for path in paths)

    def _is_decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        return any(
            self._taichi_path(each.func if isinstance(each, ast.Call) else each) is not None
            for each in node.decorator_list
        )

    def _is_worker_class(self, node: ast.ClassDef) -> bool:
        if self._is_decorated(node):
            return True
        if any(isinstance(base, ast.Name) and self._on_worker(base.id) for base in node.bases):
            return True
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        return any(self._is_decorated(method) for method in methods) or self._has_worker_members(node)

    def _has_worker_members(self, node: ast.ClassDef) -> bool:
        """Whether it has a member of a type of Taichi's, as a dataclass of arrays has, or of another such class."""
        annotations = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
        parts = [part for each in annotations for part in ast.walk(each) if isinstance(part, ast.Name | ast.Attribute)]
        return any(
            self._taichi_path(part) is not None or (isinstance(part, ast.Name) and self._on_worker(part.id))
            for part in parts
        )

    def _is_worker_call(self, call: ast.Call) -> bool:
        path = self._taichi_path(call.func)
        if path is not None:
            return path not in _LOCAL_CALLS
        return _method(call) == "field" and self._owner_is_on_worker(call)

    def _lays_out(self, value: ast.expr) -> bool:
        for call in ast.walk(value):
            if not isinstance(call, ast.Call):
                continue
            path = self._taichi_path(call.func)
            if path is not None:
                if path.startswith("root.") or path == "FieldsBuilder":
                    return True
            elif _method(call) in _LAYOUT and self._owner_is_on_worker(call):
                return True
        return False

    def _waits_for_placement(self, call: ast.Call) -> bool:
        path = self._taichi_path(call.func)
        if path is None:
            position = 0 if _method(call) == "field" and self._owner_is_on_worker(call) else None
        else:
            position = _SHAPE_POSITION.get(path)
        if position is None or any(isinstance(each, ast.Starred) for each in call.args):
            return False
        named = {keyword.arg for keyword in call.keywords}
        return len(call.args) <= position and not named & {"shape", None}

    def _owner_is_on_worker(self, call: ast.Call) -> bool:
        root: ast.expr = call.func
        while isinstance(root, (ast.Attribute, ast.Call)):
            root = root.value if isinstance(root, ast.Attribute) else root.func
        return isinstance(root, ast.Name) and self._on_worker(root.id)


def _method(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _is_plain_target(target: ast.expr) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_plain_target(each) for each in target.elts)
    return isinstance(target, ast.Name)
