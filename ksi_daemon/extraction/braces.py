"""Tell from the braces behind a place whether what is open there was ever closed.

Of a broken object nobody knows which text is in strings. So braces are counted in two ways: all of
them, and those that are outside of strings if one is open at the place. A brace that closes more
than was opened behind the place shows that the writer went on with what was open at it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

__all__ = ["Braces"]

_BRACE: Final = re.compile(r"[{}]")
_MARK: Final = re.compile(r"\\.|[\"{}]", re.DOTALL)


class Braces:
    """The braces of one text. Each count is made once, and only if it is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._all: _Falls | None = None
        self._quotes: list[int] = []
        self._between: tuple[_Falls, _Falls] | None = None

    def close_more(self, at: int, *, quoted: bool) -> bool:
        """Say whether a brace at *at* or behind it closes one that was opened before.

        *quoted*: a string may be open at *at*.
        """
        if self._all is None:
            braces = _BRACE.finditer(self._text)
            self._all = _Falls((brace.start(), brace[0] == "{") for brace in braces)
        return self._all.below(at) or (quoted and self._close_more_if_quoted(at))

    def _close_more_if_quoted(self, at: int) -> bool:
        self._between = self._between or self._between_quotes()
        outside = (bisect_left(self._quotes, at) + 1) % 2
        return self._between[outside].below(at)

    def _between_quotes(self) -> tuple[_Falls, _Falls]:
        """Return the braces behind an even, and those behind an odd number of quotes."""
        braces: tuple[list[tuple[int, bool]], ...] = ([], [])
        for mark in _MARK.finditer(self._text):
            if mark[0] == '"':
                self._quotes.append(mark.start())
            elif len(mark[0]) == 1:
                braces[len(self._quotes) % 2].append((mark.start(), mark[0] == "{"))
        return _Falls(braces[0]), _Falls(braces[1])


class _Falls:
    """How far the depth falls behind each of *braces*: pairs of a place and whether it opens."""

    def __init__(self, braces: Iterable[tuple[int, bool]]) -> None:
        found = list(braces)
        self._places = [place for place, _ in found]
        self._lowest: list[int] = []  # from before the brace
        low = 0
        for _, opens in reversed(found):
            low = min(low, 0) + (1 if opens else -1)
            self._lowest.append(low)
        self._lowest.reverse()

    def below(self, at: int) -> bool:
        """Say whether the depth falls below that at *at*."""
        index = bisect_left(self._places, at)
        return index < len(self._places) and self._lowest[index] < 0
