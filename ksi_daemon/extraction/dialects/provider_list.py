"""Several calls in one object, as OpenAI's interface lists them in a message.

    {"tool_calls": [{"id": "c1", "type": "function",
                     "function": {"name": "read_file", "arguments": "{\"path\": \"a\"}"}}]}

The message's role and content may stand before the list. Each item has one of the forms of
``provider_json``. The only call of a list has the span of the whole object, one of several that of
its item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Framed,
    FramedDialect,
    Piece,
    Reading,
    listed,
)
from ksi_daemon.extraction.dialects.framing import Body, Unread, mend_body, past_space, read_body
from ksi_daemon.extraction.dialects.provider_json import read_provider
from ksi_daemon.extraction.reader import STRING, Closed, Stop, trace

__all__ = ["ProviderListDialect"]

_LIST: Final = "tool_calls"
_MEMBER: Final = rf'"(?:role|content|refusal)"\s*+:\s*+(?:null|{STRING})\s*+,\s*+'
_KEYS: Final = frozenset({"role", "content", "refusal", _LIST})
_BLANK_LINE: Final = "\n\n"


class ProviderListDialect(FramedDialect):
    name: ClassVar[str] = "provider_list"
    braced: ClassVar[bool] = True
    markers: ClassVar[tuple[str, ...]] = (f'"{_LIST}"',)
    begins: ClassVar[str] = "{"
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf'\{{\s*+(?:{_MEMBER}){{0,3}}+"{_LIST}"\s*+:\s*+\[\s*+(?=\{{)'
    )
    restart: ClassVar[str] = rf'\{{\s*+"{_LIST}"\s*+:\s*+\[\s*+\{{'

    closing: ClassVar[re.Pattern[str] | None] = re.compile(r"\}[^,]")

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        start = opener.start()
        body = read_body(text, start, reading)
        if isinstance(body, Unread):
            piece = _unread(text, start, body, reading)
            return Framed(start, piece.end, (piece,))
        drafts = _drafts(body)
        if isinstance(drafts, Fault):
            return Framed(start, body.end, (Piece(start, body.end, drafts, start),))
        lone = len(drafts) == 1
        spans = [(start, body.end)] if lone else _spans(text, opener.end(), len(drafts))
        pieces = tuple(
            Piece(*span, draft, span[0], body.repairs, body.repeated)
            for span, draft in zip(spans, drafts, strict=True)
        )
        return Framed(start, body.end, pieces)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        return isinstance(trace(text, opener.start()), Closed)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        function = {"name": name, "arguments": json.dumps(args, ensure_ascii=False)}
        item = {"id": id, "type": "function", "function": function}
        return json.dumps({_LIST: [item]}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        return (
            "To call tools, write one JSON object that lists the calls. Each has an id, and the "
            "arguments of its function are text that holds an object as JSON."
        )


def _drafts(body: Body) -> list[Draft | Fault] | Fault:
    """Return what each item of the list in *body* calls, or what is wrong with the whole."""
    items = body.value[_LIST]
    if _LIST in body.repeated:
        return Fault("malformed_block", f"it holds more than one list {_LIST!r}")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return Fault("args_type", f"{_LIST!r} must be a list of objects")
    return [read_provider(item) or _not_a_call(item) for item in items]


def _not_a_call(item: dict[str, Any]) -> Fault:
    return Fault("missing_name", f"the list must hold calls, got the keys {listed(item)}")


def _spans(text: str, at: int, count: int) -> list[tuple[int, int]]:
    """Return where the *count* objects of a whole list stand, the first of them at *at*."""
    spans: list[tuple[int, int]] = []
    while len(spans) < count and not isinstance(read := trace(text, at), Stop):
        spans.append((at, read.end))
        at = past_space(text, past_space(text, read.end) + 1)
    return spans


def _unread(text: str, start: int, body: Unread, reading: Reading) -> Piece:
    """Return the list at *start*, which could not be read, mended if it then holds one call."""
    if body.stop is None:
        return Piece(start, body.end, body.fault, body.place)
    following = ProviderListDialect.opener.search(text, body.end)
    limit = following.start() if following else len(text)
    blank = text.find(_BLANK_LINE, body.end, limit)
    limit = limit if blank < 0 else blank
    complete = limit == len(text) and reading.stop_reason == "stop"
    mended = mend_body(text, start, limit, reading, keys=_KEYS, complete=complete)
    drafts = None if mended is None else _drafts(mended)
    if mended is None or not isinstance(drafts, list) or len(drafts) != 1:
        return Piece(start, max(limit, start + 1), body.fault, min(body.place, limit))
    return Piece(start, mended.end, drafts[0], start, mended.repairs)
