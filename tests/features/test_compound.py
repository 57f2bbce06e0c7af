"""Values of several members: vectors, matrices, structs and packs, from whatever Python has for them."""

from __future__ import annotations

from array import array
from collections import OrderedDict, UserList, deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from features.refusals import refused
from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.errors import CompileError

VECTORS = """
big2 = ti.types.vector(2, ti.u64)

@ti.kernel
def half(v: tm.vec3) -> tm.vec3:
    return v / 2

@ti.kernel
def swap(v: big2) -> big2:
    return big2(v[1], v[0])

@ti.kernel
def small(v: ti.types.vector(2, ti.i8)) -> ti.i32:
    return v[0] * 1000 + v[1]
"""

MATRICES = """
mat23 = ti.types.matrix(2, 3, ti.f64)

@ti.kernel
def twice(m: mat23) -> mat23:
    return m * 2

@ti.kernel
def corner(m: ti.types.matrix(2, 2, ti.i32)) -> ti.i32:
    return m[0, 1] * 10 + m[1, 0]
"""

BALLS = """
Ball = ti.types.struct(centre=tm.vec3, radius=ti.f32, id=ti.i64)

@ti.kernel
def grow(b: Ball, by: ti.f32) -> Ball:
    return Ball(b.centre, b.radius * by, b.id + 1)

def one():
    return Ball(tm.vec3(1, 2, 3), 2.0, 7)
"""

NESTED = """
Mark = ti.types.struct(count=ti.u64, flag=ti.u1)
Inner = ti.types.struct(mark=Mark, basis=ti.types.matrix(2, 2, ti.f64), ends=ti.types.vector(2, ti.i8))
Outer = ti.types.struct(inner=Inner, weight=ti.f16, items=ti.i32)

@ti.kernel
def same(o: Outer) -> Outer:
    return o

@ti.kernel
def count(o: Outer) -> ti.u64:
    return o.inner.mark.count
"""

DATACLASS = """
@ti.dataclass
class Pair:
    a: ti.i32
    v: tm.vec2

    @ti.func
    def total(self):
        return self.a + self.v.x + self.v.y

@ti.kernel
def total(p: Pair) -> ti.f32:
    return p.total()

made = Pair(3, tm.vec2(1, 2))
"""

PACKS = """
Inner = ti.types.argpack(by=ti.i32, w=tm.vec2)
Ball = ti.types.struct(centre=tm.vec3, id=ti.i64)
Pack = ti.types.argpack(n=ti.f32, big=ti.u64, m=ti.math.mat2, ball=Ball, inner=Inner)

@ti.kernel
def weigh(p: Pack, by: ti.f32) -> ti.f32:
    return p.n * by + p.inner.by + p.inner.w.y + p.m[1, 0] + p.ball.centre.z

@ti.kernel
def big(p: Pack) -> ti.u64:
    return p.big + ti.cast(p.ball.id, ti.u64)
"""

PACKS_OF_ARRAYS = """
Inner = ti.types.argpack(y=ti.types.ndarray(), by=ti.i32)
Pack = ti.types.argpack(inner=Inner, n=ti.f32, x=ti.types.ndarray(dtype=ti.f32, ndim=1))

@ti.kernel
def step(p: Pack, by: ti.f32):
    for i in range(p.x.shape[0]):
        p.x[i] += p.n * by
        p.inner.y[i] += p.inner.by

def made():
    return Pack(n=1.0, x=ti.ndarray(ti.f32, 2), inner=Inner(y=ti.ndarray(ti.f64, 2), by=3))

def x_of(pack):
    return pack.x
"""


# ---------------------------------------------------------------- vectors and matrices


@feature("compound", "vectors")
def test_a_vector_is_anything_with_so_many_numbers(gpu: Session) -> None:
    """Lists, tuples, any other sequence, arrays of any dtype, `ti.Vector`: each exact in the vector's own type."""
    unit = gpu[gpu.compile_and_load(VECTORS).unit]
    given: Any
    for given in (
        *([2, 4, 6], (2.0, 4.0, 6.0), range(2, 7, 2), deque([2, 4, 6]), UserList([2, 4, 6]), array("d", [2, 4, 6])),
        *(np.array([2, 4, 6]), np.array([2, 4, 6], np.float32)[::1], "ti"),
    ):
        came = unit.half(gpu.ti.Vector([2.0, 4.0, 6.0]) if isinstance(given, str) else given)
        np.testing.assert_array_equal(came, [1, 2, 3])
        assert came.dtype == np.float32
    assert unit.half(unit.half([4, 8, 12])).tolist() == [1, 2, 3]
    assert unit.swap([2**64 - 1, 2**53 + 1]).tolist() == [2**53 + 1, 2**64 - 1]
    assert unit.small([-128, np.int8(127)]) == -128 * 1000 + 127


@feature("compound", "vectors", wrong=True)
def test_a_vector_of_another_length_or_type_is_refused(gpu: Session) -> None:
    """A fourth number is not dropped, a third not made up; each number has to fit."""
    unit = gpu[gpu.compile_and_load(VECTORS).unit]
    for wrong in (
        [1, 2],
        [1, 2, 3, 4],
        1.0,
        "abc",
        [1, 2, "3"],
        [1, 2, [3]],
        [1, 2, 1e40],
        {"x": 1},
        None,
        [[1, 2, 3]],
        range(4),
        deque([1, 2]),
        array("u", "abc"),
    ):
        assert "vector(3, f32)" in refused(unit.half, wrong, parameter="v")
    assert "at [1]" in refused(unit.small, [0, 128], parameter="v")
    assert "int()" in refused(unit.small, [0, 1.0], parameter="v")
    assert "u64 holds" in refused(unit.swap, [0, -1], parameter="v")


@feature("compound", "matrices")
def test_a_matrix_is_nested_numbers_or_a_2d_array(gpu: Session) -> None:
    """Row by row, whatever the layout in memory."""
    unit = gpu[gpu.compile_and_load(MATRICES).unit]
    table = np.arange(6.0).reshape(2, 3)
    for given in (table, np.asfortranarray(table), table.tolist(), tuple(map(tuple, table)), table.astype(np.int8)):
        np.testing.assert_array_equal(unit.twice(given), table * 2)
    assert unit.corner([[0, 1], [2, 0]]) == 12
    assert unit.corner(gpu.ti.Matrix([[0, 1], [2, 0]])) == 12


@feature("compound", "matrices", wrong=True)
def test_a_matrix_of_another_shape_is_refused(gpu: Session) -> None:
    """Transposed, flat, of rows of unlike length."""
    unit = gpu[gpu.compile_and_load(MATRICES).unit]
    for wrong in (
        np.zeros((3, 2)),
        np.zeros(6),
        [[1, 2, 3]],
        [[1, 2, 3], [4, 5]],
        [[1, 2, 3], 4],
        0,
        np.zeros((2, 3, 1)),
    ):
        assert "matrix(2, 3, f64)" in refused(unit.twice, wrong, parameter="m")
    assert "at [1][0]" in refused(unit.corner, [[1, 2], [2**31, 4]], parameter="m")


# ---------------------------------------------------------------- structs


@dataclass
class Ball:
    """The struct of `BALLS` as a laptop has it."""

    centre: Any
    radius: float
    id: int


class Attributes(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, **members: Any) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@feature("compound", "structs")
def test_a_struct_is_a_mapping_a_dataclass_or_its_values_in_order(gpu: Session) -> None:
    """Every way to say it gives the same struct, and what a kernel returns can be given to the next."""
    unit = gpu[gpu.compile_and_load(BALLS).unit]
    members: dict[str, Any] = {"centre": [1, 2, 3], "radius": 2.0, "id": 2**53}
    ways = (
        members,
        dict(reversed(members.items())),
        OrderedDict(members),
        Attributes(**members),
        Ball(np.array([1, 2, 3]), 2.0, 2**53),
        tuple(members.values()),
        namedtuple("Three", "centre radius id")(**members),
    )
    for given in ways:
        ball = unit.grow(given, by=1.5)
        assert (ball["radius"], ball["id"], ball["centre"].tolist()) == (3, 2**53 + 1, [1, 2, 3])
    assert unit.grow(ball, 1.0)["id"] == 2**53 + 2
    assert unit.grow(unit.one(), 2.0)["radius"] == 4


@feature("compound", "structs", wrong=True)
def test_a_struct_with_other_members_or_values_is_refused(gpu: Session) -> None:
    """What is missing, unknown or does not fit is named, with the way there."""
    unit = gpu[gpu.compile_and_load(BALLS).unit]
    good: dict[str, Any] = {"centre": [1, 2, 3], "radius": 2.0, "id": 1}
    assert "no id" in refused(unit.grow, {"centre": [1, 2, 3], "radius": 2.0}, 1.0, parameter="b")
    assert "unknown colour" in refused(unit.grow, {**good, "colour": 1}, 1.0, parameter="b")
    assert "at centre" in refused(unit.grow, {**good, "centre": [1, 2]}, 1.0, parameter="b")
    assert "at radius" in refused(unit.grow, {**good, "radius": 1e39}, 1.0, parameter="b")
    assert "at id" in refused(unit.grow, {**good, "id": 1.5}, 1.0, parameter="b")
    for wrong in (3, None, "ball", [1, 2], np.zeros(3)):
        refused(unit.grow, wrong, 1.0, parameter="b")


@feature("compound", "nested structs")
def test_structs_in_structs_are_exact_to_the_last_member(gpu: Session) -> None:
    """u64 above 2**53, i8 at its ends, f16, a matrix of f64, bool: there and back."""
    unit = gpu[gpu.compile_and_load(NESTED).unit]
    inner = {
        "mark": {"count": 2**64 - 1, "flag": True},
        "basis": [[1, 2], [3, 4.5]],
        "ends": [-128, 127],
    }
    came = unit.same({"inner": inner, "weight": 0.5, "items": -7})
    for result in (came, unit.same(came)):
        assert result["inner"]["mark"] == {"count": 2**64 - 1, "flag": True}
        assert result["inner"]["basis"].tolist() == [[1, 2], [3, 4.5]]
        assert result["inner"]["ends"].tolist() == [-128, 127]
        assert (result["weight"], result["items"]) == (0.5, -7)
    assert unit.count(came) == 2**64 - 1


@feature("compound", "nested structs", wrong=True)
def test_a_wrong_value_deep_inside_is_named_with_its_path(gpu: Session) -> None:
    """The parameter, and the members that lead to it."""
    unit = gpu[gpu.compile_and_load(NESTED).unit]

    def outer(**mark: Any) -> dict[str, Any]:
        inner = {"mark": mark, "basis": [[1, 2], [3, 4]], "ends": [0, 0]}
        return {"inner": inner, "weight": 0.5, "items": 1}

    assert "at inner.mark.count" in refused(unit.count, outer(count=-1, flag=True), parameter="o")
    assert "at inner.mark.flag" in refused(unit.count, outer(count=1, flag=2), parameter="o")
    assert "no flag" in refused(unit.count, outer(count=1), parameter="o")
    assert "at inner" in refused(unit.count, {**outer(count=1, flag=True), "inner": 3}, parameter="o")


@feature("compound", "`ti.dataclass`")
def test_a_dataclass_of_the_runtime_keeps_its_methods(gpu: Session) -> None:
    """It is taken as a struct is, its functions work on it, and one in the source is a dict here."""
    unit = gpu[gpu.compile_and_load(DATACLASS).unit]
    assert unit.total({"a": 1, "v": (2, 3)}) == 6
    assert unit.total((1, [2, 3])) == 6
    assert unit.made["a"] == 3
    assert unit.total(unit.made) == 6


@feature("compound", "`ti.dataclass`", wrong=True)
def test_a_dataclass_of_the_runtime_takes_what_its_members_take(gpu: Session) -> None:
    """Exactly its members, each of its type."""
    unit = gpu[gpu.compile_and_load(DATACLASS).unit]
    for wrong in ({"a": 1}, {"a": 1.5, "v": (2, 3)}, {"a": 2**40, "v": (0, 0)}, {"a": 1, "v": (2, 3), "c": 3}, 3, None):
        assert "struct(a: i32, v: vector(2, f32))" in refused(unit.total, wrong, parameter="p")


# ---------------------------------------------------------------- packs


def pack(**other: Any) -> dict[str, Any]:
    """A right value for `PACKS`, or with other members."""
    inner = {"by": 3, "w": [0, 4]}
    ball = {"centre": [0, 0, 6], "id": 1}
    return {"n": 2.0, "big": 2**64 - 2, "m": [[0, 0], [5, 0]], "ball": ball, "inner": inner, **other}


@feature("compound", "ArgPack")
def test_an_argpack_is_a_dict_or_a_dataclass(gpu: Session) -> None:
    """With numbers, vectors, matrices, structs and another pack inside."""

    @dataclass
    class Inner:
        by: int
        w: tuple[float, float]

    unit = gpu[gpu.compile_and_load(PACKS).unit]
    assert unit.weigh(pack(), 1.5) == 3 + 3 + 4 + 5 + 6
    assert unit.weigh(by=1.5, p=pack(inner=Inner(4, (0, 4)))) == 3 + 4 + 4 + 5 + 6
    assert unit.big(pack()) == 2**64 - 1


@feature("compound", "ArgPack", wrong=True)
def test_a_wrong_member_of_an_argpack_is_refused(gpu: Session) -> None:
    """By the parameter's name and the path."""
    unit = gpu[gpu.compile_and_load(PACKS).unit]
    for path, wrong in {
        "n": pack(n="2"),
        "big": pack(big=-1),
        "m": pack(m=[1, 2]),
        "ball.centre": pack(ball={"centre": [1], "id": 1}),
        "inner": pack(inner=3),
        "inner.by": pack(inner={"by": 1.5, "w": [0, 0]}),
    }.items():
        assert f"at {path}" in refused(unit.weigh, wrong, 1.0, parameter="p")
    assert "no big" in refused(unit.weigh, {"n": 1.0}, 1.0, parameter="p")
    assert "unknown k" in refused(unit.weigh, pack(k=1), 1.0, parameter="p")
    for value in (3, None, "pack", gpu.ti.ndarray(gpu.ti.f32, 3)):
        refused(unit.weigh, value, 1.0, parameter="p")


@feature("compound", "ArgPack of arrays")
def test_arrays_in_an_argpack_are_written_back(gpu: Session, arch: str) -> None:
    """NumPy arrays of any layout, remote ones, and a pack that was made there."""
    unit = gpu[gpu.compile_and_load(PACKS_OF_ARRAYS).unit]
    x = np.zeros((3, 2), np.float32)[:, 1]
    y = np.zeros(3, ">f8")
    unit.step({"n": 2.0, "x": x, "inner": {"y": y, "by": 3}}, 2.0)
    assert (x.tolist(), y.tolist()) == ([4, 4, 4], [3, 3, 3])
    remote = gpu.array(np.zeros(3, np.float32))
    future = unit.step.submit(by=1.0, p={"n": 2.0, "x": remote, "inner": {"y": y, "by": 3}})
    future.result()
    assert (remote.to_numpy().tolist(), y.tolist()) == ([2, 2, 2], [6, 6, 6])
    if arch == "cpu":  # to a GPU each argument is copied for itself, and back
        both = np.zeros(2, np.float32)
        unit.step({"n": 1.0, "x": both, "inner": {"y": both, "by": 3}}, 1.0)
        assert both.tolist() == [4, 4]
    made = unit.made()
    unit.step(made, 5.0)
    assert unit.x_of(made).to_numpy().tolist() == [5, 5]


@feature("compound", "ArgPack of arrays", wrong=True)
def test_an_array_in_an_argpack_is_checked_as_one_outside(gpu: Session) -> None:
    """Its dtype, its axes, what it is; and a read-only one is not written."""
    unit = gpu[gpu.compile_and_load(PACKS_OF_ARRAYS).unit]
    good = np.zeros(3, np.float32)

    def pack(x: Any, y: Any = good) -> dict[str, Any]:
        return {"n": 1.0, "x": x, "inner": {"y": y, "by": 1}}

    for wrong in (np.zeros(3), np.zeros((3, 3), np.float32), [1, 2], gpu.ti.field(gpu.ti.f32, 3), 1.0):
        assert "at x" in refused(unit.step, pack(wrong), 1.0, parameter="p")
    assert "at inner.y" in refused(unit.step, pack(good, "y"), 1.0, parameter="p")
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    assert "'p.x' was written" in refused(unit.step, pack(frozen, good.copy()), 1.0, parameter="p")
    assert good.tolist() == [0, 0, 0]


MIXED_UP = """
Inner = ti.types.argpack(y=ti.types.ndarray())
Outer = ti.types.argpack(x=ti.types.ndarray(), inner=Inner)

@ti.kernel
def outer(p: Outer):
    p.x[0] = p.inner.y[0]

@ti.kernel
def twice(p: Inner, q: Inner):
    p.y[0] = q.y[0]
"""


@feature("compound", "ArgPack of arrays", wrong=True)
def test_argpacks_whose_arrays_taichi_mixes_up_are_refused(gpu: Session) -> None:
    """An array before a pack that holds another would be taken for it, and two of one name for one: told, not run."""
    unit = gpu[gpu.compile_and_load(MIXED_UP).unit]
    x, y = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert "inside first" in refused(unit.outer, {"x": x, "inner": {"y": y}}, parameter=None)
    assert "'y'" in refused(unit.twice, {"y": x}, {"y": y}, parameter=None)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=feature("compound", name, lacking=True)) for name in ("ArgPack", "ArgPack of arrays")],
)
def test_argpacks_do_not_load_where_there_are_none(gpu: Session, name: str) -> None:
    """The error says what is missing, and in which line."""
    source = PACKS if name == "ArgPack" else PACKS_OF_ARRAYS
    with pytest.raises(CompileError, match="argpack") as caught:
        gpu.compile_and_load(source, "packs")
    assert caught.value.frames[-1].line == 2


# ---------------------------------------------------------------- Python dataclasses

DATACLASSES = """
import dataclasses

@dataclasses.dataclass
class State:
    x: ti.types.ndarray(dtype=ti.f32, ndim=1)
    y: ti.types.ndarray()
    by: ti.f32 = 2.0

@dataclasses.dataclass(frozen=True)
class Pair:
    to: ti.types.ndarray()
    of: ti.types.ndarray()

@ti.func
def move(s: State, i: ti.i32, n: ti.f32):
    s.x[i] += s.by * n

@ti.kernel
def step(s: State, n: ti.f32):
    for i in range(s.x.shape[0]):
        move(s, i, n)
        s.y[i] += 1

@ti.kernel
def add(p: Pair):
    for i in range(p.to.shape[0]):
        p.to[i] += p.of[i]

@ti.kernel
def first(p: Pair, really: ti.i32):
    p.to[0] = 7
    if really:
        p.of[None] = 7

def made():
    return State(ti.ndarray(ti.f32, 2), ti.ndarray(ti.i32, 2))

def x_of(state):
    return state.x
"""

NESTED_DATACLASSES = """
import dataclasses

@dataclasses.dataclass
class Inner:
    y: ti.types.ndarray()
    by: ti.i32

@dataclasses.dataclass
class Outer:
    x: ti.types.ndarray(dtype=ti.f32, ndim=1)
    inner: Inner
    field: ti.template()

@ti.kernel
def step(o: Outer):
    for i in range(o.x.shape[0]):
        o.x[i] += 1
        o.inner.y[i] += o.inner.by
        o.field[i] += 5
"""


@dataclass
class State:
    """The dataclass of `DATACLASSES` as a laptop has it."""

    x: Any
    y: Any
    by: float = 3.0


@feature("compound", "dataclasses of arrays")
def test_a_dataclass_comes_from_a_dict_or_an_instance(gpu: Session) -> None:
    """With NumPy and remote arrays, whatever was written in them; defaults hold, and what was made there is taken."""
    unit = gpu[gpu.compile_and_load(DATACLASSES).unit]
    x, y = np.zeros((3, 2), np.float32)[:, 1], np.zeros(3, ">i4")
    unit.step({"x": x, "y": y}, 2.0)
    assert (x.tolist(), y.tolist()) == ([4, 4, 4], [1, 1, 1])
    remote = gpu.array(np.zeros(3, np.float32))
    unit.step(n=2.0, s=State(remote, y))
    assert (remote.to_numpy().tolist(), y.tolist()) == ([6, 6, 6], [2, 2, 2])
    unit.step((x, y, 0.5), 2.0)
    assert x.tolist() == [5, 5, 5]
    made = unit.made()
    unit.step(made, 1.0)
    assert unit.x_of(made).to_numpy().tolist() == [2, 2]
    # Still taken when the class is another after a reload.
    gpu.compile_and_load(DATACLASSES.replace("s.y[i] += 1", "s.y[i] += 2"), unit._unit)
    unit.step(made, 1.0)
    assert unit.x_of(made).to_numpy().tolist() == [4, 4]


@feature("compound", "dataclasses of arrays")
def test_arrays_in_a_dataclass_keep_what_a_kernel_leaves_alone(gpu: Session) -> None:
    """On graphics backends too; of an array without axes that is all where the kernel comes not to write it."""
    unit = gpu[gpu.compile_and_load(DATACLASSES).unit]
    for really in (0, 1):
        to, of = np.arange(4, dtype=np.float32), np.array(5, np.int32)
        unit.first({"to": to, "of": of}, really)
        assert (to.tolist(), of.item()) == ([7, 1, 2, 3], 7 if really else 5)


@feature("compound", "dataclasses of arrays")
def test_frozen_dataclasses_are_never_taken_for_one_another(gpu: Session) -> None:
    """Each call is launched with its own arrays, also where a runtime remembers launches by addresses."""
    unit = gpu[gpu.compile_and_load(DATACLASSES).unit]
    arrays = [gpu.array(np.full(1, number, np.float64)) for number in range(4)]
    expected = [0.0, 1.0, 2.0, 3.0]
    for number in range(40):
        to, of = number % 4, (number * 7 + 3) % 4
        if to != of:
            unit.add({"to": arrays[to], "of": arrays[of]})
            expected[to] += expected[of]
    assert [array.to_numpy()[0] for array in arrays] == expected


@feature("compound", "dataclasses of arrays", wrong=True)
def test_a_wrong_member_of_a_dataclass_is_refused(gpu: Session) -> None:
    """By the parameter's name and the member's."""
    unit = gpu[gpu.compile_and_load(DATACLASSES).unit]
    good = np.zeros(3, np.float32)
    for wrong in (np.zeros(3), np.zeros((3, 1), np.float32), [1.0], gpu.ti.field(gpu.ti.f32, 3), 1.0, None):
        assert "at x" in refused(unit.step, {"x": wrong, "y": good}, 1.0, parameter="s")
    assert "at by" in refused(unit.step, State(good, good, 1e39), 1.0, parameter="s")
    assert "no y" in refused(unit.step, {"x": good}, 1.0, parameter="s")
    assert "unknown z" in refused(unit.step, {"x": good, "y": good, "z": 1}, 1.0, parameter="s")
    for wrong in (3, None, "state", good):
        refused(unit.step, wrong, 1.0, parameter="s")


@feature("compound", "nested dataclasses")
def test_dataclasses_in_dataclasses(gpu: Session) -> None:
    """With arrays, numbers and a field as a template inside."""
    unit = gpu[gpu.compile_and_load(NESTED_DATACLASSES).unit]
    x, y = np.zeros(3, np.float32), np.zeros(3)
    field = gpu.ti.field(gpu.ti.f32, 3)
    for by in (1, 3):
        unit.step({"x": x, "inner": {"y": y, "by": by}, "field": field})
    assert (x.tolist(), y.tolist(), field.to_numpy().tolist()) == ([2] * 3, [4] * 3, [10] * 3)


@feature("compound", "nested dataclasses", wrong=True)
def test_a_wrong_member_of_a_nested_dataclass_is_refused(gpu: Session) -> None:
    """With the whole path."""
    unit = gpu[gpu.compile_and_load(NESTED_DATACLASSES).unit]
    x = np.zeros(3, np.float32)
    field = gpu.ti.field(gpu.ti.f32, 3)
    inner: Any
    for path, inner in {"inner.by": {"y": x, "by": 1.5}, "inner.y": {"y": 1, "by": 1}, "inner": 3}.items():
        assert f"at {path}" in refused(unit.step, {"x": x, "inner": inner, "field": field}, parameter="o")
    assert "at field" in refused(unit.step, {"x": x, "inner": {"y": x, "by": 1}, "field": {}}, parameter="o")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=feature("compound", name, lacking=True))
        for name in ("dataclasses of arrays", "nested dataclasses")
    ],
)
def test_dataclasses_do_not_load_where_kernels_do_not_take_them(gpu: Session, name: str) -> None:
    """The decorator's line, and which parameter it is."""
    source = DATACLASSES if name == "dataclasses of arrays" else NESTED_DATACLASSES
    with pytest.raises(CompileError, match=r"Invalid type annotation \(argument 0\)"):
        gpu.compile_and_load(source, "dataclasses")
