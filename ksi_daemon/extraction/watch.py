"""When to look again at a text that grows: as soon as it is worth it, and no more than is paid for.

Each character that comes buys WORK characters of looking, and a look costs the text that is looked
at. So the cost of all looks is linear in the text, however it is cut and whatever it holds. Most
texts spend little of it: an object is looked at again when its last bracket has come, a block
between marks when what ends it has. And since an object may stop being one long before that, the
open text is looked at whenever it has grown by half.
"""

from __future__ import annotations

import re
from typing import Final

from ksi_daemon.extraction.growing import Doubt

__all__ = ["Watch"]

WORK: Final = 8  # characters of looking for one that comes
LOOK: Final = 64  # characters: what a look costs at least
START: Final = 1 << 16  # characters of looking, so that the first calls are not late
TAIL: Final = 64  # characters: the longest mark that ends a block

_QUOTED: Final = re.compile(r'(?:[^"\\]++|\\[\s\S])*+')
_BRACKET: Final = re.compile(r'[{}\[\]"]')


class Watch:
    """The first doubt in a text, and what may be spent on it."""

    def __init__(self) -> None:
        self.doubt: Doubt | None = None
        self._awake = False
        self._spent = 0
        self._next_look = 0  # a length of the text in doubt
        self._tail = ""
        self._brackets = _Brackets()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in doubt, nor waits for a look."""
        return self.doubt is None and not self._awake

    def wake(self) -> None:
        self._awake = True

    def see(self, chunk: str, open_length: int) -> None:
        """Take note that *chunk* came and made the text in doubt *open_length* long."""
        if open_length >= self._next_look:
            self._awake = True
        if self._awake or self.doubt is None:
            return
        if self.doubt.wake is None:
            self._awake = self._brackets.close_in(chunk)
            return
        seen = self._tail + chunk
        self._awake = any(each.end() >= len(self._tail) for each in self.doubt.wake.finditer(seen))
        self._tail = seen[-TAIL:]

    def may_look(self, length: int, come: int) -> bool:
        """Say whether a look at *length* of *come* characters is worth it, and pay if it is."""
        cost = length + LOOK
        if not self._awake or self._spent + cost > START + WORK * come:
            return False
        self._spent += cost
        return True

    def turn(self, doubt: Doubt | None, open_text: str) -> None:
        """Go on with *doubt*, the first after a look, at the beginning of *open_text*."""
        self.doubt, self._awake = doubt, False
        self._next_look = len(open_text) * 3 // 2 + 1
        self._tail = open_text[-TAIL:]
        if doubt is not None and doubt.wake is None:
            self._brackets = _Brackets()
            self._brackets.close_in(open_text)


class _Brackets:
    """The depth of an object, read piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._closed = False

    def close_in(self, piece: str) -> bool:
        """Read *piece*, which follows what was read, and say whether the object has ended."""
        at, end = 0, len(piece)
        while at < end and not self._closed:
            if self._escaped:
                self._escaped = False
                at += 1
            elif self._quoted:
                at = self._leave_string(piece, at)
            else:
                at = self._next_bracket(piece, at)
        return self._closed

    def _leave_string(self, piece: str, at: int) -> int:
        found = _QUOTED.match(piece, at)
        end = found.end() if found else at
        if end < len(piece):  # a quote, or a lone backslash at the end
            self._quoted = piece[end] != '"'
            self._escaped = self._quoted
        return end + 1

    def _next_bracket(self, piece: str, at: int) -> int:
        found = _BRACKET.search(piece, at)
        if found is None:
            return len(piece)
        mark = found[0]
        if mark == '"':
            self._quoted = True
        else:
            self._depth += 1 if mark in "{[" else -1
            self._closed = self._depth <= 0
        return found.end()
