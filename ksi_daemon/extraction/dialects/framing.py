"""What framed dialects share: an object at a known place, read as exactly as the scanner does."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects.base import Fault, Reading
from ksi_daemon.extraction.literals import Halt
from ksi_daemon.extraction.reader import Stop, control_place, read_at
from ksi_daemon.extraction.repair import Mender

__all__ = [
    "Body",
    "Unread",
    "halted",
    "mend_body",
    "past_space",
    "read_body",
    "stopped",
    "where",
]

_COMMENT_MARKS: Final = ("'/'", "'#'")
_PUNCTUATION: Final = "{}[]:,/#\"'"  # what is rather misplaced than behind an unescaped quote
_SPACE: Final = re.compile(r"\s*+")


class Body(msgspec.Struct, frozen=True):
    """An object in a frame that was read, and what was needed to read it."""

    end: int
    value: dict[str, Any]
    repairs: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


class Unread(msgspec.Struct, frozen=True):
    """An object in a frame that cannot be used.

    *end* is where it ends, or where it stops making sense: then *stop* says more. *place* is what
    *fault* speaks of.
    """

    end: int
    fault: Fault
    place: int
    stop: Stop | None = None


def read_body(text: str, start: int, reading: Reading) -> Body | Unread:
    """Read the object of a call at *start*."""
    found = read_at(text, start)
    if isinstance(found, Stop):
        opens = [frame.array for frame in found.frames]
        fault = stopped(text, start, found, opens, reading.stop_reason)
        return Unread(found.resume, fault, found.at, found)
    odd, end = found.odd, found.end
    if found.depth > reading.max_depth:
        message = f"the block is nested deeper than {reading.max_depth} levels"
        return Unread(end, Fault("depth_limit", message), start)
    if odd.value is None:
        return Unread(end, Fault("malformed_block", odd.fault or ""), start)
    if odd.control and not reading.repairs:
        place = start + control_place(text[start:end])
        message = f"a string holds a raw control character at {where(text, start, place)}"
        return Unread(end, Fault("malformed_block", message), place)
    return Body(end, odd.value, ("control_character",) if odd.control else (), odd.repeated)


def mend_body(
    text: str,
    start: int,
    limit: int,
    reading: Reading,
    *,
    keys: Collection[str] | None,
    complete: bool,
) -> Body | None:
    """Mend the object at *start* if it can be told what fills the text up to *limit*.

    *keys* and *complete* are as for ``repair.Mender.mend``.
    """
    if not reading.repairs:
        return None
    mended = Mender(text).mend(start, limit, keys, complete=complete)
    if mended is None or text[mended.end : limit].strip():
        return None
    return Body(mended.end, mended.value, mended.repairs)


def stopped(
    text: str, start: int, stop: Stop, opens: Sequence[bool], stop_reason: str | None
) -> Fault:
    """Say what is wrong with the block at *start*, which stops making sense at *stop*.

    *opens* tells of each bracket that is open there whether it is an array's.
    """
    if not stop.ended:
        got = repr(text[stop.at])
        if got in _COMMENT_MARKS:
            got = f"a comment ({got})"
        place = where(text, start, stop.at)
        unescaped = stop.after_string and text[stop.at] not in _PUNCTUATION
        hint = r"; a quote within a string is written \"" if unescaped else ""
        return Fault("malformed_block", f"expected {stop.expected}, got {got} at {place}{hint}")
    missing = "".join("]" if array else "}" for array in reversed(opens))
    cut = "the reply was cut off" if stop_reason == "length" else "the reply ends"
    message = f"{cut} where {stop.expected} was expected; the block still lacks {missing!r}"
    return Fault("unterminated_block", message)


def halted(text: str, start: int, halt: Halt, stop_reason: str | None) -> Fault:
    """Say what is wrong with the block at *start*, whose data stops making sense at *halt*."""
    if halt.ended:
        cut = "the reply was cut off" if stop_reason == "length" else "the reply ends"
        return Fault("unterminated_block", f"{cut} where {halt.expected} was expected")
    got, place = repr(text[halt.at]), where(text, start, halt.at)
    return Fault("malformed_block", f"expected {halt.expected}, got {got} at {place}")


def where(text: str, start: int, place: int) -> str:
    """Return *place* as line and column of the block at *start*."""
    line = text.count("\n", start, place) + 1
    column = place - max(text.rfind("\n", start, place) + 1, start) + 1
    return f"line {line}, column {column} of the block"


def past_space(text: str, at: int) -> int:
    """Return the first place at *at* or behind it that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
