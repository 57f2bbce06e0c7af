"""Two dense fields, of 64 and 48 MiB."""

import taichi as ti

scalar = ti.field(ti.f32, shape=1 << 24)
vector = ti.Vector.field(3, ti.f32, shape=1 << 22)


@ti.kernel
def number():
    for i in scalar:
        scalar[i] = i % 1000
    for i in vector:
        vector[i] = ti.Vector([i, i + 1, i + 2]) % 1000
