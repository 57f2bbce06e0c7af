"""A kernel of the size that people change while it runs."""

import taichi as ti

RATE = 0.25


@ti.func
def around(x: ti.template(), i, j):
    return x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


@ti.kernel
def diffuse(x: ti.types.ndarray(ndim=2), y: ti.types.ndarray(ndim=2), steps: ti.i32) -> ti.f32:
    total = 0.0
    for i, j in y:
        if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
            y[i, j] = x[i, j] + RATE * (around(x, i, j) - 4.0 * x[i, j])
            for _ in range(steps):
                y[i, j] = ti.max(ti.sqrt(y[i, j] * y[i, j] + 1e-6) - 1e-3, 0.0)
        total += y[i, j]
    return total
