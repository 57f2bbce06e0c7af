"""Scripts piped to `tiremote`, through a real worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from real_worker import RealWorker
from tiremote.client import connect
from tiremote.repl.shell import Shell

QUICK_START = """\
import taichi as ti
import numpy as np
ti.init(arch=ti.{arch})

x = ti.ndarray(ti.f32, shape=10)
x.from_numpy(np.arange(10, dtype=np.float32))

@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += base

add_base(x, 5.0)
print(x.to_numpy())

@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += 2 * base

x.from_numpy(np.arange(10, dtype=np.float32))
add_base(x, 5.0)
print(x.to_numpy())
"""


def tiremote(*arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, input=script, capture_output=True, text=True, timeout=100, check=False)


def printed(worker: RealWorker, script: str) -> str:
    """What a script that must end well prints."""
    done = tiremote(worker.address, script=script)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failed(worker: RealWorker, script: str) -> tuple[str, str]:
    """stdout and stderr of a script that must fail."""
    done = tiremote(worker.address, script=script)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


# A local worker


def test_the_quick_start_pasted_whole_runs_on_a_local_worker(arch: str) -> None:
    """Without an address, the Taichi program of the quick start runs unchanged and prints the right numbers."""
    done = tiremote("--arch", arch, script=QUICK_START.format(arch=arch))
    assert (done.returncode, done.stderr) == (0, "")
    # 2 * base is 10, so 0..9 becomes 10..19.
    assert done.stdout == f"{np.arange(5, 15, dtype=np.float32)}\n{np.arange(10, 20, dtype=np.float32)}\n"


def test_the_demo_checks_its_own_results(arch: str) -> None:
    """The demo shows both results and the time of each step, says that all is right and exits with 0."""
    done = tiremote("demo", "--arch", arch)
    assert done.returncode == 0, done.stderr
    assert "x = 5 6 7 8 9 10 11 12 13 14\n" in done.stdout
    assert "x = 10 11 12 13 14 15 16 17 18 19\n" in done.stdout
    assert done.stdout.endswith("All results are right.\n")
    assert done.stdout.count(" ms\n") == 10


# What Taichi users do


def test_fields_and_constants_typed_earlier_are_seen_by_kernels(worker: RealWorker) -> None:
    """Kernels use globals as in Taichi, and a constant given a new value counts from the next call on."""
    script = """
n = 4
dt = 1 / 2
x = ti.field(ti.f32, n)
@ti.kernel
def k():
    for i in x:
        x[i] += dt * n
k()
print(x.to_numpy())
dt = 10.0
k()
print(x.to_numpy())
"""
    assert printed(worker, script) == "[2. 2. 2. 2.]\n[42. 42. 42. 42.]\n"


def test_a_changed_function_reaches_its_callers_and_fields_keep_their_contents(worker: RealWorker) -> None:
    """A kernel follows its ti.func to the new text without being typed again, and no field is emptied by it."""
    script = """
x = ti.field(ti.i32, 2)
@ti.kernel
def k():
    for i in x:
        x[i] += f(i)
@ti.func
def f(i):
    return i + 1
k()
@ti.func
def f(i):
    return 100
k()
print(x.to_numpy())
"""
    assert printed(worker, script) == "[101 102]\n"


def test_fields_that_are_placed_by_hand_work(worker: RealWorker) -> None:
    """Scalar and vector fields share a block of ti.root as in a Taichi program."""
    script = """
a = ti.field(ti.i32)
b = ti.Vector.field(2, ti.i32)
block = ti.root.dense(ti.i, 3)
block.place(a)
block.place(b)
@ti.kernel
def k():
    for i in a:
        a[i] = i
        b[i] = [i, -i]
k()
print(a.to_numpy().tolist(), b.to_numpy().tolist())
"""
    assert printed(worker, script) == "[0, 1, 2] [[0, 0], [1, -1], [2, -2]]\n"


def test_classes_types_and_vectors_of_taichi_work(worker: RealWorker) -> None:
    """Data-oriented classes, vector types, constant vectors and imports of math run from a script as they stand."""
    script = """
import math
import taichi.math as tm
from taichi.math import vec2
vec3 = ti.types.vector(3, ti.f32)
p = vec3.field(shape=2)
gravity = ti.Vector([0.0, -1.0, 2.0])

@ti.data_oriented
class Solver:
    def __init__(self, n):
        self.x = ti.field(ti.f32, n)

    @ti.kernel
    def fill(self, v: ti.f32):
        for i in self.x:
            self.x[i] = v * tm.sign(math.pi) + vec2(0.0, 1.0).x

    @ti.kernel
    def total(self) -> ti.f32:
        s = 0.0
        for i in self.x:
            s += self.x[i]
        return s

@ti.kernel
def fall():
    for i in p:
        p[i] += gravity

s = Solver(4)
s.fill(2.0)
fall()
print(s.total(), p.to_numpy()[1].tolist())
"""
    assert printed(worker, script) == "8.0 [0.0, -1.0, 2.0]\n"


def test_what_kernels_print_comes_in_order(worker: RealWorker) -> None:
    """Output of kernels and of Python is interleaved in the order of the program."""
    script = """
@ti.kernel
def k(i: ti.i32):
    print("kernel", i)
for i in range(3):
    print("laptop", i)
    k(i)
"""
    lines = [line for i in range(3) for line in (f"laptop {i}", f"kernel {i}")]
    assert printed(worker, script).splitlines() == lines


def test_commands_work_in_scripts(worker: RealWorker, tmp_path: Path) -> None:
    """Commands that begin with a colon list, fetch, save and drop in a piped script as at the prompt."""
    script = f"""
x = ti.ndarray(ti.f32, shape=(3, 2))
x.from_numpy(np.arange(6, dtype=np.float32).reshape(3, 2))
@ti.kernel
def k(x: ti.types.ndarray(), b: ti.f32): pass
:kernels
:arrays
:fetch x 1,:
:fetch x :,0 {tmp_path}/column.npy
:cleanup k
:cleanup x
:kernels
:status
"""
    out = printed(worker, script)
    assert "k     1        k(x: ndarray, b: f32)\n" in out
    assert "x     ndarray  f32    (3, 2)  24 bytes  " in out
    assert "f32 (2,)\n[2. 3.]\n" in out
    assert np.load(tmp_path / "column.npy").tolist() == [0.0, 2.0, 4.0]
    assert "dropped k, " in out
    assert "dropped x, 24 bytes came back\nNo kernel is loaded" in out
    assert "holds     0 units, 0 arrays of 0 bytes" in out


# Errors


def test_a_name_that_does_not_exist_is_shown_with_its_line_in_the_script(worker: RealWorker) -> None:
    """The script ends at an unknown name in a kernel, whose line is that of the script, with a caret."""
    out, err = failed(worker, "print('before')\n\n@ti.kernel\ndef k():\n    a = wrong\n\nk()\nprint('after')\n")
    assert out == "before\n"
    assert err.startswith("CompileError: ")
    assert err.endswith("  line 5, in k\n    a = wrong\n        ^^^^^\n")


def test_a_wrong_argument_points_to_the_call(worker: RealWorker) -> None:
    """A value that the kernel cannot take is reported with the parameter's name and the calling line."""
    _, err = failed(worker, "@ti.kernel\ndef k(a: ti.i32): pass\n\nk(2**40)\n")
    assert err.startswith("KernelArgumentError: ")
    assert "'a'" in err
    assert "\n  line 4\n    k(2**40)\n    ^^^^^^^^\n" in err


def test_options_that_differ_are_refused_and_those_that_agree_are_not(worker: RealWorker) -> None:
    """Once something was made, ti.init may repeat the session's options but not change them."""
    _, err = failed(worker, "ti.init(default_fp=ti.f32)\nx = ti.field(int, 2)\nti.init(default_fp=ti.f64)\n")
    assert err.startswith("Refused: line 3: ti.init asks for default_fp='f64'")


def test_an_array_used_as_a_global_is_refused_with_advice(worker: RealWorker) -> None:
    """A kernel cannot reach a NumPy array of the laptop, and the error says so at the place of its use."""
    _, err = failed(worker, "a = np.zeros(3)\n@ti.kernel\ndef k():\n    a[0] = 1\n")
    assert err.startswith("CompileError: a is a NumPy array on this laptop")
    assert err.endswith("  line 4\n    a[0] = 1\n    ^\n")


def test_a_named_session_is_found_again_with_its_names(worker: RealWorker) -> None:
    """A second process goes on with the kernels and field contents of a session that it names."""
    script = "x = ti.field(ti.i32, 2)\n@ti.kernel\ndef k():\n    x[0] += 1\nk()\n"
    for text, expected in [(script, ""), ("k()\nprint(x.to_numpy())\n", "[2 0]\n")]:
        done = tiremote(worker.address, "--session", "found-again", script=text)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    done = tiremote(worker.address, "--session", "found-again", script=":status\n")
    assert "session   found-again" in done.stdout


def test_status_opens_no_session(worker: RealWorker) -> None:
    """Asking for the worker's status shows its address and process and takes part in no session."""
    done = tiremote("status", worker.address)
    assert done.returncode == 0, done.stderr
    assert f"worker    {worker.address}, pid {worker.process.pid}" in done.stdout
    assert "session   " not in done.stdout


def test_a_worker_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """An unreachable address ends a script with status 1 and a single line on stderr."""
    done = tiremote("--timeout", "1", f"ipc://{tmp_path}/nobody", script="1\n")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "WorkerUnreachable" in done.stderr


@pytest.mark.parametrize("script", ["", "# nothing\n", "\ufeffx = 1\n"])
def test_a_script_that_does_nothing_ends_well(worker: RealWorker, script: str) -> None:
    """Empty scripts, mere comments and a leading byte order mark are no errors."""
    assert printed(worker, script) == ""


def test_a_loop_of_launches_in_a_plain_function_is_one_request(arch: str) -> None:
    """And takes the laptop's constants as they are at each call."""
    said: list[str] = []
    with connect(arch=arch) as gpu:
        shell = Shell(gpu, write=said.append, complain=said.append, note=said.append)
        shell.run(
            "c = ti.field(ti.i32, ())\n@ti.kernel\ndef k(n: ti.i32):\n    c[None] += n\n\n"
            "t = 1\ndef drive(steps, log):\n    for i in range(steps):\n        k(t)\n    log[0] = c[None]\n"
            "    print('done', i)\n    return c[None]\n"
        )
        assert "runs on the worker" in said[-1]
        before = gpu.status().requests
        shell.run("log = np.zeros(1)\ndrive(1000, log)")
        assert gpu.status().requests - before < 5
        assert said[-1] == "1000"
        shell.run("for t in (10, 20):\n    last = drive(1, log)\n")
        shell.run("[last, int(log[0])]")
        assert said[-1] == "[1030, 1030]"


# Sessions that another takes the place of


def test_a_program_that_begins_with_init_gets_its_options(worker: RealWorker, arch: str) -> None:
    """A fresh private session gives way to one that has them."""
    script = f"""
import taichi as ti
ti.init(arch=ti.{arch}, default_fp=ti.f64, random_seed=3)
x = ti.field(float, 2)
print(x.to_numpy().dtype, ti.ndarray(float, 2).to_numpy().dtype)
"""
    assert printed(worker, script) == "float64 float64\n"


def test_reconnect_after_the_worker_was_restarted_loads_again_what_was_typed(arch: str) -> None:
    """Kernels work at once, fields are empty, arrays are gone."""
    said: list[str] = []
    with RealWorker(arch=arch) as first:
        gpu = connect(first.address, arch=arch, timeout=30, liveness=5)
        shell = Shell(gpu, write=said.append, complain=said.append, note=said.append)
        shell.run("f = ti.field(ti.i32, 2)\n@ti.kernel\ndef k():\n    for i in f:\n        f[i] += n\n\nn = 3\n")
        assert not shell.run("k()\nx = ti.ndarray(ti.f32, 3)\nwrong")
        said.clear()
    with RealWorker(arch=arch, address=first.address):
        assert not shell.run("f.to_numpy()")
        assert "no session has this token" in said[-1]
        assert ":reconnect" in said[-1]
        assert shell.run(":reconnect"), said
        assert shell.run("k()\nf.to_numpy().tolist()"), said
        assert said[-1] == "[3, 3]"
        assert "lost, to be made anew: x" in said
        shell.gpu.close()


def test_reconnect_starts_a_local_worker_that_died_anew(arch: str) -> None:
    """And loads again what was typed."""
    said: list[str] = []
    gpu = connect(arch=arch)
    shell = Shell(gpu, write=said.append, complain=said.append, note=said.append)
    try:
        shell.run("@ti.kernel\ndef k() -> ti.i32:\n    return 7\n")
        psutil.Process(gpu.status().pid).kill()
        while shell.run("k()"):
            pass
        assert ":reconnect" in said[-1]
        assert shell.run(":reconnect"), said
        assert shell.run("k()"), said
        assert said[-1] == "7"
    finally:
        shell.gpu.close()


def test_after_a_crash_arrays_are_marked_as_lost_and_fields_are_there_again(arch: str) -> None:
    """Also fields of structs, which are known by a handle: their name stands for the new one."""
    said: list[str] = []
    with connect(arch=arch) as gpu:
        shell = Shell(gpu, write=said.append, complain=said.append, note=said.append)
        shell.run("x = ti.ndarray(ti.f32, 3)\nf = ti.field(ti.f32, 2)\ns = ti.types.struct(a=ti.f32).field(shape=2)")
        psutil.Process(gpu.status().session.engine_pid).kill()
        assert not shell.run("x.to_numpy()")
        shell.run("x")
        assert "(ndarray x was lost" in said[-1]
        assert shell.run(":arrays")
        rows = {line.split()[0]: line for line in said[-1].split("\n")}
        assert rows["x"].endswith("lost: make it again")
        assert " f.f " in rows["f"]
        assert shell.run("f.to_numpy().tolist()\ns.a.to_numpy().tolist()"), said
        assert said[-1] == "[0.0, 0.0]"


def test_what_is_inside_an_object_is_reached_at_the_prompt(worker: RealWorker) -> None:
    """Fields and arrays by their methods, kernels by a call."""
    script = """
@ti.data_oriented
class S:
    def __init__(self, n):
        self.x = ti.field(ti.f32, shape=n)
        self.a = ti.ndarray(ti.i32, shape=n)
    @ti.kernel
    def step(self):
        for i in self.x:
            self.x[i] += 2
s = S(2)
s.step()
print(s.x.to_numpy(), s.a.to_numpy(), s.x)
"""
    assert printed(worker, script) == "[2. 2.] [0 0] <RemoteField f32, shape=(2,)>\n"


def test_worker_cells_share_what_they_define(worker: RealWorker) -> None:
    """Python of one cell, an import among it, is there in the next and at the prompt; print and values come back."""
    script = "%%worker\nimport os\nx = 1\nprint('there')\nos.getpid() > 0\n%%worker\nx += 1\n(x, os.sep)\n%%\nx * 10\n"
    assert printed(worker, script).split("\n") == ["there", "True", "(2, '/')", "20", ""]


def test_an_error_in_a_worker_cell_is_told_at_its_line(worker: RealWorker) -> None:
    """Counted with the line that says where the cell runs."""
    _, errors = failed(worker, "%%worker\nx = 0\n1 / x\n")
    assert "line 3\n    1 / x\n    ^^^^^" in errors


def test_a_request_under_way_can_be_awaited(worker: RealWorker) -> None:
    """What submit gives works with await, at the prompt as in asyncio."""
    assert printed(worker, "@ti.kernel\ndef k(n: ti.i32) -> ti.i32:\n    return n * 2\nawait k.submit(4)\n") == "8\n"


def test_sessions_are_listed_with_their_own_marked(worker: RealWorker) -> None:
    """Named ones and private ones, and how to join."""
    with connect(worker.address, session="beside"):
        text = printed(worker, ":sessions\n")
    lines = text.splitlines()
    assert lines[0].split() == ["session", "used", "by", "does", "holds"]
    assert any(line.lstrip().startswith("beside") and "1 client" in line for line in lines)
    assert [line for line in lines[1:-1] if line.startswith("*") and "(private)" in line]
    assert lines[-1] == f"* is this one. Join a named one: tiremote {worker.address} --session NAME"
