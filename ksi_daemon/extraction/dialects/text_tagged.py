"""The fenced form: one object between lines of tildes.

    ~~~tool_call
    {"name": "read_file", "arguments": {"path": "/tmp/x"}, "id": "optional"}
    ~~~

Both fences stand alone on their lines; a line may be indented and end with blanks or CR LF. The
closing fence has at least as many tildes as the opening one. The object is read as JSON before the
closing fence is looked for, so tildes in its strings close nothing. A block holds one call. A
``tool_result`` block is the model's own invention: nothing in it runs, and nobody is shown it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.beginnings import beginning
from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Framed,
    FramedDialect,
    Piece,
    Reading,
    is_call_id,
    is_tool_name,
    listed,
    object_args,
)
from ksi_daemon.extraction.dialects.framing import Body, Unread, mend_body, past_space, read_body

__all__ = ["TaggedDialect"]

MIN_RUN: Final = 3  # tildes
MAX_INDENT: Final = 3  # columns, if strict: deeper is Markdown for a text that is shown

_LABEL: Final = r"tool_(?:call|result)\b"
# A line that ends a block: its closing fence, or the opening one of the next.
_BOUNDARY: Final = re.compile(
    rf"^[ \t]*+(?P<run>~{{3,}}+)[ \t]*+(?P<label>{_LABEL})?[ \t]*+(?=\r?$)", re.MULTILINE
)
_MISPLACED: Final = re.compile(r"[^\S\n]*+(?:\n[^\S\n]*+)?(?=\{)")
_LATER_FENCE: Final = re.compile(r"\s*+~{3,}+")
_KNOWN: Final = frozenset({"name", "arguments", "id", "_k", "type"})


class TaggedDialect(FramedDialect):
    name: ClassVar[str] = "text_tagged"
    markers: ClassVar[tuple[str, ...]] = ("~~~",)
    nonce_place: ClassVar[str] = 'beside `name` as `"_k": "{nonce}"`'
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?:^(?P<indent>[ \t]*+)|(?<!~))(?P<run>~{{3,}}+)[ \t]*+(?P<label>{_LABEL})"
        r"(?P<alone>[ \t]*+(?=\r?$))?",
        re.MULTILINE,
    )
    restart: ClassVar[str] = r"~~~+[ \t]*+tool_call\b"
    closing: ClassVar[re.Pattern[str] | None] = re.compile(r"~~~[ \t]*+\r?\n")

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        indent, call = opener["indent"], opener["label"] == "tool_call"
        if indent is None or opener["alone"] is None:
            return _misplaced(text, opener, reading) if call else None
        if reading.strict and len(indent.expandtabs()) > MAX_INDENT:
            return None
        if not call:
            return _result(text, opener)
        at = past_space(text, opener.end())
        if text.startswith("{", at):
            return _filled(text, opener, at, reading)
        end = _end(text, opener.end(), opener["run"])
        if at >= end or _BOUNDARY.match(text, at):
            fault = Fault("empty_block", "the block holds no object")
        else:
            fault = Fault("malformed_block", f"expected an object, got {text[at]!r}")
        return _refused(text, opener, end, fault, at)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        """Take a block for settled if its object was read and its closing line is over."""
        if framed is None:
            return beginning(_MISPLACED).match(text, opener.end()) is None
        read = all(isinstance(each.draft, Draft) and not each.repairs for each in framed.pieces)
        return bool(framed.pieces) and read and text.find("\n", framed.end) >= 0

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        proof = {"_k": self.nonce} if self.nonce else {}
        block = json.dumps({"name": name, **proof, "arguments": args}, ensure_ascii=False)
        return f"~~~tool_call\n{block}\n~~~"

    def teach(self, *, compact: bool) -> str:
        if compact:
            return (
                "To call a tool, write three lines: `~~~tool_call`, one JSON object with the "
                "tool's name and arguments, `~~~`. One block is one call."
            )
        return (
            "To call a tool, write a block of three lines: a line `~~~tool_call`, one JSON object "
            "with the tool's name and its arguments, a line of three tildes. The first and the "
            "last line hold nothing else. One block is one call; write several blocks for several "
            "calls. The results come with the next message: never write them yourself."
        )


def _filled(text: str, opener: re.Match[str], at: int, reading: Reading) -> Framed:
    """Return the block whose object begins at *at*."""
    run = opener["run"]
    body = read_body(text, at, reading)
    if isinstance(body, Unread):
        return _unread(text, opener, at, body, reading)
    after = past_space(text, body.end)
    alone = after == len(text) or text.find("\n", body.end, after) >= 0
    fence = _BOUNDARY.match(text, text.rfind("\n", body.end, after) + 1) if alone else None
    if fence is not None and fence["label"] is None and len(fence["run"]) >= len(run):
        return _called(opener, fence.end(), body)
    if after == len(text) or (fence is not None and fence["label"] is not None):
        return _unclosed(text, opener, body, reading)
    return _followed(text, opener, body, after, reading)


def _unread(text: str, opener: re.Match[str], at: int, body: Unread, reading: Reading) -> Framed:
    """Return the block whose object at *at* could not be read, mended if that can be done."""
    cut = _cut_string(text, body)
    line = None if cut else _boundary(text, body.end, opener["run"])
    limit = line.start() if line else cut or len(text)
    closed = line is not None and line["label"] is None
    complete = closed or (limit == len(text) and reading.stop_reason == "stop")
    mended = mend_body(text, at, limit, reading, keys=_KNOWN, complete=complete)
    if mended is None:
        end = line.end() if line and closed else limit
        return _refused(text, opener, end, body.fault, min(body.place, end))
    if line and closed:
        return _called(opener, line.end(), mended)
    return _unclosed(text, opener, mended, reading)


def _cut_string(text: str, body: Unread) -> int | None:
    """Return the opening fence that cuts off the string before the stop, if one does.

    The string was never closed, so it took the first quote of the next block for its end.
    """
    if body.stop is None or not body.stop.after_string:
        return None
    lines = _BOUNDARY.finditer(text, body.stop.member, body.stop.at)
    return next((line.start() for line in lines if line["label"] is not None), None)


def _unclosed(text: str, opener: re.Match[str], body: Body, reading: Reading) -> Framed:
    if reading.repairs:
        repairs = tuple(dict.fromkeys((*body.repairs, "missing_closer")))
        return _called(opener, body.end, Body(body.end, body.value, repairs, body.repeated))
    fault = Fault("unterminated_block", f"the closing line {opener['run']!r} is missing")
    return _refused(text, opener, body.end, fault, body.end)


def _followed(text: str, opener: re.Match[str], body: Body, after: int, reading: Reading) -> Framed:
    """Return the block whose object is followed by something that is no closing fence."""
    run = opener["run"]
    if text.startswith(run, after):
        fault = Fault("fence_not_alone", "the closing fence must be alone on its line")
        return _refused(text, opener, _line_end(text, after), fault, after)
    end = _end(text, after, run)
    if text.startswith("{", after):
        fault = Fault("malformed_block", "a block holds one call, and here begins another object")
        if not reading.strict:
            first = _called(opener, body.end, body).pieces
            second = Piece(after, _stripped(text, after, end), fault, after)
            return Framed(opener.start("run"), second.end, (*first, second))
    else:
        fault = Fault("malformed_block", f"expected the closing line {run!r}, got {text[after]!r}")
    return _refused(text, opener, end, fault, after)


def _misplaced(text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
    """Return the block whose opening fence shares its line, None if it is only talked about."""
    gap = _MISPLACED.match(text, opener.end())
    if gap is None:
        return None
    body = read_body(text, gap.end(), reading)
    end = body.end
    closing = _LATER_FENCE.match(text, end)
    if closing is not None and not text.startswith("tool_", closing.end()):
        end = closing.end()
    elif isinstance(body, Unread):
        end = _end(text, end, opener["run"])
    fault = Fault("fence_not_alone", "the opening fence must be alone on its line")
    return _refused(text, opener, end, fault, opener.start("run"))


def _result(text: str, opener: re.Match[str]) -> Framed:
    end = _end(text, opener.end(), opener["run"])
    note = ("shown", "a tool_result block was hidden: results are not the model's to write")
    return Framed(opener.start("run"), _stripped(text, opener.end(), end), (), (note,))


def _called(opener: re.Match[str], end: int, body: Body) -> Framed:
    start = opener.start("run")
    piece = Piece(start, end, _draft(body.value), start, body.repairs, body.repeated)
    return Framed(start, end, (piece,))


def _refused(text: str, opener: re.Match[str], end: int, fault: Fault, place: int) -> Framed:
    start = opener.start("run")
    end = _stripped(text, opener.end(), end)
    return Framed(start, end, (Piece(start, end, fault, place),))


def _boundary(text: str, at: int, run: str) -> re.Match[str] | None:
    """Return the line that ends a block which is open at *at*."""
    lines = _BOUNDARY.finditer(text, at)
    return next((line for line in lines if line["label"] or len(line["run"]) >= len(run)), None)


def _end(text: str, at: int, run: str) -> int:
    """Return where a block ends that is open at *at*: its closing fence is a part of it."""
    line = _boundary(text, at, run)
    if line is None:
        return len(text)
    return line.start() if line["label"] else line.end()


def _stripped(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _draft(block: dict[str, Any]) -> Draft | Fault:
    name = block.get("name")
    if not is_tool_name(name):
        return Fault("missing_name", f"'name' must name a tool, got {name!r:.60}")
    others = [key for key in block if key not in _KNOWN]
    if others and "arguments" not in block:
        return Fault("args_type", f"'arguments' is missing; {listed(others)} belong in it")
    args = object_args(block.get("arguments"), "arguments", strict=False, code="args_json")
    if isinstance(args, Fault):
        return args
    given, nonce = block.get("id"), block.get("_k")
    return Draft(
        name,
        args,
        given if is_call_id(given) else None,
        nonce if is_call_id(nonce) else None,
        (("unknown_field", f"ignored {listed(others)}"),) if others else (),
    )
