"""`tiremote.worker.engine.vulkan_devices` against a stand-in for the loader."""

from __future__ import annotations

from typing import Any

import pytest

from tiremote.worker.engine import runtime as runtime_module
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.vulkan_devices import gpu_names

INTEGRATED, DISCRETE, CPU = 1, 2, 4


class Loader:
    """A Vulkan loader with these devices, each a type and a name."""

    def __init__(self, *devices: tuple[int, str], result: int = 0) -> None:
        self.devices = devices
        self.result = result
        self.instances = 0

    def vkCreateInstance(self, _info: Any, _allocator: None, _instance: Any) -> int:  # noqa: N802 (the library's name)
        self.instances += self.result == 0
        return self.result

    def vkDestroyInstance(self, _instance: Any, _allocator: None) -> None:  # noqa: N802
        self.instances -= 1

    def vkEnumeratePhysicalDevices(self, _instance: Any, count: Any, devices: Any) -> int:  # noqa: N802
        count._obj.value = len(self.devices)
        for number in range(len(self.devices)) if devices is not None else ():
            devices[number] = number + 1
        return 0

    def vkGetPhysicalDeviceProperties(self, device: Any, properties: Any) -> None:  # noqa: N802
        kind, name = self.devices[device.value - 1]
        told = bytes(16) + kind.to_bytes(4, "little") + name.encode() + bytes(8)
        properties[: len(told)] = told


def test_drivers_that_use_the_cpu_are_no_gpus() -> None:
    """Of several devices those are named that are GPUs, and the loader is left as it was."""
    loader = Loader((CPU, "llvmpipe"), (DISCRETE, "a card"), (INTEGRATED, "a chip"))
    assert gpu_names(loader) == ("a card", "a chip")
    assert gpu_names(Loader((CPU, "llvmpipe"))) == ()
    assert loader.instances == 0


def test_where_no_loader_answers_nothing_is_told() -> None:
    """Neither where there is none, nor where it fails."""
    assert gpu_names(None) is None
    assert gpu_names(Loader(result=-9)) is None


@pytest.mark.parametrize(
    ("loader", "chosen"), [(Loader((CPU, "llvmpipe")), "cpu"), (Loader((DISCRETE, "card")), "vulkan"), (None, "vulkan")]
)
def test_auto_takes_vulkan_only_with_a_gpu_behind_it(
    runtime: TaichiRuntime, monkeypatch: pytest.MonkeyPatch, loader: Loader | None, chosen: str
) -> None:
    """Where Vulkan is all there is and draws on the CPU, the CPU backend is the faster one."""
    monkeypatch.setattr(runtime_module, "load_vulkan", lambda: loader)
    monkeypatch.setattr(runtime, "has_arch", lambda name: name in ("vulkan", "cpu"))
    assert runtime._choose_arch("auto") == chosen
