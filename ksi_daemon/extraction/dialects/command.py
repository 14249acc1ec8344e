"""The one-line form: ``@tool name {"key": value}`` at the start of a line.

The object may be left out. It ends the line; unless strict it may itself stretch over several,
and stand behind a colon or in parentheses: ``@tool name: {}``, ``@tool name({})``.
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
    is_tool_name,
)
from ksi_daemon.extraction.dialects.framing import Unread, mend_body, read_body

__all__ = ["CommandDialect"]

_REST: Final = re.compile(r"[^\S\n]*+")
# Only what could begin a value is an argument: "@tool users like it" is said of a tool.
_VALUES: Final = ("{", "[", '"')
_PARENTHESIS: Final = re.compile(
    r"\([^\S\n]*+(?:(?=\{)|(?P<empty>\))|(?P<other>[A-Za-z_]\w*+\s*+=))"
)


class CommandDialect(FramedDialect):
    name: ClassVar[str] = "command"
    markers: ClassVar[tuple[str, ...]] = ("@tool",)
    opener: ClassVar[re.Pattern[str]] = re.compile(
        r"^[ \t]*+(?P<start>@)tool[ \t]++(?P<name>[A-Za-z0-9_.:/-]++)(?=[\s{(]|\Z)", re.MULTILINE
    )
    restart: ClassVar[str] = r"@tool[ \t]++\w"
    closing: ClassVar[re.Pattern[str] | None] = re.compile(r"\n")

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        start, name = opener.start("start"), opener["name"].removesuffix(":")
        if not is_tool_name(name):
            return None
        if text.startswith("(", opener.end()):
            return _in_parentheses(text, start, name, opener.end(), reading)
        at = _rest(text, opener.end())
        if opener["name"].endswith(":"):
            if not text.startswith("{", at):
                return None
            if reading.strict:
                fault = Fault("malformed_block", "no ':' stands between the name and its object")
                return _framed(start, _line_end(text, at), fault, opener.end() - 1)
        if at == len(text) or text[at] == "\n":
            return _framed(start, opener.end(), Draft(name, {}, None), start)
        if not text.startswith(_VALUES, at):
            return None
        if text[at] != "{":
            fault = Fault("args_type", "the arguments must be an object")
            return _framed(start, _line_end(text, at), fault, at)
        return _with_args(text, start, name, at, reading)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        """Take a block for settled that was read, or has no object, and whose line has ended."""
        at = _rest(text, opener.end())
        inside = text.startswith("(", at)
        if framed is None:
            return text.find("\n", at) >= 0 if inside else at < len(text)
        [piece] = framed.pieces
        read = isinstance(piece.draft, Draft) and not piece.repairs
        plain = not text.startswith("{", _rest(text, at + 1) if inside else at)
        return (read or plain) and text.find("\n", framed.end) >= 0

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        written = f"@tool {name} {json.dumps(args, ensure_ascii=False)}"
        return written if args else f"@tool {name}"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write a line of its own that begins with `@tool`, then the tool's "
            "name and its arguments as one JSON object, all on that line."
        )


def _in_parentheses(text: str, start: int, name: str, at: int, reading: Reading) -> Framed | None:
    """Return the command whose arguments a parenthesis at *at* opens, None if it is prose."""
    found = _PARENTHESIS.match(text, at)
    if found is None:
        return None
    fault = None
    if found["other"]:
        fault = Fault("args_type", "the arguments must be one JSON object, got names with '='")
    elif reading.strict:
        fault = Fault("malformed_block", "no parentheses stand around the object")
    if fault is not None:
        return _framed(start, _line_end(text, at), fault, at)
    if not found["empty"]:
        return _with_args(text, start, name, found.end(), reading, closer=")")
    if _rest(text, found.end()) < _line_end(text, at):
        fault = Fault("extra_text", "the line must end after the arguments")
        return _framed(start, _line_end(text, at), fault, found.end())
    return _framed(start, found.end(), Draft(name, {}, None), start)


def _with_args(
    text: str, start: int, name: str, at: int, reading: Reading, *, closer: str = ""
) -> Framed:
    """Return the command whose object begins at *at*, and which *closer* ends."""
    body = read_body(text, at, reading)
    if isinstance(body, Unread):
        if closer:
            return _framed(start, _line_end(text, body.end), body.fault, min(body.place, body.end))
        return _unread(text, start, name, at, body, reading)
    end = _rest(text, body.end) + len(closer) if closer else body.end
    if not text.startswith(closer, end - len(closer)):
        fault = Fault("malformed_block", f"the {closer!r} behind the object is missing")
        return _framed(start, _line_end(text, body.end), fault, body.end)
    if reading.strict and text.find("\n", at, body.end) >= 0:
        fault = Fault("malformed_block", "the arguments must be on the line of the command")
        return _framed(start, body.end, fault, at)
    after = _rest(text, end)
    if after < len(text) and text[after] != "\n":
        fault = Fault("extra_text", f"the line must end after the arguments, got {text[after]!r}")
        return _framed(start, _line_end(text, after), fault, after)
    draft = Draft(name, body.value, None)
    piece = Piece(start, end, draft, at, body.repairs, body.repeated)
    return Framed(start, end, (piece,))


def _unread(text: str, start: int, name: str, at: int, body: Unread, reading: Reading) -> Framed:
    """Return the command whose object at *at* could not be read, mended if that can be done."""
    fault, end = body.fault, body.end
    if body.stop is None:
        return _framed(start, end, fault, min(body.place, end))
    end = _line_end(text, end)
    over = not text[end:].strip()
    complete = over and reading.stop_reason == "stop"
    mended = mend_body(text, at, end, reading, keys=None, complete=complete)
    if mended is not None:
        piece = Piece(start, mended.end, Draft(name, mended.value, None), at, mended.repairs)
        return Framed(start, mended.end, (piece,))
    if fault.code == "malformed_block" or not over:
        fault = Fault("args_json", fault.message)
    return _framed(start, end, fault, min(body.place, end))


def _framed(start: int, end: int, draft: Draft | Fault, place: int) -> Framed:
    return Framed(start, end, (Piece(start, end, draft, place),))


def _rest(text: str, at: int) -> int:
    found = _REST.match(text, at)
    return found.end() if found else at


def _line_end(text: str, at: int) -> int:
    """Return the end of the line, or of what is on it."""
    end = text.find("\n", at)
    line = text[at : len(text) if end < 0 else end]
    return at + len(line.rstrip())
