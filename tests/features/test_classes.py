"""Classes of the source, used from the client: made, called, looked into, and given back."""

from __future__ import annotations

import gc
import time
from collections import deque

import numpy as np
import pytest

from features.rows import feature
from real_worker import PATIENCE
from tiremote.client import RemoteField, RemoteObject, Session
from tiremote.protocol.errors import KernelArgumentError, KernelRuntimeError, StaleHandle, UnknownName, UnsupportedType

SOURCE = """
@ti.data_oriented
class Counter:
    limit = 10

    def __init__(self, n, step=1):
        self.n = n
        self.step = step
        self.label = "counter"
        self.host = np.arange(n)
        self.cells = ti.field(ti.i32, n)

    @ti.kernel
    def count(self, times: ti.i32):
        for i in self.cells:
            self.cells[i] += times * self.step

    @ti.kernel
    def total(self) -> ti.i32:
        sum = 0
        for i in self.cells:
            sum += self.cells[i]
        return sum

    def count_twice(self, times):
        self.count(times)
        self.count(times)
        return self.total()

    @staticmethod
    @ti.kernel
    def doubled(x: ti.i32) -> ti.i32:
        return 2 * x

    @staticmethod
    def tripled(x):
        return 3 * x

    @classmethod
    def of_two(cls, step):
        return cls(2, step)

    @property
    def mean(self):
        return self.total() / self.n

    @property
    def pace(self):
        return self.step

    @pace.setter
    def pace(self, value):
        self.step = value

    @property
    def broken(self):
        raise ValueError("on purpose")

@ti.data_oriented
class Loud(Counter):
    def __init__(self, n):
        super().__init__(n, step=100)
        self.inner = Counter(1)

    def tripled_twice(self, x):
        return self.tripled(self.tripled(x))

    @ti.func
    def louder(self, i):
        return self.step + i

    @ti.kernel
    def shout(self):
        for i in self.cells:
            self.cells[i] += self.louder(i)

def sum_of(counters):
    return sum(each.total() for each in counters)
"""


@pytest.fixture
def classes(gpu: Session) -> Session:
    """The session with the classes loaded."""
    gpu.compile_and_load(SOURCE, "classes")
    return gpu


@feature("classes", "construct, several instances")
def test_instances_are_made_and_have_their_own_state(classes: Session) -> None:
    """Each has its fields and attributes, compiled kernels do not mix them up, and they go back as arguments."""
    unit = classes["classes"]
    one, other = unit.Counter(3), unit.Counter(2, step=5)
    one.count(1)
    other.count(2)
    assert (one.total(), other.total()) == (3, 20)
    assert unit.sum_of([one, other]) == 23


@feature("classes", "construct, several instances", wrong=True)
def test_a_class_that_cannot_be_made_so(classes: Session) -> None:
    """A missing argument is told with the signature; what the constructor raises comes with its line."""
    with pytest.raises(KernelArgumentError, match=r"Counter\(\): missing a required argument: 'n'"):
        classes["classes"].Counter()
    with pytest.raises(KernelRuntimeError) as caught:
        classes["classes"].Counter("three")
    assert caught.value.frames[-1].function == "Counter.__init__"


@feature("classes", "kernels and methods")
def test_kernels_and_methods_of_an_object(classes: Session) -> None:
    """Called by position or name, at once or later; the plain method calls kernels as it would locally."""
    counter = classes["classes"].Counter(3)
    counter.count(times=2)
    assert counter.count_twice(1) == 12
    assert counter.count_twice.submit(0).result(60) == 12


@feature("classes", "kernels and methods", wrong=True)
def test_wrong_arguments_of_a_kernel_of_an_object(classes: Session) -> None:
    """They are refused as those of any kernel, by the parameter's name, and the object is as it was."""
    counter = classes["classes"].Counter(3)
    for wrong, words in ((1.5, "takes i32, but 1.5"), (2**40, "i32 holds"), ("two", "pass an integer")):
        with pytest.raises(KernelArgumentError, match=words) as caught:
            counter.count(wrong)
        assert caught.value.parameter == "times"
    with pytest.raises(KernelArgumentError, match="takes 1 argument"):
        counter.count(1, 2)
    assert counter.total() == 0
    with pytest.raises(UnknownName, match="no attribute 'cuont'"):
        counter.cuont(1)


@feature("classes", "static and class methods")
def test_static_and_class_methods(classes: Session) -> None:
    """Plain ones of the class and of an object."""
    unit = classes["classes"]
    counter = unit.Counter.of_two(7)
    assert isinstance(counter, RemoteObject)
    counter.count(1)
    assert counter.total() == 14
    assert unit.Counter.tripled(4) == counter.tripled(4) == 12


@feature("classes", "static and class methods", wrong=True)
def test_wrong_arguments_of_a_static_method(classes: Session) -> None:
    """The signature is told."""
    for owner in (classes["classes"].Counter, classes["classes"].Counter(1)):
        with pytest.raises(KernelArgumentError, match=r"tripled\(\): too many.* it takes \(x\)"):
            owner.tripled(1, 2)


@feature("classes", "static kernels")
def test_a_static_kernel(classes: Session) -> None:
    """Called through an object, as in Taichi."""
    assert classes["classes"].Counter(1).doubled(4) == 8


@feature("classes", "static kernels", wrong=True)
def test_wrong_arguments_of_a_static_kernel(classes: Session) -> None:
    """The parameter is named."""
    with pytest.raises(KernelArgumentError, match="takes i32") as caught:
        classes["classes"].Counter(1).doubled(0.5)
    assert caught.value.parameter == "x"


@feature("classes", "attributes and properties")
def test_what_is_inside_an_object_is_seen(classes: Session) -> None:
    """Numbers and text are values, fields remote fields, objects remote objects, and a property is computed."""
    counter = classes["classes"].Counter(2)
    assert (counter.n, counter.step, counter.label, counter.limit) == (2, 1, "counter", 10)
    assert counter.host.tolist() == [0, 1]
    assert isinstance(counter.cells, RemoteField)
    counter.cells.from_numpy(np.array([1, 4], np.int32))
    assert counter.mean == 2.5
    assert hasattr(counter, "n")
    assert not hasattr(counter, "m")
    inner = classes["classes"].Loud(1).inner
    inner.count(3)
    assert (inner.n, inner.total()) == (1, 3)


@feature("classes", "attributes and properties")
def test_a_plain_attribute_is_set(classes: Session) -> None:
    """A kernel that had the old value compiled in has the new one; a property is set by its setter."""
    counter = classes["classes"].Counter(2)
    counter.count(1)
    counter.step = 10
    counter.count(1)
    assert (counter.step, counter.cells.to_numpy().tolist()) == (10, [11, 11])
    counter.pace = np.int32(20)
    counter.count(1)
    assert counter.total() == 62


@feature("classes", "attributes and properties", wrong=True)
def test_attributes_that_are_not_there_or_not_plain(classes: Session) -> None:
    """An unknown name, a field, an array, a property without a setter or that raises: each says so."""
    counter = classes["classes"].Counter(2)
    with pytest.raises(UnknownName, match="no attribute 'sept'"):
        counter.sept = 3
    for name, value, words in (
        ("cells", 3, "only numbers, text and None are set"),
        ("step", [1, 2], "takes a number, text or None, but a list came"),
        ("mean", 1.0, "cannot be set"),
        ("count", 1, "only numbers, text and None are set"),
    ):
        with pytest.raises(KernelArgumentError, match=words):
            setattr(counter, name, value)
    with pytest.raises(KernelRuntimeError, match="on purpose") as caught:
        counter.broken  # noqa: B018 - asking is what is tested
    assert caught.value.frames[-1].function == "Counter.broken"
    with pytest.raises(AttributeError):
        counter._private  # noqa: B018 - asking is what is tested
    assert counter.step == 1


@feature("classes", "inheritance")
def test_a_class_that_inherits(classes: Session) -> None:
    """Inherited kernels, methods and properties work on an object of the subclass, beside its own and its funcs."""
    loud = classes["classes"].Loud(2)
    loud.count(1)
    loud.shout()
    assert loud.cells.to_numpy().tolist() == [200, 201]
    assert (loud.mean, loud.tripled_twice(2), loud.step) == (200.5, 18, 100)


@feature("classes", "inheritance", wrong=True)
def test_a_func_of_a_class_is_not_called_from_outside(classes: Session) -> None:
    """It is for kernels alone, and says so; the object is as it was."""
    loud = classes["classes"].Loud(2)
    with pytest.raises(KernelArgumentError, match="louder is a func, which only kernels can call"):
        loud.louder(1)
    loud.shout()


def wait_until_nothing_is_kept(gpu: Session) -> None:
    """What was dropped here is given back with some later message."""
    end = time.monotonic() + PATIENCE
    while gpu.describe().arrays:
        assert time.monotonic() < end, "something is kept still"


@feature("classes", "cleaned up when dropped")
def test_objects_that_nobody_has_any_more_are_given_back(classes: Session) -> None:
    """With the last proxy the object goes and its fields with it; a method that is held keeps it."""
    unit = classes["classes"]
    before = classes.status().session.snode_trees
    method = unit.Counter(1000).total
    handles = [each.handle.id for each in classes.describe().arrays]
    assert method() == 0
    del method
    gc.collect()
    wait_until_nothing_is_kept(classes)
    assert len(handles) == 1
    for _ in range(5):
        unit.Counter(10).count(1)
    gc.collect()
    wait_until_nothing_is_kept(classes)
    assert classes.status().session.snode_trees <= before + 6


@feature("classes", "cleaned up when dropped", wrong=True)
def test_an_object_that_was_cleaned_up(classes: Session) -> None:
    """It is stale, for calls, for attributes and as an argument."""
    counter, unit = classes["classes"].Counter(2), classes["classes"]
    classes.cleanup(counter)
    for use in (lambda: counter.count(1), lambda: counter.n, lambda: unit.sum_of([counter])):
        with pytest.raises(StaleHandle, match="cleaned up"):
            use()


VECTORS = """
@ti.data_oriented
class Mover:
    def __init__(self):
        self.at = ti.Vector.field(3, ti.f32, ())

    @ti.kernel
    def move(self, by: ti.types.vector(3, ti.f32)) -> ti.f32:
        self.at[None] += by
        return self.at[None].sum()

    def several(self, values):
        return len(values)

mover = Mover()
"""


@feature("classes", "kernels and methods")
def test_a_kernel_of_an_object_takes_any_sequence_for_a_vector(gpu: Session) -> None:
    """As a kernel of a unit does: what it takes is asked for."""
    mover = gpu[gpu.compile_and_load(VECTORS).unit].mover
    assert mover.move(range(3)) == 3
    assert mover.move(by=deque([1.0, 2.0, 3.0])) == 9
    assert mover.move.submit(range(1, 4)).result() == 15


@feature("classes", "kernels and methods", wrong=True)
def test_a_method_takes_no_sequence_that_does_not_travel(gpu: Session) -> None:
    """It may want what it is; a vector of another length is refused by its name."""
    mover = gpu[gpu.compile_and_load(VECTORS).unit].mover
    with pytest.raises(UnsupportedType, match=r"pass list\(...\) of it"):
        mover.several(range(3))
    with pytest.raises(KernelArgumentError) as error:
        mover.move(range(4))
    assert error.value.parameter == "by"
