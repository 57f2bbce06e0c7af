"""State stays: what a reload keeps, what it makes anew, and what its receipt says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime

SIMULATION = """
N = 4
DT = 1.0
pos = ti.field(ti.f32, N)
vel = ti.Vector.field(2, ti.f32, N)

@ti.func
def rate(i):
    return i * DT

@ti.kernel
def step() -> ti.f32:
    for i in pos:
        pos[i] += rate(i)
        vel[i] += 1
    return pos[N - 1]
"""


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    loader = KernelLoader(runtime)
    yield loader
    loader.cleanup_all()


def statuses(receipt: Any) -> dict[str, str]:
    return {
        each.name if each.unit == receipt.unit else f"{each.unit}.{each.name}": each.status for each in receipt.changes
    }


def reasons(receipt: Any) -> dict[str, tuple[str, ...]]:
    return {each.name: each.because for each in receipt.changes if each.because}


# Fields -------------------------------------------------------------------------------------------------------


def test_a_running_simulation_goes_on_with_a_new_constant(loader: KernelLoader) -> None:
    """The field keeps its contents, the kernel uses the new DT, and the receipt says why it was rebuilt."""
    loader.compile_and_load(SIMULATION, "sim")
    assert loader["sim"].step() == 3
    receipt = loader.compile_and_load(SIMULATION.replace("DT = 1.0", "DT = 10.0"), "sim")
    assert loader["sim"].step() == 33
    assert loader["sim"].vel.to_numpy().tolist() == [[2, 2]] * 4
    assert (receipt.previous, receipt.version) == (1, 2)
    assert (receipt.kept, receipt.reset) == (("pos", "vel"), ())
    assert statuses(receipt) == {"rate": "rebuilt", "step": "rebuilt"}
    assert reasons(receipt) == {"rate": ("DT",), "step": ("DT",)}
    assert (receipt.lines_added, receipt.lines_removed) == (1, 1)
    assert receipt.memory is not None
    assert receipt.memory > 10_000_000
    assert all(each.seconds > 0 for each in receipt.changes if each.name == "step")


def test_keep_false_starts_clean(loader: KernelLoader) -> None:
    """Everything is new, also where the text is the same."""
    loader.compile_and_load(SIMULATION, "sim")
    loader["sim"].step()
    receipt = loader.compile_and_load(SIMULATION, "sim", keep=False)
    assert not receipt.unchanged
    assert receipt.kept == ()
    assert loader["sim"].step() == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ti.field(ti.f32, 4)", "ti.field(ti.f64, 4)"),
        ("ti.field(ti.f32, 4)", "ti.field(ti.f32, 5)"),
        ("ti.field(ti.f32, 4)", "ti.field(ti.f32, (4, 1))"),
        ("ti.field(ti.f32, 4)", "ti.field(ti.f32, 4, needs_grad=True)"),
        ("ti.field(ti.f32, 4)", "ti.field(ti.f32, 4, offset=2)"),
        ("ti.field(ti.f32, 4)", "ti.ndarray(ti.f32, 4)"),
        ("ti.ndarray(ti.f32, 4)", "ti.ndarray(ti.f32, 5)"),
        ("ti.ndarray(ti.f32, 4)", "ti.ndarray(ti.i32, 4)"),
        ("ti.ndarray(ti.f32, 4)", "ti.ndarray(ti.f32, 4, needs_grad=True)"),
        ("ti.Vector.ndarray(2, ti.f32, 4)", "ti.Vector.ndarray(3, ti.f32, 4)"),
        ("ti.Vector.field(2, ti.f32, 4)", "ti.Vector.field(3, ti.f32, 4)"),
        ("ti.Vector.field(2, ti.f32, 4)", "ti.Matrix.field(2, 1, ti.f32, 4)"),
        ("ti.Struct.field(dict(a=ti.f32), shape=4)", "ti.Struct.field(dict(a=ti.f32, b=ti.f32), shape=4)"),
        ("ti.Struct.field(dict(a=ti.f32), shape=4)", "ti.Struct.field(dict(a=ti.i32), shape=4)"),
        ("ti.field(ti.f32, 4)", "4"),
    ],
)
def test_another_declaration_is_new(loader: KernelLoader, before: str, after: str) -> None:
    """dtype, shape, axes, needs_grad, offset, kind, element or members: the field next to it stays all the same."""
    text = "x = {}\ny = ti.field(ti.i32, 3)\n@ti.kernel\ndef f() -> ti.i32:\n    y[1] += 1\n    return y[1]\n"
    loader.compile_and_load(text.format(before), "u")
    loader["u"].f()
    receipt = loader.compile_and_load(text.format(after), "u")
    assert (receipt.kept, receipt.reset) == (("y",), ("x",))
    assert loader["u"].f() == 2


@pytest.mark.parametrize(
    "declared",
    [
        "ti.field(ti.i32, 4)",
        "ti.field(ti.i32, ())",
        "ti.field(ti.f32, 4, needs_grad=True)",
        "ti.field(ti.f32, 4, offset=3)",
        "ti.Vector.field(3, ti.f32, (2, 3))",
        "ti.Matrix.field(2, 2, ti.f64, 3)",
        "ti.Struct.field(dict(a=ti.f32, b=ti.math.vec3), shape=4)",
        "ti.types.struct(a=ti.f32, b=ti.types.struct(c=ti.i32)).field(shape=4)",
        "ti.Struct.field(dict(a=ti.f32), shape=4, layout=ti.Layout.SOA, needs_grad=True)",
        "ti.ndarray(ti.f32, 4)",
        "ti.ndarray(ti.f32, 4, needs_grad=True)",
        "ti.Vector.ndarray(3, ti.f32, 4)",
        "ti.Matrix.ndarray(2, 2, ti.f32, 4)",
    ],
)
def test_the_same_declaration_is_the_same_object(loader: KernelLoader, declared: str) -> None:
    """Of every kind, through two reloads; a handle taken before is the same thing still."""
    text = "x = {}\nN = {}\n@ti.kernel\ndef f() -> ti.i32:\n    return N\n"
    loader.compile_and_load(text.format(declared, 1), "u")
    before = loader["u"].x
    for n in (2, 3):
        receipt = loader.compile_and_load(text.format(declared, n), "u")
        assert receipt.kept == ("x",)
        assert loader["u"].x is before
        assert loader["u"].f() == n


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x, y = ti.field(ti.i32), ti.field(ti.i32)\nti.root.dense(ti.i, 4).place(x, y)\n", True),
        (
            "x, y = ti.field(ti.i32), ti.field(ti.i32)\nfor each in (x, y):\n    ti.root.dense(ti.i, 4).place(each)\n",
            False,
        ),
        ("x, y, z = [ti.field(ti.i32) for _ in range(3)]\nti.root.dense(ti.i, 4).place(x, y, z)\n", True),
        ("x, y = ti.field(ti.i32), ti.field(ti.i32)\nti.root.dense(ti.i, 2).dense(ti.i, 2).place(x, y)\n", False),
        ("x, y = ti.field(ti.i32), ti.field(ti.i32)\nti.root.pointer(ti.i, 4).place(x, y)\n", False),
    ],
    ids=["same", "apart", "one more", "two levels", "sparse"],
)  # fmt: skip
def test_the_layout_counts(loader: KernelLoader, runtime: TaichiRuntime, text: str, kept: bool) -> None:
    """Fields that shared a cell and do not any more are new; one more field in the cell takes nothing away."""
    first = "x, y = ti.field(ti.i32), ti.field(ti.i32)\nti.root.dense(ti.i, 4).place(x, y)\n"
    kernel = "@ti.kernel\ndef f(n: ti.i32) -> ti.i32:\n    x[1] += n\n    y[1] += n\n    return x[1] + y[1]\n"
    if "pointer" in text and runtime.arch() not in ("cpu", "cuda"):
        pytest.skip("no sparse fields here")
    loader.compile_and_load(first + kernel, "u")
    assert loader["u"].f(1) == 2
    receipt = loader.compile_and_load(text + kernel + "N = 1\n", "u")
    assert set(receipt.kept if kept else receipt.reset) == {"x", "y"}
    assert loader["u"].f(1) == (4 if kept else 2)


def test_sparse_fields_and_their_blocks(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A pointer field keeps what is active, and the block's name stands for the block of the kept field."""
    if runtime.arch() not in ("cpu", "cuda"):
        pytest.skip("no sparse fields here")
    text = """
N = 1
x, y = ti.field(ti.i32), ti.field(ti.i32)
block = ti.root.pointer(ti.i, 4)
block.dense(ti.i, 4).place(x, y)
@ti.kernel
def write(i: ti.i32):
    x[i] = N
@ti.kernel
def count() -> ti.i32:
    n = 0
    for i in x:
        n += 1
    return n
@ti.kernel
def clear():
    for i in block:
        ti.deactivate(block, [i])
"""
    loader.compile_and_load(text, "u")
    loader["u"].write(5)
    loader.compile_and_load(text.replace("N = 1", "N = 2"), "u")
    assert loader["u"].count() == 4
    loader["u"].write(9)
    assert loader["u"].count() == 8
    assert loader["u"].x[9] == 2
    loader["u"].clear()
    assert loader["u"].count() == 0
    receipt = loader.compile_and_load(text.replace(".place(x, y)", ".place(x)").replace("x, y =", "x, _ =").replace(
        "ti.field(ti.i32), ti.field(ti.i32)", "ti.field(ti.i32), 0"), "u")  # fmt: skip
    assert receipt.kept == ()
    assert "x" in receipt.reset


def test_a_renamed_field_is_new(loader: KernelLoader) -> None:
    """The old name is told as removed."""
    loader.compile_and_load("x = ti.field(ti.i32, 2)\n@ti.kernel\ndef f():\n    x[1] = 5\n", "u")
    loader["u"].f()
    receipt = loader.compile_and_load("z = ti.field(ti.i32, 2)\n@ti.kernel\ndef f():\n    z[0] = 5\n", "u")
    assert (receipt.kept, receipt.reset, receipt.removed) == ((), (), ("x",))
    assert loader["u"].z.to_numpy().tolist() == [0, 0]


def test_fields_in_lists_dicts_and_loops(loader: KernelLoader) -> None:
    """Each is known by its place; those that are longer or shorter keep what both have."""
    text = """
layers = [ti.field(ti.i32, 2) for _ in range({n})]
named = dict(a=ti.field(ti.i32, 3), b=[ti.field(ti.i32, {size})])
first = layers[0]
pair = (first, layers)
@ti.kernel
def f() -> ti.i32:
    s = 0
    for k in ti.static(range({n})):
        layers[k][1] += 1
        s += layers[k][1]
    first[0] += 1
    named['a'][0] += 1
    return s
"""
    loader.compile_and_load(text.format(n=2, size=1), "u")
    assert loader["u"].f() == 2
    receipt = loader.compile_and_load(text.format(n=3, size=2), "u")
    unit = loader["u"]
    assert unit.f() == 5
    assert [layer.to_numpy().tolist() for layer in unit.layers] == [[2, 2], [0, 2], [0, 1]]
    assert unit.first is unit.layers[0]
    assert unit.pair[0] is unit.first
    assert unit.pair[1] is unit.layers
    assert unit.named["a"][0] == 2
    assert receipt.reset == ("named['b'][0]",)


def test_a_field_behind_a_closure_a_default_and_a_partial(loader: KernelLoader) -> None:
    """Whatever the text hung a kept field on, it is the kept one afterwards."""
    text = """
import functools
N = {}
x = ti.field(ti.i32, 2)
def make(target):
    @ti.kernel
    def k():
        target[1] += N
    return k
bump = make(x)
def read(i, f=x):
    return f[i]
read_one = functools.partial(read, 1)
class Holder:
    field = x
alias = Holder.field
"""
    loader.compile_and_load(text.format(1), "u")
    loader["u"].bump()
    loader.compile_and_load(text.format(10), "u")
    unit = loader["u"]
    unit.bump()
    assert unit.x[1] == unit.read(1) == unit.read_one() == unit.Holder.field[1] == unit.alias[1] == 11


def test_a_module_level_init_does_not_reset(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A text that fills its fields when it is executed fills those that are thrown away, which go at once; its kernels
    are compiled anew for the kept ones."""
    text = SIMULATION + "\n@ti.kernel\ndef init():\n    for i in pos:\n        pos[i] = 100\n\ninit()\nstep()\n"
    loader.compile_and_load(text, "sim")
    assert loader["sim"].step() == 106
    runtime.collect()
    trees = runtime.snode_tree_count()
    loader.compile_and_load(text.replace("DT = 1.0", "DT = 2.0"), "sim")
    assert runtime.snode_tree_count() == trees
    assert loader["sim"].step() == 112
    loader["sim"].init()
    assert loader["sim"].pos[3] == 100


def test_kernels_of_kept_and_new_fields(loader: KernelLoader) -> None:
    """One kernel writes a field that stayed and one that is new."""
    text = "a = ti.field(ti.i32, 3)\nb = ti.field(ti.i32, {})\n@ti.kernel\ndef f():\n    a[1] += 1\n    b[1] += 1\n"
    loader.compile_and_load(text.format(3), "u")
    loader["u"].f()
    loader.compile_and_load(text.format(4), "u")
    loader["u"].f()
    assert loader["u"].a.to_numpy().tolist() == [0, 2, 0]
    assert loader["u"].b.to_numpy().tolist() == [0, 1, 0, 0]


def test_kept_fields_are_not_allocated_twice(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A tree is made for what is new alone."""
    text = "a = ti.field(ti.i32, 3)\nb = ti.field(ti.i32, 3)\n"
    loader.compile_and_load(text + "@ti.kernel\ndef f(): a[0] = 1\n", "u")
    loader["u"].f()
    trees = runtime.snode_tree_count()
    loader.compile_and_load(text + "N = 1\n", "u")
    assert runtime.snode_tree_count() == trees
    loader.compile_and_load(text + "c = ti.field(ti.i32, 3)\n", "u")
    assert runtime.snode_tree_count() == trees + 1


def test_a_kept_field_outlives_its_tree_mates(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Of a tree with three fields one stays: it is usable after the old version is gone."""
    loader.compile_and_load("a, b, c = [ti.field(ti.i32, 3) for _ in range(3)]\n@ti.kernel\ndef f(): b[0] = 7\n", "u")
    loader["u"].f()
    loader.compile_and_load("b = ti.field(ti.i32, 3)\n@ti.kernel\ndef f(): b[1] = 8\n", "u")
    runtime.collect()
    loader["u"].f()
    assert loader["u"].b.to_numpy().tolist() == [7, 8, 0]


def test_fields_of_a_builder(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A tree that the text finalises itself stays with its fields, and its name is the kept tree's."""
    text = """
N = {}
x = ti.field(ti.i32)
builder = ti.FieldsBuilder()
builder.dense(ti.i, 4).place(x)
tree = builder.finalize()
@ti.kernel
def f() -> ti.i32:
    x[1] += N
    return x[1]
"""
    loader.compile_and_load(text.format(1), "u")
    loader["u"].f()
    trees = runtime.snode_tree_count()
    tree = loader["u"].tree
    receipt = loader.compile_and_load(text.format(10), "u")
    assert receipt.kept == ("x",)
    assert loader["u"].f() == 11
    assert loader["u"].tree is tree
    assert runtime.snode_tree_count() == trees


def test_gradients_stay_with_their_field(loader: KernelLoader) -> None:
    """A tape in the new version works on the kept fields, by their own names too."""
    text = """
N = {}
x = ti.field(ti.f32, 3, needs_grad=True)
loss = ti.field(ti.f32, (), needs_grad=True)
gradient = x.grad
@ti.kernel
def total():
    for i in x:
        loss[None] += N * x[i] ** 2
def run():
    with ti.ad.Tape(loss=loss):
        total()
    return gradient.to_numpy().tolist()
"""
    loader.compile_and_load(text.format(1), "u")
    loader["u"].x.fill(3)
    assert loader["u"].run() == [6, 6, 6]
    loader.compile_and_load(text.format(2), "u")
    assert loader["u"].run() == [12, 12, 12]


def test_lazily_placed_gradients(loader: KernelLoader) -> None:
    """``ti.root.lazy_grad()`` places the gradients of all blocks of a reload."""
    text = """
N = {}
x, y = ti.field(ti.f32), ti.field(ti.f32)
ti.root.dense(ti.i, 3).place(x)
ti.root.dense(ti.i, {}).place(y)
loss = ti.field(ti.f32, ())
ti.root.lazy_grad()
@ti.kernel
def total():
    for i in x:
        loss[None] += N * x[i] * y[i]
def run():
    x.fill(1)
    y.fill(2)
    with ti.ad.Tape(loss=loss):
        total()
    return x.grad.to_numpy().tolist()
"""
    loader.compile_and_load(text.format(1, 3), "u")
    assert loader["u"].run() == [2, 2, 2]
    receipt = loader.compile_and_load(text.format(5, 4), "u")
    assert (set(receipt.kept), set(receipt.reset)) == ({"x", "loss"}, {"y"})
    assert loader["u"].run() == [10, 10, 10]


def test_struct_fields_and_their_members(loader: KernelLoader) -> None:
    """A member that has a name of its own is the kept one's."""
    text = """
N = {}
@ti.dataclass
class Particle:
    pos: ti.math.vec2
    mass: ti.f32
particles = Particle.field(shape=3)
mass = particles.mass
@ti.kernel
def f() -> ti.f32:
    particles[1].mass += N
    mass[1] += N
    return particles[1].mass
"""
    loader.compile_and_load(text.format(1), "u")
    assert loader["u"].f() == 2
    receipt = loader.compile_and_load(text.format(10), "u")
    assert loader["u"].f() == 22
    assert loader["u"].mass is loader["u"].particles.mass
    assert statuses(receipt) == {"Particle": "unchanged", "f": "rebuilt"}


def test_ndarrays_that_kernels_are_given(loader: KernelLoader) -> None:
    """Module-level ndarrays stay, with their contents."""
    text = """
N = {}
x = ti.ndarray(ti.i32, 3)
@ti.kernel
def add(a: ti.types.ndarray()):
    for i in a:
        a[i] += N
def step():
    add(x)
    return x.to_numpy().tolist()
"""
    loader.compile_and_load(text.format(1), "u")
    assert loader["u"].step() == [1, 1, 1]
    loader.compile_and_load(text.format(10), "u")
    assert loader["u"].step() == [11, 11, 11]


def test_swapped_buffers_stay_swapped(loader: KernelLoader) -> None:
    """Two fields that a function swaps, by name and in an object, go on as they stand."""
    text = """
N = {}
a, b = ti.field(ti.i32, 1), ti.field(ti.i32, 1)
class Pair:
    def __init__(self, cur, nxt):
        self.cur, self.nxt = cur, nxt
    def swap(self):
        self.cur, self.nxt = self.nxt, self.cur
pair = Pair(a, b)
"""
    loader.compile_and_load(text.format(1), "u")
    unit = loader["u"]
    unit.a[0], unit.b[0] = 1, 2
    unit.pair.swap()
    loader.compile_and_load(text.format(2), "u")
    unit = loader["u"]
    assert (unit.a[0], unit.b[0], unit.pair.cur[0], unit.pair.nxt[0]) == (1, 2, 2, 1)


def test_a_field_that_waits_for_its_place(loader: KernelLoader) -> None:
    """Declared without a shape and placed by a function: the reload starts it anew, and it can be placed again."""
    text = "N = {}\nx = ti.field(ti.i32)\ny = ti.field(ti.i32, 2)\ndef place(n):\n    ti.root.dense(ti.i, n).place(x)\n@ti.kernel\ndef f() -> ti.i32:\n    x[1] += N\n    y[1] += N\n    return x[1] + y[1]\n"  # fmt: skip  # noqa: E501
    loader.compile_and_load(text.format(1), "u")
    loader["u"].place(4)
    assert loader["u"].f() == 2
    loader.compile_and_load(text.format(10), "u")
    loader["u"].place(3)
    assert loader["u"].f() == 21


@pytest.mark.parametrize(
    "half",
    [
        "x = ti.field(ti.i32)\n",
        "x = ti.Vector.field(2, ti.i32)\n",
        "x = ti.field(ti.i32, 3)\nblock = ti.root.dense(ti.i, 3)\n",
        "x = ti.field(ti.i32)\nblock = ti.root.dense(ti.i, 3).dense(ti.j, 3)\n",
        "x = ti.field(ti.i32)\nbuilder = ti.FieldsBuilder()\nbuilder.dense(ti.i, 3).place(x)\n",
        "x = ti.field(ti.f32, needs_grad=True)\nti.root.dense(ti.i, 3).place(x)\n",
    ],
)
def test_a_half_declared_version_is_mended_by_the_next(loader: KernelLoader, half: str) -> None:
    """What the version before left without a place is no obstacle any more, unless the next fails: then it is there."""
    kernel = "@ti.kernel\ndef f() -> ti.i32:\n    return 1\n"
    loader.compile_and_load(half + kernel, "u")
    with pytest.raises(Exception, match=r"placed|finalize|place"):
        loader["u"].f()
    with pytest.raises(CompileError):
        loader.compile_and_load("x = ti.field(ti.i32, 3)\n1 / 0\n", "u")
    with pytest.raises(Exception, match=r"placed|finalize|place"):
        loader["u"].f()
    loader.compile_and_load("x = ti.field(ti.i32, 3)\n@ti.kernel\ndef f():\n    x[1] = 5\n", "u")
    loader["u"].f()
    assert loader["u"].x.to_numpy().tolist() == [0, 5, 0]


def test_an_old_kernel_goes_on_with_the_kept_fields(loader: KernelLoader) -> None:
    """Whoever holds the version before calls it still, on the same state."""
    loader.compile_and_load(SIMULATION, "sim")
    old = loader["sim"]
    old.step()
    loader.compile_and_load(SIMULATION.replace("DT = 1.0", "DT = 10.0"), "sim")
    assert old.step() == 6
    assert loader["sim"].step() == 36


def test_twenty_reloads_in_a_row(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """State adds up through all of them, and nothing else does."""
    loader.compile_and_load(SIMULATION, "sim")
    trees, total = None, 0.0
    for n in range(20):
        total += 3 * (n + 2)
        loader.compile_and_load(SIMULATION.replace("DT = 1.0", f"DT = {n + 2}.0"), "sim")
        assert loader["sim"].step() == total
        trees = trees or runtime.snode_tree_count()
        assert runtime.snode_tree_count() == trees


def test_back_to_an_earlier_text(loader: KernelLoader) -> None:
    """A rollback is a reload: state stays, the version counts on."""
    loader.compile_and_load(SIMULATION, "sim")
    loader["sim"].step()
    loader.compile_and_load(SIMULATION.replace("DT = 1.0", "DT = 10.0"), "sim")
    loader["sim"].step()
    receipt = loader.compile_and_load(SIMULATION, "sim")
    assert receipt.version == 3
    assert loader["sim"].step() == 36


def test_a_failed_reload_keeps_the_state(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A type error in a kernel that was called before: fields, kernels and trees are as they were."""
    loader.compile_and_load(SIMULATION, "sim")
    loader["sim"].step()
    trees = runtime.snode_tree_count()
    bad = SIMULATION.replace("vel[i] += 1", "vel[i] += vel.nothing").replace("DT = 1.0", "DT = 7")
    with pytest.raises(CompileError):
        loader.compile_and_load(bad + "z = ti.field(ti.i32, 3)\n", "sim")
    assert runtime.snode_tree_count() == trees
    assert loader["sim"].DT == 1.0
    assert loader["sim"].step() == 6


# Plain values -------------------------------------------------------------------------------------------------


def test_plain_globals_take_their_new_values(loader: KernelLoader) -> None:
    """Also those that a function has counted up, and NumPy arrays."""
    text = "import numpy\ncount = 0\ntable = numpy.arange(3)\ndef tick():\n    global count\n    count += 1\n    table[0] += 1\n    return count\n"  # fmt: skip  # noqa: E501
    loader.compile_and_load(text, "u")
    loader["u"].tick()
    loader.compile_and_load(text + "N = 1\n", "u")
    assert (loader["u"].tick(), loader["u"].table.tolist()) == (1, [1, 1, 2])


def test_what_changed_and_what_did_not(loader: KernelLoader) -> None:
    """Own text, by way of a func, a class, an annotation; comments and places do not count."""
    text = """
A, B = 1, 2
vec = ti.types.vector(3, ti.f32)
@ti.func
def g():
    return A
@ti.kernel
def by_func() -> ti.i32:
    return g()
@ti.kernel
def other(v: vec) -> ti.i32:
    return B
@ti.kernel
def gone():
    pass
class C:
    n = B
def plain():
    return C.n
"""
    loader.compile_and_load(text, "u")
    receipt = loader.compile_and_load(
        "# a comment\n\n" + text.replace("A, B = 1, 2", "A, B = 5, 2").replace("def gone", "def new"), "u"
    )
    assert statuses(receipt) == {
        "g": "rebuilt",
        "by_func": "rebuilt",
        "other": "unchanged",
        "new": "added",
        "C": "unchanged",
        "plain": "unchanged",
        "gone": "removed",
    }
    receipt = loader.compile_and_load(text.replace("    return A", "    return A + 1"), "u")
    assert reasons(receipt)["by_func"] == ("g",)


def test_the_same_text_costs_nothing(loader: KernelLoader) -> None:
    """Under 2 ms, also with many units loaded."""
    for n in range(40):
        loader.compile_and_load(f"C{n} = {n}\ndef f{n}():\n    return max(C{n}, 1)\n")
    loader.compile_and_load(SIMULATION, "sim")
    receipt = min((loader.compile_and_load(SIMULATION, "sim") for _ in range(5)), key=lambda each: each.seconds)
    assert receipt.unchanged
    assert receipt.seconds < 0.002
    loader.compile_and_load("x = 1\n", "last")
    assert loader.compile_and_load(SIMULATION, "sim").seconds < 0.02
