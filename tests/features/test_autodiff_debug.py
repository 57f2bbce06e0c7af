"""Validation and gradient checks, which need a debug session."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from features.rows import feature
from real_worker import RealWorker
from taped import taped
from tiremote.client import Session, connect
from tiremote.protocol.errors import KernelArgumentError, KernelRuntimeError

SOURCE = """
x = ti.field(ti.f64, 3, needs_grad=True, needs_dual=True)
loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)
single = ti.field(ti.f32, (), needs_grad=True)

@ti.kernel
def squares():
    for i in x:
        loss[None] += x[i] ** 2

@ti.kernel
def overwrite():
    for i in x:
        x[i] = 1.0

@ti.ad.grad_replaced
def replaced():
    squares()

@ti.ad.grad_for(replaced)
def wrong_gradient():
    pass
"""


@pytest.fixture(scope="module")
def one_debug_session(runtime_worker: RealWorker, arch: str) -> Iterator[Session]:
    """A debug session that the tests of this file share on one runtime."""
    with connect(runtime_worker.address, arch=arch, debug=True, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        yield gpu


@pytest.fixture
def ad(one_debug_session: Session) -> Session:
    """That session, ``x`` filled."""
    one_debug_session["ad"].x.from_numpy(np.array([1.0, 2.0, 3.0]))
    return one_debug_session


@feature("autodiff", "`validation`")
def test_what_can_be_differentiated_is_validated(ad: Session) -> None:
    """The gradients are there, and a call outside of a tape is not validated."""
    unit = ad["ad"]
    with ad.ti.ad.Tape(unit.loss, validation=True):
        unit.squares()
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [4, 8, 12]
    unit.squares()
    unit.overwrite()
    assert unit.x.to_numpy().tolist() == [1, 1, 1]


@feature("autodiff", "`validation`", wrong=True)
def test_what_overwrites_an_input_is_found(ad: Session) -> None:
    """The call is told in the kernel's own line, and the kernel works outside of the block."""
    unit = ad["ad"]
    with pytest.raises(KernelRuntimeError, match="global data access rule") as caught:
        taped(ad.ti.ad.Tape(unit.loss, validation=True), unit.squares, unit.overwrite, unit.squares)
    assert caught.value.type == "AssertionError"
    assert "x[i] = 1.0" in caught.value.frames[-1].text
    unit.overwrite()


@feature("autodiff", "`grad_check`")
def test_gradients_are_checked(ad: Session) -> None:
    """A right gradient passes the comparison with finite differences."""
    unit = ad["ad"]
    with ad.ti.ad.Tape(unit.loss, grad_check=[unit.x]):
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]


@feature("autodiff", "`grad_check`", wrong=True)
def test_a_wrong_gradient_is_found(ad: Session) -> None:
    """A gradient that somebody wrote wrongly fails the check, and a loss of f32 is refused."""
    unit = ad["ad"]
    with pytest.raises(KernelRuntimeError, match="Grad check failed"), ad.ti.ad.Tape(unit.loss, grad_check=[unit.x]):
        unit.replaced()
    with pytest.raises(KernelArgumentError, match="compares in f64") as caught:
        taped(ad.ti.ad.Tape(unit.single, grad_check=[unit.x]))
    assert caught.value.parameter == "grad_check"


@feature("autodiff", "forward mode from the client")
def test_forward_mode_in_a_debug_session(ad: Session) -> None:
    """Duals have the field's type there as well."""
    unit = ad["ad"]
    with ad.ti.ad.FwdMode(unit.loss, unit.x, seed=[1, 0, 2]):
        unit.squares()
    assert unit.loss.dual.to_numpy() == 14
