"""Copies between host memory and an address on the GPU, by the CUDA driver: several times Taichi's own speed."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

#: cuda.h: CUpointer_attribute.
_POINTER_CONTEXT = 1


class CudaDriver:
    """``library`` is libcuda, or what stands in for it. It works in the context that owns the address."""

    def __init__(self, library: Any) -> None:
        self._cuda = library
        self._check(library.cuInit(ctypes.c_uint(0)))
        self._primary: ctypes.c_void_p | None = None

    @classmethod
    def load(cls) -> CudaDriver | None:
        """The machine's driver, or None where there is none."""
        name = "nvcuda.dll" if platform.system() == "Windows" else "libcuda.so.1"
        try:
            return cls(ctypes.CDLL(name))
        except (OSError, RuntimeError):
            return None

    def to_host(self, array: np.ndarray, address: int) -> None:
        """Fills a C-contiguous array from the address; waits for the copy."""
        if array.nbytes:
            with self._context(address):
                self._check(
                    self._cuda.cuMemcpyDtoH_v2(
                        ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes)
                    )
                )

    def to_device(self, address: int, array: np.ndarray) -> None:
        """Writes a C-contiguous array to the address; waits for the copy."""
        if array.nbytes:
            with self._context(address):
                self._check(
                    self._cuda.cuMemcpyHtoD_v2(
                        ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
                    )
                )

    def memory(self) -> tuple[int, int]:
        """Free bytes of the first GPU, and all that it has."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self._pushed(self._primary_context()):
            self._check(self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value, total.value

    @contextmanager
    def _context(self, address: int) -> Iterator[None]:
        owner = ctypes.c_void_p()
        error = self._cuda.cuPointerGetAttribute(
            ctypes.byref(owner), ctypes.c_int(_POINTER_CONTEXT), ctypes.c_uint64(address)
        )
        # Memory from a stream-ordered pool has no context of its own.
        with self._pushed(owner if not error and owner.value else self._primary_context()):
            yield

    @contextmanager
    def _pushed(self, context: ctypes.c_void_p) -> Iterator[None]:
        self._check(self._cuda.cuCtxPushCurrent_v2(context))
        try:
            yield
        finally:
            self._cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _primary_context(self) -> ctypes.c_void_p:
        if self._primary is None:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._check(self._cuda.cuDeviceGet(ctypes.byref(device), ctypes.c_int(0)))
            self._check(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            self._primary = context
        return self._primary

    def _check(self, error: int) -> None:
        if not error:
            return
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorName(ctypes.c_int(error), ctypes.byref(text))
        name = text.value.decode() if text.value else f"CUDA_ERROR {error}"
        # A RuntimeError that names the CUDA error, as Taichi's own are: the engine is poisoned by it.
        raise RuntimeError(f"{name} while memory was copied")
