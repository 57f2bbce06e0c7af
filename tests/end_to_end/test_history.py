"""Earlier versions of a unit: looked at, compared and loaded again, through a real worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import CompileError, EngineCrashed, UnknownName

TEXTS = [f"import os\ndef answer():\n    return {n}\ndef die():\n    os.abort()\n" for n in range(1, 4)]


@pytest.fixture
def gpu(worker: RealWorker) -> Iterator[Session]:
    """A session in which a unit has three versions."""
    with connect(worker.address) as gpu:
        for text in TEXTS:
            gpu.compile_and_load(text, "u")
        yield gpu


def test_a_rollback_is_a_new_version_with_the_old_text(gpu: Session) -> None:
    """One call brings an earlier text back; the history goes on."""
    receipt = gpu.rollback("u", 1)
    assert receipt.version == 4
    assert gpu["u"].answer() == 1
    history = gpu.history("u")
    assert [one.version for one in history.versions] == [1, 2, 3, 4]
    assert history.current == 4
    assert gpu.source("u") == gpu.source("u", 1) == TEXTS[0]


def test_a_failed_load_leaves_no_version(gpu: Session) -> None:
    """What never loaded is not in the history."""
    with pytest.raises(CompileError):
        gpu.compile_and_load("def answer(:\n", "u")
    assert gpu.history("u").current == 3
    assert gpu["u"].answer() == 3


def test_a_diff_shows_what_changed(gpu: Session) -> None:
    """By default the last change, else any two versions."""
    assert "-    return 2\n+    return 3\n" in gpu.diff("u")
    assert "-    return 1\n+    return 3\n" in gpu.diff("u", 1, 3)


def test_the_history_outlives_an_engine(gpu: Session) -> None:
    """A crash costs the engine, not the versions."""
    with pytest.raises(EngineCrashed):
        gpu["u"].die()
    assert gpu["u"].answer() == 3
    assert gpu.rollback("u", 2).version == 4
    assert gpu["u"].answer() == 2


def test_a_version_that_is_not_there_is_refused_by_name(gpu: Session) -> None:
    """The error lists the versions there are."""
    with pytest.raises(UnknownName, match="1, 2, 3"):
        gpu.rollback("u", 9)
    with pytest.raises(UnknownName, match="no unit 'v'"):
        gpu.history("v")
    assert gpu["u"].answer() == 3


def test_units_that_were_loaded_as_one_have_a_history_each(gpu: Session) -> None:
    """A name moves in two units in one request; each can be looked at, and both come back after a crash."""
    texts = {"top": "from low import one\nN = one()\n", "low": "def one():\n    return 1\n"}
    gpu.compile_and_load_all(texts)
    told = gpu.compile_and_load_all({unit: text.replace("one", "single") for unit, text in texts.items()})
    assert [(unit, receipt.version) for unit, receipt in told.items()] == [("top", 2), ("low", 2)]
    assert [gpu.source(unit, 1) for unit in texts] == list(texts.values())
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load_all({"low": texts["low"], "top": "N = nothing\n"})
    assert caught.value.unit == "top"
    with pytest.raises(EngineCrashed):
        gpu["u"].die()
    assert gpu["top"].N == 1
    with pytest.raises(TypeError, match="source of 'top'"):
        gpu.compile_and_load_all({"top": 1})  # type: ignore[dict-item]
