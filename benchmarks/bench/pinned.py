"""The floor of an array on a CUDA GPU: the driver's own copies from and to pinned memory, by ctypes."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from bench.served import Served


class PinnedCopies:
    """An ndarray of ``nbytes`` in a local Taichi program, and as much pinned memory beside it."""

    def __init__(self, nbytes: int) -> None:
        served = Served("cuda", nbytes // 4)
        served.begin()
        self._nbytes = nbytes
        self._address = _address_of(served.large)
        # Taichi's own context of the device, which is the primary one.
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check(self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._check(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._check(self._cuda.cuCtxPushCurrent_v2(context))
        host = ctypes.c_void_p()
        self._check(self._cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(nbytes), 0))
        self._host = host
        # Touched, so that no page is made while it is measured.
        ctypes.memset(host, 1, nbytes)

    def put(self) -> None:
        """To the GPU."""
        self._check(self._cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(self._address), self._host, self._size))

    def fetch(self) -> None:
        """From the GPU."""
        self._check(self._cuda.cuMemcpyDtoH_v2(self._host, ctypes.c_uint64(self._address), self._size))

    @property
    def _size(self) -> ctypes.c_size_t:
        return ctypes.c_size_t(self._nbytes)

    def _check(self, error: int) -> None:
        if error:
            raise RuntimeError(f"the CUDA driver gave error {error}")


def _address_of(array: Any) -> int:
    implementation = importlib.import_module("taichi.lang.impl")
    return int(implementation.get_runtime().prog.get_ndarray_data_ptr_as_int(array.arr))
