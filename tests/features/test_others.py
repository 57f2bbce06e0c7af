"""What is made in the source alone: sparse matrices, textures, graphs; and functions of other kinds."""

from __future__ import annotations

import numpy as np
import pytest

from features.rows import feature
from tiremote.client import RemoteObject, Session
from tiremote.protocol.errors import CompileError, KernelArgumentError, TiremoteError

SPARSE = """
def builder(n):
    return ti.linalg.SparseMatrixBuilder(n, n, max_num_triplets=100, dtype=ti.f32)

@ti.kernel
def fill(matrix: ti.types.sparse_matrix_builder(), diagonal: ti.f32, n: ti.i32):
    for i in range(n):
        matrix[i, i] += diagonal

def build(matrix):
    return matrix.build()

def dense(matrix, n):
    return np.array([[matrix[i, j] for j in range(n)] for i in range(n)])

def solve(matrix, right):
    solver = ti.linalg.SparseSolver(solver_type="LLT")
    solver.analyze_pattern(matrix)
    solver.factorize(matrix)
    return solver.solve(right).to_numpy()
"""

TEXTURE = """
def make():
    return ti.Texture(ti.Format.r32f, (4, 4))
"""

GRAPH = """
@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1), n: ti.f32):
    for i in x:
        x[i] += n

def build():
    x = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "x", ti.f32, ndim=1)
    n = ti.graph.Arg(ti.graph.ArgKind.SCALAR, "n", ti.f32)
    builder = ti.graph.GraphBuilder()
    builder.dispatch(add, x, n)
    builder.dispatch(add, x, n)
    return builder.compile()
"""

#: Loads on a graphics backend only.
SHADER = """
texture = ti.Texture(ti.Format.r32f, (2, 2))
out = ti.field(ti.f32, (2, 2))

@ti.kernel
def store(t: ti.types.rw_texture(num_dimensions=2, fmt=ti.Format.r32f, lod=0)):
    for i, j in ti.ndrange(2, 2):
        t.store(ti.Vector([i, j]), ti.Vector([10.0 * i + j, 0.0, 0.0, 0.0]))

@ti.kernel
def fetch(t: ti.types.texture(num_dimensions=2)):
    for i, j in out:
        out[i, j] = t.fetch(ti.Vector([i, j]), 0).x
"""

FUNCTIONS = """
@ti.real_func
def fibonacci(n: ti.i32) -> ti.i32:
    result = n
    if n > 1:
        result = fibonacci(n - 1) + fibonacci(n - 2)
    return result

@ti.kernel
def nth(n: ti.i32) -> ti.i32:
    return fibonacci(n)

@ti.real_func
def doubled(n: ti.i32) -> ti.i32:
    return 2 * n

@ti.kernel
def doubled_there(n: ti.i32) -> ti.i32:
    return doubled(n)

@ti.real_func
def next_pair(a: ti.ref(ti.i32), b: ti.ref(ti.i32)):
    a += 3
    b = a * 2

@ti.kernel
def pair_after(n: ti.i32) -> ti.i32:
    a, b = n, 0
    next_pair(a, b)
    return a * 1000 + b

@ti.pyfunc
def squared(x):
    return x * x

@ti.kernel
def squared_there(x: ti.f32) -> ti.f32:
    return squared(x)
"""


@feature("other", "sparse matrix builders")
def test_a_sparse_matrix_is_built_and_solved(gpu: Session) -> None:
    """The builder is a remote object that goes to a kernel, the matrix one that goes to a function."""
    gpu.compile_and_load(SPARSE, "sparse")
    unit = gpu["sparse"]
    builder = unit.builder(4)
    assert isinstance(builder, RemoteObject)
    unit.fill(builder, 2.0, 4)
    matrix = unit.build(builder)
    assert unit.dense(matrix, 4).tolist() == (2 * np.eye(4)).tolist()
    assert unit.solve(matrix, gpu.array(np.ones(4, np.float32))).tolist() == [0.5] * 4


@feature("other", "sparse matrix builders", wrong=True)
def test_what_is_no_sparse_matrix_builder(gpu: Session) -> None:
    """A number, an array, another object: the parameter and where a builder comes from are told."""
    gpu.compile_and_load(SPARSE, "sparse")
    for what in (5, np.ones((4, 4), np.float32), gpu.array(np.ones(4, np.float32))):
        with pytest.raises(
            KernelArgumentError, match=r"takes sparse matrix builder.*in source on the worker"
        ) as caught:
            gpu["sparse"].fill(what, 2.0, 4)
        assert caught.value.parameter == "matrix"


@feature("other", "textures and rw_textures", lacking=True)
def test_a_texture_where_there_are_none(gpu: Session, arch: str, runtime: str) -> None:
    """It is refused before it is made, in a call and in a load, and the session goes on; on Vulkan a texture that a
    source has made is stored into and fetched from, by name from here too."""
    if arch == "vulkan" and runtime == "taichi":
        gpu.compile_and_load(SHADER, "shader")
        unit = gpu["shader"]
        unit.store(unit.texture)
        unit.fetch(unit.texture)
        assert unit.out.to_numpy().tolist() == [[0, 1], [10, 11]]
        with pytest.raises(KernelArgumentError, match="make the texture in source on the worker"):
            unit.fetch(3.0)
        return
    gpu.compile_and_load(TEXTURE, "textures")
    with pytest.raises(TiremoteError, match=r"needs a graphics backend|no attribute 'Texture'"):
        gpu["textures"].make()
    with pytest.raises(TiremoteError, match=r"needs a graphics backend|has no textures"):
        gpu.compile_and_load(f"{TEXTURE}\ntexture = make()\n", "at_load")
    assert "at_load" not in gpu


@feature("other", "`ti.graph`")
def test_a_graph_built_in_source(gpu: Session) -> None:
    """It stays on the worker and is run from here, with numbers and remote arrays."""
    gpu.compile_and_load(GRAPH, "graphs")
    graph, x = gpu["graphs"].build(), gpu.array(np.zeros(3, np.float32))
    graph.run({"x": x, "n": 2.0})
    assert x.to_numpy().tolist() == [4, 4, 4]


@feature("other", "`ti.graph`", wrong=True)
def test_a_graph_with_other_arguments(gpu: Session) -> None:
    """A missing or unknown argument is named, and an array of another dtype told."""
    gpu.compile_and_load(GRAPH, "graphs")
    graph, x = gpu["graphs"].build(), gpu.array(np.zeros(3, np.float32))
    for wrong, parameter in (({"x": x}, "n"), ({"x": x, "n": 1.0, "m": 2.0}, "m")):
        with pytest.raises(KernelArgumentError, match="it takes n, x") as caught:
            graph.run(wrong)
        assert caught.value.parameter == parameter
    with pytest.raises(KernelArgumentError, match="a dict of its arguments"):
        graph.run([x, 1.0])
    with pytest.raises(TiremoteError, match="dtype=f32 but got an ndarray with dtype=f64"):
        graph.run({"x": gpu.array(np.zeros(3)), "n": 1.0})
    assert x.to_numpy().tolist() == [0, 0, 0]


@feature("other", "`ti.graph`", lacking=True)
def test_graphs_where_there_are_none(gpu: Session) -> None:
    """What is missing is told with the user's line, and the kernels beside it work."""
    gpu.compile_and_load(GRAPH, "graphs")
    with pytest.raises(TiremoteError, match="no attribute") as caught:
        gpu["graphs"].build()
    assert caught.value.frames[-1].function == "build"
    x = np.zeros(3, np.float32)
    gpu["graphs"].add(x, 1.0)
    assert x.tolist() == [1, 1, 1]


@feature("other", "real functions")
def test_a_real_function(gpu: Session, arch: str) -> None:
    """A kernel calls it, and it calls itself."""
    gpu.compile_and_load(FUNCTIONS, "functions")
    assert gpu["functions"].doubled_there(4) == 8
    if arch == "cpu":  # on CUDA recursion ends in an illegal address, in plain Taichi too
        assert gpu["functions"].nth(10) == 55


@feature("other", "real functions")
def test_a_real_function_writes_through_its_references(gpu: Session) -> None:
    """``ti.ref`` parameters are the caller's own variables."""
    gpu.compile_and_load(FUNCTIONS, "functions")
    assert gpu["functions"].pair_after(4) == 7014


@feature("other", "real functions", wrong=True)
def test_a_real_function_has_no_gradient_and_is_for_kernels(gpu: Session) -> None:
    """Both are told; the next call works."""
    gpu.compile_and_load(FUNCTIONS, "functions")
    with pytest.raises(KernelArgumentError, match="fibonacci is a func, which only kernels can call"):
        gpu["functions"].fibonacci(3)
    with pytest.raises(CompileError, match="Real function in gradient kernels unsupported"):
        gpu["functions"].nth.grad(3)
    assert gpu["functions"].doubled_there(3) == 6


@feature("other", "`ti.pyfunc`")
def test_a_pyfunc_is_called_in_both_worlds(gpu: Session) -> None:
    """From the client as a Python function, and by a kernel."""
    gpu.compile_and_load(FUNCTIONS, "functions")
    assert (gpu["functions"].squared(3), gpu["functions"].squared(1.5)) == (9, 2.25)
    assert gpu["functions"].squared_there(1.5) == 2.25


@feature("other", "`ti.pyfunc`", wrong=True)
def test_wrong_arguments_of_a_pyfunc(gpu: Session) -> None:
    """Its signature is told."""
    gpu.compile_and_load(FUNCTIONS, "functions")
    with pytest.raises(KernelArgumentError, match=r"missing a required argument: 'x'; it takes \(x\)"):
        gpu["functions"].squared()
