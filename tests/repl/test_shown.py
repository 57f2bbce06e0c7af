"""Values at the prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiremote.client import RemoteArray
from tiremote.protocol.errors import EngineCrashed, TiremoteError, UnknownName, WorkerUnreachable
from tiremote.protocol.receipts import Summary
from tiremote.protocol.results import CleanupResult, RequestLine, RequestsResult, SnapshotResult
from tiremote.protocol.values import Name
from tiremote.repl.shown import value_text

META = {"dtype": "f32", "shape": (3,)}


def test_a_value_whose_repr_asks_a_worker_that_is_gone_is_shown_all_the_same() -> None:
    """A repr that fails for want of the worker gives type and reason instead of an error."""

    class Gone:
        def __repr__(self) -> str:
            raise WorkerUnreachable("nothing is heard")

    assert value_text(Gone()) == "<Gone: nothing is heard>"


@pytest.mark.parametrize(("size", "shown"), [(20, "19."), (21, "...")])
def test_an_array_of_few_numbers_is_shown_whole(size: int, shown: str) -> None:
    """Beyond 20, its corners."""

    class Array(RemoteArray):
        def summary(self) -> Summary:
            return Summary(dtype="f32", shape=self.shape, nbytes=self.nbytes, corners="[0. ... 1.]")

        def to_numpy(self, **_: Any) -> np.ndarray:
            return np.arange(size, dtype=np.float32)

    array = Array(None, Name(unit="u", name="x"), "ndarray", {"dtype": "f32", "shape": (size,)})  # type: ignore[arg-type]
    text = value_text(array)
    assert text.startswith(f"ndarray f32 ({size},)")
    assert shown in text


@pytest.mark.parametrize("kind", ["an array", "a value with a repr"])
@pytest.mark.parametrize("error", [EngineCrashed("it died", lost=("ndarray y",)), UnknownName("gone", name="token")])
def test_what_was_lost_is_told_where_a_value_is_shown(kind: str, error: TiremoteError) -> None:
    """The worker tells it once: to look at a value then is an error with all of it, not a remark beside the value."""

    class Array(RemoteArray):
        def summary(self) -> Summary:
            raise error

    class Asking:
        def __repr__(self) -> str:
            raise error

    array = Array(None, Name(unit="u", name="x"), "ndarray", META)  # type: ignore[arg-type]
    with pytest.raises(TiremoteError) as caught:
        value_text(array if kind == "an array" else Asking())
    assert caught.value is error


def test_results_are_shown_to_be_read() -> None:
    """What a method of the session gives is shown as its command shows it, not as Python writes it down."""
    line = RequestLine(request="a-1", op="run", target="run k", seat=1, state="running", seconds=2.0)
    assert "a-1  run k" in value_text(RequestsResult(requests=(line,)))
    copied = SnapshotResult(copied=("f.f",), nbytes=16, every_seconds=2.5, every_runs=1)
    assert value_text(copied).split("\n") == [
        "1 copied, 16 bytes: f.f",
        "  from now on by itself after every 2.5 s or 1 request",
    ]
    assert value_text(CleanupResult(units=("k",), handles=("h",), nbytes=8)) == "dropped k, 1 array; 8 bytes came back"


def test_a_request_of_before_is_taken_by_its_position() -> None:
    """What `gpu.requests()` gives is counted from 0, as a list is."""
    line = RequestLine(request="a-1", op="run", target="run k", seat=1, state="running", seconds=2.0)
    assert RequestsResult(requests=(line,))[0] is line
