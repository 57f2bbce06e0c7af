"""Whole programs out of the installed Taichi that need what a worker may not have: a window, a module."""

from __future__ import annotations

import importlib.util

import pytest

from programs import program
from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelRuntimeError


def test_mpm88_whole_needs_a_window(gpu_without_display: Session, arch: str) -> None:
    """The program as it is opens a window in its last lines: it fails there with the line, and leaves nothing."""
    gpu = gpu_without_display
    with pytest.raises(CompileError, match="window") as caught:
        gpu.compile_and_load(program("simulation/mpm88", arch), "mpm88")
    assert caught.value.frames[-1].text.startswith("gui = ti.GUI")
    assert "mpm88" not in gpu


def test_a_main_with_a_window_fails_and_the_program_stays(gpu_without_display: Session, arch: str) -> None:
    """``main`` of most examples opens a window; where it cannot, the kernels beside it go on working."""
    gpu = gpu_without_display
    gpu.compile_and_load(program("simulation/nbody", arch).replace("N = 3000", "N = 10"), "nbody")
    with pytest.raises(KernelRuntimeError, match="window") as caught:
        gpu["nbody"].main()
    assert caught.value.frames[0].function == "main"
    gpu["nbody"].initialize()
    gpu["nbody"].compute_force()


@pytest.mark.parametrize(
    ("name", "reason"), [("autodiff/regression", "matplotlib"), ("simulation/mpm128", "window|Vulkan|GGUI")]
)
def test_programs_whose_needs_are_missing_fail_cleanly(
    gpu_without_display: Session, arch: str, name: str, reason: str
) -> None:
    """A module or a window that the worker does not have is named, in one line, and the session goes on."""
    gpu = gpu_without_display
    gpu.compile_and_load("def f():\n    return 1\n", "earlier")
    if importlib.util.find_spec(reason) is not None:
        pytest.skip(f"{reason} is there")

    def whole() -> None:
        gpu.compile_and_load(program(name, arch), "program")
        gpu["program"].main()

    with pytest.raises((CompileError, KernelRuntimeError), match=reason) as caught:
        whole()
    assert "\n" not in caught.value.message
    assert gpu["earlier"].f() == 1
