"""Whole programs out of the installed Taichi, their text sent as source and driven through the client."""

from __future__ import annotations

import numpy as np
import pytest

from features.rows import feature
from printed import Printed
from programs import program
from tiremote.client import Session
from tiremote.protocol.errors import CompileError

ADVANCE = "\ndef advance(n):\n    for _ in range(n):\n        substep()\n"


@feature("programs", "nbody")
def test_nbody(gpu: Session, arch: str) -> None:
    """Ten steps of 3,000 bodies: the forces cancel, as every one has its opposite, to a millionth of their sum."""
    receipt = gpu.compile_and_load(program("simulation/nbody", arch), "nbody")
    assert {each.name for each in receipt.definitions} >= {"initialize", "compute_force", "update", "pos", "G", "main"}
    nbody = gpu["nbody"]
    nbody.initialize()
    for _ in range(10):
        nbody.compute_force()
        nbody.update()
    force = nbody.force.to_numpy().astype(np.float64)
    assert np.linalg.norm(force.sum(axis=0)) < 1e-6 * np.abs(force).sum()
    position = nbody.pos.to_numpy()
    assert position.shape == (3000, 2)
    assert np.isfinite(position).all()
    assert (nbody.N, nbody.h, nbody.center.to_numpy().tolist()) == (3000, 1e-4, [0.5, 0.5])
    assert nbody.pos[:10].tolist() == position[:10].tolist()


@feature("programs", "nbody")
def test_nbody_from_chosen_positions(gpu: Session, arch: str) -> None:
    """Fields take what the client sends, and one step is what NumPy computes from it."""
    gpu.compile_and_load(program("simulation/nbody", arch).replace("N = 3000", "N = 50"), "nbody")
    nbody = gpu["nbody"]
    position = np.random.default_rng(1).random((50, 2)).astype(np.float32)
    nbody.pos.from_numpy(position)
    nbody.compute_force()
    difference = position[:, None].astype(np.float64) - position[None]
    distance = np.sqrt((difference**2).sum(-1) + 1e-5)
    expected = -(difference / distance[..., None] ** 3).sum(axis=1)
    np.testing.assert_allclose(nbody.force.to_numpy(), expected, rtol=1e-3, atol=1e-2)


@feature("programs", "game_of_life")
def test_game_of_life(gpu: Session, arch: str) -> None:
    """A blinker of three cells turns and turns back; with other rules, sent while it lives, it dies or bursts."""
    text = program("simulation/game_of_life", arch)
    gpu.compile_and_load(text, "life")
    blinker = np.zeros((64, 64), np.int32)
    blinker[30, 29:32] = 1
    gpu["life"].alive.from_numpy(blinker)
    gpu["life"].run()
    turned = np.zeros((64, 64), np.int32)
    turned[29:32, 30] = 1
    np.testing.assert_array_equal(gpu["life"].alive.to_numpy(), turned)
    gpu["life"].run()
    np.testing.assert_array_equal(gpu["life"].alive.to_numpy(), blinker)

    rules = "\nB, S = [3], [2, 3]\n"
    assert rules in text
    gpu.compile_and_load(text.replace(rules, "\nB, S = [2], [0]\n"), "life")
    gpu["life"].alive.from_numpy(blinker)
    gpu["life"].run()
    after = gpu["life"].alive.to_numpy()
    # Born with two neighbours: the cells beside each end of the bar; its own cells have neighbours and die.
    assert sorted(map(tuple, np.argwhere(after).tolist())) == [(29, 29), (29, 31), (31, 29), (31, 31)]
    gpu["life"].init()
    assert 0 < gpu["life"].alive.to_numpy().mean() < 0.5


@feature("programs", "mpm88")
def test_mpm88(gpu: Session, arch: str) -> None:
    """Fifty substeps keep the mass of 8,192 particles on the grid, and every particle inside."""
    receipt = gpu.compile_and_load(
        program("simulation/mpm88", arch, until="init()") + ADVANCE,
        "mpm88",
    )
    assert bool(receipt.warnings) == (arch == "cpu")  # it asks for ti.gpu
    mpm = gpu["mpm88"]
    mpm.init()
    mpm.advance(50)
    assert mpm.grid_m.to_numpy().sum(dtype=np.float64) == pytest.approx(8192 * mpm.p_mass, rel=1e-4)
    x = mpm.x.to_numpy()
    assert ((x > 0) & (x < 1)).all()
    assert mpm.C.to_numpy().shape == (8192, 2, 2)


@feature("programs", "mpm99")
def test_mpm99(gpu: Session, arch: str) -> None:
    """200 substeps of fluid, jelly and snow: every particle stays inside the unit square."""
    gpu.compile_and_load(program("simulation/mpm99", arch) + ADVANCE)
    gpu[None].initialize()
    gpu[None].advance(200)
    x = gpu[None].x.to_numpy()
    assert ((x > 0) & (x < 1)).all()
    assert np.bincount(gpu[None].material.to_numpy()).tolist() == [3000, 3000, 3000]


@feature("programs", "stable_fluid")
def test_stable_fluid(gpu: Session, arch: str) -> None:
    """Three steps with a drag of the mouse: finite everywhere, and something moved."""
    text = program("simulation/stable_fluid", arch).replace("p_jacobi_iters = 500", "p_jacobi_iters = 20")
    if arch != "cpu":
        text = text.replace('default="cpu"', 'default="gpu"')
    gpu.compile_and_load(text)
    mouse = np.array([1, 0, 256, 256, 0.5, 0.5, 0.5, 0], np.float32)
    for _ in range(3):
        gpu[None].step(mouse)
    dye = gpu.run("dyes_pair.cur.to_numpy")
    assert np.isfinite(dye).all()
    assert dye.max() > 0


@feature("programs", "minimization")
def test_minimization(gpu: Session, arch: str, printed: Printed) -> None:
    """Its own ``main``: a hundred gradient steps with a tape, whose printed loss falls to below 1e-8."""
    gpu.compile_and_load(program("autodiff/minimization", arch))
    printed.clear()
    gpu[None].main()
    losses = [float(line.split("=")[1]) for line in printed.text().splitlines() if line.startswith("Loss")]
    assert len(losses) == 100
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-8
    np.testing.assert_allclose(gpu[None].x.to_numpy(), gpu[None].y.to_numpy(), atol=1e-3)


@feature("programs", "odop_solar")
def test_odop_solar(gpu: Session, arch: str) -> None:
    """A class from the text, its object kept on the worker: 100 integrations, finite and moved."""
    gpu.compile_and_load(
        program("simulation/odop_solar", arch)
        + "\ndef make(n, dt):\n    solar = SolarSystem(n, dt)\n    solar.center[None] = [0.5, 0.5]\n    return solar\n"
        + "def positions(solar):\n    return solar.x.to_numpy()\n"
    )
    solar = gpu[None].make(8, 0.0001)
    solar.initialize_particles()
    before = gpu[None].positions(solar)
    for _ in range(100):
        solar.integrate()
    after = gpu[None].positions(solar)
    assert np.isfinite(after).all()
    assert (before != after).all()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param(path, path.partition("/")[2], marks=feature("programs", path.partition("/")[2], wrong=True))
        for path in (
            *("simulation/nbody", "simulation/game_of_life", "simulation/mpm88", "simulation/mpm99"),
            *("simulation/stable_fluid", "autodiff/minimization", "simulation/odop_solar"),
        )
    ],
)
def test_a_program_that_is_broken_in_an_editor(gpu: Session, arch: str, path: str, name: str) -> None:
    """The line is told in which it breaks, and the version that was loaded stays."""
    text = program(path, arch, until="init()" if name == "mpm88" else None)
    before = gpu.compile_and_load(text, name)
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(f"{text}\ndef broken(:\n", name)
    assert caught.value.line == len(text.splitlines()) + 2
    (unit,) = gpu.describe().units
    assert (unit.unit, unit.version) == (name, before.version)
    assert {each.name for each in unit.definitions} == {each.name for each in before.definitions}
