"""Runs cells: what is Taichi's on the worker, everything else here, statement by statement as Python would."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Callable
from typing import Any

from tiremote.client import RemoteArray, Session
from tiremote.protocol.errors import CompileError, Refused, TiremoteError
from tiremote.repl.annotations import with_parameter
from tiremote.repl.carried import Carrier
from tiremote.repl.cells import Cell, Statement
from tiremote.repl.classify import Classifier, Place
from tiremote.repl.dependants import Dependants
from tiremote.repl.free_names import bound_names, touched_names
from tiremote.repl.laptop_taichi import is_callable_here, taichi_path
from tiremote.repl.local_code import LocalCode
from tiremote.repl.names import Names, first_names
from tiremote.repl.pending import Pending, Unit, in_order, unplaced
from tiremote.repl.worker_cells import SHOWN, SHOWN_UNIT, body_of, magic_of, read_worker_cell

#: How the file name of every cell begins, for those that look at frames.
FILE_PREFIX = "<cell "

#: Functions of one cell that each call a later one, and the last of them a kernel.
_DEPTH = 4


class Evaluator:
    """Holds the names of one prompt or script. ``show`` takes receipts and notes, ``display`` a cell's value."""

    def __init__(self, gpu: Session, *, show: Callable[[str], None], display: Callable[[Any], None]) -> None:
        self._gpu = gpu
        self._show = show
        self._display = display
        self.names: Names = first_names(gpu, show, self._reopen)
        self.names.refresh = self._send_changed
        self._carrier = Carrier(self.names)
        self._dependants = Dependants()
        #: What this prompt has loaded and not dropped, by the unit's name on the worker.
        self._loaded: dict[str, Unit] = {}
        self._local = LocalCode(self.names.values)
        self._cells = 0
        self._worker_cells = 0
        self._flags = 0
        #: Of earlier cells: fields that a later one places.
        self._layout: list[Statement] = []

    def _classifier(self, pending: Pending, statements: list[Statement]) -> Classifier:
        defining = [each.node for each in statements if isinstance(each.node, (ast.FunctionDef, ast.ClassDef))]
        coming: set[str] = set()
        staying: set[str] = set()
        classifier = Classifier(
            self._taichi_path,
            lambda path: is_callable_here(self.names.taichi, path),
            lambda name: (
                name in coming
                or pending.binds(name)
                or (self.names.remote_unit(name) is not None and name not in staying)
                or self.names.is_worker_type(name)
            ),
            self._carrier.goes_along,
        )
        # A function may stand before what it calls, and that before what it calls itself.
        for _ in range(_DEPTH):
            found = {node.name for node in defining if classifier.place(node) is not Place.LOCAL}
            if found <= coming:
                break
            coming |= found
        # Typed anew in this cell, as the laptop's.
        staying |= {node.name for node in defining} - coming
        return classifier

    def _taichi_path(self, node: ast.expr) -> str | None:
        path = self.names.taichi_path(node)
        # A name that Taichi does not have is told here, not by the worker.
        return None if path and self.names.taichi.missing(path) else path

    @property
    def gpu(self) -> Session:
        """The session that the prompt has now."""
        return self._gpu

    def run(self, cell: Cell) -> None:
        """Raises whatever a statement raises; the statements before it have had their effect."""
        magic = magic_of(cell.text)
        if magic == "worker":
            self._run_there(cell)
            return
        if magic:
            raise Refused(f"there are no %%{magic} cells; %%worker runs what is below it on the worker")
        cell = body_of(cell)
        statements = cell.statements()
        self._cells += 1
        file = f"{FILE_PREFIX}{self._cells}>"
        lines = [f"{line}\n" for line in cell.text.splitlines()]
        linecache.cache[file] = (len(cell.text), None, ["\n"] * (cell.first_line - 1) + lines, file)
        pending = Pending()
        for waiting in self._layout:
            pending.add(waiting, Place.LAYOUT)
        classifier = self._classifier(pending, statements)
        for position, statement in enumerate(statements):
            place = classifier.place(statement.node)
            if place is Place.LOCAL:
                if self._could_tell(pending, touched_names(statement.node)):
                    self._send(pending)
                self._run_here(statement, file, shows=position == len(statements) - 1)
                self._send_changed()
            else:
                if any(map(pending.binds, bound_names(statement.text))):
                    self._send(pending)
                pending.add(statement, place)
        self._send(pending)
        for name in unplaced(self._layout):
            self._show(f"{name} waits for its place: ti.root.dense(ti.i, n).place({name})")

    def show_value(self, value: Any) -> None:
        """Shows the value, which is ``_`` from now on, and what was that is ``__``."""
        values = self.names.values
        if "_" in values:
            values["__"] = values["_"]
        values["_"] = value
        self._display(value)

    def reconnect(self) -> None:
        """Opens another session in place of one that is gone, and loads there what this prompt has defined.

        Raises as `connect` does; then all is as it was.
        """
        self._gpu = gpu = self._gpu.reopened()
        fields = [name for name, array in self.names.arrays() if self.names.remote_unit(name) is not None]
        lost = self.names.adopt(gpu)
        loaded, self._loaded = self._loaded, {}
        self._carrier.forget()
        self._dependants.forget()
        self._show(f"session {gpu.name} on {gpu.address}{', rejoined' if gpu.info.rejoined else ''}")
        names = {unit: name for name, unit in loaded.items()}
        for unit in in_order(list(names)):
            try:
                self._send_units([unit])
            except TiremoteError as error:
                self._show(f"{names[unit]} could not be loaded again: {error.message}")
        there = {each.unit for each in gpu.describe().units}
        for name, defined in self.names.remote_names().items():
            if defined not in there:
                self.names.forget_unit(defined, (name,))
                lost.append(name)
        if lost:
            self._show(f"lost, to be made anew: {', '.join(lost)}")
        if emptied := [name for name in fields if name not in lost and not gpu.info.rejoined]:
            self._show(f"there again, without what was in them: {', '.join(emptied)}")

    def rebind_lost(self) -> None:
        """After an engine was lost: names of what its units have made anew stand for that."""
        try:
            self.names.rebind_lost(self._gpu)
        except TiremoteError:
            return  # the next cell tells

    def _reopen(self, options: dict[str, Any]) -> bool:
        held = self._gpu.describe()
        if not self._gpu.private or self._loaded or held.units or held.arrays:
            return False
        self._gpu = self._gpu.reopened(**options)
        self.names.adopt(self._gpu)
        return True

    def forget_everything(self) -> None:
        """The session was emptied."""
        for unit in {unit for name in list(self.names.values) if (unit := self.names.remote_unit(name))}:
            self.names.forget_unit(unit)
        for name, _ in self.names.arrays():
            del self.names.values[name]
        self._carrier.forget()
        self._dependants.forget()
        self._loaded.clear()

    def forget_unit(self, unit: str) -> None:
        """The unit was dropped."""
        self.names.forget_unit(unit)
        self._loaded.pop(unit, None)
        self._dependants.forget(unit)

    def _could_tell(self, pending: Pending, touched: frozenset[str]) -> bool:
        # The session, functions, and what is on the worker already may use any name.
        return pending.waits() and (
            pending.must_go_before(touched)
            or "gpu" in touched
            or any(self.names.is_function(name) or self.names.remote_unit(name) is not None for name in touched)
        )

    # On the worker

    def _send(self, pending: Pending) -> None:
        units = pending.take()
        self._layout = pending.layout()
        if units:
            self._send_units(units)

    def _send_units(self, units: list[Unit]) -> None:
        held = {each.unit: {one.name for one in each.definitions} for each in self._gpu.describe().units}
        for unit in units:
            for carried in self._carrier.needed(unit, frozenset(held)):
                self._gpu.compile_and_load(carried.source, carried.name)
                self._carrier.sent(carried)
                held[carried.name] = set(carried.defines)
            name = free_id(unit, held)
            self._load(unit, name)
            held[name] = set(unit.defines)

    def _load(self, unit: Unit, name: str) -> None:
        try:
            receipt = self._gpu.compile_and_load(unit.source, name)
        except CompileError as error:
            raise with_parameter(error, unit) from None
        self.names.forget_unit(name, receipt.removed)
        for definition in receipt.definitions:
            if definition.name in unit.defines:
                self.names.bind_remote(self._gpu, receipt.unit, definition)
        for defined in unit.defines:
            self._carrier.replaced(defined)
        first, *rest = str(receipt).split("\n")
        if any(each.kind == "function" for each in receipt.definitions):
            first += ", runs on the worker"
        self._show("\n".join([first, *rest]))
        self._loaded[name] = unit
        self._dependants.loaded(unit, name)
        if self._reload_users(unit.defines):
            # Loaded last again, so that gpu[None] is what was typed.
            self._gpu.compile_and_load(unit.source, name)

    def _run_there(self, cell: Cell) -> None:
        """Whatever is in it; what it defines is then there for kernels and later cells, and has a name here."""
        self._worker_cells += 1
        there = read_worker_cell(cell, self._worker_cells, self.names.remote_unit)
        # Loaded whole: what is typed at the prompt comes apart by its definitions.
        if there.source.strip():
            receipt = self._gpu.compile_and_load(there.source, there.name)
            for definition in receipt.definitions:
                if definition.name in there.defines:
                    self.names.bind_remote(self._gpu, receipt.unit, definition)
        if there.shown is None:
            return
        self._gpu.compile_and_load(there.shown, SHOWN_UNIT)
        try:
            value = self._gpu[SHOWN_UNIT][SHOWN]()
        finally:
            self._gpu.cleanup(SHOWN_UNIT)
        if value is not None:
            self.show_value(value)

    def _send_changed(self) -> None:
        for unit in self._carrier.changed():
            self._gpu.compile_and_load(unit.source, unit.name)
            self._carrier.sent(unit)
            self._reload_users(unit.defines)

    def _reload_users(self, names: frozenset[str]) -> bool:
        """Taichi bakes in what a kernel uses when it compiles it; the worker makes anew what is not fresh."""
        users = self._dependants.of(names)
        for name, unit in users:
            if name in self._gpu:
                try:
                    receipt = self._gpu.compile_and_load(unit.source, name)
                except TiremoteError:
                    self._show(
                        f"{name} uses {', '.join(sorted(names & unit.needs) or names)} and keeps its earlier form:"
                    )
                    raise
                if not receipt.unchanged:
                    first, *rest = str(receipt).split("\n")
                    self._show("\n".join([f"{first}, made anew", *rest]))
        return bool(users)

    # On the laptop

    def _run_here(self, statement: Statement, file: str, *, shows: bool) -> None:
        node = statement.node
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            rest = self._import_taichi(node)
            if rest is None:
                return
            node = rest
        if isinstance(node, ast.Expr) and shows:
            value = self._local.value(node.value, file, self._flags)
            if value is not None:
                self.show_value(value)
            return
        before = {name for name in bound_names(statement.text) if self.names.remote_unit(name) is not None}
        self._local.execute(node, file, self._flags)
        self._record(statement)
        taken = frozenset(name for name in before if self.names.remote_unit(name) is None)
        for user, _ in self._dependants.of(taken):
            self._show(f"{user} is on the worker and keeps the earlier {', '.join(sorted(taken))}: type it again")

    def _record(self, statement: Statement) -> None:
        node = statement.node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self.names.record(node.name, statement)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            expressions = [each for each in ast.walk(node.value) if isinstance(each, ast.expr)]
            if any(self.names.taichi_path(each) is not None for each in expressions):
                for name in bound_names(statement.text):
                    if not isinstance(self.names.values.get(name), RemoteArray):
                        self.names.record(name, statement)

    def _import_taichi(self, node: ast.Import | ast.ImportFrom) -> ast.stmt | None:
        """Binds what comes from Taichi; gives what is left to import, None where nothing is."""
        names = self.names
        if isinstance(node, ast.ImportFrom):
            runtime, _, path = (node.module or "").partition(".")
            if runtime == "__future__":
                self._flags |= _future_flags(node)
            if node.level or not names.taichi.is_called(runtime):
                return node
            for alias in node.names:
                if alias.name == "*":
                    raise Refused(f"import Taichi's names one by one: from {node.module} import ...")
                inside = f"{path}.{alias.name}" if path else alias.name
                names.bind_taichi(alias.asname or alias.name, inside, taichi_path(names.taichi, inside))
            return None
        rest = []
        for alias in node.names:
            runtime, _, path = alias.name.partition(".")
            if not names.taichi.is_called(runtime):
                rest.append(alias)
            elif alias.asname:
                names.bind_taichi(alias.asname, path, taichi_path(names.taichi, path))
            else:
                names.bind_taichi(runtime, "", names.taichi)
        return ast.copy_location(ast.Import(rest), node) if rest else None


def _future_flags(node: ast.ImportFrom) -> int:
    """They hold for every statement that follows, as in a file."""
    features = [getattr(__future__, alias.name, None) for alias in node.names]
    return sum(feature.compiler_flag for feature in features if isinstance(feature, __future__._Feature))


def free_id(unit: Unit, held: dict[str, set[str]]) -> str:
    """The unit's name, or one with a number where a unit of that name defines what this one does not."""
    name, number = unit.name, 1
    while name in held and not held[name] <= unit.defines:
        number += 1
        name = f"{unit.name}_{number}"
    return name
