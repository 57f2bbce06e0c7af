"""The seam to Taichi: starting it, its state, and its guard against a second start."""
# A kernel's annotations are values, so no ``from __future__ import annotations`` here.

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tiremote.protocol.errors import Refused
from tiremote.worker.engine.device import cpu_name
from tiremote.worker.engine.options import SESSION_OPTIONS, check_options
from tiremote.worker.engine.runtime import PRIMITIVES, TaichiRuntime


def in_fresh_process(text: str) -> str:
    """Runs a script with a Taichi of its own; gives its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_imports_taichi_before_a_runtime_is_made() -> None:
    """Not the worker package, not any module of the engine."""
    assert (
        in_fresh_process("""
            import importlib, pkgutil, sys
            import tiremote.worker, tiremote.worker.engine as engine
            for module in pkgutil.iter_modules(engine.__path__):
                if module.name != "__main__":
                    importlib.import_module(f"tiremote.worker.engine.{module.name}")
            print("taichi" in sys.modules)
        """)
        == "False\n"
    )


def test_the_loader_works_in_a_process_of_ones_own() -> None:
    """As plain Taichi: the caller starts it, may start it anew, and only what is loaded is guarded."""
    out = in_fresh_process("""
        from tiremote.worker import KernelLoader
        from tiremote.protocol.errors import Refused
        loader = KernelLoader()
        try:
            loader.compile_and_load("x = 1")
        except Refused as error:
            print(error)
        import taichi as ti
        ti.init(arch=ti.cpu, default_fp=ti.f64, log_level="error")
        loader.compile_and_load("ti.init(arch=ti.cpu)\\n@ti.kernel\\ndef f() -> float:\\n    return 0.1\\n")
        print(loader[None].f())
        loader.cleanup_all()
        ti.init(arch=ti.cpu, default_fp=ti.f32, log_level="error")
        loader.compile_and_load("@ti.kernel\\ndef f() -> float:\\n    return 0.1\\n")
        print(loader[None].f() == 0.1)
    """).splitlines()
    assert out[0] == "the runtime is not started: call ti.init first"
    assert [line for line in out[1:] if not line.startswith("[Taichi]")] == ["0.1", "False"]


def test_starting_prints_nothing_and_takes_the_options(runtime: TaichiRuntime) -> None:
    """Standard output belongs to the user's prints."""
    name = runtime.name
    assert in_fresh_process(f"""
        from tiremote.worker.engine.runtime import TaichiRuntime
        runtime = TaichiRuntime({name!r})
        info = runtime.init(
            dict(arch="cpu", default_fp="f64", default_ip="i64", debug=True, random_seed=7))
        config = runtime.config()
        print(info.name, info.arch, bool(info.device), runtime.dtype_name(runtime.state.default_fp),
              runtime.dtype_name(runtime.state.default_ip), config.debug, config.random_seed)
    """).splitlines() == [f"{name} cpu True f64 i64 True 7"]


def test_what_came_up_is_told(runtime: TaichiRuntime) -> None:
    """Name, version, the real arch and the device."""
    assert runtime.info is not None
    assert runtime.info.arch == runtime.arch()
    assert runtime.info.version.count(".") == 2
    assert runtime.info.device


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nonsense": 1}, "unknown session option 'nonsense'; taken are arch, default_fp"),
        ({"arch": "gpu9"}, "arch='gpu9' is not taken; it must be one of auto, cpu, cuda"),
        ({"arch": 3}, "arch=3"),
        ({"default_fp": "f31"}, "one of f16, f32, f64"),
        ({"debug": 1}, "True or False"),
        ({"random_seed": -1}, "a whole number from 0"),
        ({"random_seed": True}, "a whole number from 0"),
        ({"device_memory_fraction": 2}, "a number from 0 to 1"),
        ({"offline_cache_file_path": "/"}, "unknown session option"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], said: str) -> None:
    """Before Taichi sees them, which would have lost the running session."""
    with pytest.raises(Refused) as caught:
        check_options(options)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_none_means_not_given() -> None:
    """A client may send every option with None."""
    assert check_options(dict.fromkeys(SESSION_OPTIONS)) == {}


def test_an_arch_that_is_not_there_is_refused(runtime: TaichiRuntime) -> None:
    """Taichi would fall back to the CPU with a warning; the running session is not touched."""
    if runtime.has_arch("metal"):
        pytest.skip("this machine has Metal")
    field = runtime.ti.field(runtime.ti.i32, 2)
    field[1] = 3
    with pytest.raises(Refused, match="arch='metal' was asked for"):
        runtime.init({"arch": "metal"})
    assert field[1] == 3


@pytest.mark.parametrize("name", PRIMITIVES)
def test_dtype_names_go_both_ways(runtime: TaichiRuntime, name: str) -> None:
    """The wire's names; ``bool`` is Taichi's ``u1``."""
    assert runtime.dtype_name(runtime.dtype_object(name)) == name


def test_kinds_are_told_apart(runtime: TaichiRuntime) -> None:
    """Kernels, class kernels, bound kernels, funcs, fields and ndarrays."""
    ti = runtime.ti

    @ti.data_oriented
    class Holder:
        @ti.kernel
        def step(self):  # type: ignore[no-untyped-def]
            pass

    @ti.kernel
    def kernel():  # type: ignore[no-untyped-def]
        pass

    @ti.pyfunc
    def both(x):  # type: ignore[no-untyped-def]
        return x

    holder = Holder()
    assert runtime.is_kernel(kernel)
    assert not runtime.is_class_kernel(kernel)
    assert runtime.is_class_kernel(Holder.__dict__["step"])
    assert runtime.is_bound_kernel(holder.step)
    assert runtime.is_func(both)
    assert not runtime.is_func(kernel)
    assert runtime.is_field(ti.Vector.field(2, ti.f32, shape=1))
    assert runtime.is_ndarray(ti.ndarray(ti.f32, 1))
    assert not runtime.is_field(3)
    runtime.sync()


def test_an_ndarray_has_an_address(runtime: TaichiRuntime) -> None:
    """Of the host on CPU, of the device on CUDA."""
    if runtime.arch() not in ("cpu", "cuda"):
        pytest.skip("this backend does not tell")
    assert runtime.data_pointer(runtime.ti.ndarray(runtime.ti.f32, 4)) > 0


def test_a_kernel_is_compiled_without_a_launch(runtime: TaichiRuntime) -> None:
    """Front end alone."""
    ti = runtime.ti
    x = ti.ndarray(ti.i32, 1)

    @ti.kernel
    def fill(y: ti.types.ndarray()):  # type: ignore[no-untyped-def,valid-type]
        y[0] = 3

    key = runtime.ensure_compiled(fill, x)
    assert list(runtime.instances(runtime.primal(fill))) == [key]
    assert x.to_numpy().tolist() == [0]
    fill(x)
    assert x.to_numpy().tolist() == [3]
    assert list(runtime.instances(runtime.primal(fill))) == [key]
    runtime.forget_all_compiled()
    assert list(runtime.instances(runtime.primal(fill))) == []


def test_the_guard_is_only_there_while_it_is_wanted(runtime: TaichiRuntime) -> None:
    """Contexts nest, and each has warnings of its own."""
    with runtime.guard_init() as outer, runtime.guard_init() as inner:
        runtime.ti.init(arch=runtime.ti.gpu)
        with pytest.raises(Refused):
            runtime.ti.reset()
    assert outer == []
    assert len(inner) == (1 if runtime.arch() == "cpu" else 0)


def test_the_name_of_a_cpu_that_does_not_tell(tmp_path: Any) -> None:
    """Falls back to the architecture."""
    assert cpu_name(tmp_path / "nothing")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert cpu_name(tmp_path / "cpuinfo") == "Some CPU @ 3 GHz"
