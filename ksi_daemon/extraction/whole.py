"""Read a reply that must be one object and nothing else, and say what else it is."""

from __future__ import annotations

from typing import Any

import msgspec

from ksi_daemon.extraction.dialects import Fault
from ksi_daemon.extraction.dialects.framing import stopped
from ksi_daemon.extraction.reader import Stop, is_json, read_at

__all__ = ["Sole", "read_whole"]


class Sole(msgspec.Struct, frozen=True):
    """The object that a reply consists of, between blanks."""

    start: int
    end: int
    value: dict[str, Any]
    repeated: tuple[str, ...]


def read_whole(text: str, stop_reason: str | None) -> Sole | tuple[Fault, int]:
    """Return the one object that *text* is, or why it is none and the place that this is about."""
    start = len(text) - len(text.lstrip())
    if start == len(text):
        return Fault("not_json", "the reply is empty"), 0
    if not text.startswith("{", start):
        return _without_object(text, start), start
    found = read_at(text, start)
    if isinstance(found, Stop):
        opens = [frame.array for frame in found.frames]
        return Fault("not_json", stopped(text, start, found, opens, stop_reason).message), found.at
    odd, end = found.odd, found.end
    after = end + len(text[end:]) - len(text[end:].lstrip())
    if after < len(text):
        return _followed(text, after), after
    if odd.value is None or odd.control:
        fault = odd.fault or "a string holds a raw control character"
        return Fault("not_json", fault), start
    return Sole(start, end, odd.value, odd.repeated)


def _without_object(text: str, start: int) -> Fault:
    if text.startswith(("```", "~~~"), start):
        return Fault("extra_text", "the reply is one JSON object: no Markdown, no fence around it")
    if is_json(text[start:]):
        return Fault("not_object", f"the reply must be an object, got {text[start : start + 40]!r}")
    if "{" in text:
        return Fault("extra_text", "the reply is one JSON object, with nothing before it")
    return Fault("not_json", f"the reply must be one JSON object, got {text[start : start + 40]!r}")


def _followed(text: str, after: int) -> Fault:
    if text.startswith("{", after) and not isinstance(read_at(text, after), Stop):
        return Fault("multiple_objects", "the reply holds more than one object; send one")
    rest = text[after : after + 40]
    return Fault(
        "extra_text", f"the reply is one JSON object, with nothing behind it, got {rest!r}"
    )
