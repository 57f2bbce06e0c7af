"""Names at the prompt that stand for what is on the worker."""

from __future__ import annotations

from typing import Any

import pytest

from recording_session import RecordingSession
from tiremote.protocol.errors import EngineCrashed, TiremoteError, UnsupportedType
from tiremote.protocol.receipts import Definition
from tiremote.repl.laptop_taichi import OnWorker
from tiremote.repl.names import Names, first_names


class Refusing(RecordingSession):
    """Gives no value."""

    def __init__(self, error: TiremoteError) -> None:
        super().__init__()
        self.error = error

    def __getitem__(self, kernel_id: str) -> Any:
        raise self.error


def names_of(gpu: Any) -> Names:
    return first_names(gpu, lambda _: None, lambda _: True)


def test_what_does_not_travel_has_a_name_all_the_same() -> None:
    """A type, say, is bound to something that kernels can use."""
    gpu: Any = Refusing(UnsupportedType("no"))
    names = names_of(gpu)
    names.bind_remote(gpu, "u", Definition(name="v", kind="value"))
    assert isinstance(names.values["v"], OnWorker)


def test_what_was_lost_with_an_engine_is_told_where_a_name_is_bound() -> None:
    """The worker says it once: it is an error then, and nothing is bound to the name."""
    gpu: Any = Refusing(EngineCrashed("it died", lost=("ndarray y",)))
    names = names_of(gpu)
    with pytest.raises(EngineCrashed):
        names.bind_remote(gpu, "u", Definition(name="v", kind="value"))
    assert "v" not in names.values
