"""What leaves an engine and comes back into the next one: every kind of array, under every name."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import numpy as np
import pytest

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import StaleHandle
from tiremote.protocol.messages import Cleanup, Compile, Put
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Handle, Name
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.service import Service

from .engines import Engines
from .zoo import EXACT_DTYPES, extremes

KINDS = """
plain = ti.field(ti.f32, 6)
scalar = ti.field(ti.i32, ())
moved = ti.field(ti.f32, (2, 3), offset=(-1, 5))
graded = ti.field(ti.f32, 3, needs_grad=True)
vectors = ti.Vector.field(3, ti.f32, 4)
matrices = ti.Matrix.field(2, 2, ti.f64, (2, 2))
soa = ti.Vector.field(2, ti.f32, 5, layout=ti.Layout.SOA)
a, b = ti.field(ti.f32), ti.field(ti.i32)
ti.root.dense(ti.ij, (2, 2)).dense(ti.ij, (2, 3)).place(a, b)
members = {"position": ti.types.vector(3, ti.f32), "mass": ti.f32, "inner": ti.types.struct(spin=ti.f32)}
particles = ti.Struct.field(members, shape=4)
small = ti.types.quant.int(bits=6, signed=True)
quantised = ti.field(small)
bits = ti.BitpackedFields(max_num_bits=32)
bits.place(quantised)
ti.root.dense(ti.i, 8).place(bits)
own = ti.ndarray(ti.f32, (2, 2))
own_vectors = ti.Vector.ndarray(2, ti.f32, 3)
host = np.arange(4.0)
layers = [ti.field(ti.f32, 2), {"w": ti.field(ti.f32, 2), 3: ti.ndarray(ti.i32, 2)}]

class Grid:
    def __init__(self):
        self.mass = ti.field(ti.f32, (2, 2))

@ti.data_oriented
class Sim:
    def __init__(self):
        self.grid = Grid()
        self.count = ti.field(ti.i32, 3)
        self.noise = np.zeros(2)

    @ti.kernel
    def step(self):
        for i in self.count:
            self.count[i] += 1

sim = Sim()
"""

ARRAYS = [
    "plain", "scalar", "moved", "graded", "vectors", "matrices", "soa", "a", "b", "own",
    "own_vectors", "host", "particles.position", "particles.mass", "particles.inner.spin", "sim.grid.mass",
    "sim.count", "sim.noise",
]  # fmt: skip


@pytest.fixture
def engines(runtime: TaichiRuntime) -> Iterator[Engines]:
    engines = Engines(runtime)
    yield engines
    engines.close()


def numbers(like: np.ndarray, start: int = 1) -> np.ndarray:
    """Of the same shape and dtype, all of them other than what is there."""
    return (np.arange(like.size).reshape(like.shape) % 13 + start).astype(like.dtype)


@pytest.fixture
def kinds(engines: Engines) -> Engines:
    """A session with an array of every kind."""
    engines.compile(KINDS)
    return engines


@pytest.mark.parametrize("how", ["put", "fetch", "snapshot"])
def test_every_kind_of_array_comes_back(kinds: Engines, how: str) -> None:
    """By a put, by a fetch of what was there, or by a snapshot of everything."""
    held = {}
    for name in ARRAYS:
        held[name] = numbers(kinds.fetch(f"sim.{name}"))
        kinds.put(f"sim.{name}", held[name])
    if how != "put":
        # What was put is not known any more: code has run.
        kinds.run("sim.step", unit="sim")
        held["sim.count"] += 1
        for name in ARRAYS if how == "fetch" else []:
            assert np.array_equal(kinds.fetch(f"sim.{name}"), held[name])
        if how == "snapshot":
            assert set(kinds.snapshot()) == {"sim.quantised"}
    kinds.lose()
    assert kinds.failed == {}
    for name, values in held.items():
        assert np.array_equal(kinds.fetch(f"sim.{name}"), values), name


def test_arrays_in_lists_and_dicts_are_in_a_snapshot(kinds: Engines) -> None:
    """They have no name of their own, but a way that leads to them."""
    kinds.compile(
        "def fill():\n    layers = import_unit('sim').layers\n    layers[0].fill(1.5)\n    layers[1]['w'].fill(2.5)\n"
        "    layers[1][3].fill(7)\n"
        "def read():\n    layers = import_unit('sim').layers\n"
        "    return [each.to_numpy() for each in (layers[0], layers[1]['w'], layers[1][3])]\n",
        "fills",
    )
    kinds.run("fill", unit="fills")
    kinds.snapshot()
    assert {"sim.layers[0]", "sim.layers[1]['w']", "sim.layers[1][3]"} <= kinds.known()
    kinds.lose()
    assert [each.copy().tolist() for each in kinds.run("read", unit="fills")] == [[1.5, 1.5], [2.5, 2.5], [7, 7]]


@pytest.mark.parametrize("dtype", EXACT_DTYPES)
def test_arrays_of_every_dtype_come_back_under_their_handles(engines: Engines, dtype: str) -> None:
    """With their ends and odd values."""
    values = extremes(dtype_of(dtype))
    handle = engines.array(values)
    engines.lose()
    again = engines.fetch(handle)
    assert again.dtype == values.dtype
    assert again.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "made",
    [
        {"shape": ()},
        {"shape": (3,), "element_shape": (2,)},
        {"shape": (2, 2), "element_shape": (2, 3), "dtype": "f64"},
        {"shape": (4,), "needs_grad": True},
        {"kind": "field", "shape": (2, 3)},
        {"kind": "field", "shape": (), "dtype": "i32"},
        {"kind": "field", "shape": (3,), "element_shape": (3, 3), "needs_grad": True},
        {"kind": "array", "shape": (2, 5), "dtype": "u8"},
    ],
)
def test_every_kind_that_a_client_makes_comes_back_under_its_handle(engines: Engines, made: dict[str, object]) -> None:
    """And what is known of it by that is the same."""
    handle = engines.alloc(**made)
    values = numbers(engines.fetch(handle))
    engines.put(handle, values)
    engines.lose()
    assert np.array_equal(engines.fetch(handle), values)
    again = engines.handle(handle)
    assert (again, again.meta) == (handle, handle.meta)
    engines.put(handle, values + 1)
    assert np.array_equal(engines.fetch(handle), values + 1)


def test_an_array_that_nobody_copied_is_lost(engines: Engines) -> None:
    """Its handle says so; a unit's own is what its text makes."""
    handle = engines.alloc(shape=(3,))
    engines.compile("x = ti.field(ti.f32, 3)\ndef fill():\n    x.fill(5)\n")
    engines.run("fill")
    engines.lose()
    with pytest.raises(StaleHandle, match="make it again"):
        engines.fetch(handle)
    assert engines.fetch("sim.x").tolist() == [0, 0, 0]


# How it is put ------------------------------------------------------------------------------------------------


def test_what_was_put_in_any_form_is_what_comes_back(engines: Engines) -> None:
    """In Fortran order, of another dtype, one number for all, in parts, in ranges."""
    engines.compile("x = ti.Vector.field(2, ti.f32, (3, 4))\n")
    whole = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(3, 4, 2))
    engines.put("sim.x", whole)
    expected = whole.copy()
    engines.put("sim.x", np.float64([[9, 8]] * 3), region=((None, None, None), 1), cast=True)
    expected[:, 1] = [9, 8]
    engines.put("sim.x", np.float32([1, 2, 3, 4]), flat=(16, 20))
    expected.reshape(-1)[16:20] = [1, 2, 3, 4]
    engines.put("sim.x", np.float32(7), region=(0,))
    expected[0] = 7
    engines.put("sim.x", np.float32(5), region=((None, None, -2), -1))
    expected[::-2, -1] = 5
    assert np.array_equal(engines.fetch("sim.x"), expected)
    engines.lose()
    assert np.array_equal(engines.fetch("sim.x"), expected)


def test_one_number_for_all_of_it_is_a_whole_copy(engines: Engines) -> None:
    """Also where the array is large, and where another dtype is converted."""
    handle = engines.alloc(shape=(1000,), dtype="i32")
    engines.put(handle, np.float64(3), cast=True)
    engines.lose()
    assert engines.fetch(handle).tolist() == [3] * 1000


def test_ranges_that_come_in_any_order_are_put_back_together(engines: Engines) -> None:
    """A large array is sent in several requests, which overtake one another."""
    handle = engines.alloc(shape=(10, 2), dtype="i32")
    values = np.arange(20, dtype=np.int32)
    for start in (10, 0, 5, 15):
        engines.put(handle, values[start : start + 5], flat=(start, start + 5))
    engines.lose()
    assert engines.fetch(handle).reshape(-1).tolist() == list(range(20))


def test_a_field_that_is_put_by_way_of_a_host_array_comes_back(engines: Engines) -> None:
    """That is how a field larger than one buffer is sent; the host array is dropped then."""
    engines.compile("x = ti.field(ti.f32, (2, 5))\n")
    host = engines.alloc(kind="array", shape=(2, 5))
    values = np.arange(10, dtype=np.float32)
    engines.put(host, values[5:], flat=(5, 10))
    engines.put(host, values[:5], flat=(0, 5))
    engines.ask(Put(id="copy", target=Name(unit="sim", name="x"), source=host))
    engines.ask(Cleanup(id="drop", targets=(host,)))
    engines.lose()
    assert engines.fetch("sim.x").reshape(-1).tolist() == list(range(10))


def test_an_array_that_another_array_lies_in_is_not_taken_for_known(engines: Engines) -> None:
    """A view writes to what it is one of: a part that is put afterwards does not make the copy of that one whole."""
    engines.compile("base = np.zeros(6)\nview = base[2:4]\n")
    engines.put("sim.base", np.arange(6.0))
    engines.put("sim.view", np.float64([9, 9]))
    engines.put("sim.base", np.float64([5]), flat=(0, 1))
    engines.lose()
    assert engines.fetch("sim.base").tolist() == [0, 1, 2, 3, 4, 5]


# Under which name ---------------------------------------------------------------------------------------------


def test_one_array_under_many_names_is_one(engines: Engines) -> None:
    """Taken from another unit, imported, by its handle: whichever was used last, that is what comes back."""
    engines.compile("x = ti.field(ti.i32, 3)\n", "base")
    engines.compile("base = import_unit('base')\ndef use():\n    x.fill(1)\n", "user")
    handle = engines.handle("base.x")
    for number, target in enumerate(["base.x", "user.x", "user.base.x", handle]):
        engines.put(target, np.int32([number] * 3))
        engines.put(target, np.int32([10 + number]), flat=(0, 1))
        assert engines.known() == {"base.x"}
    engines.lose()
    assert engines.fetch(handle).tolist() == engines.fetch("user.x").tolist() == [13, 3, 3]
    engines.run("use", unit="user")
    assert engines.fetch(handle).tolist() == [1, 1, 1]


def test_a_handle_stands_for_the_units_own_array_again(kinds: Engines) -> None:
    """A field, a member of a struct, a gradient, a field of an object: writing to one is writing to the other."""
    names = ["plain", "particles.mass", "graded.grad", "sim.grid.mass", "own"]
    handles = {name: kinds.handle(f"sim.{name}") for name in names}
    kinds.lose()
    for number, (name, handle) in enumerate(handles.items()):
        values = numbers(kinds.fetch(handle), number)
        kinds.put(handle, values)
        assert np.array_equal(kinds.fetch(f"sim.{name}"), values), name


def test_an_object_of_a_unit_keeps_its_handle(kinds: Engines) -> None:
    """Its fields are put back by their own names."""
    sim = kinds.fetch("sim.sim")
    assert isinstance(sim, Handle)
    kinds.put("sim.sim.count", np.int32([1, 2, 3]))
    kinds.lose()
    kinds.run("sim.step", unit="sim")
    assert kinds.fetch(Name(unit="sim", name="sim.count")).tolist() == [2, 3, 4]
    assert kinds.fetch(sim) == sim


def test_buffers_that_swap_their_names_come_back_under_those_they_had_last(engines: Engines) -> None:
    """What a name held is put back into what that name leads to; a handle follows its own array."""
    engines.compile("a, b = ti.field(ti.i32, 2), ti.field(ti.i32, 2)\ndef swap():\n    global a, b\n    a, b = b, a\n")
    first = engines.handle("sim.a")
    engines.put("sim.a", np.int32([1, 1]))
    engines.put("sim.b", np.int32([2, 2]))
    engines.run("swap", unit="sim")
    assert engines.fetch("sim.a").tolist() == [2, 2]
    engines.put(first, np.int32([3, 3]))
    engines.lose()
    assert engines.fetch("sim.a").tolist() == [2, 2]
    assert engines.fetch("sim.b").tolist() == engines.fetch(first).tolist() == [3, 3]


def test_a_clients_array_in_a_units_object_is_the_clients(engines: Engines) -> None:
    """It comes back under its handle; the object that had it begins without."""
    engines.compile(
        "class Box:\n    value = None\nbox = Box()\ndef keep(x):\n    box.value = x\n"
        "def has():\n    return box.value is not None\n"
    )
    handle = engines.array(np.float32([1, 2]))
    engines.run("keep", handle, unit="sim")
    engines.snapshot()
    assert engines.known() == {handle.id}
    engines.lose()
    assert engines.fetch(handle).tolist() == [1, 2]
    assert engines.run("has", unit="sim") is False


# After a load -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        "x = ti.field(ti.f32, 4)\n",
        "x = ti.field(ti.i32, 3)\n",
        "x = ti.ndarray(ti.f32, 3)\n",
        "y = ti.field(ti.f32, 3)\n",
        "x = None\n",
    ],
)
def test_a_field_that_is_another_now_does_not_get_what_the_old_one_held(engines: Engines, after: str) -> None:
    """Redeclared, renamed, dropped; also where a later text has the first one again."""
    before = "x = ti.field(ti.f32, 3)\n"
    engines.compile(before)
    engines.put("sim.x", np.float32([1, 2, 3]))
    engines.compile(after)
    assert engines.known() == set()
    engines.compile(before + "# again\n")
    engines.lose()
    assert engines.fetch("sim.x").tolist() == [0, 0, 0]


def test_a_field_that_a_load_keeps_has_its_copy(engines: Engines) -> None:
    """Its declaration is the same, and so is what it held when it was put."""
    engines.compile("x = ti.field(ti.f32, 3)\n")
    engines.put("sim.x", np.float32([1, 2, 3]))
    engines.compile("x = ti.field(ti.f32, 3)\ny = 1\n")
    engines.lose()
    assert engines.fetch("sim.x").tolist() == [1, 2, 3]


def test_a_clean_load_and_new_host_arrays_have_no_copies(engines: Engines) -> None:
    """What begins anew begins anew after a crash as well; so do NumPy arrays, which no load keeps."""
    engines.compile("x = ti.field(ti.f32, 2)\nhost = np.zeros(2)\n")
    engines.put("sim.x", np.float32([1, 2]))
    engines.put("sim.host", np.float64([3, 4]))
    engines.compile("x = ti.field(ti.f32, 2)\nhost = np.zeros(2)\nz = 1\n")
    assert engines.known() == {"sim.x"}
    engines.compile("x = ti.field(ti.f32, 2)\nhost = np.zeros(2)\n", keep=False)
    assert engines.known() == set()


def test_a_rebuilt_users_arrays_are_looked_at_as_well(engines: Engines) -> None:
    """A constant of another unit decides how large a field is."""
    engines.compile("N = 3\n", "sizes")
    engines.compile("x = ti.field(ti.f32, N)\ny = ti.field(ti.f32, 2)\n", "user")
    engines.put("user.x", np.float32([1, 2, 3]))
    engines.put("user.y", np.float32([1, 2]))
    engines.compile("N = 5\n", "sizes")
    assert engines.known() == {"user.y"}


def test_a_handle_of_a_field_that_its_text_dropped_is_not_what_has_the_name_now(engines: Engines) -> None:
    """It goes on with the old field, and is lost with the engine; the new field is not touched by that."""
    engines.compile("x = ti.field(ti.f32, 2)\n")
    old = engines.handle("sim.x")
    engines.compile("x = ti.field(ti.f32, 3)\n")
    engines.put(old, np.float32([1, 2]))
    engines.put("sim.x", np.float32([1, 2, 3]))
    assert engines.fetch(old).tolist() == [1, 2]
    engines.lose()
    assert engines.fetch(old).tolist() == [1, 2]
    engines.put(old, np.float32([5, 5]))
    assert engines.fetch("sim.x").tolist() == [1, 2, 3]


def test_a_handle_of_a_field_outlives_its_unit(engines: Engines) -> None:
    """Also the next engine."""
    engines.compile("x = ti.field(ti.f32, 2)\n")
    handle = engines.handle("sim.x")
    engines.ask(Cleanup(id="drop", unit="sim"))
    engines.units.clear()
    engines.store.drop_unit("s", "sim")
    engines.put(handle, np.float32([1, 2]))
    engines.lose()
    assert engines.fetch(handle).tolist() == [1, 2]


def test_an_array_that_its_text_makes_otherwise_on_another_load_is_not_filled(engines: Engines) -> None:
    """A size that comes from outside: the same text, another field."""
    engines.compile("import builtins\nx = ti.field(ti.f32, (2, getattr(builtins, '_size_of_test', 3)))\n")
    engines.put("sim.x", np.ones((2, 3), np.float32))
    builtins._size_of_test = 6  # type: ignore[attr-defined]
    try:
        engines.lose()
    finally:
        del builtins._size_of_test  # type: ignore[attr-defined]
    assert "(2, 6) now" in engines.failed[Name(unit="sim", name="x")]
    assert not engines.fetch("sim.x").any()


# What is left out ---------------------------------------------------------------------------------------------


def test_what_cannot_be_read_and_written_back_is_left_out_with_a_reason(engines: Engines) -> None:
    """Sparse fields, Python objects, read-only and odd arrays; the rest is copied."""
    engines.compile(
        "x = ti.field(ti.f32)\nti.root.pointer(ti.i, 4).dense(ti.i, 4).place(x)\nok = ti.field(ti.f32, 2)\n"
        "names = np.array(['a', None], dtype=object)\nfixed = np.arange(3)\nfixed.setflags(write=False)\n"
        "times = np.zeros(2, dtype='datetime64[s]')\ncomplex_ = np.zeros(2, dtype=complex)\n"
    )
    skipped = engines.snapshot()
    assert set(skipped) == {"sim.x", "sim.names", "sim.fixed", "sim.times", "sim.complex_"}
    assert "sparse" in skipped["sim.x"]
    assert engines.known() == {"sim.ok"}


def test_a_snapshot_takes_the_small_ones_first(runtime: TaichiRuntime) -> None:
    """As many as there is room for; a worker without room says how to have some."""
    sent: list[str] = []
    for room, kept in ((10_000, ["sim.small", "sim.middle"]), (0, [])):
        sent.clear()
        service = Service(
            runtime,
            "s",
            1,
            Limits(),
            snapshot_bytes=room,
            send_copies=lambda moved, _: sent.extend(str(one.target) for one in moved),
        )
        source = "large = ti.field(ti.f32, 4000)\nmiddle = ti.field(ti.f32, 1000)\nsmall = ti.field(ti.f32, 4)\n"
        service.serve(Compile(id=1, source=source, unit="sim"))
        skipped = service.snapshot()
        assert sent == kept
        assert all("--copies" in reason for reason in skipped.values())
        assert len(skipped) + len(kept) == 3
        service.serve(Cleanup(id=2, everything=True))


def test_the_arrays_of_a_unit_are_told_by_the_ways_that_lead_to_them(kinds: Engines) -> None:
    """So that what is lost can be named; NumPy arrays are made by the text, like any other value."""
    told = set(kinds.unit_arrays["sim"])
    assert {"plain", "particles.mass", "particles.inner.spin", "sim.grid.mass", "layers[1]['w']", "own"} <= told
    assert not {"host", "sim.noise", "particles", "sim"} & told
