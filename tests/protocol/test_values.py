"""`tiremote.protocol.values`."""

from __future__ import annotations

import numpy as np
import pytest

from array_zoo import REFUSED, ZOO
from tiremote.protocol.errors import ProtocolError, UnsupportedType
from tiremote.protocol.values import MAX_DIMENSIONS, ArrayDescriptor, Handle, Name, WireArray, wire_array


@pytest.mark.parametrize("name", ZOO)
def test_an_array_of_the_zoo_reads_back_as_it_was(name: str) -> None:
    """Values, shape and dtype (little-endian now) of every odd array survive, NaN included."""
    array = ZOO[name]()
    wire = wire_array(array)
    assert wire.view().dtype == array.dtype.newbyteorder("<")
    assert wire.view().shape == array.shape
    np.testing.assert_array_equal(wire.view(), array, strict=False)
    if array.dtype.kind == "f":  # -0.0 equals 0.0
        np.testing.assert_array_equal(np.signbit(wire.view()), np.signbit(array))


@pytest.mark.parametrize("name", ZOO)
def test_the_bytes_of_an_array_are_as_many_as_its_descriptor_says(name: str) -> None:
    """What goes out as a buffer is a flat view of bytes, of exactly the array's size."""
    wire = wire_array(ZOO[name]())
    assert memoryview(wire.data).itemsize == 1
    assert len(wire.data) == wire.descriptor.nbytes


@pytest.mark.parametrize("name", REFUSED)
def test_an_array_that_does_not_travel_is_refused(name: str) -> None:
    """Object, complex, time, text, structured and masked arrays are UnsupportedType, before anything is sent."""
    with pytest.raises(UnsupportedType):
        wire_array(REFUSED[name]())


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_contiguous_array_is_not_copied(order: str) -> None:
    """The bytes to send are the caller's own memory, in C as in Fortran order."""
    array = np.zeros((3, 4), "f4", order=order)
    wire = wire_array(array)
    array[1, 2] = 5
    assert wire.view()[1, 2] == 5
    assert wire.descriptor.order == order


def test_a_view_over_a_message_cannot_be_written() -> None:
    """The array over the message's memory is read-only, whoever made the memory."""
    view = wire_array(np.zeros(3)).view()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_copy_is_writeable_and_keeps_its_order(order: str) -> None:
    """The copy has memory of its own, in the order that the array came in."""
    array = np.asarray(np.arange(6).reshape(2, 3), order=order)
    copy = wire_array(array).copy()
    copy[0, 0] = 9
    assert array[0, 0] == 0
    assert copy.flags[f"{order}_CONTIGUOUS"]


def test_an_out_argument_travels_without_bytes() -> None:
    """An array that is only written to is described and not sent; reading it is an error in one line."""
    wire = wire_array(np.zeros((2, 3)), access="out")
    assert wire.data is None
    assert wire.descriptor.shape == (2, 3)
    with pytest.raises(ProtocolError, match="without its bytes"):
        wire.view()


def test_a_read_only_array_says_so() -> None:
    """The descriptor of a read-only array tells that the caller's memory must not change."""
    assert not wire_array(ZOO["read-only"]()).descriptor.writeable
    assert wire_array(np.zeros(1)).descriptor.writeable


@pytest.mark.parametrize("size", [0, 11, 13, 24])
def test_a_size_that_lies_is_refused_with_both_sizes(size: int) -> None:
    """A buffer of another size than shape and dtype make is a ProtocolError that tells both."""
    descriptor = ArrayDescriptor(dtype="f32", shape=(3,), buffer=0)
    with pytest.raises(ProtocolError, match=f"12 bytes, but its buffer 0 has {size}"):
        WireArray(descriptor, bytes(size)).view()


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (-1,)},
        {"shape": (True,)},
        {"shape": (1.0,)},
        {"shape": ("3",)},
        {"shape": (1,) * (MAX_DIMENSIONS + 1)},
        {"shape": (1 << 62, 2)},
        {"shape": (0, 1 << 63)},
        {"shape": (1 << 64,)},
        {"order": "K"},
        {"order": []},
        {"access": "none"},
        {"buffer": -1},
        {"buffer": True},
        {"buffer": "0"},
        {"buffer": 1.0},
        {"writeable": 1},
        {"writeable": None},
    ],
)
def test_a_descriptor_that_describes_nothing_is_refused(fields: dict[str, object]) -> None:
    """Negative, boolean, oversized and mistyped parts of a descriptor are ProtocolErrors."""
    with pytest.raises(ProtocolError):
        ArrayDescriptor(**{"dtype": "f32", "shape": (1,), **fields})  # type: ignore[arg-type]


def test_a_handle_is_known_by_kind_and_id() -> None:
    """Two handles of the same thing are equal whatever their meta says, and hash alike."""
    one = Handle(kind="ndarray", id="a.1.1", meta={"dtype": "f32"})
    assert one == Handle(kind="ndarray", id="a.1.1")
    assert len({one, Handle(kind="ndarray", id="a.1.1")}) == 1
    assert one != Handle(kind="field", id="a.1.1")


@pytest.mark.parametrize("fields", [{"kind": 1}, {"id": None}, {"meta": []}])
def test_a_handle_of_wrong_types_is_refused(fields: dict[str, object]) -> None:
    """A handle is two strings and a map."""
    with pytest.raises(ProtocolError):
        Handle(**{"kind": "ndarray", "id": "a", **fields})  # type: ignore[arg-type]


def test_a_name_reads_as_the_user_writes_it() -> None:
    """A name prints as unit and dotted name; that of the newest unit without a unit."""
    assert str(Name(unit="sim", name="step.grad")) == "sim.step.grad"
    assert str(Name(name="step")) == "step"
    with pytest.raises(ProtocolError):
        Name(unit=3, name="step")  # type: ignore[arg-type]
