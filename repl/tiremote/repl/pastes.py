"""What is pasted: text as it is, large texts held aside, and no bytes that are no text."""

from __future__ import annotations

import re

#: Characters above which a paste is not shown in the line that is edited.
LARGE = 100_000

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd]")
_MARK = re.compile(r"# pasted (\d+): [\d,]+ lines, .*")


class NoText(ValueError):
    """What was pasted is binary."""


class Pastes:
    """Large texts by the mark that stands for each in the line."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def taken(self, pasted: str) -> str:
        """What is put into the line. Raises `NoText`."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        strange = len(_CONTROL.findall(text[:LARGE]))
        if strange:
            raise NoText(f"what was pasted is no text: {strange:,} of its characters are control characters")
        if len(text) <= LARGE:
            return text
        self._texts.append(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        return f"# pasted {len(self._texts)}: {lines:,} lines, {len(text.encode()):,} bytes; Enter runs them"

    def whole(self, line: str) -> str:
        """The line, with what its marks stand for. A mark of an earlier start is the comment that it looks like."""
        return _MARK.sub(
            lambda mark: self._texts[int(mark[1]) - 1] if int(mark[1]) <= len(self._texts) else mark[0], line
        )
