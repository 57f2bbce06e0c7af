"""What remote code printed, as a client was told."""

from __future__ import annotations

import threading

from tiremote.protocol.messages import RequestId


class Printed:
    """An ``on_output`` that keeps everything, and can be waited on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.events: list[tuple[str, str, RequestId]] = []

    def __call__(self, text: str, stream: str, request: RequestId) -> None:
        with self._changed:
            self.events.append((text, stream, request))
            self._changed.notify_all()

    def clear(self) -> None:
        """Forgets what came so far."""
        with self._changed:
            self.events.clear()

    def text(self, stream: str = "stdout", request: RequestId | None = None) -> str:
        """What came in one stream, of all requests or of one."""
        with self._changed:
            return "".join(text for text, which, whose in self.events if which == stream and request in (None, whose))

    def wait_for(self, part: str, patience: float = 60.0) -> None:
        """Waits until this was printed."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: part in "".join(text for text, stream, _ in self.events if stream == "stdout"), patience
            )
        assert found, f"{part!r} was not printed in {patience} s"
