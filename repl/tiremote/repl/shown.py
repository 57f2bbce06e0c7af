"""How a value looks at the prompt."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from tiremote.client import RemoteArray
from tiremote.protocol.comparison import Comparison
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import EngineError, TiremoteError, UnknownName
from tiremote.protocol.receipts import Receipt, Summary
from tiremote.protocol.results import CleanupResult, HistoryResult, RequestsResult, SnapshotResult
from tiremote.repl.collecting import requests_text
from tiremote.repl.render import kind_of

#: Of an array with so many numbers all are shown.
_SHOWN_WHOLE = 20
#: Results whose text is for people.
_READ = (Receipt, Summary, Comparison, HistoryResult, SnapshotResult, CleanupResult)


def value_text(value: Any) -> str:
    """What a cell's last expression shows.

    Raises `EngineError`: it says what was lost with an engine, and the worker says so once; and `UnknownName` where the
    session is gone.
    """
    if isinstance(value, RemoteArray):
        return array_text(value)
    if isinstance(value, RequestsResult):
        return requests_text(value)
    if isinstance(value, _READ):
        return str(value)
    try:
        return repr(value)
    except TiremoteError as error:
        if _is_news(error):
            raise
        return f"<{type(value).__name__}: {error.message}>"


def array_text(array: RemoteArray) -> str:
    """Kind, dtype and shape in one line; the numbers' summary, computed on the worker, below.

    Raises as `value_text` does.
    """
    kind = kind_of(array)
    try:
        summary = array.summary()
        if prod(array.shape + array.element_shape) <= _SHOWN_WHOLE:
            summary = replace(summary, corners=str(array.to_numpy()))
        return f"{kind} {summary}"
    except TiremoteError as error:
        if _is_news(error):
            raise
        shape = array.shape + array.element_shape
        return f"{kind} {name_of(array.dtype)} {shape}, {array.nbytes:,} bytes\n({error.message})"


def _is_news(error: TiremoteError) -> bool:
    """Whether it is about more than the value that is shown."""
    return isinstance(error, EngineError) or (isinstance(error, UnknownName) and error.name == "token")
