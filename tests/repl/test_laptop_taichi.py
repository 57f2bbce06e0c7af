"""``ti`` on a laptop that has no Taichi."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from recording_session import ENGINE, RecordingSession
from tiremote.protocol.errors import Refused
from tiremote.repl.laptop_taichi import LaptopTaichi, OnWorker, importer


@pytest.fixture
def gpu() -> RecordingSession:
    return RecordingSession()


@pytest.fixture
def ti(gpu: RecordingSession) -> Any:
    return LaptopTaichi(gpu, lambda _: None, lambda _: False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "meant"),
    [("ndarry", "ndarray"), ("f3", "f32"), ("kernl", "kernel"), ("math.vecc3", "vec3"), ("ad.Tap", "Tape")],
)
def test_a_name_that_taichi_has_not_suggests_the_nearest(ti: Any, path: str, meant: str) -> None:
    """Also inside its modules."""
    *inside, name = path.split(".")
    value = ti if inside != ["math"] else OnWorker("math", ti.missing)
    for each in inside if inside != ["math"] else []:
        value = getattr(value, each)
    with pytest.raises(AttributeError, match=f"has no {name!r}; did you mean {meant!r}"):
        getattr(value, name)


def test_a_name_that_is_like_none_is_refused_too(ti: Any) -> None:
    """It is not on the worker either."""
    with pytest.raises(AttributeError, match=r"^Taichi has no 'nope'$"):
        _ = ti.nope
    assert not hasattr(ti, "xyzzy")
    assert repr(ti.kernel) == "<ti.kernel, on the worker>"


def test_a_fork_of_taichi_may_have_other_names(gpu: RecordingSession, ti: Any) -> None:
    """Of those there is no list."""
    gpu.info = replace(gpu.info, engine=replace(ENGINE, runtime="gstaichi"))
    assert repr(ti.nope) == "<ti.nope, on the worker>"


def test_the_name_of_another_runtime_is_refused(gpu: RecordingSession, ti: Any) -> None:
    """``taichi`` and the session's own name mean the session's; what is no runtime of the worker is itself."""
    gpu.info = replace(gpu.info, engine=replace(ENGINE, runtime="gstaichi"), runtimes=("gstaichi", "quadrants"))
    import_ = importer(ti)
    assert import_("taichi") is import_("gstaichi") is ti
    assert import_("math") is math
    with pytest.raises(Refused, match="--runtime quadrants"):
        import_("quadrants")
