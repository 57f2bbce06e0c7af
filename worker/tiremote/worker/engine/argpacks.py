"""What Taichi gets wrong about argpacks: mended where that can be done from outside, else a reason to refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tiremote.worker.engine.signature import ArrayType, OpaqueType, PackType, ParameterType

Parameters = Sequence[tuple[str, ParameterType]]


def mend_structs_in_packs(struct_type: Any, is_real: Any, is_signed: Any) -> None:
    """Lets a struct in an argpack have vectors, matrices and structs as members. Once is enough.

    Taichi writes these by a method that argpacks do not have (``StructType.set_argpack_struct_args``).
    """
    if getattr(struct_type.set_argpack_struct_args, "_is_mended", False):
        return

    def set_argpack_struct_args(self: Any, struct: Any, argpack: Any, ret_index: tuple[int, ...] = ()) -> None:
        for number, (name, dtype) in enumerate(self.members.items()):
            index = (*ret_index, number)
            if hasattr(dtype, "set_argpack_struct_args"):
                dtype.set_argpack_struct_args(struct[name], argpack, index)
            elif is_real(dtype):
                argpack.set_arg_float(index, struct[name])
            elif is_signed(dtype):
                argpack.set_arg_int(index, struct[name])
            else:
                argpack.set_arg_uint(index, struct[name])

    set_argpack_struct_args._is_mended = True  # type: ignore[attr-defined]
    struct_type.set_argpack_struct_args = set_argpack_struct_args


def why_arrays_are_mixed_up(parameters: Parameters) -> str | None:
    """Why a kernel would be given other arrays than those that its argpacks hold; None where it is not.

    A launch passes the arrays of packs in the order of their members, but a kernel is compiled to take those of a pack
    inside before those beside it, and looks them up by their path without the parameter's name (`build_FunctionDef`).
    """
    packs = [(name, kind) for name, kind in parameters if isinstance(kind, PackType) and kind.what == "argpack"]
    for name, kind in packs:
        if list(_as_passed(kind)) != list(_as_compiled(kind)):
            return (
                f"argpack {name!r} has an array before an argpack that holds one too, and Taichi takes one for the "
                "other: declare the argpack inside first"
            )
    paths = Counter("_".join(path) for _, kind in packs for path in _as_passed(kind))
    for path, count in paths.items():
        if count > 1:
            return (
                f"{count} arrays in its argpacks are known as {path!r} to Taichi, which finds only one of them: "
                "give their members other names"
            )
    return None


def _as_passed(pack: PackType, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, kind in pack.members:
        if isinstance(kind, PackType):
            yield from _as_passed(kind, (*place, name))
        elif isinstance(kind, (ArrayType, OpaqueType)):
            yield (*place, name)


def _as_compiled(pack: PackType, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, kind in pack.members:
        if isinstance(kind, PackType):
            yield from _as_compiled(kind, (*place, name))
    for name, kind in pack.members:
        if isinstance(kind, (ArrayType, OpaqueType)):
            yield (*place, name)
