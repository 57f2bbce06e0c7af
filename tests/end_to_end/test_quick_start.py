"""taichi-meta's four examples, line for line except the import, the connection and ``ti``."""

from __future__ import annotations

import numpy as np

from tiremote.client import Session

ADD_BASE = """
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += base
"""

ADD_TWICE_BASE = """
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += 2 * base
"""

DOUBLER = """
@ti.kernel
def kernel_a(x: ti.types.ndarray()):
    for i in x:
        x[i] = i * 2
"""

SQUARER = """
@ti.kernel
def kernel_b(x: ti.types.ndarray()):
    for i in x:
        x[i] = i ** 2
"""

TRIPLER = """
@ti.kernel
def kernel_a(x: ti.types.ndarray()):
    for i in x:
        x[i] = i * 3
"""


def test_the_quick_start(gpu: Session) -> None:
    """A kernel from a string adds 5 to 0..9: 5..14."""
    ti = gpu.ti
    gpu.compile_and_load(ADD_BASE)
    x = ti.ndarray(ti.f32, shape=10)
    x.from_numpy(np.arange(10, dtype=np.float32))
    gpu[None].add_base(x, 5.0)
    assert x.to_numpy().tolist() == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]


def test_the_hot_reload(gpu: Session) -> None:
    """The new kernel adds 2 * 5 to 0..9: 10..19. The page of taichi-meta prints 5, 7, 9, ..., 23, which is 2 * i + 5:
    a kernel that doubled x instead of base would give that, and this one multiplies only base."""
    ti = gpu.ti
    gpu.compile_and_load(ADD_BASE)
    x = ti.ndarray(ti.f32, shape=10)
    x.from_numpy(np.arange(10, dtype=np.float32))
    gpu[None].add_base(x, 5.0)

    gpu.compile_and_load(ADD_TWICE_BASE)
    x.from_numpy(np.arange(10, dtype=np.float32))
    gpu[None].add_base(x, 5.0)
    assert x.to_numpy().tolist() == [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]


def test_several_ids(gpu: Session) -> None:
    """Two ids live side by side, and replacing one leaves the other as it is."""
    ti = gpu.ti
    gpu.compile_and_load(DOUBLER, kernel_id="doubler")
    gpu.compile_and_load(SQUARER, kernel_id="squarer")
    x = ti.ndarray(ti.f32, shape=10)
    gpu["doubler"].kernel_a(x)
    assert x.to_numpy().tolist() == [i * 2 for i in range(10)]
    gpu["squarer"].kernel_b(x)
    assert x.to_numpy().tolist() == [i**2 for i in range(10)]

    gpu.compile_and_load(TRIPLER, kernel_id="doubler")
    gpu["doubler"].kernel_a(x)
    assert x.to_numpy().tolist() == [i * 3 for i in range(10)]
    gpu["squarer"].kernel_b(x)
    assert x.to_numpy().tolist() == [i**2 for i in range(10)]

    gpu.cleanup_all()
    assert "doubler" not in gpu
    assert "squarer" not in gpu


def test_the_notebook_flow(gpu: Session) -> None:
    """A kernel is redefined between two cells and runs on the same array, without a restart."""
    ti = gpu.ti
    x = ti.ndarray(ti.f32, shape=5)
    gpu.compile_and_load("@ti.kernel\ndef process(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = i * 10\n")
    gpu[None].process(x)
    assert x.to_numpy().tolist() == [0, 10, 20, 30, 40]

    gpu.compile_and_load(
        "@ti.kernel\ndef process(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = ti.sin(i * 0.5)\n"
    )
    gpu[None].process(x)
    np.testing.assert_allclose(x.to_numpy(), np.sin(np.arange(5) * 0.5), rtol=1e-5, atol=1e-6)
