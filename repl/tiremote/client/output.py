"""Where the output of remote code goes."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tiremote.protocol.messages import RequestId

#: Called with the text, the stream (``stdout``, ``stderr``, ``warning``) and the id of the request that wrote it,
#: on the thread that moves the session's messages, its own or one that waits: it must not wait for the session.
OutputHandler = Callable[[str, str, RequestId], None]


def print_output(text: str, stream: str, request: RequestId) -> None:  # noqa: ARG001 - the handlers' one signature
    """Writes the text to this process's own stdout or stderr as it arrives. What `connect` does by default."""
    out = sys.stdout if stream == "stdout" else sys.stderr
    if out is None:  # a windowed program on Windows has none
        return
    out.write(f"warning: {text}\n" if stream == "warning" else text)
    out.flush()
