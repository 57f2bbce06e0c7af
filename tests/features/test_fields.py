"""Fields of every kind of block and layout: read, written, in whole and in part, from the client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.rows import feature
from tiremote.client import RemoteObject, Session
from tiremote.protocol.errors import (
    CompileError,
    KernelArgumentError,
    ProtocolError,
    Refused,
    StaleHandle,
    TiremoteError,
    UnknownName,
    UnsupportedType,
)

BLOCKS = {
    "dense": "ti.root.dense(ti.i, 8).place(x)",
    "pointer": "ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(x)",
    "dynamic": "ti.root.dynamic(ti.i, 8, chunk_size=4).place(x)",
    "bitmasked": "ti.root.bitmasked(ti.i, 8).place(x)",
}

OF_BLOCKS = """
x = ti.field(ti.i32)
{}

@ti.kernel
def double():
    for i in x:
        x[i] *= 2

@ti.kernel
def active() -> ti.i32:
    count = 0
    for i in x:
        count += 1
    return count
"""

QUANTISED = """
small = ti.field(ti.types.quant.int(5))
fixed = ti.field(ti.types.quant.fixed(bits=10, max_value=2.0))
pack = ti.BitpackedFields(max_num_bits=32)
pack.place(small, fixed)
ti.root.dense(ti.i, 4).place(pack)

@ti.kernel
def put(a: ti.types.ndarray(), b: ti.types.ndarray()):
    for i in range(4):
        small[i] = a[i]
        fixed[i] = b[i]

@ti.kernel
def get(a: ti.types.ndarray(), b: ti.types.ndarray()):
    for i in range(4):
        a[i] = small[i]
        b[i] = fixed[i]
"""

BUILT = """
builder = ti.FieldsBuilder()
y = ti.field(ti.f32)
builder.dense(ti.i, 4).place(y)
tree = builder.finalize()

@ti.kernel
def fill(value: ti.f32):
    for i in y:
        y[i] = value

@ti.kernel
def fill_of(f: ti.template()):
    for i in f:
        f[i] = 1.0

def destroy():
    tree.destroy()
"""

LAYOUTS = """
a = ti.field(ti.f32)
b = ti.field(ti.i32)
ti.root.dense(ti.i, 4).place(a, b)
soa = ti.Vector.field(2, ti.f32, 4, layout=ti.Layout.SOA)
aos = ti.Vector.field(2, ti.f32, 4, layout=ti.Layout.AOS)
turned = ti.field(ti.i32, shape=(2, 3), order="ji")
shifted = ti.field(ti.i32, shape=(2, 3), offset=(-1, 5))
matrices = ti.Matrix.field(2, 3, ti.f64, (3, 2))

@ti.kernel
def corner() -> ti.i32:
    return shifted[-1, 7] * 100 + turned[0, 2]
"""

STRUCTS = """
Particle = ti.types.struct(at=ti.types.vector(3, ti.f32), mass=ti.f32)
particles = Particle.field(shape=4)

@ti.kernel
def weigh() -> ti.f32:
    total = 0.0
    for i in particles:
        total += particles[i].mass * particles[i].at[2]
    return total
"""


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=feature("fields", kind)) for kind in BLOCKS])
def test_a_field_of_blocks_is_fetched_and_put(gpu: Session, kind: str) -> None:
    """Whole, in part and one element; what is put is active, and kernels loop over it."""
    gpu.compile_and_load(OF_BLOCKS.format(BLOCKS[kind]), "blocks")
    x = gpu["blocks"].x
    assert x.to_numpy().tolist() == [0] * 8
    assert gpu["blocks"].active() == (8 if kind == "dense" else 0)
    x.from_numpy(np.arange(8, dtype=np.int32))
    gpu["blocks"].double()
    x[2] = 77
    x[4:6] = [1, 2]
    assert x.to_numpy().tolist() == [0, 2, 77, 6, 1, 2, 12, 14]
    assert (x[::-3].tolist(), x.summary().maximum, gpu["blocks"].active()) == ([14, 1, 2], 77, 8)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=feature("fields", kind, wrong=True)) for kind in BLOCKS])
def test_what_does_not_fit_a_field_is_refused(gpu: Session, kind: str) -> None:
    """Another shape, another dtype, an index beyond it: nothing of it is written, nothing becomes active."""
    gpu.compile_and_load(OF_BLOCKS.format(BLOCKS[kind]), "blocks")
    x = gpu["blocks"].x
    with pytest.raises(KernelArgumentError, match=r"shape \(7,\) came for one of \(8,\)"):
        x.from_numpy(np.arange(7, dtype=np.int32))
    with pytest.raises(KernelArgumentError):
        x.from_numpy(np.full(8, 0.5))
    with pytest.raises((KernelArgumentError, IndexError)):
        x[8] = 1
    assert gpu["blocks"].active() == (8 if kind == "dense" else 0)


@feature("fields", "quantised")
def test_quantised_fields_are_copied_by_a_kernel(gpu: Session) -> None:
    """There and back, as far as their bits hold."""
    gpu.compile_and_load(QUANTISED, "quantised")
    gpu["quantised"].put(np.array([-16, 0, 7, 15], np.int32), np.array([0, 0.5, -1.5, 1.25], np.float32))
    a, b = np.zeros(4, np.int32), np.zeros(4, np.float32)
    gpu["quantised"].get(a, b)
    assert a.tolist() == [-16, 0, 7, 15]
    assert b.tolist() == [0, 0.5, -1.5, 1.25]


@feature("fields", "quantised", wrong=True)
def test_a_quantised_field_does_not_travel_itself(gpu: Session) -> None:
    """Taichi has no NumPy array of it either: the type and what to do are told."""
    gpu.compile_and_load(QUANTISED, "quantised")
    for name, kind in (("small", "qi5"), ("fixed", "qfx")):
        with pytest.raises(UnsupportedType, match=f"quantised type {kind}.*copy it into a field"):
            gpu["quantised"][name].to_numpy()


@feature("fields", "`FieldsBuilder`, `destroy`")
def test_fields_of_a_builder(gpu: Session) -> None:
    """They are used like others, and their tree comes back when it is destroyed."""
    gpu.compile_and_load(BUILT, "built")
    gpu["built"].fill(3.0)
    gpu["built"].fill_of(gpu["built"].y)
    gpu["built"].y[1] = 5
    assert gpu["built"].y.to_numpy().tolist() == [1, 5, 1, 1]
    trees = gpu.status().session.snode_trees
    gpu["built"].destroy()
    assert gpu.status().session.snode_trees == trees - 1
    gpu.compile_and_load(BUILT, "built", keep=False)
    gpu["built"].fill(2.0)
    assert gpu["built"].y.to_numpy().tolist() == [2] * 4


@feature("fields", "`FieldsBuilder`, `destroy`", wrong=True)
def test_a_field_whose_tree_was_destroyed(gpu: Session) -> None:
    """It is neither read nor written nor given to a kernel, where Taichi would end the process."""
    gpu.compile_and_load(BUILT, "built")
    gpu["built"].fill(3.0)
    y = gpu["built"].y
    gpu["built"].destroy()
    for use in (y.to_numpy, lambda: y.fill(1.0), lambda: y[0], lambda: y.__setitem__(0, 1.0), y.summary):
        with pytest.raises(StaleHandle, match="SNode tree was destroyed"):
            use()
    with pytest.raises(KernelArgumentError, match="SNode tree was destroyed") as caught:
        gpu["built"].fill_of(y)
    assert caught.value.parameter == "f"
    with pytest.raises(TiremoteError, match="has been destroyed"):
        gpu["built"].destroy()


@feature("fields", "SOA and AOS")
def test_layouts_do_not_show_in_what_travels(gpu: Session) -> None:
    """Fields that share cells, vectors apart or together, and axes in another order."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    for name, values in (
        ("a", np.arange(4, dtype=np.float32)),
        ("b", np.arange(4, dtype=np.int32) + 10),
        ("soa", np.arange(8, dtype=np.float32).reshape(4, 2)),
        ("aos", np.arange(8, dtype=np.float32).reshape(4, 2) + 1),
        ("turned", np.arange(6, dtype=np.int32).reshape(2, 3)),
    ):
        gpu["layouts"][name].from_numpy(values)
    assert gpu["layouts"].a.to_numpy().tolist() == [0, 1, 2, 3]
    assert gpu["layouts"].b.to_numpy().tolist() == [10, 11, 12, 13]
    assert gpu["layouts"].soa[1:3].tolist() == [[2, 3], [4, 5]]
    assert gpu["layouts"].aos[3].tolist() == [7, 8]
    assert gpu["layouts"].turned.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert gpu["layouts"].corner() == 2


@feature("fields", "SOA and AOS", wrong=True)
def test_a_layout_is_no_reason_to_take_another_shape(gpu: Session) -> None:
    """Elements are last also where they lie first."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    for name in ("soa", "aos"):
        with pytest.raises(KernelArgumentError, match=r"shape \(2, 4\) came for one of \(4, 2\)"):
            gpu["layouts"][name].from_numpy(np.zeros((2, 4), np.float32))


@feature("fields", "offsets")
def test_a_field_with_an_offset_is_indexed_from_zero_here(gpu: Session) -> None:
    """As NumPy has it; kernels use the field's own indices."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    gpu["layouts"].shifted[0, 2] = 9
    assert gpu["layouts"].shifted.to_numpy().tolist() == [[0, 0, 9], [0, 0, 0]]
    assert gpu["layouts"].corner() == 900


@feature("fields", "offsets", wrong=True)
def test_an_index_of_the_field_itself_is_none_here(gpu: Session) -> None:
    """It is beyond the array."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    with pytest.raises((KernelArgumentError, IndexError)):
        gpu["layouts"].shifted[-1, 7] = 9


@feature("fields", "matrix fields")
def test_a_field_of_matrices(gpu: Session) -> None:
    """Its elements are the last two axes."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    values = np.arange(36, dtype=np.float64).reshape(3, 2, 2, 3)
    gpu["layouts"].matrices.from_numpy(values)
    assert np.array_equal(gpu["layouts"].matrices.to_numpy(), values)
    assert gpu["layouts"].matrices[2, 1].tolist() == [[30, 31, 32], [33, 34, 35]]
    assert gpu["layouts"].matrices.element_shape == (2, 3)


@feature("fields", "matrix fields")
def test_a_field_is_filled_with_a_vector_or_a_matrix(gpu: Session) -> None:
    """Those of a source and those that a client made, and ndarrays too; ``n`` and ``m`` are Taichi's."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    unit, ti = gpu["layouts"], gpu.ti
    table = [[1, 2, 3], [4, 5, 6]]
    for matrices in (unit.matrices, ti.Matrix.field(2, 3, ti.i32, (3, 2)), ti.Matrix.ndarray(2, 3, ti.f16, (3, 2))):
        matrices.fill(table)
        assert matrices.to_numpy().tolist() == [[table] * 2] * 3
        assert (matrices.n, matrices.m) == (2, 3)
    for vectors in (unit.soa, unit.aos, ti.Vector.field(2, ti.f32, 4)):
        vectors.fill(ti.Vector([0.5, 2.0], ti.f64))
        assert vectors.to_numpy().tolist() == [[0.5, 2]] * 4
        assert (vectors.n, vectors.m) == (2, 1)


@feature("fields", "matrix fields")
def test_a_field_is_copied_from_another(gpu: Session) -> None:
    """Between fields of any layout and ndarrays; another dtype is converted where that is asked for."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    unit, ti = gpu["layouts"], gpu.ti
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    unit.aos.from_numpy(values)
    unit.soa.copy_from(unit.aos)
    made = ti.Vector.field(2, ti.f32, 4, name="copy")
    made.copy_from(unit.soa)
    whole = ti.Vector.ndarray(2, ti.i32, 4)
    whole.copy_from(made, cast=True)
    whole.copy_from(whole)
    unit.aos.fill(0)
    assert whole.to_numpy().tolist() == made.to_numpy().tolist() == values.tolist()
    assert "copy" in {each.label for each in gpu.describe().arrays}


@feature("fields", "matrix fields", wrong=True)
def test_a_field_is_filled_and_copied_with_what_fits_alone(gpu: Session) -> None:
    """Nothing is written where it does not."""
    ti = gpu.ti
    vectors = ti.Vector.field(2, ti.i32, 4)
    wrong: object
    for wrong in ([1, 2, 3], [[1, 2]], [1.5, 2.0], [2**31, 0], 2**31):
        with pytest.raises(KernelArgumentError):
            vectors.fill(wrong)
    for wrong in (ti.Vector.field(2, ti.f32, 4), ti.Vector.field(3, ti.i32, 4), ti.field(ti.i32, 4), np.zeros((4, 2))):
        with pytest.raises(KernelArgumentError):
            vectors.copy_from(wrong)  # type: ignore[arg-type]
    halves = ti.Vector.field(2, ti.f64, 4)
    halves.fill(2.0**40)
    with pytest.raises(KernelArgumentError, match="does not fit into i32"):
        vectors.copy_from(halves, cast=True)
    assert not vectors.to_numpy().any()


@feature("fields", "matrix fields", wrong=True)
def test_matrices_of_another_shape(gpu: Session) -> None:
    """Are refused with both shapes."""
    gpu.compile_and_load(LAYOUTS, "layouts")
    with pytest.raises(KernelArgumentError, match=r"shape \(3, 2, 3, 2\) came for one of \(3, 2, 2, 3\)"):
        gpu["layouts"].matrices.from_numpy(np.zeros((3, 2, 3, 2)))


@feature("fields", "struct fields by member")
def test_the_members_of_a_struct_field(gpu: Session) -> None:
    """Each is a field of its own, and all of them together are what Taichi gives."""
    gpu.compile_and_load(STRUCTS, "structs")
    particles = gpu["structs"].particles
    particles.mass.from_numpy(np.array([1, 2, 3, 4], np.float32))
    particles.at.fill(2.0)
    assert gpu["structs"].weigh() == 20
    assert particles.at.to_numpy().shape == (4, 3)
    assert particles.to_numpy()["mass"].tolist() == [1, 2, 3, 4]


@feature("fields", "struct fields by member", wrong=True)
def test_what_a_struct_field_has_not(gpu: Session) -> None:
    """An unknown member is an unknown name, and a block without a field is told at the load."""
    gpu.compile_and_load(STRUCTS, "structs")
    with pytest.raises(UnknownName, match="no attribute 'speed'"):
        gpu["structs"].particles.speed  # noqa: B018 - asking is what is tested
    with pytest.raises((CompileError, Refused)):
        gpu.compile_and_load("x = ti.field(ti.f32)\nti.root.dense(ti.i, 4)\n@ti.kernel\ndef f():\n    pass\nf()\n")


# ---------------------------------------------------------------- struct fields that the client makes

OF_THE_CLIENT = """
@ti.kernel
def push(p: ti.template(), by: ti.f32) -> ti.f32:
    for i in ti.grouped(p):
        p[i].mass += by
        p[i].pos += ti.Vector([by, 0.0, 1.0])
        p[i].inner.n += 1
    return by
"""


def particles(gpu: Session, **how: Any) -> RemoteObject:
    ti = gpu.ti
    members = {"pos": ti.types.vector(3, ti.f32), "mass": ti.f32, "inner": {"n": ti.i32, "m": ti.math.mat2}}
    return ti.Struct.field(members, **how)


@feature("fields", "struct fields of the client's")
def test_a_struct_field_that_the_client_makes(gpu: Session) -> None:
    """Of zeros; kernels take it, members are fields, put and fetched alone and together, and it is freed."""
    unit = gpu[gpu.compile_and_load(OF_THE_CLIENT).unit]
    p = particles(gpu, shape=4, name="particles")
    assert p.mass.to_numpy().tolist() == [0.0] * 4
    p.mass.from_numpy(np.arange(4, dtype=np.float32))
    unit.push(p, 2.0)
    together = p.to_numpy()
    assert together["mass"].tolist() == [2, 3, 4, 5]
    assert together["pos"].tolist() == [[2, 0, 1]] * 4
    assert together["inner"]["n"].tolist() == [1] * 4
    assert p.inner.m.shape == (4,)
    assert p.inner.m.to_numpy().shape == (4, 2, 2)
    assert "particles" in [each.label for each in gpu.describe().arrays]
    gpu.cleanup(p)
    with pytest.raises(StaleHandle):
        unit.push(p, 1.0)


@feature("fields", "struct fields of the client's")
def test_struct_fields_without_axes_and_with_many(gpu: Session) -> None:
    """0-d and 3-d; each has a tree of its own, which comes back."""
    unit = gpu[gpu.compile_and_load(OF_THE_CLIENT).unit]
    trees = gpu.status().session.snode_trees
    made = [particles(gpu), particles(gpu, shape=(2, 3, 4))]
    assert [unit.push(each, 3.0) for each in made] == [3.0, 3.0]
    assert gpu.status().session.snode_trees == trees + 2
    for each in made:
        gpu.cleanup(each)
    assert gpu.status().session.snode_trees == trees
    assert particles(gpu).mass.shape == ()
    assert particles(gpu, shape=(2, 3, 4)).pos.to_numpy().shape == (2, 3, 4, 3)


@feature("fields", "struct fields of the client's", wrong=True)
@pytest.mark.parametrize("members", [{}, None, [], {"a": "f17"}, {"a": {}}, {"not a name": "f32"}, {"class": "f32"}])
def test_what_is_no_struct_is_refused(gpu: Session, members: Any) -> None:
    """With what came; the next one is made."""
    with pytest.raises((KernelArgumentError, UnsupportedType, ProtocolError)):
        gpu.ti.Struct.field(members, shape=2)
    with pytest.raises(KernelArgumentError):
        gpu.ti.Struct.field({"a": "f32"}, shape=-1)
    with pytest.raises(KernelArgumentError):
        gpu.ti.Struct.field({"a": "f32"}, shape=(1 << 20, 1 << 20))
    assert gpu.ti.Struct.field({"a": "f32"}, shape=2).a.to_numpy().tolist() == [0.0, 0.0]
