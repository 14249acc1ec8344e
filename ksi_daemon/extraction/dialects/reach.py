"""How far a block between marks goes: to what closes it, or to where it must have ended."""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["Reach", "reach"]

_BLANK_LINE: Final = "\n\n"


class Reach(msgspec.Struct, frozen=True):
    """A block closes at *closes* and ends at *end*; *closes* is None if nothing closes it."""

    end: int
    closes: int | None


def reach(
    text: str, at: int, openers: re.Pattern[str], closer: str, *, in_string: bool = False
) -> Reach:
    """Return how far the block goes that is open at *at*.

    Without *closer* it ends where one of *openers* begins another block, or at a blank line before
    that, or with the text. Where the text is cut off *in_string*, a blank line ends nothing. Costs
    what is passed over, which no later block looks at again.
    """
    following = openers.search(text, at)
    limit = following.start() if following else len(text)
    closes = text.find(closer, at, limit)
    if closes >= 0:
        return Reach(closes + len(closer), closes)
    gap = -1 if in_string else text.find(_BLANK_LINE, at, limit)
    return Reach(gap if gap >= 0 else limit, None)
