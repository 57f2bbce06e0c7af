"""The name of the hardware, asked without Taichi."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path


def cuda_device_name() -> str | None:
    """The name that the driver gives the first CUDA device, or None without a driver."""
    library = "nvcuda.dll" if platform.system() == "Windows" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return None
    device = ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    if driver.cuDeviceGetName(name, len(name), device):
        return None
    return name.value.decode("utf-8", "replace")


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the CPU, or its architecture where the system does not tell."""
    try:
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"
