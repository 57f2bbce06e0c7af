"""Reloads through a real worker: state stays, dependants follow, receipts tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiremote.client import Session
from tiremote.protocol.errors import CompileError

Check = Callable[[], None]

SIMULATION = """
RATE = 2.0
state = ti.field(ti.f32, 4)

@ti.kernel
def step(x: ti.types.ndarray()) -> ti.f32:
    for i in state:
        state[i] += i * RATE
        x[i] += state[i]
    return state[3]
"""

OBJECT = """
@ti.data_oriented
class Sim:
    def __init__(self):
        self.x = ti.field(ti.i32, 2)
        self.steps = 0

    @ti.kernel
    def add(self, n: ti.i32):
        for i in self.x:
            self.x[i] += n * 1

    def step(self):
        self.add(1)
        self.steps += 1
        return self.steps

sim = Sim()
"""


def statuses(receipt: object) -> dict[str, str]:
    changes = receipt.changes  # type: ignore[attr-defined]
    return {f"{each.unit}.{each.name}": each.status for each in changes}


# ---------------------------------------------------------------- 16: state


def test_case_16_a_reload_keeps_state(gpu: Session, unharmed: Check) -> None:
    """Field, handle to it and ndarray go on; the changed constant is used; the receipt says both."""
    x = gpu.ti.ndarray(gpu.ti.f32, 4)
    gpu.compile_and_load(SIMULATION, "sim")
    state = gpu["sim"].state
    assert gpu["sim"].step(x) == 6
    receipt = gpu.compile_and_load(SIMULATION.replace("RATE = 2.0", "RATE = 10.0"), "sim")
    assert gpu["sim"].step(x) == 36
    assert state.to_numpy().tolist() == [0, 12, 24, 36]
    assert gpu["sim"].state.to_numpy().tolist() == [0, 12, 24, 36]
    assert receipt.kept == ("state",)
    assert statuses(receipt) == {"sim.step": "rebuilt"}
    assert receipt.changes[0].because == ("RATE",)
    assert receipt.changes[0].seconds > 0
    assert receipt.memory is not None
    unharmed()


def test_case_16_another_shape_is_new(gpu: Session, unharmed: Check) -> None:
    """The receipt names what was made anew."""
    x = gpu.array(np.zeros(5, np.float32))
    gpu.compile_and_load(SIMULATION, "sim")
    gpu["sim"].step(x)
    receipt = gpu.compile_and_load(SIMULATION.replace("ti.f32, 4)", "ti.f32, 5)"), "sim")
    assert (receipt.kept, receipt.reset) == ((), ("state",))
    assert gpu["sim"].state.to_numpy().tolist() == [0] * 5
    assert gpu["sim"].step(x) == 6
    unharmed()


def test_case_16_an_object_that_a_handle_stands_for(gpu: Session, unharmed: Check) -> None:
    """A kept object goes on with new methods, through a handle taken before the reload."""
    gpu.compile_and_load(OBJECT, "sim")
    sim = gpu["sim"].sim
    assert sim.step() == 1
    receipt = gpu.compile_and_load(OBJECT.replace("n * 1", "n * 10"), "sim")
    assert gpu["sim"].sim.step() == 2
    assert sim.step() == 3
    assert gpu["sim"].sim.x.to_numpy().tolist() == [21, 21]
    assert receipt.kept == ("sim", "sim.x")
    unharmed()


# ---------------------------------------------------------------- 10, 11: dependants


def test_case_10_a_constant_of_another_unit(gpu: Session, unharmed: Check) -> None:
    """The unit that uses it follows without being sent again."""
    gpu.compile_and_load("N = 1\n", "config")
    gpu.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return N * 2\n", "user")
    assert gpu["user"].f() == 2
    receipt = gpu.compile_and_load("N = 5\n", "config")
    assert gpu["user"].f() == 10
    assert statuses(receipt) == {"user.f": "rebuilt"}
    assert gpu.describe().newest == "config"
    unharmed()


def test_case_11_a_func_redefined_in_another_unit(gpu: Session, unharmed: Check) -> None:
    """Callers in every unit rebuild, with their state, and the receipt names them."""
    gpu.compile_and_load("@ti.func\ndef g(x):\n    return x + 1\n", "lib")
    user = "y = ti.field(ti.i32, 1)\n@ti.kernel\ndef f() -> ti.i32:\n    y[0] = g(y[0])\n    return y[0]\n"
    gpu.compile_and_load(user, "one")
    gpu.compile_and_load(f"from lib import g\n{user}", "two")
    assert (gpu["one"].f(), gpu["two"].f()) == (1, 1)
    receipt = gpu.compile_and_load("@ti.func\ndef g(x):\n    return x + 10\n", "lib")
    assert (gpu["one"].f(), gpu["two"].f()) == (11, 11)
    assert statuses(receipt) == {"lib.g": "changed", "one.f": "rebuilt", "two.f": "rebuilt"}
    assert gpu.compile_and_load(user, "one").unchanged
    unharmed()


def test_case_11_callers_that_do_not_fit_refuse_the_new_func(gpu: Session, unharmed: Check) -> None:
    """Nothing is changed, and the error tells the caller's line."""
    gpu.compile_and_load("@ti.func\ndef g(x):\n    return x + 1\n", "lib")
    gpu.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return g(1)\n", "user")
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load("@ti.func\ndef g(x, y):\n    return x + y\n", "lib")
    assert caught.value.frames[0].unit == "user"
    assert caught.value.line == 3
    assert gpu["user"].f() == 2
    unharmed()
