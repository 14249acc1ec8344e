"""Find the blocks in a text that have marks around them, for the dialects that are not JSON alone.

Each opening mark is read once. A dialect is sought on only when the last block that it gave lies
behind, so the cost is that of the text, however many dialects there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ksi_daemon.extraction.dialects import Framed, FramedDialect, Reading

__all__ = ["Frames", "frames"]


class Frames:
    """The framed blocks of one text, asked for at places that only move forward."""

    def __init__(self, text: str, dialects: Sequence[FramedDialect], reading: Reading) -> None:
        self._text = text
        self._reading = reading
        self._openers = {
            dialect: _openers(text, dialect)
            for dialect in dialects
            if any(marker in text for marker in dialect.markers)
        }
        self._found: dict[FramedDialect, Framed] = {}

    def next(self, at: int) -> tuple[FramedDialect, Framed] | None:
        """Return the first block that begins at *at* or behind it."""
        for dialect in list(self._openers):
            self._seek(dialect, at)
        if not self._found:
            return None
        return min(self._found.items(), key=lambda found: found[1].start)

    def _seek(self, dialect: FramedDialect, at: int) -> None:
        found = self._found.get(dialect)
        if found is not None and found.start >= at:
            return
        self._found.pop(dialect, None)
        for opener in self._openers[dialect]:
            if opener.end() <= at:
                continue
            framed = dialect.frame(self._text, opener, self._reading)
            if framed is not None and framed.start >= at:
                self._found[dialect] = framed
                return
        del self._openers[dialect]


def frames(
    text: str, dialects: Sequence[FramedDialect], reading: Reading
) -> Iterator[tuple[FramedDialect, Framed]]:
    """Yield every block of *dialects*, also those that stand in others."""
    for dialect in dialects:
        for opener in _openers(text, dialect):
            framed = dialect.frame(text, opener, reading)
            if framed is not None:
                yield dialect, framed


def _openers(text: str, dialect: FramedDialect) -> Iterator[re.Match[str]]:
    return dialect.opener.finditer(text)
