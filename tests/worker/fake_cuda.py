"""A CUDA driver whose device memory is this process's own: it records each copy, and fails on demand."""

from __future__ import annotations

import ctypes
from typing import Any


class FakeCuda:
    """Stands in for libcuda: every address is a host address."""

    def __init__(self, *, free: int = 1 << 40, owner: int = 77) -> None:
        self.free = free
        self.owner = owner
        self.to_host: list[int] = []
        self.to_device: list[int] = []
        self.contexts: list[int] = []
        self.pushed: list[int] = []
        self.error = 0

    def cuInit(self, _flags: Any) -> int:  # noqa: N802 - the driver's own names
        return 0

    def cuMemcpyDtoH_v2(self, host: Any, device: Any, size: Any) -> int:  # noqa: N802
        assert self.contexts, "no context is current"
        if not self.error:
            ctypes.memmove(host, device.value, size.value)
            self.to_host.append(size.value)
        return self.error

    def cuMemcpyHtoD_v2(self, device: Any, host: Any, size: Any) -> int:  # noqa: N802
        assert self.contexts, "no context is current"
        if not self.error:
            ctypes.memmove(device.value, host, size.value)
            self.to_device.append(size.value)
        return self.error

    def cuPointerGetAttribute(self, out: Any, attribute: Any, _address: Any) -> int:  # noqa: N802
        assert attribute.value == 1
        out._obj.value = self.owner
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:  # noqa: N802
        self.contexts.append(context.value)
        self.pushed.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, _out: Any) -> int:  # noqa: N802
        self.contexts.pop()
        return 0

    def cuDeviceGet(self, _out: Any, _number: Any) -> int:  # noqa: N802
        return 0

    def cuDevicePrimaryCtxRetain(self, out: Any, _device: Any) -> int:  # noqa: N802
        out._obj.value = 55
        return 0

    def cuMemGetInfo_v2(self, free: Any, _total: Any) -> int:  # noqa: N802
        free._obj.value = self.free
        return 0

    def cuGetErrorName(self, _error: Any, out: Any) -> int:  # noqa: N802
        out._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS"
        return 0
