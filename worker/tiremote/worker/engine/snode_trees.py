"""SNode trees: every field lives in one, Taichi holds 512 at most, and reading a destroyed one ends the process.

So a tree is destroyed only when no field that was placed in it is alive any more, and the 513th is refused.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import Refused
from tiremote.protocol.results import MAX_SNODE_TREES

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


#: What a member of a field has whose tree is gone.
_DESTROYED = "_tiremote_destroyed"


@dataclass(slots=True)
class _Tree:
    tree: Any
    number: int
    root: int
    members: list[weakref.ref[Any]] = field(default_factory=list)

    def is_used(self) -> bool:
        return any(member() is not None for member in self.members)

    def has_only(self, members: Collection[int]) -> bool:
        """Whether every living member is one of these, by identity."""
        return all(id(member) in members for each in self.members if (member := each()) is not None)


class SNodeTrees:
    """Knows every tree that was made since `watch`, and which fields live in it.

    A field's members are expressions: their ``==`` builds Taichi code, so they are told apart by identity.
    """

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._declared: dict[int, weakref.ref[Any]] = {}
        self._trees: list[_Tree] = []
        #: Numbers of destroyed trees that no newer one has taken.
        self._dead: set[int] = set()
        self._builder: Any = None

    def watch(self) -> None:
        """Starts, or starts anew: a second ``ti.init`` has taken all trees away."""
        self._declared.clear()
        self._trees.clear()
        self._dead.clear()
        if self._builder is not None:
            return
        self._builder = self._runtime.fields_builder_class()
        self._watch_declarations(self._runtime.impl)
        self._watch_finalize(self._builder)
        self._watch_roots(self._builder)
        self._watch_destroy(self._runtime.module("_snode.snode_tree").SNodeTree)

    def count(self) -> int:
        """How many exist now."""
        self._dead |= {each.number for each in self._trees if each.tree.destroyed}
        self._trees = [each for each in self._trees if not each.tree.destroyed]
        return len(self._trees)

    def members(self, root: Any) -> list[weakref.ref[Any]]:
        """The living field members that are placed below this root SNode (a core object)."""
        found = []
        for reference in list(self._declared.values()):
            member = reference()
            if member is not None and _root_id(member) == root.id:
                found.append(reference)
        return found

    def living_members(self) -> list[Any]:
        """Every member of a field that somebody still holds, gradients too, placed or not."""
        return [member for reference in list(self._declared.values()) if (member := reference()) is not None]

    def is_allocated(self, member: Any) -> bool:
        """Whether the tree that a member was placed in is there."""
        root = _root_id(member)
        return root is not None and any(each.root == root and not each.tree.destroyed for each in self._trees)

    def is_destroyed(self, field: Any) -> bool:
        """Whether the user's code has destroyed the tree that a field was in."""
        return any(_DESTROYED in member.__dict__ for member in field.vars)

    def collect(self) -> int:
        """Destroys the trees whose fields are all dead; gives their number. Run the garbage collector first."""
        dead = [each for each in self._trees if not each.tree.destroyed and not each.is_used()]
        if dead:
            self._destroy(dead)
            # A kernel may have been compiled against a field that its global no longer names.
            self._runtime.forget_all_compiled()
        return len(dead)

    def is_tree(self, value: object) -> bool:
        """Whether this is one of the runtime's trees."""
        return any(value is each.tree for each in self._trees)

    def collect_after(self, count: int, discarded: Collection[int]) -> int:
        """Destroys those of the trees made since there were ``count`` that are dead, and lets kernels be: whoever calls
        this has dropped those that were compiled meanwhile. ``discarded``: ids of members that nobody is to use."""
        made = [each for each in self._trees[count:] if not each.tree.destroyed]
        doomed = [each for each in made if each.has_only(discarded)]
        # What a kernel left behind while it was compiled holds them in cycles; it is young as a rule.
        for generation in (1, 2):
            if any(each.is_used() for each in doomed):
                gc.collect(generation)
        return self._destroy([each for each in made if not each.is_used()])

    def _destroy(self, dead: list[_Tree]) -> int:
        if dead:
            # A launch that the device has not finished may still use them.
            dead[0].tree.prog.synchronize()
        for each in dead:
            each.tree.ptr.destroy_snode_tree(each.tree.prog)
            each.tree.destroyed = True
        self.count()
        return len(dead)

    def _watch_declarations(self, impl: Any) -> None:
        create = impl.create_field_member

        @functools.wraps(create)
        def create_field_member(*args: Any, **kwargs: Any) -> Any:
            made = create(*args, **kwargs)
            for member in made:
                if member is not None:
                    forget = functools.partial(self._forget, id(member))
                    self._declared[id(member)] = weakref.ref(member, forget)
            return made

        impl.create_field_member = create_field_member

    def _forget(self, key: int, _: object) -> None:
        self._declared.pop(key, None)

    def _watch_finalize(self, builder: Any) -> None:
        finalize = builder._finalize

        @functools.wraps(finalize)
        def _finalize(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_allocatable(this):
                # Taichi finds this out too, after it has freed the nodes that Python still points to.
                raise Refused(
                    "a node (ti.root.dense(...) or its kin) is declared and nothing is placed in it yet: "
                    "place a field in it before anything is launched"
                )
            self._make_room()
            members = self.members(this.ptr)
            try:
                tree = finalize(this, *args, **kwargs)
            except BaseException:
                # The nodes are gone on the C++ side. Later fields need a builder that works.
                if self._runtime.impl._root_fb is this:
                    self._runtime.impl._root_fb = self._builder()
                raise
            # The trees before it first: their numbers are given to new ones.
            self.count()
            self._trees.append(_Tree(tree, tree.ptr.id(), int(this.ptr.id), members))
            self._dead.discard(tree.ptr.id())
            return tree

        builder._finalize = _finalize

    def _watch_roots(self, builder: Any) -> None:
        find = builder._finalized_roots

        @functools.wraps(find)
        def _finalized_roots() -> list[Any]:
            # A tape clears the gradients in all of these, and Taichi lists destroyed trees too: SIGSEGV.
            self.count()
            return [root for number, root in enumerate(find()) if number not in self._dead]

        builder._finalized_roots = staticmethod(_finalized_roots)

    def _watch_destroy(self, tree: Any) -> None:
        destroy = tree.destroy

        @functools.wraps(destroy)
        def destroyed(this: Any) -> None:
            members = [member for each in self._trees if each.tree is this for member in each.members]
            destroy(this)
            # The nodes of a field may be gone with the next tree: it cannot be asked where it was.
            for reference in members:
                member = reference()
                if member is not None:
                    member.__dict__[_DESTROYED] = True

        tree.destroy = destroyed

    def _make_room(self) -> None:
        if self.count() >= MAX_SNODE_TREES:
            gc.collect()
            self.collect()
        if self.count() >= MAX_SNODE_TREES:
            raise Refused(
                f"there are {MAX_SNODE_TREES} SNode trees, the most that Taichi can hold: "
                "clean up units or fields, or declare several fields before the first kernel runs"
            )


def is_allocatable(builder: Any) -> bool:
    """Whether every branch of a builder's tree, or of its trees, ends in a field."""
    roots = [each.root.ptr for each in (builder, *getattr(builder, "parts", ()))]
    return all(_ends_in_fields(root.get_ch(index)) for root in roots for index in range(root.get_num_ch()))


def _ends_in_fields(node: Any) -> bool:
    if node.is_place():
        return True
    children = [node.get_ch(index) for index in range(node.get_num_ch())]
    return bool(children) and all(_ends_in_fields(child) for child in children)


def _root_id(member: Any) -> int | None:
    node = member.ptr.snode()
    while node is not None and node.parent is not None:
        node = node.parent
    return None if node is None else int(node.id)
