"""Objects over a reload: they live on with new methods, and are merged attribute by attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.signature import ParameterType


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    loader = KernelLoader(runtime)
    yield loader
    loader.cleanup_all()


def kinds(kernel: Any, runtime: TaichiRuntime) -> list[ParameterType]:
    """What the kernel's caller gives to it."""
    return [kind for _, kind in runtime.called_with(kernel)]


def statuses(receipt: Any) -> dict[str, str]:
    return {
        each.name if each.unit == receipt.unit else f"{each.unit}.{each.name}": each.status for each in receipt.changes
    }


# Objects ------------------------------------------------------------------------------------------------------

OBJECT = """
@ti.data_oriented
class Counter:
    def __init__(self, n):
        self.n = n
        self.calls = 0
        self.label = "a"
        self.x = ti.field(ti.i32, n)
        self.y = ti.field(ti.i32, 2)

    @ti.kernel
    def add(self):
        for i in self.x:
            self.x[i] += 1

    def step(self):
        self.add()
        self.calls += 1
        return self.calls

counter = Counter(3)
"""


def test_an_object_goes_on_with_new_methods(loader: KernelLoader) -> None:
    """Its counter and field stay, it is the same object, and its class is the new one."""
    loader.compile_and_load(OBJECT, "u")
    counter = loader["u"].counter
    counter.step()
    receipt = loader.compile_and_load(OBJECT.replace("+= 1\n\n    def", "+= 10\n\n    def"), "u")
    assert loader["u"].counter is counter
    assert counter.step() == 2
    assert counter.x.to_numpy().tolist() == [11, 11, 11]
    assert type(counter) is loader["u"].Counter
    assert set(receipt.kept) == {"counter", "counter.x", "counter.y"}
    assert statuses(receipt)["Counter"] == "changed"


def test_attributes_are_merged_one_by_one(loader: KernelLoader) -> None:
    """A new one is added, one that is gone is removed, a changed initial value wins, the rest stays as it is."""
    loader.compile_and_load(OBJECT, "u")
    counter = loader["u"].counter
    counter.step()
    counter.label = "mine"
    counter.later = 7
    loader.compile_and_load(
        OBJECT.replace('self.label = "a"', "self.extra = 5").replace("Counter(3)", "Counter(4)"), "u"
    )
    assert (counter.n, counter.calls, counter.extra, counter.later) == (4, 1, 5, 7)
    assert not hasattr(counter, "label")
    assert counter.x.shape == (4,)
    receipt = loader.compile_and_load(OBJECT.replace("self.calls = 0", "self.calls = 100"), "u")
    assert (counter.n, counter.calls, counter.label) == (3, 100, "a")
    assert receipt.reset == ("counter.x",)
    assert counter.step() == 101


def test_objects_in_objects_and_lists(loader: KernelLoader) -> None:
    """Each lives on, with the field that it holds."""
    text = """
N = {}
class Grid:
    def __init__(self, size):
        self.mass = ti.field(ti.i32, size)
class Sim:
    def __init__(self):
        self.grids = [Grid(2), Grid(3)]
        self.main = self.grids[0]
        self.tags = {{"a": Grid(4)}}
sim = Sim()
"""
    loader.compile_and_load(text.format(1), "u")
    sim = loader["u"].sim
    main, tagged = sim.main, sim.tags["a"]
    main.mass[1] = 5
    tagged.mass[1] = 6
    receipt = loader.compile_and_load(text.format(2), "u")
    assert sim.main is main is sim.grids[0]
    assert sim.tags["a"] is tagged
    assert (sim.main.mass[1], sim.tags["a"].mass[1]) == (5, 6)
    assert type(main) is loader["u"].Grid
    assert receipt.reset == ()


def test_an_object_whose_class_is_gone_or_cannot_change(loader: KernelLoader) -> None:
    """It is new, or gone with its class; whoever holds the old one has it as it was."""
    loader.compile_and_load("class A:\n    def __init__(self): self.n = 1\na = A()\nb = A()\n", "u")
    a = loader["u"].a
    a.n = 5
    receipt = loader.compile_and_load(
        "class B:\n    def __init__(self): self.n = 2\nclass A:\n    __slots__ = ('n',)\na = B()\nb = A()\n", "u"
    )
    assert (loader["u"].a.n, a.n) == (2, 5)
    assert statuses(receipt)["A"] == "changed"


def test_a_failed_reload_puts_objects_back(loader: KernelLoader) -> None:
    """Class, attributes and their absence."""
    loader.compile_and_load(OBJECT, "u")
    counter = loader["u"].counter
    counter.step()
    before = dict(counter.__dict__)
    bad = "@ti.kernel\ndef bad() -> ti.i32:\n    return ti.Vector([1, 2])\n"
    with pytest.raises(CompileError):
        loader.compile_and_load(OBJECT.replace('self.label = "a"', "self.more = 1") + bad, "u")
    assert counter.__dict__ == before
    assert type(counter) is loader["u"].Counter
    assert counter.step() == 2


def test_an_object_in_a_kernel_counts_as_changed_when_an_attribute_is(loader: KernelLoader) -> None:
    """A kernel that has an attribute baked in is rebuilt because of the object."""
    text = "class Config:\n    def __init__(self):\n        self.n = {}\nconfig = Config()\n@ti.kernel\ndef f() -> ti.i32:\n    return config.n\n"  # fmt: skip  # noqa: E501
    loader.compile_and_load(text.format(1), "u")
    assert loader["u"].f() == 1
    receipt = loader.compile_and_load(text.format(2), "u")
    assert loader["u"].f() == 2
    assert statuses(receipt)["f"] == "rebuilt"


def test_a_remembered_call_is_compiled_for_kept_fields(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A kernel that takes a field as a template is checked with it, and its time told."""
    text = "x = ti.field(ti.f32, 3)\n@ti.kernel\ndef f(a: ti.template()):\n    for i in a:\n        a[i] += {}\n"
    loader.compile_and_load(text.format(1), "u")
    loader["u"].f(loader["u"].x)
    loader.loaded("u").record_call("f", [loader["u"].x], kinds(loader["u"].f, runtime), runtime)
    receipt = loader.compile_and_load(text.format(2), "u")
    assert [each.seconds > 0 for each in receipt.changes] == [True]
    with pytest.raises(CompileError, match="missing"):
        loader.compile_and_load(text.format("a.missing"), "u")
    loader["u"].f(loader["u"].x)
    np.testing.assert_array_equal(loader["u"].x.to_numpy(), [3, 3, 3])


def test_a_kernel_of_an_object_that_was_called_is_checked(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A method that does not compile any more is found before the swap; its time is told of its class's kernel."""
    loader.compile_and_load(OBJECT, "u")
    counter = loader["u"].counter
    counter.add()
    loader.loaded("u").record_call("counter.add", [], kinds(counter.add, runtime), runtime)
    for _ in range(2):
        with pytest.raises(CompileError, match="nothing") as caught:
            loader.compile_and_load(OBJECT.replace("self.x[i] += 1", "self.x[i] += self.nothing"), "u")
        assert caught.value.line == 14
    counter.add()
    assert counter.x.to_numpy().tolist() == [2, 2, 2]
    loader.compile_and_load(OBJECT.replace("self.x[i] += 1", "self.x[i] += 2"), "u")
    assert "counter.add" in loader.loaded("u").calls
    counter.add()
    assert counter.x.to_numpy().tolist() == [4, 4, 4]
