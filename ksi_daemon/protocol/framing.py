"""Frames: one JSON value a line, LF between them. Bytes in, whole lines out; no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["FrameReader", "FrameTooLarge"]

_NEWLINE: Final = b"\n"


class FrameTooLarge(Exception):
    """A line grew past the limit before its newline came. The stream cannot be resumed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"frame exceeds {limit} bytes")
        self.limit = limit


class FrameReader:
    """Split a byte stream into lines of at most *limit* bytes.

    Memory is bounded by *limit* and one chunk. Work is linear: each byte is searched once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun and not ended; 0 between frames."""
        return self._length

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that *chunk* completes, without its newline; blank lines are skipped.

        Raise FrameTooLarge once the line that is open, or one that ends here, is over the limit.
        """
        *complete, rest = chunk.split(_NEWLINE)
        for line in complete:
            if self._parts:
                self._keep(line)
                line = b"".join(self._parts)
                self._parts.clear()
                self._length = 0
            elif len(line) > self._limit:
                raise FrameTooLarge(self._limit)
            if line and not line.isspace():
                yield line
        if rest:
            self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._limit:
            raise FrameTooLarge(self._limit)
        self._parts.append(part)
