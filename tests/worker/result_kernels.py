# A kernel's annotations are values, so no ``from __future__ import annotations`` here.
"""Kernels of every kind of return."""

from types import SimpleNamespace
from typing import Any


def define(ti: Any) -> SimpleNamespace:
    inner = ti.types.struct(count=ti.u64)
    sphere = ti.types.struct(centre=ti.math.vec3, radius=ti.f32, inner=inner)

    @ti.kernel
    def u64() -> ti.u64:
        return ti.u64(18446744073709551615)

    @ti.kernel
    def i64() -> ti.i64:
        return ti.i64(-9223372036854775808)

    @ti.kernel
    def u64_vector() -> ti.types.vector(2, ti.u64):
        return ti.Vector([ti.u64(1), ti.u64(18446744073709551615)])

    @ti.kernel
    def matrix() -> ti.math.mat2:
        return ti.math.mat2([[1, 2], [3, 4]])

    @ti.kernel
    def struct() -> sphere:
        return sphere(centre=ti.math.vec3(1, 2, 3), radius=0.5, inner=inner(count=ti.u64(9223372036854775808)))

    @ti.kernel
    def two() -> (ti.i32, ti.f32):
        return 1, 2.5

    @ti.kernel
    def nothing():
        pass

    return SimpleNamespace(
        u64=u64, i64=i64, u64_vector=u64_vector, matrix=matrix, struct=struct, two=two, nothing=nothing
    )
