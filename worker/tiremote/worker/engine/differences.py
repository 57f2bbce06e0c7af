"""Which names of a new version are not what they were: by their own text, by what they use, or by their value."""

from __future__ import annotations

import ast
import difflib
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiremote.protocol.receipts import Change, Definition
from tiremote.worker.engine.global_names import global_names
from tiremote.worker.engine.likeness import is_a, same
from tiremote.worker.engine.pairing import MODULE_PREFIX, is_unit_object

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime
    from tiremote.worker.engine.unit import LoadedUnit

#: What code is behind.
CODE = ("kernel", "func", "function", "class")

#: A diff of longer texts takes longer than their load.
_MOST_COMPARED_LINES = 4_000_000

#: A name to the names that are the reason why it is another now; its own alone where it changed itself.
Changed = Mapping[str, frozenset[str]]


class Texts:
    """Per name, what a text's statements say of it, positions left out, and which global names these use."""

    def __init__(self, tree: ast.Module) -> None:
        self._statements: dict[str, list[ast.stmt]] = {}
        self._tree = tree
        for statement, names in _bindings(tree.body):
            for name in names:
                self._statements.setdefault(name, []).append(statement)

    def text(self, name: str) -> tuple[str, ...]:
        """What can be compared; empty for a name that no statement binds."""
        return tuple(ast.dump(each) for each in self._statements.get(name, ()))

    def uses(self, name: str) -> frozenset[str]:
        """The global names that its statements use, builtins among them."""
        used: set[str] = set()
        for each in self._statements.get(name, ()):
            found = global_names(compile(ast.Module([each], []), "", "exec", dont_inherit=True))
            used |= found.free | found.bound
        # A class body reads its module's ``__name__``, and no text defines such names.
        return frozenset(each for each in used if each != name and not each.startswith("__"))


def changed_names(
    old: LoadedUnit | None,
    new: LoadedUnit,
    touched: Collection[int],
    elsewhere: Callable[[str, str], bool],
    runtime: TaichiRuntime,
) -> dict[str, frozenset[str]]:
    """The names of ``new`` and ``old`` that are not the same any more.

    ``touched``: ids of objects that stayed and got other attributes; ``elsewhere(unit, name)`` tells whether a name
    that both took from that unit changed there.
    """
    if old is None:
        return {name: frozenset({name}) for name in new.own}
    compared = _Comparison(old, new, touched, elsewhere, runtime)
    changed = {name: frozenset({name}) for name in old.own ^ new.own}
    changed |= {name: frozenset({name}) for name in old.own & new.own if compared.changed_itself(name)}
    code = [name for name in old.own & new.own if name not in changed and compared.is_code(name)]
    waiting = {name: compared.uses(name) for name in code}
    outside = {name for names in waiting.values() for name in names if name not in new.own}
    taken = {name for name in outside if compared.taken_changed(name)}
    # Names that a builtin or another unit gave before and this text gives now, or the other way round, are in
    # ``changed`` as added or removed.
    causes = {**changed, **{name: frozenset({name}) for name in taken}}
    while True:
        found = {
            name: frozenset().union(*(causes[each] for each in names & causes.keys()))
            for name, names in waiting.items()
            if names & causes.keys()
        }
        if all(causes.get(name) == reasons for name, reasons in found.items()):
            return {**changed, **found}
        causes |= found


def describe_changes(
    old: LoadedUnit | None, new: LoadedUnit, changed: Changed, seconds: Mapping[str, float]
) -> list[Change]:
    """A receipt's line for every kernel, func, function and class of the two versions."""
    before = {each.name for each in _code(old.definitions)} if old is not None else set()
    found = []
    for each in _code(new.definitions):
        reasons = changed.get(each.name, frozenset())
        if each.name not in before:
            status = "added"
        elif not reasons:
            status = "unchanged"
        else:
            status = "changed" if each.name in reasons else "rebuilt"
        found.append(
            Change(
                name=each.name,
                status=status,
                unit=new.unit,
                because=tuple(sorted(reasons)) if status == "rebuilt" else (),
                seconds=seconds.get(each.name, 0.0),
            )
        )
    after = {each.name for each in _code(new.definitions)}
    gone = [each.name for each in (_code(old.definitions) if old is not None else ()) if each.name not in after]
    return found + [Change(name=name, status="removed", unit=new.unit) for name in gone]


def line_statistics(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Lines added and removed, as a diff counts them."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if len(before) * len(after) > _MOST_COMPARED_LINES:
        return len(after), len(before)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    common = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - common, len(before) - common


def _code(definitions: tuple[Definition, ...]) -> list[Definition]:
    return [each for each in definitions if each.kind in CODE]


class _Comparison:
    def __init__(
        self,
        old: LoadedUnit,
        new: LoadedUnit,
        touched: Collection[int],
        elsewhere: Callable[[str, str], bool],
        runtime: TaichiRuntime,
    ) -> None:
        self._old, self._new = old, new
        self._touched = touched
        self._elsewhere = elsewhere
        self._runtime = runtime
        self._was, self._now = Texts(old.source.tree), Texts(new.source.tree)

    def is_code(self, name: str) -> bool:
        """Whether its text says all of it."""
        value = self._new.namespace.get(name)
        return self._is_own_code(value, self._new.namespace) or self._runtime.is_struct_type(value)

    def changed_itself(self, name: str) -> bool:
        if name in self._new.source.names.assigned_later | self._old.source.names.assigned_later:
            # A function assigns it: what the version before has reached is not what this one starts from.
            return not self._is_kept(name)
        there = name in self._old.namespace, name in self._new.namespace
        if not all(there):
            return any(there)
        was, now = self._old.namespace[name], self._new.namespace[name]
        if self._is_kept(name):
            return False
        if self.is_code(name):
            text = self._now.text(name)
            return not text or text != self._was.text(name)
        if is_a(now, types.ModuleType) and is_a(was, types.ModuleType):
            # Of a unit, that is: its importers are rebuilt because of it.
            return was is not now
        unit = self._imported_from(name)
        if unit is not None:
            return self._elsewhere(unit, name)
        return self._is_touched(now) or not same(was, now, self._runtime)

    def uses(self, name: str) -> frozenset[str]:
        return self._now.uses(name)

    def taken_changed(self, name: str) -> bool:
        """Whether a name from outside the text is not what it was."""
        missing = object()
        was = self._old.namespace.get(name, missing) if name not in self._old.own else missing
        now = self._new.namespace.get(name, missing)
        if was is now or (was is not missing and now is not missing and same(was, now, self._runtime)):
            return False
        before, after = self._old.uses.get(name), self._new.uses.get(name)
        return before is None or after is None or before[0] != after[0] or self._elsewhere(after[0], name)

    def _imported_from(self, name: str) -> str | None:
        """The unit that both versions have it from by ``from unit import name``."""
        before, after = self._old.imports, self._new.imports
        return next((unit for unit, names in after.items() if name in names and name in before.get(unit, ())), None)

    def _is_kept(self, name: str) -> bool:
        was, now = self._old.namespace.get(name), self._new.namespace.get(name)
        return was is now and was is not None and not self._is_touched(now)

    def _is_touched(self, value: Any) -> bool:
        return is_unit_object(value) and id(value) in self._touched

    def _is_own_code(self, value: Any, namespace: Mapping[str, Any]) -> bool:
        if self._runtime.is_kernel(value) or self._runtime.is_func(value):
            return self._runtime.python_function(value).__globals__ is namespace
        if is_a(value, types.FunctionType):
            return value.__globals__ is namespace
        return (
            is_a(value, type)
            and str(value.__module__).startswith(MODULE_PREFIX)
            and value.__module__ == namespace.get("__name__")
        )


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, set[str]]]:
    """Every module-level statement with the names it binds; those inside an ``if`` or a loop count whole."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement, {statement.name}
        else:
            yield statement, set(_bound(statement))


def _bound(statement: ast.stmt) -> Iterator[str]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        waiting.extend(ast.iter_child_nodes(node))
