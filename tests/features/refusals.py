"""Calls that have to be refused: before the launch, in one line, and by the parameter's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelArgumentError

#: What stands in an error of Taichi's insides, and never in one of ours.
_INSIDES = ("AttributeError", "AssertionError", "IndexError", "KeyError", "TypeError", "Traceback", "lang.")


def refused(call: Callable[..., Any], *args: Any, parameter: str | None, **kwargs: Any) -> str:
    """The message of the `KernelArgumentError` that names ``parameter``."""
    with pytest.raises(KernelArgumentError) as caught:
        call(*args, **kwargs)
    assert caught.value.parameter == parameter
    assert parameter is None or repr(parameter)[1:-1] in caught.value.message
    return _plain(caught.value.message)


def does_not_load(gpu: Session, source: str, *, line: int) -> str:
    """The message of the `CompileError` whose last frame is that line of the source."""
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(source, "broken")
    assert caught.value.frames[-1].line == line
    return _plain(caught.value.message)


def _plain(message: str) -> str:
    assert "\n" not in message
    assert not [inside for inside in _INSIDES if inside in message], message
    return message
