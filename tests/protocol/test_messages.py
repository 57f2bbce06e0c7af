"""`tiremote.protocol.messages`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.messages import OPS, REPLIES, EngineRequest, Fetch, Hello, Ping, Put, Run
from tiremote.protocol.values import Name, wire_array

NAME = Name(name="x")


def test_an_op_is_mapped_to_the_class_of_that_op() -> None:
    """Both tables agree with the classes they list."""
    for table in (OPS, REPLIES):
        assert all(cls.op == op for op, cls in table.items())


def test_what_is_queued_can_be_watched_and_bounded() -> None:
    """Exactly the requests that run on an engine take events and a deadline."""
    for cls in OPS.values():
        names = {field.name for field in dataclasses.fields(cls)}
        assert cls.queued == issubclass(cls, EngineRequest) == ({"events", "deadline"} <= names)


def test_messages_cannot_be_changed() -> None:
    """A message is what it was when it was made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ping(id=1).id = 2  # type: ignore[misc]


def test_a_message_is_checked_when_it_is_made() -> None:
    """The client hears of an impossible request before it is sent."""
    array = wire_array(np.zeros(3))
    for make in (
        lambda: Ping(id="x" * 201),
        lambda: Hello(id=1, lease=-1.0),
        lambda: Hello(id=1, options={"arch": ["cpu"]}),
        lambda: Hello(id=1, options={"arch": NAME}),
        lambda: Hello(id=1, options={1: "cpu"}),  # type: ignore[dict-item]
        lambda: Run(id=1, target=NAME, deadline=float("nan")),
        lambda: Run(id=1, target=NAME, compile_deadline=-1.0),
        lambda: Fetch(id=1, target=NAME, form="spam"),
        lambda: Fetch(id=1, target=NAME, flat=(2, 1)),
        lambda: Put(id=1, target=NAME),
        lambda: Put(id=1, target=NAME, array=array, source=NAME),
        lambda: Put(id=1, array=array, flat=(0, 3)),
        lambda: Put(id=1, target=NAME, array=array, flat=(0, 3), region=(0,)),
    ):
        with pytest.raises(ProtocolError):
            make()
