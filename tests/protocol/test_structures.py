"""`tiremote.protocol.structures`."""

from __future__ import annotations

from typing import Any

import pytest

from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.messages import OPS, Cancel, Fetch, Hello, Ping, Put, Run
from tiremote.protocol.receipts import Receipt, Summary, Timing
from tiremote.protocol.results import HelloResult, RunResult
from tiremote.protocol.structures import structure
from tiremote.protocol.values import Handle, Name

HANDLE = Handle(kind="ndarray", id="s.1.1")


@pytest.mark.parametrize(
    ("cls", "fields", "says"),
    [
        (Ping, {}, "field 'id' is missing"),
        (Ping, {"id": 1.0}, "a string or an int was expected, float 1.0 came in id"),
        (Ping, {"id": True}, "bool True came in id"),
        (Ping, {"id": None}, "NoneType None came in id"),
        (Ping, {"id": []}, r"list \[\] came in id"),
        (Ping, {"id": "x" * 201}, "at most 200 characters; 201 came"),
        (Ping, {"id": 1, "token": 3}, "a string was expected, int 3 came in token"),
        (Ping, {"id": 1, "pending": "ab"}, "an array was expected, str 'ab' came in pending"),
        (Ping, {"id": 1, "pending": {"a": 1}}, "an array was expected"),
        (Ping, {"id": 1, "pending": [None]}, "a string or an int was expected"),
        (Ping, {"id": 1, "spam": 1}, r"unknown fields list \['spam'\] came"),
        (Ping, {"id": 1, "\n": 1, **{"x" * n: 1 for n in range(300)}}, "unknown fields"),
        (Ping, {"id": 1, "events": True}, "events"),
        (Hello, {"id": 1, "versions": [1]}, r"\[int, int\] was expected"),
        (Hello, {"id": 1, "versions": [1, True]}, r"\[int, int\] was expected"),
        (Hello, {"id": 1, "versions": {1: 1, 2: 2}}, r"\[int, int\] was expected"),
        (Hello, {"id": 1, "options": [1]}, "a map was expected"),
        (Hello, {"id": 1, "lease": "1"}, "a number was expected"),
        (Hello, {"id": 1, "lease": True}, "a number was expected"),
        (Hello, {"id": 1, "lease": float("nan")}, "seconds"),
        (Cancel, {"id": 1}, "field 'request' is missing"),
        (Run, {"id": 1}, "field 'target' is missing"),
        (Run, {"id": 1, "target": "step"}, "a handle or a name was expected, str 'step' came in target"),
        (Run, {"id": 1, "target": HANDLE, "args": {}}, "an array was expected"),
        (Run, {"id": 1, "target": HANDLE, "kwargs": []}, "a map was expected"),
        (Run, {"id": 1, "target": HANDLE, "events": 1}, "a boolean was expected"),
        (Run, {"id": 1, "target": HANDLE, "deadline": -1}, "seconds"),
        (Run, {"id": 1, "target": HANDLE, "deadline": float("inf")}, "seconds"),
        (Run, {"id": 1, "target": HANDLE, "deadline": float("nan")}, "seconds"),
        (Run, {"id": 1, "target": HANDLE, "deadline": 0}, "a deadline of 0 seconds"),
        (Run, {"id": 1, "target": HANDLE, "compile_deadline": 0}, "a compile_deadline of 0 seconds"),
        (Run, {"id": 1, "target": HANDLE, "compile_deadline": float("inf")}, "compile_deadline is a number of seconds"),
        (Put, {"id": 1, "array": b"abcd"}, "an array was expected"),
        (Put, {"id": 1}, "an array or a source"),
        (Fetch, {"id": 1, "target": HANDLE, "form": "picture"}, "form is one of array, summary, handle"),
        (Fetch, {"id": 1, "target": HANDLE, "flat": [0]}, r"\[int, int\] was expected"),
        (Fetch, {"id": 1, "target": HANDLE, "flat": [-1, 3]}, "0 <= start <= stop"),
        (Fetch, {"id": 1, "target": HANDLE, "flat": [3, 1]}, "0 <= start <= stop"),
        (Fetch, {"id": 1, "target": HANDLE, "flat": [0, 1], "region": [0]}, "not both"),
        (Fetch, {"id": 1, "target": HANDLE, "region": 0}, "an array was expected"),
        (Fetch, {"id": 1, "target": HANDLE, "region": [True]}, "an index or"),
        (Fetch, {"id": 1, "target": HANDLE, "region": [[0, 1]]}, "an index or"),
        (Fetch, {"id": 1, "target": HANDLE, "region": [[0, 1, 0]]}, "a step of 0"),
        (OPS["alloc"], {"id": 1, "shape": [-1]}, "sizes count from 0"),
        (OPS["alloc"], {"id": 1, "shape": [True]}, "an int was expected"),
        (OPS["alloc"], {"id": 1, "shape": 3}, "an array was expected"),
        (OPS["alloc"], {"id": 1, "kind": "texture"}, "kind is one of"),
        (OPS["alloc"], {"id": 1, "fill": "noise"}, "fill is one of"),
        (OPS["alloc"], {"id": 1, "seed": 1.5}, "an int was expected|int"),
        (OPS["compile"], {"id": 1, "source": b"x"}, "a string was expected"),
        (OPS["cleanup"], {"id": 1, "targets": [[1]]}, "a handle or a name was expected"),
    ],
)  # fmt: skip
def test_a_field_that_is_wrong_is_named(cls: type, fields: dict[str, Any], says: str) -> None:
    """A missing, unknown or mistyped field is a ProtocolError of one line: what came, where, what was expected."""
    with pytest.raises(ProtocolError, match=says) as caught:
        structure(cls, fields, "op x")
    assert caught.value.message.startswith("op x: ")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], b""])
@pytest.mark.parametrize("cls", [Ping, Receipt, HelloResult, Timing])
def test_what_is_not_a_map_is_no_message(cls: type, value: object) -> None:
    """A message's body that is no map at all is refused, also where every field has a default."""
    with pytest.raises(ProtocolError, match="a map was expected"):
        structure(cls, value, "op x")


def test_several_wrong_fields_are_told_together() -> None:
    """Who writes a client sees all mistakes of a message at once."""
    with pytest.raises(ProtocolError, match=r"token.*pending"):
        structure(Ping, {"id": 1, "token": 1, "pending": 1}, "op ping")


def test_arrays_become_tuples_and_numbers_floats() -> None:
    """The typed message holds what its annotations say, whichever of msgpack's types carried it."""
    request = structure(Fetch, {"id": 1, "target": HANDLE, "region": [1, [None, 4, -1]], "deadline": 2}, "")
    assert request.region == (1, (None, 4, -1))
    assert type(request.deadline) is float


def test_a_users_values_are_left_as_they_came() -> None:
    """Arguments and results may be anything the wire carries; only their container is ours."""
    request = structure(Run, {"id": 1, "target": Name(name="f"), "args": [(1,), [2], {"a": None}]}, "")
    assert request.args == ((1,), [2], {"a": None})


def test_a_reply_of_a_later_version_may_say_more() -> None:
    """Fields that this version does not know are dropped from what a worker tells."""
    assert structure(RunResult, {"value": 3, "of-the-future": 1}, "").value == 3
    receipt = structure(Receipt, {"unit": "u", "version": 1, "definitions": [{"name": "f", "kind": "x", "new": 1}]}, "")
    assert receipt.definitions[0].name == "f"


def test_a_summary_keeps_ints_exact() -> None:
    """The extremes of an integer array are not turned into floats."""
    summary = structure(Summary, {"dtype": "i64", "shape": [2], "nbytes": 16, "maximum": 2**63 - 1, "mean": 1}, "")
    assert summary.maximum == 2**63 - 1
    assert summary.shape == (2,)
