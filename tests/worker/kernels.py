# A kernel's annotations are values, so no ``from __future__ import annotations`` here.
"""Kernels of every kind of parameter, for the tests of arguments."""

from types import SimpleNamespace
from typing import Any

from .zoo import EXACT_DTYPES

Kernels = SimpleNamespace


def define(ti: Any, max_arguments: int) -> Kernels:
    def same(dtype: Any) -> Any:
        @ti.kernel
        def kernel(x: dtype) -> dtype:
            return x

        return kernel

    named = {name: same(getattr(ti, name)) for name in EXACT_DTYPES if name != "bool"}
    named["bool"] = same(ti.u1)

    @ti.kernel
    def python_types(i: int, x: float, b: bool) -> float:
        return i + x + b

    @ti.kernel
    def minus(a: ti.f32, b: ti.f32) -> ti.f32:
        return a - b

    @ti.kernel
    def add_base(x: ti.types.ndarray(), base: ti.f32):
        for i in range(x.shape[0]):
            x[i] += base

    @ti.kernel
    def add_one(x: ti.types.ndarray()):
        for index in ti.grouped(x):
            x[index] += 1

    @ti.kernel
    def add_one_if(x: ti.types.ndarray(), yes: ti.i32):
        for i in x:
            if yes:
                x[i] += 1

    @ti.kernel
    def copy(src: ti.types.ndarray(), dst: ti.types.ndarray()):
        for index in ti.grouped(src):
            dst[index] = src[index]

    @ti.kernel
    def total(x: ti.types.ndarray()) -> ti.f32:
        sum_ = 0.0
        for i in x:
            sum_ += x[i]
        return sum_

    @ti.kernel
    def f32_vector(x: ti.types.ndarray(ti.f32, ndim=1)):
        for i in x:
            x[i] = 0

    @ti.kernel
    def add_vec3(x: ti.types.ndarray(ti.math.vec3)):
        for index in ti.grouped(x):
            x[index] += 1

    @ti.kernel
    def python_element(x: ti.types.ndarray(dtype=float)):
        for i in x:
            x[i] = 1

    @ti.kernel
    def needs_grad(x: ti.types.ndarray(needs_grad=True)):
        for i in x:
            x[i] = 1

    @ti.kernel
    def square_sum(x: ti.types.ndarray(), y: ti.types.ndarray()):
        for i in x:
            y[None] += x[i] ** 2

    @ti.kernel
    def vec3_sum(v: ti.math.vec3) -> ti.f32:
        return v.sum()

    @ti.kernel
    def i8_sum(v: ti.types.vector(2, ti.i8)) -> ti.i32:
        return v[0] + v[1]

    @ti.kernel
    def u64_first(v: ti.types.vector(2, ti.u64)) -> ti.u64:
        return v[0]

    @ti.kernel
    def double_matrix(m: ti.math.mat2) -> ti.math.mat2:
        return m * 2

    sphere = ti.types.struct(centre=ti.math.vec3, radius=ti.f32)

    @ti.kernel
    def sphere_sum(s: sphere) -> ti.f32:
        return s.centre.sum() + s.radius

    @ti.kernel
    def fill_template(f: ti.template(), value: ti.template()):
        for i in f:
            f[i] = value

    @ti.kernel
    def tuple_sum(t: ti.template()) -> ti.i32:
        return t[0] + t[1]

    texture = None
    if hasattr(ti.types, "texture"):

        @ti.kernel
        def texture(t: ti.types.texture(2)):
            pass

    @ti.data_oriented
    class Scaler:
        def __init__(self, by: float) -> None:
            self.by = by

        @ti.kernel
        def scale(self, x: ti.types.ndarray(), by: ti.f32):
            for i in x:
                x[i] *= by * self.by

    names: dict[str, Any] = {"ti": ti}
    source = f"def too_many({', '.join(f'a{i}: ti.i32' for i in range(max_arguments + 1))}):\n    pass\n"
    exec(source, names)
    return Kernels(
        same=named,
        python_types=python_types,
        minus=minus,
        add_base=add_base,
        add_one=add_one,
        add_one_if=add_one_if,
        copy=copy,
        total=total,
        f32_vector=f32_vector,
        add_vec3=add_vec3,
        python_element=python_element,
        needs_grad=needs_grad,
        square_sum=square_sum,
        vec3_sum=vec3_sum,
        i8_sum=i8_sum,
        u64_first=u64_first,
        double_matrix=double_matrix,
        sphere=sphere,
        sphere_sum=sphere_sum,
        fill_template=fill_template,
        tuple_sum=tuple_sum,
        texture=texture,
        scaler=Scaler,
        too_many=ti.kernel(names["too_many"]),
    )
