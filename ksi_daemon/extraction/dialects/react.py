"""Calls in the lines of ReAct, and the action lists of Command R and of structured chats.

    Action: read_file
    Action Input: {"path": "a.txt"}

    Action:
    ```json
    [{"tool_name": "read_file", "parameters": {"path": "a.txt"}}]
    ```

The lines are those of the paper (Yao et al., 2022) as LangChain prompts for them, the lists those
of Cohere's template for Command R and of LangChain's structured chat, whose keys are ``action`` and
``action_input``. Whatever stands behind ``Observation:`` was to be told by the tool, so there it is
the model's invention: it is hidden, and nothing in it runs. A ``Final Answer`` is no call.

An input that is no object is taken as text if the tool is known and takes one text and nothing
else. Of other tools nobody knows what the text is, so it is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

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
    object_args,
)
from ksi_daemon.extraction.dialects.framing import Body, Unread, mend_body, past_space, read_body
from ksi_daemon.extraction.reader import scan

__all__ = ["ReactDialect"]

_BOLD: Final = r"[*_]{0,3}"
_NUMBER: Final = r"(?: [0-9]{1,3})?+"
# Behind the label: a name, alone on its line, and the label of its input.
_LINES: Final = re.compile(
    r"(?P<name>[^\n]{1,200})\n"
    rf"\s*+{_BOLD}Action Input{_NUMBER}{_BOLD}[ \t]*+:{_BOLD}"
)
# Behind the label: one object or a list of them, perhaps in a fence, with the keys of an action.
_OBJECTS: Final = re.compile(
    r"\s*+(?P<fence>```[ \t]*+(?:json|JSON)?+[ \t]*+\r?\n\s*+)?+(?P<list>\[\s*+)?+"
    r'(?=\{\s*+"(?:tool_name|action)"\s*+:\s*+")'
)
_FENCE: Final = re.compile(r"[ \t]*+\r?\n?[ \t]*+```[ \t]*+(?:json|JSON)?+[ \t]*+\r?\n\s*+")
_FENCE_END: Final = re.compile(r"\s*+```[ \t]*+(?=\n|\r|\Z)")
_COMMA: Final = re.compile(r"\s*+,?+\s*+(?=\{)")
_LIST_END: Final = re.compile(r"\s*+\]")
# What ends the input of an action that cannot be read.
_END: Final = re.compile(
    rf"\n[ \t]*+(?:\r?\n|```|{_BOLD}(?:Observation|Thought|Action|Final Answer)\b[^\n:]{{0,12}}:)"
)
_OBSERVATION: Final = re.compile(
    rf"(?:[ \t]*+\r?\n)++[ \t]*+{_BOLD}Observation{_NUMBER}{_BOLD}[ \t]*+:"
)
_SAID: Final = re.compile(rf"\n[ \t]*+(?={_BOLD}(?:Thought|Action|Final Answer){_NUMBER}{_BOLD}:)")

# Behind an object that ended before what belongs to it.
_SPILT: Final = re.compile(r'\s*+(?:[}\]]|,?+\s*+"(?:[^"\\\n]|\\.)*+"\s*+:)')

# Each in doubt.
_HEADS_BEGUN: Final = [beginning(_LINES), beginning(_OBJECTS)]
_FENCE_BEGUN: Final = beginning(_FENCE)
_TAILS_BEGUN: Final = [
    beginning(each) for each in (_OBSERVATION, _FENCE_END, _COMMA, _LIST_END, _SPILT)
]

# What an action is called that is none.
_NO_TOOLS: Final = frozenset(
    {"Final Answer", "FINISH", "Finish", "None", "directly_answer", "directly-answer"}
)
_NOTHING: Final = frozenset({"", "none", "null", "n/a"})
_INPUT: Final = "Action Input"
# Where an object has the arguments, by where it has the name.
_ARGUMENTS: Final = MappingProxyType({"tool_name": "parameters", "action": "action_input"})
_AROUND_NAME: Final = " \t\r`\"'*"
_MAX_INDENT: Final = 16  # characters
_INVENTED: Final = ("shown", "an observation was hidden: results are not the model's to write")


class ReactDialect(FramedDialect):
    name: ClassVar[str] = "react"
    markers: ClassVar[tuple[str, ...]] = ("Action",)
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?:[*_]{{1,3}}+)?+Action{_NUMBER}{_BOLD}[ \t]*+:{_BOLD}"
    )
    restart: ClassVar[str] = rf"Action{_NUMBER}[ \t]*+:[^\n]{{1,200}}\n[ \t]*+Action Input"
    closing: ClassVar[re.Pattern[str]] = re.compile(r"[}\]`]\s*+[^\s}\],`]")

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        start = opener.start()
        if not _begins_line(text, start):
            return None
        lines = _LINES.match(text, opener.end())
        if lines is not None:
            return _lined(text, start, lines, reading)
        objects = _OBJECTS.match(text, opener.end())
        return _listed(text, start, objects, reading) if objects else None

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        if not _begins_line(text, opener.start()):
            return True
        lines = _LINES.match(text, opener.end())
        if lines is not None and _FENCE_BEGUN.match(text, lines.end()):
            return False
        if framed is not None:
            return framed.notes != () or _is_settled(text, framed)
        if lines is not None:
            return past_space(text, lines.end()) < len(text)
        return not any(each.match(text, opener.end()) for each in _HEADS_BEGUN)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return f"Action: {name}\n{_INPUT}: {json.dumps(args, ensure_ascii=False)}"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write a line `Action: NAME` and, right below it, a line "
            "`Action Input:` with the arguments as one JSON object. Then stop: the result comes "
            "with the next message, so never write an observation yourself."
        )


def _is_settled(text: str, framed: Framed) -> bool:
    """Say whether more text cannot change *framed*, behind which no observation stands."""
    end, piece = framed.end, framed.pieces[-1]
    behind = past_space(text, end)
    if behind == len(text) or any(each.match(text, end) for each in _TAILS_BEGUN):
        return False
    if isinstance(piece.draft, Draft) and not piece.repairs and text[piece.end - 1] in "}]`":
        return True
    if isinstance(piece.draft, Fault) and piece.draft.code == "unterminated_block":
        return False
    ending = _END.search(text, end)
    if ending is None or "missing_closer" in piece.repairs:
        return False
    return ending.start() <= behind


def _begins_line(text: str, at: int) -> bool:
    """Say whether on the line of *at* there are no more than a few blanks before it."""
    before = text[max(0, at - _MAX_INDENT) : at].rstrip(" \t")
    return before.endswith("\n") or (not before and at < _MAX_INDENT)


def _lined(text: str, start: int, lines: re.Match[str], reading: Reading) -> Framed | None:
    """Return the action whose name and label *lines* are, None if it is no call."""
    name, fence = lines["name"].strip(_AROUND_NAME), _FENCE.match(text, lines.end())
    at = past_space(text, fence.end() if fence else lines.end())
    if name in _NO_TOOLS:
        return None
    if text.startswith("{", at):
        piece = _with_object(text, start, name, at, reading)
    elif is_tool_name(name):
        piece = _with_text(text, start, name, lines.end(), reading)
    else:
        return None
    return _framed(text, start, [piece], fenced=fence is not None)


def _with_object(text: str, start: int, name: str, at: int, reading: Reading) -> Piece:
    body = _body(text, at, reading)
    if isinstance(body, Unread):
        return Piece(start, max(body.end, at + 1), body.fault, min(body.place, body.end))
    draft: Draft | Fault = Draft(name, body.value, None)
    if not is_tool_name(name):
        draft = Fault("missing_name", f"'Action' must name a tool, got {name!r:.60}")
    elif _SPILT.match(text, body.end):
        draft = Fault("malformed_block", "the object ends before what belongs to it")
    return Piece(start, body.end, draft, at, body.repairs, body.repeated)


def _with_text(text: str, start: int, name: str, at: int, reading: Reading) -> Piece:
    """Return the action whose input is the rest of the line at *at*."""
    line_end = text.find("\n", at)
    limit = line_end if line_end >= 0 else len(text)
    said, end = text[at:limit].strip(), at + len(text[at:limit].rstrip())
    over = past_space(text, limit) == len(text)
    sure = reading.stop_reason == "stop" if over else _END.match(text, limit) is not None
    args: dict[str, Any] | Fault
    key = _text_argument(name, reading)
    if over and not sure and not said:
        args = Fault("unterminated_block", f"the reply ends where {_INPUT!r} was expected")
    elif said.lower() in _NOTHING and not reading.strict:
        args = {}
    elif key is not None and sure:
        args = {key: _unquoted(said)}
    else:
        args = object_args(_unquoted(said), _INPUT, strict=reading.strict)
    draft = args if isinstance(args, Fault) else Draft(name, args, None)
    return Piece(start, end, draft, at)


def _text_argument(name: str, reading: Reading) -> str | None:
    """Return the one argument that the tool *name* takes, if it is known and that is text."""
    fields = (reading.tools or {}).get(name, {}).get("properties")
    if reading.strict or not isinstance(fields, Mapping) or len(fields) != 1:
        return None
    [(key, field)] = fields.items()
    return key if isinstance(field, Mapping) and field.get("type") == "string" else None


def _unquoted(line: str) -> str:
    """Return what *line* says if it is one string of JSON, else *line*."""
    if not line.startswith('"'):
        return line
    try:
        value, end = scan(line, 0)
    except (StopIteration, ValueError):
        return line
    return value if isinstance(value, str) and end == len(line) else line


def _listed(text: str, start: int, objects: re.Match[str], reading: Reading) -> Framed | None:
    """Return the actions that are objects, None if none of them is a call."""
    pieces: list[Piece] = []
    at, more = objects.end(), True
    while more:
        body = _body(text, at, reading)
        if isinstance(body, Unread):
            end = max(body.end, at + 1)
            pieces.append(Piece(at, end, body.fault, min(body.place, end)))
            break
        draft = _draft(body.value)
        if draft is not None:
            pieces.append(Piece(at, body.end, draft, at, body.repairs, body.repeated))
        comma = _COMMA.match(text, body.end) if objects["list"] else None
        at, more = comma.end() if comma else body.end, comma is not None
    if not pieces:
        return None
    in_list = objects["list"] is not None
    return _framed(text, start, pieces, fenced=objects["fence"] is not None, in_list=in_list)


def _draft(block: dict[str, Any]) -> Draft | Fault | None:
    """Return the call that *block* makes, or why it makes none; None for what ends the work."""
    kind = "tool_name" if "tool_name" in block else "action"
    name, key = block.get(kind), _ARGUMENTS[kind]
    if name in _NO_TOOLS:
        return None
    if not is_tool_name(name):
        return Fault("missing_name", f"{kind!r} must name a tool, got {name!r:.60}")
    args = object_args(block.get(key), key, strict=False)
    id = block.get("tool_call_id")
    return args if isinstance(args, Fault) else Draft(name, args, id if is_call_id(id) else None)


def _body(text: str, at: int, reading: Reading) -> Body | Unread:
    """Read the object at *at*, mended if it needs to be and can be."""
    body = read_body(text, at, reading)
    if isinstance(body, Body):
        return body
    limit = _limit(text, at if body.stop is not None else body.end)
    if body.stop is not None:
        complete = limit < len(text) or reading.stop_reason == "stop"
        mended = mend_body(text, at, limit, reading, keys=None, complete=complete)
        if mended is not None:
            return mended
    end = at + len(text[at:limit].rstrip())
    return Unread(max(end, body.end) if body.stop is None else end, body.fault, body.place)


def _limit(text: str, at: int) -> int:
    """Return how far the input can reach that is open at *at*."""
    found = _END.search(text, at)
    return found.start() if found else len(text)


def _framed(
    text: str, start: int, pieces: list[Piece], *, fenced: bool, in_list: bool = False
) -> Framed:
    """Return the action with what closes it, and with what the model makes up as its result."""
    end = pieces[-1].end
    for closer in [_LIST_END] * in_list + [_FENCE_END] * fenced:
        closed = closer.match(text, end)
        end = closed.end() if closed else end
    if len(pieces) == 1:  # then the marks are its own
        pieces = [msgspec.structs.replace(pieces[0], start=start, end=end)]
    observation = _OBSERVATION.match(text, end)
    if observation is None:
        return Framed(start, end, tuple(pieces))
    said = _SAID.search(text, observation.end())
    over = said.start() if said else len(text)
    invented = text[observation.end() : over].strip()
    return Framed(start, over, tuple(pieces), (_INVENTED,) if invented else ())
