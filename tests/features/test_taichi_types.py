"""What Taichi's own tests of types and casts find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from features.cases import Call, placed, same, shared
from tiremote.client import RemoteUnit, Session

FIELDS, F16 = "templates: fields by handle", "scalars: f16"
BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}

SOURCE = """
@ti.kernel
def operate(x: ti.template(), y: ti.template(), total: ti.template(), product: ti.template()):
    for i in x:
        total[i] = x[i] + y[i]
        product[i] = x[i] * y[i]

@ti.kernel
def at(x: ti.template(), i: ti.i32, j: ti.i32):
    x[i, j] = 3

@ti.kernel
def put(x: ti.template()):
    for i in ti.static([0, 2, 5, 11]):
        x[i] = 1

@ti.kernel
def copy(x: ti.template(), y: ti.template()):
    for i in x:
        y[i] = x[i]

@ti.kernel
def put_array(x: ti.types.ndarray()):
    for i in ti.static([0, 2, 5, 11]):
        x[i] = 1

@ti.kernel
def copy_array(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = x[i]

@ti.kernel
def quotient_f32() -> ti.i32:
    return ti.cast(1e9, ti.f32) / ti.cast(1e6, ti.f32) + 1e-3

@ti.kernel
def quotient_f64() -> ti.i32:
    return ti.cast(1e13, ti.f64) / ti.cast(1e10, ti.f64) + 1e-3

@ti.kernel
def within_while() -> ti.i32:
    t = 10
    while t > 5:
        t = 1.0
        break
    return t

@ti.kernel
def as_real(x: ti.template(), y: ti.template()):
    y[None] = ti.bit_cast(x[None], ti.f32)

@ti.kernel
def as_integer(x: ti.template(), y: ti.template()):
    y[None] = ti.bit_cast(x[None], ti.i32)

@ti.kernel
def widened(a: ti.i8, b: ti.u8) -> ti.types.vector(2, ti.i32):
    return ti.Vector([ti.cast(a, ti.i32), ti.cast(b, ti.i32)])

@ti.kernel
def unsigned(a: ti.i8) -> ti.u32:
    return ti.cast(a, ti.u32)

@ti.kernel
def real_of(x: int, y: int) -> float:
    return ti.cast(x, float) * float(y)

@ti.kernel
def integer_of(x: float, y: float) -> int:
    return ti.cast(x, int) * int(y)

@ti.kernel
def half_doubled(x: ti.template()):
    for i in x:
        x[i] = i * 2

@ti.kernel
def half_tripled(x: ti.template()):
    for i in x:
        x[i] = 3 * i

@ti.kernel
def half_product(x: ti.template(), y: ti.template(), z: ti.template()):
    x[None] = y[None] + z[None]
    x[None] = x[None] * z[None]

@ti.kernel
def half_unary(x: ti.template(), y: ti.template()):
    x[None] = -y[None]
    x[None] = ti.floor(x[None])
    y[None] = ti.ceil(y[None])

@ti.kernel
def half_absolute(x: ti.template(), y: ti.template()):
    x[None] = ti.abs(y[None])

@ti.kernel
def half_angle(x: ti.template(), y: ti.template(), z: ti.template()):
    y[None] = x[None] ** 2
    z[None] = ti.atan2(y[None], 0.3)

@ti.kernel
def half_random(x: ti.template()):
    for i in x:
        x[i] = ti.random(dtype=ti.f16)
""" + "".join(
    f"""
@ti.kernel
def given_{dtype}(x: ti.template(), value: ti.{dtype}):
    x[None] = value
"""
    for dtype in (*BITS, "f32", "f64")
)


def given(dtype: str) -> Call:
    def act(unit: Any, gpu: Session) -> Any:
        x = placed(gpu, dtype, 0)
        unit[f"given_{dtype}"](x, 3)
        return x[None]

    return act


def operated(dtype: str) -> Call:
    """Of the pairs of 0, 1 and 2, and of a third of the type's range with itself."""

    def act(unit: Any, gpu: Session) -> list[list[Any]]:
        third = 2 ** BITS[dtype] // 3 if dtype in BITS else 0
        x, y = placed(gpu, dtype, 0, 0, 0, 1, 1, 1, 2, 2, 2, third), placed(gpu, dtype, *[0, 1, 2] * 3, third)
        total, product = (gpu.ti.field(dtype, 10) for _ in range(2))
        unit.operate(x, y, total, product)
        return [total.to_numpy().tolist(), product.to_numpy().tolist()[:9]]

    return act


def of_pairs(dtype: str) -> list[list[Any]]:
    third = 2 ** BITS[dtype] // 3 if dtype in BITS else 0
    twice = third * 2 - (2 ** BITS[dtype] if dtype in BITS and dtype[0] == "i" else 0)
    pairs = [(i, j) for i in range(3) for j in range(3)]
    return [[*(i + j for i, j in pairs), twice], [i * j for i, j in pairs]]


def indexed(dtype: str) -> Call:
    def act(unit: Any, gpu: Session) -> Any:
        x = gpu.ti.field(dtype, (3, 2))
        for i in range(3):
            for j in range(2):
                unit.at(x, i, j)
        return x.to_numpy().astype(int)

    return act


ONES = [1 if i in (0, 2, 5, 11) else 0 for i in range(16)]


def consistent(make: str, dtype: str) -> Call:
    """Ones put down by a kernel, by NumPy and by element, each read back by NumPy, by element and by a kernel."""

    def act(unit: Any, gpu: Session) -> list[list[int]]:
        suffix = "_array" if make == "ndarray" else ""
        by_kernel, by_numpy, by_element, whole = (
            getattr(gpu.ti, make)(kind, 16) for kind in (dtype, dtype, dtype, "i32")
        )
        unit["put" + suffix](by_kernel)
        by_numpy.from_numpy(np.array(ONES, by_numpy.dtype))
        for i in (0, 2, 5, 11):
            by_element[i] = 1
        unit["copy" + suffix](by_numpy, whole)
        found = [each.to_numpy().astype(int).tolist() for each in (by_kernel, by_numpy, by_element, whole)]
        by_kernel.fill(0)
        unit["copy" + suffix](whole, by_kernel)
        return [*found, by_kernel.to_numpy().astype(int).tolist(), [int(by_numpy[i]) for i in (0, 1, 11, 15)]]

    return act


def of_numpy(dtype: str) -> Call:
    """An array of the laptop: read by a kernel, and written by one."""

    def act(unit: Any, _: Session) -> list[Any]:
        kind = np.bool_ if dtype == "u1" else np.dtype(dtype.replace("i", "int").replace("u", "uint"))
        read, written, copied = np.array(ONES, kind), np.zeros(16, kind), np.zeros(16, np.int32)
        unit.put_array(written)
        unit.copy_array(read, copied)
        return [written.astype(int).tolist(), copied.tolist()]

    return act


def filled(kernel: str, dtype: str, *values: float, which: int = 0) -> Call:
    """What a kernel leaves in 0-d fields that hold these."""

    def act(unit: Any, gpu: Session) -> float:
        fields = [placed(gpu, dtype, value) for value in values]
        unit[kernel](*fields)
        return float(fields[which][None])

    return act


def cast_there_and_back(unit: Any, gpu: Session) -> int:
    x, y = placed(gpu, "i32", 2333), placed(gpu, "f32", 0)
    unit.as_real(x, y)
    x[None] = 0
    unit.as_integer(y, x)
    return int(x[None])


def near(value: float, call: Call) -> Call:
    """Whether a call gives this as nearly as 16 bits hold it."""
    return lambda unit, gpu: bool(np.isclose(call(unit, gpu), value, rtol=1e-3, atol=0))


def halves(kernel: str | None, *values: float) -> Call:
    def act(unit: Any, gpu: Session) -> Any:
        x = placed(gpu, "f16", *values)
        if kernel is not None:
            unit[kernel](x)
        return x.to_numpy()

    return act


def random_halves(unit: Any, gpu: Session) -> bool:
    x = gpu.ti.field("f16", 16)
    unit.half_random(x)
    found = x.to_numpy()
    return found.dtype == np.float16 and bool(((found >= 0) & (found <= 1)).all()) and len(set(found.tolist())) > 1


#: Whole arrays, and elements 0, 1, 11 and 15 of one.
FROM_EACH_SIDE = [*[ONES] * 5, [1, 0, 1, 0]]

CASES = [
    *(shared(f"test_types: {dtype} by argument", FIELDS, given(dtype), 3) for dtype in (*BITS, "f32", "f64")),
    *(
        shared(f"test_types: {dtype}, sums, products and overflow", FIELDS, operated(dtype), of_pairs(dtype))
        for dtype in (*BITS, "f32", "f64")
    ),
    *(
        shared(f"test_types: {dtype} in two axes", FIELDS, indexed(dtype), [[3, 3]] * 3)
        for dtype in ("i8", "u64", "f32", "f64")
    ),
    *(
        shared(f"test_types: {dtype}, a {make} from each side", row, consistent(make, dtype), FROM_EACH_SIDE)
        for make, row, dtypes in (
            ("field", FIELDS, ("u1", "u8", "i16", "u32", "i64")),
            ("ndarray", "ndarrays: `ti.ndarray`", ("u1", *BITS)),
        )
        for dtype in dtypes
    ),
    *(
        shared(f"test_types: {dtype}, a NumPy array", "ndarrays: every dtype", of_numpy(dtype), [ONES, ONES])
        for dtype in ("u1", *BITS)
    ),
    shared("test_cast: f32", "returns: signed integers", lambda u, _: u.quotient_f32(), 1000),
    shared("test_cast: f64", "returns: signed integers", lambda u, _: u.quotient_f64(), 1000),
    shared("test_cast: within while", "returns: signed integers", lambda u, _: u.within_while(), 1),
    shared("test_cast: bits there and back", "scalars: f32", cast_there_and_back, 2333),
    shared("test_cast: narrow integers are widened", "scalars: i8", lambda u, _: u.widened(-128, 128), [-128, 128]),
    shared("test_cast: a narrow integer without its sign", "scalars: i8",
         lambda u, _: [u.unsigned(-128), u.unsigned(127)], [0xFFFFFF80, 127]),
    shared("test_cast: int and float", "returns: reals",
         lambda u, _: [u.real_of(23, 4), float(u.integer_of(23.3, 4.6))], [92.0, 92.0]),
    shared("test_f16: an element", F16, lambda _, gpu: float(placed(gpu, "f16", 0.3)[None]), float(np.float16(0.3))),
    shared("test_f16: fetched", F16, halves("half_doubled", *[0] * 16), np.arange(16.0) * 2),
    shared("test_f16: stored", F16, halves(None, *range(16)), np.arange(16.0)),
    shared("test_f16: stored, changed and fetched", F16, halves("half_tripled", *range(16)), np.arange(16.0) * 3),
    shared("test_f16: a sum and a product", F16, near(0.6624, filled("half_product", "f16", 0.0, 0.2, 0.72)), True),
    shared("test_f16: floor", F16, filled("half_unary", "f16", 0.0, -1.4), 1.0),
    shared("test_f16: ceil", F16, filled("half_unary", "f16", 0.0, -1.4, which=1), -1.0),
    shared("test_f16: absolute", F16, near(0.3, filled("half_absolute", "f16", 0.0, -0.3)), True),
    shared("test_f16: a power and an angle", F16,
         near(math.atan2(0.01, 0.3), filled("half_angle", "f16", 0.1, 0.0, 0.0, which=2)), True),
    shared("test_f16: random numbers", F16, random_halves, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def unit(one_session: Session) -> RemoteUnit:
    """The one source of this file; its cases make fields of their own."""
    return one_session[one_session.compile_and_load(SOURCE, "types").unit]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_types_as_in_taichis_suite(one_session: Session, unit: RemoteUnit, call: Call, expected: Any) -> None:
    """Each gives remotely what it gives there."""
    same(call(unit, one_session), expected)
