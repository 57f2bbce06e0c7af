"""What a Taichi user tries in the first hour, and what breaks a naive tool: forty rules that are kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import numpy as np
import pytest

from printed import Printed
from real_worker import RealWorker
from tiremote.client import RemoteField, Session, connect
from tiremote.protocol.errors import (
    CompileError,
    EngineCrashed,
    KernelArgumentError,
    KernelRuntimeError,
    ProtocolError,
    Refused,
    StaleHandle,
    UnknownName,
    UnsupportedType,
)

Check = Callable[[], None]


# ---------------------------------------------------------------- ways to make a kernel


def test_kernels_from_a_loop_of_templates(gpu: Session) -> None:
    """Source made by formatting in a loop: each id has its own kernel, the newest is the last."""
    for n in range(5):
        gpu.compile_and_load(f"@ti.kernel\ndef k() -> ti.i32:\n    return {n}\n", f"u{n}")
    assert [gpu[f"u{n}"].k() for n in range(5)] == [0, 1, 2, 3, 4]
    assert gpu[None].k() == 4
    assert [unit.unit for unit in gpu.describe().units] == ["u0", "u1", "u2", "u3", "u4"]


def test_kernels_from_a_factory_keep_their_closure(gpu: Session) -> None:
    """Kernels made in a function see its variables, each its own, and one that is returned can be called from here."""
    gpu.compile_and_load(
        "def make(n):\n    @ti.kernel\n    def k(x: ti.i32) -> ti.i32:\n        return x * n\n    return k\n"
        "kernels = [make(2), make(3)]\ndef call(i, x):\n    return kernels[i](x)\n"
    )
    assert [gpu[None].call(i, 5) for i in range(2)] == [10, 15]
    seven = gpu[None].make(7)
    assert seven(3) == 21
    with pytest.raises(KernelArgumentError) as caught:
        seven(2**40)
    assert caught.value.parameter == "x"


def test_a_kernel_made_by_a_call(gpu: Session) -> None:
    """``g = ti.kernel(f)`` is a kernel as good as a decorated one."""
    gpu.compile_and_load("def f(x: ti.i32) -> ti.i32:\n    return x + 1\ng = ti.kernel(f)\n")
    assert gpu[None].g(3) == 4
    assert gpu[None].f(3) == 4


def test_real_functions_and_recursion(gpu: Session, arch: str) -> None:
    """``ti.real_func`` calls itself, where the runtime can."""
    if arch == "cuda":
        pytest.skip("taichi 1.7.4 itself ends in an illegal address here: its launches on CUDA have no stack for it")
    gpu.compile_and_load(
        "@ti.real_func\ndef fib(n: ti.i32) -> ti.i32:\n    if n > 1:\n"
        "        return fib(n - 1) + fib(n - 2)\n    return n\n"
        "@ti.kernel\ndef f() -> ti.i32:\n    return fib(10)\n"
    )
    assert gpu[None].f() == 55


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("a: ti.i32 = 3", "default"),
        ("*a: ti.i32", r"\*args"),
        ("**a: ti.i32", "keyword|variable"),
        ("a: str", "Invalid type annotation"),
        ("a: list", "Invalid type annotation"),
        ("a: np.ndarray", "annotation|ndarray"),
    ],
)
def test_signatures_that_taichi_does_not_take(gpu: Session, unharmed: Check, signature: str, message: str) -> None:
    """Default values, ``*args`` and odd annotations are told when the source is loaded, at the kernel."""
    with pytest.raises(CompileError, match=message) as caught:
        gpu.compile_and_load(f"\n@ti.kernel\ndef f({signature}):\n    pass\n")
    assert caught.value.line in (2, 3)
    unharmed()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if a > 0:\n        b = 1\n    return b", '"b" is not defined'),
        ("for i in range(0, 10, 2):\n        a + i\n    return a", "1 or 2 arguments"),
        ("n = 0\n    for i in range(3_000_000_000):\n        n += 1\n    return n", "3000000000"),
        ("return other(a)", "Kernels cannot call"),
        ("return a.nothing", "nothing"),
        ("try:\n        pass\n    finally:\n        pass\n    return 1", "Try"),
        ("global N\n    return a", "Global"),
        ("return lambda: 1", "Lambda"),
        ("import os\n    return a", "Import"),
        ("return {1: a}[1]", None),
    ],
)
def test_python_that_is_not_taichi(gpu: Session, unharmed: Check, body: str, message: str | None) -> None:
    """What Python has and kernels have not is a compile error with its place, and one that runs runs rightly."""
    source = (
        "N = 1\n@ti.kernel\ndef other(a: ti.i32) -> ti.i32:\n    return a\n@ti.kernel\n"
        f"def f(a: ti.i32) -> ti.i32:\n    {body}\n"
    )
    if message is None:
        gpu.compile_and_load(source)
        assert gpu[None].f(4) == 4
    else:
        with pytest.raises(CompileError, match=message) as caught:
            gpu.compile_and_load(source)
        assert caught.value.line is not None
        assert caught.value.line >= 7
    unharmed()


def test_a_func_is_not_called_from_python(gpu: Session, unharmed: Check) -> None:
    """``ti.func`` belongs into kernels: the call is refused with that reason."""
    gpu.compile_and_load("@ti.func\ndef square(x):\n    return x * x\n")
    with pytest.raises(KernelArgumentError, match="square is a func, which only kernels can call"):
        gpu[None].square(3.0)
    unharmed()


# ---------------------------------------------------------------- arrays under the fingers


def test_a_remote_array_is_read_where_numpy_reads(gpu: Session) -> None:
    """``np.asarray``, ``np.array``, ``list``, ``len``, slices into NumPy functions, and scalars as numbers."""
    x = gpu.array(np.arange(6, dtype=np.float32))
    assert np.asarray(x).tolist() == np.array(x).tolist() == list(x) == [0, 1, 2, 3, 4, 5]
    assert np.asarray(x, np.float64).dtype == np.float64
    assert len(x) == 6
    assert np.mean(x[1:4]) == 2
    assert float(x[3]) == 3
    assert isinstance(x[3], np.float32)


def test_a_remote_array_is_not_computed_with_by_accident(gpu: Session) -> None:
    """Arithmetic would fetch the whole array silently: it is a TypeError instead, and elements are set in place."""
    x = gpu.array(np.arange(6, dtype=np.float32))
    for compute in (lambda: x + 1, lambda: 2 * x, lambda: -x, lambda: np.sin(x), lambda: x @ x, lambda: bool(x)):
        with pytest.raises(TypeError):
            compute()
    x[2] += 10
    x[3:5] *= 2
    assert x.to_numpy().tolist() == [0, 1, 12, 6, 8, 5]


@pytest.mark.parametrize("kind", ["ndarray", "field"])
def test_every_way_to_name_a_dtype_and_a_shape(gpu: Session, kind: str) -> None:
    """Taichi's dtypes, their long names, NumPy's, Python's, vectors of ``ti.math``; shapes as numbers or sequences."""
    ti, make = gpu.ti, getattr(gpu.ti, kind)
    for dtype in (ti.f32, ti.float32, "f32", "float32", np.float32, np.dtype("f4"), float):
        assert make(dtype, 2).dtype == np.float32
    for dtype in (ti.i32, int, np.int32, "int32"):
        assert make(dtype, shape=(2,)).dtype == np.int32
    assert make(dtype=ti.u1, shape=[2, 3]).to_numpy().dtype == np.bool_
    assert make(ti.types.vector(3, ti.f64), (2,)).to_numpy().shape == (2, 3)
    assert make(ti.math.vec3, 4).element_shape == (3,)
    assert make(ti.math.mat2, 4).to_numpy().shape == (4, 2, 2)
    assert make(ti.math.ivec2, 4).dtype == np.int32
    assert make(ti.f32, ()).to_numpy() == 0
    for dtype in (complex, str, object, "f128", None, 5):
        with pytest.raises(UnsupportedType):
            make(dtype, 2)
    for shape in (-1, (2, -3), 1.5, "3", None):
        with pytest.raises((KernelArgumentError, UnsupportedType)):
            make(ti.f32, shape)
    with pytest.raises(KernelArgumentError, match="2147483647"):
        make(ti.f32, (1 << 20, 1 << 20))


def test_names_of_taichi_that_belong_into_source(gpu: Session) -> None:
    """``ti.kernel``, ``ti.init``, ``ti.sin`` on this side: an AttributeError that says where they belong."""
    for name in ("kernel", "func", "init", "sin", "data_oriented"):
        with pytest.raises(AttributeError, match="compile_and_load"):
            getattr(gpu.ti, name)
    with pytest.raises(AttributeError, match="vector and matrix"):
        gpu.ti.types.ndarray()


def test_fields_of_structs_and_of_odd_widths(gpu: Session, unharmed: Check) -> None:
    """What is no single array is an object with Taichi's own methods, or refused, and never an internal error."""
    gpu.compile_and_load("""
Ball = ti.types.struct(mass=ti.f32, at=tm.vec2)
balls = Ball.field(shape=3)
bits = ti.field(ti.types.quant.int(5))
pack = ti.BitpackedFields(max_num_bits=32)
pack.place(bits)
ti.root.dense(ti.i, 4).place(pack)

@ti.kernel
def set():
    for i in balls:
        balls[i].mass = i
    bits[1] = 7

@ti.kernel
def get() -> ti.i32:
    return bits[1]
""")
    gpu[None].set()
    assert gpu[None].get() == 7
    assert gpu[None].balls.to_numpy()["mass"].tolist() == [0, 1, 2]
    gpu[None].balls.from_numpy({"mass": np.ones(3, np.float32), "at": np.zeros((3, 2), np.float32)})
    assert gpu.run("balls.mass.to_numpy").tolist() == [1, 1, 1]
    with pytest.raises(UnsupportedType, match="qi5"):
        gpu[None].bits.to_numpy()
    unharmed()


def test_a_field_without_a_place_says_what_it_needs(gpu: Session, unharmed: Check) -> None:
    """A field is reached from here once a call has placed it; before that the reason is told."""
    gpu.compile_and_load("x = ti.field(ti.f32)\ndef place(n):\n    ti.root.dense(ti.i, n).place(x)\n")
    with pytest.raises(Refused, match="no place"):
        gpu[None].x.to_numpy()
    gpu[None].place(4)
    assert gpu[None].x.to_numpy().tolist() == [0, 0, 0, 0]
    unharmed()


def test_sparse_and_dynamic_fields(gpu: Session) -> None:
    """Pointer, bitmasked and dynamic SNodes work as declared, and fetch as dense arrays."""
    gpu.compile_and_load("""
x = ti.field(ti.f32)
block = ti.root.pointer(ti.i, 4)
block.dense(ti.i, 4).place(x)
d = ti.field(ti.i32)
ti.root.dynamic(ti.j, 32).place(d)

@ti.kernel
def fill() -> ti.i32:
    x[5] = 1
    n = 0
    for i in x:
        n += 1
    return n

@ti.kernel
def append(n: ti.i32) -> ti.i32:
    for i in range(n):
        d.append(i)
    return d.length()
""")
    assert gpu[None].fill() == 4
    assert gpu[None].x.to_numpy().tolist() == [0] * 5 + [1] + [0] * 10
    assert gpu[None].append(10) == 10


def test_many_fields_come_and_go(worker: RealWorker, arch: str) -> None:
    """Taichi dies at the 513th field that is declared: here one too many is refused, and fields that are gone make
    room, also where nothing was ever launched."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        kept = [gpu.ti.field(gpu.ti.f32, 2) for _ in range(300)]
        del kept[:]
        gc.collect()
        kept += [gpu.ti.field(gpu.ti.f32, 2) for _ in range(500)]
        more: list[RemoteField] = []

        def fill_up() -> None:
            for _ in range(13):
                more.append(gpu.ti.field(gpu.ti.f32, 2))

        with pytest.raises(Refused, match="512"):
            fill_up()
        kept[499].fill(7)
        del kept[:400]
        gc.collect()
        fill_up()
        assert kept[-1].to_numpy().tolist() == [7, 7]
        assert more[0].to_numpy().tolist() == [0, 0]


def test_arrays_above_the_limit_of_one_message(gpu: Session) -> None:
    """100 MB as an argument, as an upload and as a download: in pieces that nobody sees."""
    gpu.compile_and_load("@ti.kernel\ndef add(x: ti.types.ndarray()):\n    for i in x:\n        x[i] += 1\n")
    local = np.arange(25_000_000, dtype=np.int32)
    assert local.nbytes > gpu.info.limits.buffer_bytes
    gpu[None].add(local)
    remote = gpu.array(local)
    gpu[None].add(remote)
    assert remote[-1] == 25_000_001
    assert np.array_equal(remote.to_numpy(), np.arange(2, 25_000_002, dtype=np.int32))
    remote[10:24_000_000] = 5
    assert remote[9:12].tolist() == [11, 5, 5]


# ---------------------------------------------------------------- objects


def test_remote_objects_are_called_passed_and_looked_into(gpu: Session, unharmed: Check) -> None:
    """Instances go back as arguments, inside lists too; static and class methods and those of members are reached."""
    gpu.compile_and_load("""
class Body:
    def __init__(self, mass, *, at=0.0):
        self.mass = mass
        self.at = at
        self.x = ti.field(ti.f32, 3)

    def __call__(self, by):
        return self.mass * by

    @staticmethod
    def unit():
        return Body(1)

    @classmethod
    def of(cls, mass):
        return cls(mass * 2)

    def heavier(self, other):
        return self.mass > other.mass

def masses(bodies, names):
    return {name: body.mass for name, body in zip(names, bodies)}
""")
    body, other = gpu[None].Body(3, at=1.5), gpu[None].Body.of(4)
    assert body(5) == 15
    assert other.heavier(body)
    assert gpu[None].masses([body, other, gpu[None].Body.unit()], ["a", "b", "c"]) == {"a": 3, "b": 8, "c": 1}
    body.x.fill(2)
    assert body.x.to_numpy().tolist() == [2, 2, 2]
    assert (body.mass, body.at) == (3, 1.5)
    with pytest.raises(UnknownName, match="'Body' object has no attribute 'mess'"):
        body.mess()
    for probe in (lambda: list(body), lambda: 3 in body, lambda: body[0], lambda: len(body)):
        with pytest.raises(TypeError):
            probe()
    unharmed()


def test_results_that_are_no_plain_values_stay_there(gpu: Session) -> None:
    """Generators, sets and dates come as objects whose methods work; what cannot travel says so."""
    gpu.compile_and_load(
        "import datetime, enum\ndef generator():\n    yield 1\n    yield 2\ndef date():\n"
        "    return datetime.date(2020, 2, 29)\n"
        "class Colour(enum.IntEnum):\n    RED = 2\ndef colour():\n    return Colour.RED\ndef big():\n"
        "    return 2**100\n"
        "def vector():\n    return ti.Vector([1, 2, 3])\ndef field():\n    return ti.field(ti.f32, 2)\n"
    )
    unit = gpu[None]
    generator = unit.generator()
    assert [generator["__next__"] is not None, unit.date().isoformat()] == [True, "2020-02-29"]
    assert unit.colour() == 2
    assert unit.vector().tolist() == [1, 2, 3]
    assert unit.field().to_numpy().tolist() == [0, 0]
    with pytest.raises(UnsupportedType, match="64 bits"):
        unit.big()


# ---------------------------------------------------------------- ids and names


def test_ids_and_names_of_every_kind(gpu: Session, unharmed: Check) -> None:
    """Any printable text is an id, ``"None"`` is one like others, and what is no id is refused in one line."""
    for unit in ("None", "numpy", "a b", "größe", "x" * 200, "../up", "0", "é" * 20):
        gpu.compile_and_load(f"def f():\n    return {unit!r}\n", unit)
        assert gpu[unit].f() == unit
        assert unit in gpu
    for wrong in ("", "a\nb", "x" * 201):
        with pytest.raises(ProtocolError):
            gpu.compile_and_load("x = 1\n", wrong)
    assert 5 not in gpu
    with pytest.raises(TypeError):
        gpu["a", "b"]
    with pytest.raises(TypeError):
        gpu.compile_and_load(b"x = 1\n")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="numpi"):
        gpu["numpi"]
    with pytest.raises(UnknownName, match="did you mean 'f'"):
        gpu["numpy"].ff()
    assert not hasattr(gpu["numpy"], "ff")
    unharmed()


def test_names_of_the_source_that_the_client_has_too(gpu: Session) -> None:
    """Kernels called ``submit``, ``grad`` or ``close`` are reached like others; private ones as items."""
    names = ("submit", "grad", "close", "run", "ti", "definition", "from_numpy", "_private", "print", "type")
    gpu.compile_and_load("".join(f"def {name}():\n    return '{name}'\n" for name in names))
    for name in names:
        assert gpu[None][name]() == name
        if not name.startswith("_"):
            assert getattr(gpu[None], name)() == name
            assert getattr(gpu[None], name).submit().result() == name


def test_a_value_of_a_unit_is_not_set_from_here(gpu: Session) -> None:
    """``gpu["sim"].gravity = 5`` would be lost: it is refused with the way to do it."""
    gpu.compile_and_load("gravity = 9.8\ndef change(g):\n    global gravity\n    gravity = g\n", "sim")
    with pytest.raises(AttributeError, match="call a function"):
        gpu["sim"].gravity = 5.0
    gpu["sim"].change(5.0)
    assert gpu["sim"].gravity == 5


# ---------------------------------------------------------------- what source does to its process


def test_source_that_uses_the_process_it_runs_in(gpu: Session, printed: Printed, unharmed: Check) -> None:
    """Shells, threads, pickles, getsource, logging, ``__name__``: as in a module of its own."""
    gpu.compile_and_load("""
import inspect, logging, os, pickle, subprocess, threading
from dataclasses import dataclass

@dataclass
class Point:
    x: int = 1

@ti.kernel
def one() -> ti.i32:
    return 1

def in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(1 + 1))
    thread.start()
    thread.join()
    return found

def pickled():
    return pickle.loads(pickle.dumps(Point(3))).x

def source():
    return inspect.getsource(pickled)

def shell():
    os.system("echo from a shell")
    return subprocess.run(["echo", "captured"], capture_output=True, text=True).stdout

def log():
    logging.getLogger("mine").warning("logged")

def is_main():
    return __name__ == "__main__"
""")
    unit = gpu[None]
    assert unit.in_a_thread() == [2]
    assert unit.pickled() == 3
    assert unit.source().startswith("def pickled():")
    printed.clear()
    assert unit.shell() == "captured\n"
    assert printed.text() == "from a shell\n"
    unit.log()
    assert "logged" in printed.text("stderr")
    assert not unit.is_main()
    unharmed()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("import sys\n    sys.exit(2)", "SystemExit"),
        ("return input('name? ')", "EOFError"),
        ("return f()", "RecursionError"),
        ("raise type('Mine', (Exception,), {'__str__': lambda self: 1 / 0})()", "Mine"),
        ("raise ExceptionGroup('several', [ValueError('a')])", "ExceptionGroup"),
        ("assert 1 == 2, 'never'", "AssertionError"),
        ("raise ValueError('two\\\\nlines')", "ValueError"),
    ],
)
def test_whatever_a_function_raises_the_session_goes_on(gpu: Session, unharmed: Check, body: str, kind: str) -> None:
    """Exits, waits for a keyboard that is not there, endless recursion, odd exceptions: typed, in the user's line."""
    gpu.compile_and_load(f"def f():\n    {body}\n")
    with pytest.raises(KernelRuntimeError) as caught:
        gpu[None].f()
    assert caught.value.type == kind
    assert caught.value.line in (2, 3)
    assert "\n" not in caught.value.message
    unharmed()


def test_a_division_by_zero_costs_no_more_than_an_engine(worker: RealWorker, arch: str) -> None:
    """Integers divided by zero kill a process on the CPU, as in plain Taichi; on CUDA the result is arbitrary."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        gpu.compile_and_load("@ti.kernel\ndef f(a: ti.i32, b: ti.i32) -> ti.i32:\n    return a // b\n")
        assert gpu[None].f(7, 2) == 3
        if arch == "cpu":
            with pytest.raises(EngineCrashed) as caught:
                gpu[None].f(1, 0)
            assert caught.value.signal == "SIGFPE"
        assert gpu[None].f(9, 3) == 3


def test_warnings_of_source_are_in_the_receipt(gpu: Session) -> None:
    """Python's own warnings and those that source gives while it is loaded, with their lines."""
    receipt = gpu.compile_and_load("import warnings\nwarnings.warn('be careful')\ndef f(x):\n    return x is 5\n")
    assert any("line 2: be careful" in text for text in receipt.warnings)
    assert any("line 4" in text for text in receipt.warnings)


# ---------------------------------------------------------------- numbers that surprise


def test_templates_vectors_and_mixed_arguments(gpu: Session) -> None:
    """Template numbers, fields and arrays mixed in one signature, in any order and by name."""
    gpu.compile_and_load("""
@ti.kernel
def mixed(a: ti.types.ndarray(), f: ti.template(), n: ti.template(), by: ti.f32):
    for i in f:
        for j in ti.static(range(n)):
            f[i] += a[i] * by

@ti.kernel
def first(points: ti.types.ndarray(dtype=tm.vec2, ndim=1)) -> tm.vec2:
    return points[0]

@ti.kernel
def place(x: ti.types.ndarray(ndim=3)):
    for I in ti.grouped(x):
        x[I] = I[0] * 100 + I[1] * 10 + I[2]

@ti.kernel
def flip(x: ti.u64) -> ti.u64:
    return x ^ ti.u64(0xFF)
""")
    unit, field = gpu[None], gpu.ti.field(gpu.ti.f32, 3)
    unit.mixed(np.arange(3, dtype=np.float32), field, 2, 0.5)
    unit.mixed(by=1.0, n=3, f=field, a=gpu.array(np.ones(3, np.float32)))
    assert field.to_numpy().tolist() == [3, 4, 5]
    assert unit.first(np.array([[1, 2], [3, 4]], np.float32)).tolist() == [1, 2]
    x = np.zeros((2, 3, 4), np.int64)
    unit.place(x)
    assert x[1, 2, 3] == 123
    assert unit.flip(2**64 - 1) == 2**64 - 1 - 0xFF


def test_gradients_from_here(gpu: Session) -> None:
    """``kernel.grad``, ``field.grad`` and a tape in a function give the same gradient."""
    gpu.compile_and_load("""
x = ti.field(ti.f32, 3, needs_grad=True)
loss = ti.field(ti.f32, (), needs_grad=True)

@ti.kernel
def total():
    for i in x:
        loss[None] += x[i] ** 2

def tape():
    with ti.ad.Tape(loss=loss):
        total()
""")
    unit = gpu[None]
    unit.x.from_numpy(np.array([1, 2, 3], np.float32))
    unit.tape()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]
    unit.x.grad.fill(0)
    unit.loss.grad[None] = 1
    unit.total.grad()
    assert unit.x.grad[1:].tolist() == [4, 6]


def test_asyncio_awaits_a_submitted_call(gpu: Session) -> None:
    """``asyncio.wrap_future`` makes a call awaitable, with its result or its error."""
    gpu.compile_and_load("@ti.kernel\ndef half(x: ti.f32) -> ti.f32:\n    return x / 2\n")

    async def both() -> tuple[float, ...]:
        return tuple(await asyncio.gather(*(asyncio.wrap_future(gpu[None].half.submit(n)) for n in (1, 2, 3))))

    async def wrong() -> None:
        await asyncio.wrap_future(gpu[None].half.submit("x"))

    assert asyncio.run(both()) == (0.5, 1, 1.5)
    with pytest.raises(KernelArgumentError, match="'x'"):
        asyncio.run(wrong())


# ---------------------------------------------------------------- the end of things


def test_arrays_that_are_dropped_here_go_there(gpu: Session) -> None:
    """An array without a variable is freed on the worker, and its bytes come back."""
    before = gpu.describe().nbytes
    arrays = [gpu.ti.ndarray(gpu.ti.f32, 250_000) for _ in range(5)]
    assert gpu.describe().nbytes - before == 5_000_000
    arrays.clear()
    gc.collect()
    gpu.ti.ndarray(gpu.ti.f32, 1).to_numpy()
    gpu.ti.sync()
    assert gpu.describe().nbytes - before < 5_000_000


def test_cleanup_of_everything_twice_and_what_is_said_afterwards(gpu: Session) -> None:
    """Nothing is there afterwards, each use says so, and the session takes new source."""
    gpu.compile_and_load("x = ti.field(ti.f32, 3)\ndef f():\n    return 1\n", "k")
    array, field, f = gpu.ti.ndarray(gpu.ti.f32, 3), gpu["k"].x, gpu["k"].f
    gpu.cleanup_all()
    gpu.cleanup_all()
    for use, error in ((array.to_numpy, StaleHandle), (field.to_numpy, UnknownName), (f, UnknownName)):
        with pytest.raises(error):
            use()
    with pytest.raises(UnknownName, match="nothing is loaded"):
        gpu[None].f()
    gpu.compile_and_load("def f():\n    return 2\n", "k")
    assert f() == 2


def test_a_closed_session_says_so(worker: RealWorker, arch: str) -> None:
    """Closing twice is fine, and every use afterwards is refused in one line."""
    gpu = connect(worker.address, arch=arch, on_output=None)
    gpu.compile_and_load("def f():\n    return 1\n")
    x, f = gpu.ti.ndarray(gpu.ti.f32, 3), gpu[None].f
    gpu.close()
    gpu.close()
    for use in (gpu.ping, gpu.status, x.to_numpy, f, lambda: gpu.compile_and_load("x = 1\n")):
        with pytest.raises(Refused, match="closed"):
            use()
    assert "closed" in repr(gpu)


def test_reprs_say_what_things_are(gpu: Session) -> None:
    """What a notebook shows: shapes, dtypes, signatures, ids, and no bytes."""
    gpu.compile_and_load(
        ("x = ti.field(ti.f32, (2, 3))\n@ti.kernel\ndef f(a: ti.f32, n: ti.i32) -> ti.f32:\n    return a * n\n"), "k"
    )
    assert repr(gpu.ti.Vector.ndarray(3, gpu.ti.f32, 4)) == "<RemoteArray f32, shape=(4,), element_shape=(3,)>"
    assert repr(gpu["k"].x) == "<RemoteField k.x f32, shape=(2, 3)>"
    assert repr(gpu["k"].f) == "<remote kernel f(a: f32, n: i32) -> f32 of 'k'>"
    assert repr(gpu["k"]) == "<RemoteUnit 'k'>"
    assert sorted(dir(gpu["k"])) == ["f", "x"]
    assert gpu.name in repr(gpu)
