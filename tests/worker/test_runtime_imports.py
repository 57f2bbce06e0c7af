"""What an import of a runtime means in a session, and what a runtime does not have."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.frames import load_error, run_error
from tiremote.worker.engine.runtime_imports import OtherRuntimeError, everything, meant_by
from tiremote.worker.runtimes import RUNTIMES, RuntimeKind

from .test_runtime import in_fresh_process


@pytest.mark.parametrize("own", RUNTIMES)
def test_taichi_and_the_sessions_own_name_mean_the_session(own: str) -> None:
    """Also below them; every other module is what it says."""
    assert meant_by("taichi", own) == meant_by(own, own) == own
    assert meant_by("taichi.lang.impl", own) == f"{own}.lang.impl"
    assert meant_by("numpy.linalg", own) == "numpy.linalg"
    assert meant_by("taichi_elements", own) == "taichi_elements"


@pytest.mark.parametrize("own", RUNTIMES)
def test_any_other_runtime_is_refused(own: str) -> None:
    """As an import that fails, so that a text can try one and go on with another."""
    for other in set(RUNTIMES) - {own, "taichi"}:
        with pytest.raises(OtherRuntimeError, match=f"runtime='{other}'") as caught:
            meant_by(f"{other}.math", own)
        assert isinstance(caught.value, ImportError)


def test_a_library_cannot_import_another_runtime_either() -> None:
    """Whatever the session's is, and however it is asked for."""
    code = (
        "import importlib\n"
        "from tiremote.worker.engine.runtime_imports import keep_others_out\n"
        "keep_others_out('quadrants')\n"
        "for name in ('taichi', 'taichi.math', 'gstaichi'):\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError as error: print(error.name)\n"
        "import json; print('ends')\n"
    )
    assert in_fresh_process(code).split() == ["taichi", "taichi", "gstaichi", "ends"]


def test_a_star_takes_every_public_name() -> None:
    """Where a runtime lists a few of its own only."""
    module = ModuleType("some")
    module.__dict__.update({"kernel": 1, "_hidden": 2, "__all__": ["math"]})
    taken = everything(module)
    assert taken.kernel == 1
    assert not hasattr(taken, "_hidden")
    assert not hasattr(taken, "__all__")


def runtime(kind: RuntimeKind) -> Any:
    """As much of one as errors need."""
    return SimpleNamespace(
        name=kind.name,
        kind=kind,
        layout=kind.layout,
        compile_errors=lambda: (),
        argument_errors=lambda: (),
        assertion_errors=lambda: (),
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AttributeError("module 'gstaichi' has no attribute 'GUI'"), "windows"),
        (AttributeError("module 'gstaichi.types' has no attribute 'texture'"), "textures"),
        (AttributeError("module 'gstaichi.lang.graph' has no attribute 'GraphBuilder'"), "graphs of kernels"),
        (ImportError("cannot import name 'ui' from 'gstaichi' (/somewhere/__init__.py)"), "windows"),
        (ModuleNotFoundError("No module named 'gstaichi.ui'"), "windows"),
    ],
)
def test_what_a_runtime_lacks_is_told(error: Exception, told: str) -> None:
    """In the words of what is missing, and not of a module of the worker's alone."""
    for message in (each(error, runtime(RUNTIMES["gstaichi"])).message for each in (load_error, run_error)):
        assert message.endswith(f": gstaichi has no {told}")
        assert "somewhere" not in message


@pytest.mark.parametrize("text", ["module 'gstaichi' has no attribute 'kernl'", "module 'mine' has no attribute 'GUI'"])
def test_a_name_that_is_nothing_is_not_explained(text: str) -> None:
    """Nor another module's."""
    error = load_error(AttributeError(text), runtime(RUNTIMES["gstaichi"]))
    assert isinstance(error, CompileError)
    assert error.message == f"AttributeError: {text}"
