"""How it reads where an event holds the words that were looked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ksi_client.text import Paint, clip, visible, width

__all__ = ["Match", "matched"]

_INDENT: Final = " " * 9
# What stands before a match keeps a third of the line.
_BEFORE: Final = 3


class Match(msgspec.Struct):
    """``text[start:end]`` in an excerpt of *part* of event *seq*: data, result, error or event."""

    seq: int
    part: str
    text: str
    start: int
    end: int


def matched(match: Match | None, paint: Paint, cells: int) -> Iterator[str]:
    """Yield a line with the match in its surroundings, none if there is none."""
    if match is None:
        return
    before, word, after = (
        visible(part)
        for part in (
            match.text[: match.start],
            match.text[match.start : match.end],
            match.text[match.end :],
        )
    )
    lead = f"{_INDENT}{match.part}: "
    room = cells - width(lead)
    before = clip(before[::-1], max(1, room // _BEFORE))[::-1] if before else ""
    word = clip(word, max(1, room - width(before)))
    after = clip(after, max(1, room - width(before) - width(word))) if after else ""
    yield f"{paint(lead, 'dim')}{paint(before, 'dim')}{paint(word, 'bold')}{paint(after, 'dim')}"
