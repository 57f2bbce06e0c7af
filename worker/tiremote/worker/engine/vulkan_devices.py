"""What Vulkan has to run on, asked of its loader: a driver that draws on the CPU counts as no GPU.

Mesa brings such a driver to most Linux desktops. Taichi takes it without a word, and it is many times slower than
Taichi's own CPU backend. Numbers and layouts are those of ``vulkan_core.h``.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any

#: VkStructureType and VkPhysicalDeviceType.
_INSTANCE_CREATE_INFO = 1
_CPU = 4

#: VkPhysicalDeviceProperties is smaller than that; the type comes after four numbers, and then the name.
_PROPERTIES_BYTES = 4096
_TYPE_AT, _NAME_AT = 16, 20

_LIBRARIES = {"Windows": "vulkan-1.dll", "Darwin": "libvulkan.dylib"}


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


def load_vulkan() -> Any:
    """The machine's Vulkan loader, or None where there is none."""
    try:
        return ctypes.CDLL(_LIBRARIES.get(platform.system(), "libvulkan.so.1"))
    except OSError:
        return None


def gpu_names(library: Any) -> tuple[str, ...] | None:
    """The names of the GPUs that a Vulkan loader knows, no drivers that use the CPU; None where it does not tell."""
    instance = ctypes.c_void_p()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    if library is None or library.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)) != 0:
        return None
    try:
        count = ctypes.c_uint32()
        if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) != 0:
            return None
        devices = (ctypes.c_void_p * count.value)()
        if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices) != 0:
            return None
        told = (_properties(library, device) for device in devices[: count.value])
        return tuple(name for kind, name in told if kind != _CPU)
    finally:
        library.vkDestroyInstance(instance, None)


def _properties(library: Any, device: int | None) -> tuple[int, str]:
    """A device's type and name."""
    properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
    library.vkGetPhysicalDeviceProperties(ctypes.c_void_p(device), properties)
    name = properties.raw[_NAME_AT:].split(b"\0", 1)[0]
    return int.from_bytes(properties.raw[_TYPE_AT:_NAME_AT], "little"), name.decode("utf-8", "replace")
