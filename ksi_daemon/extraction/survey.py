"""Find the calls that stand in a text which is not an agent's own: a document, a tool's result.

Whoever repeats such a call quotes it, so nothing may hide one: not a fence, not a limit on their
number, not an object or a string around it, not a broken block before it. These calls never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects import Draft, Reading, Schemas
from ksi_daemon.extraction.frames import frames
from ksi_daemon.extraction.model import Call
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.reader import read_any
from ksi_daemon.extraction.scanner import Block, Broken, Plan, Scanner, plan

__all__ = ["candidates"]

# An object that cannot be read is entered, and so may be those in it: each level reads again what
# is in it, so without a limit a hostile text would cost the square of its length.
MAX_ENTERED: Final = 8
_QUOTE_MARKS: Final = r"^(?:[ \t]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+>)++[ \t]?"
_QUOTE_MARK: Final = re.compile(_QUOTE_MARKS, re.MULTILINE)
_BLOCK_QUOTE: Final = re.compile(rf"(?:{_QUOTE_MARKS}[^\n]*+\n?+)++", re.MULTILINE)


class _Found(msgspec.Struct, frozen=True, gc=False):
    start: int
    end: int
    value: dict[str, Any]


def candidates(text: str, protocol: Protocol, *, tools: Schemas | None = None) -> tuple[Call, ...]:
    """Return every call that stands in *text*, in the order of the text.

    *tools* is as for ``extract``: a call is known again only if both read it alike.

    A call within another object, or in a string of one, has the span of that object. What is in a
    block quote is read once more without the marks of the quote; such a call has the span of the
    quote. A call without an id of its own has the id "".
    """
    wanted = plan(protocol.dialects)
    marks = ["{", *(marker for dialect in wanted.framed for marker in dialect.markers)]
    reading = Reading(strict=False, repairs=True, max_depth=64, tools=tools, nested=True)
    calls: list[Call] = []
    waiting: list[tuple[str, _Found | None]] = [(text, None)]
    while waiting:
        piece, around = waiting.pop()
        waiting += _unquoted(piece, around)
        calls += _framed(piece, around, wanted, reading)
        for found in _objects(piece, wanted):
            place = around or found
            for value in _containers(found.value):
                waiting += [(string, place) for string in _texts(value, marks)]
                if isinstance(value, dict):
                    calls += _calls(value, place, wanted)
    return tuple(sorted(calls, key=lambda call: call.start))


def _unquoted(text: str, around: _Found | None) -> Iterator[tuple[str, _Found]]:
    """Yield each block quote in *text* without its marks, and its place."""
    if ">" not in text:
        return
    for quote in _BLOCK_QUOTE.finditer(text):
        yield _QUOTE_MARK.sub("", quote[0]), around or _Found(*quote.span(), {})


def _objects(text: str, wanted: Plan) -> Iterator[_Found]:
    scanner = Scanner(text, wanted)
    at = outermost = entered = 0
    while (found := scanner.next(at)) is not None:
        if isinstance(found, Broken):
            at = found.start + 1
            continue
        value = found.value or read_any(text[found.start : found.end])
        if value:
            yield _Found(found.start, found.end, value)
        if found.start >= outermost:
            outermost, entered = found.end, 0
        entered += 1
        # What an odd object repeats or hides from the reader is found by entering it.
        odd = isinstance(found, Block)
        at = found.start + 1 if odd and entered <= MAX_ENTERED else found.end


def _containers(value: dict[str, Any]) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield *value* and every object and array within it."""
    waiting: list[Any] = [value]
    while waiting:
        container = waiting.pop()
        yield container
        children = container.values() if isinstance(container, dict) else container
        waiting += [child for child in children if isinstance(child, dict | list)]


def _texts(container: dict[str, Any] | list[Any], marks: Sequence[str]) -> list[str]:
    """Return the strings directly in *container*, keys too, that hold one of *marks*."""
    children = [*container, *container.values()] if isinstance(container, dict) else container
    texts = [child for child in children if isinstance(child, str)]
    return [text for text in texts if any(mark in text for mark in marks)]


def _framed(text: str, around: _Found | None, wanted: Plan, reading: Reading) -> Iterator[Call]:
    for dialect, framed in frames(text, wanted.framed, reading):
        for piece in framed.pieces:
            if isinstance(piece.draft, Draft):
                place = around or _Found(piece.start, piece.end, {})
                yield _call(piece.draft, dialect.name, place)


def _calls(value: dict[str, Any], place: _Found, wanted: Plan) -> Iterator[Call]:
    for dialect in wanted.dialects:
        draft = dialect.read(value, strict=False)
        if isinstance(draft, Draft):
            yield _call(draft, dialect.name, place)
        if draft is not None:
            return


def _call(draft: Draft, dialect: str, place: _Found) -> Call:
    id, start, end = draft.id or "", place.start, place.end
    return Call(draft.name, draft.args, id, not id, dialect, start, end, (), draft.nonce)
