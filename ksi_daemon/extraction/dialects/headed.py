"""Calls as JSON behind a mark: what many models write by habit.

One object, or an array of objects, each with a name and its arguments, stands behind a mark that
the model was trained on. What closes it is taken when it is there: models leave it out.

    <tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>
    [TOOL_CALLS] [{"name": "read_file", "arguments": {"path": "a"}}]
    <|tools_prefix|>[{"read_file": {"path": "a"}}]<|tools_suffix|>
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from ksi_daemon.extraction.dialects.arguments import is_closed_for_good, past_surplus
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

__all__ = ["HeadedDialect"]

# The mark, and what closes it. Which models write it is told behind.
HEADS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "<tool_call>": "</tool_call>",  # Hermes, Qwen
        "<tool_calls>": "</tool_calls>",  # Jamba, Hunyuan, MiniMax-M1
        "[TOOL_CALLS]": "",  # Mistral
        "<|python_tag|>": "<|eom_id|>",  # Llama 3
        "<|tool_call|>": "<|/tool_call|>",  # Granite 3, Phi-4
        "<function_call>": "</function_call>",  # Granite 20b
        "<TOOLCALL>": "</TOOLCALL>",  # Nemotron
        "functools": "",  # Phi-4-mini
        "<|START_ACTION|>": "<|END_ACTION|>",  # Command R7B
        "<longcat_tool_call>": "</longcat_tool_call>",  # LongCat
        "<|action_start|><|plugin|>": "<|action_end|>",  # InternLM2
        "<|tool_call_start|>": "<|tool_call_end|>",  # LFM2
        "<|function_call|>": "</s>",  # GigaChat
        "function call<|role_sep|>": "</s>",  # GigaChat 3
        "<|content_invoke_tool_json|>": "<|end_message|>",  # Inkling
        "<|tools_prefix|>": "<|tools_suffix|>",  # Apertus
    }
)
# Behind Apertus' mark the name of a call is the key of its arguments.
_KEYED: Final = HEADS["<|tools_prefix|>"]
# What some models write before their mark.
_BEFORE: Final = r"(?:<\|message_sep\|>\s*+|<\|message_model\|>[^<\n]{0,200}+)?+"
_NAMES: Final = ("name", "tool_name")
_ARGUMENTS: Final = ("arguments", "parameters", "args")
_IDS: Final = ("id", "tool_call_id")
_KEYS: Final = frozenset((*_NAMES, *_ARGUMENTS, *_IDS, "type", "function"))
_SEPARATOR: Final = re.compile(r"\s*+[,;]\s*+(?=\{)")
# Where a mark closes the whole, nothing needs to stand between two objects.
_GAP: Final = re.compile(r"\s*+[,;]?+\s*+(?=\{)")
# Up to a quote on the same line.
_REST: Final = re.compile(r'[^\n"]*+"')
_BLANK_LINE: Final = "\n\n"
# What cannot belong to a block in any way: neither an object nor what separates or closes them.
_FOLLOWED: Final = re.compile(r"\s*+[^\s,;{}\[\]<|`\"]")
_CLOSER: Final = re.compile(r"\s*+\]")


class HeadedDialect(FramedDialect):
    name: ClassVar[str] = "headed"
    markers: ClassVar[tuple[str, ...]] = tuple(HEADS)
    braced: ClassVar[bool] = True
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"{_BEFORE}({'|'.join(map(re.escape, HEADS))})(?=\s*+(?:\[\s*+)?\{{)"
    )
    restart: ClassVar[str] = rf"(?:{'|'.join(map(re.escape, HEADS))})"
    closing: ClassVar[re.Pattern[str] | None] = re.compile(
        rf"(?:{'|'.join(re.escape(each) for each in HEADS.values() if each)})(?:[^\n]*+\n)?+"
        r"|[}\]]\s*+[^\s,;{}\[\]<|`\"]"
    )

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        at = past_space(text, opener.end())
        in_array = text[at] == "["
        first = past_space(text, at + 1) if in_array else at
        pieces = _pieces(text, first, HEADS[opener[1]], reading)
        end, last = pieces[-1].end, pieces[-1]
        if in_array and isinstance(last.draft, Draft):
            closer = _CLOSER.match(text, end)
            if closer is None and not reading.repairs:
                fault = Fault("unterminated_block", "the closing ']' is missing")
                pieces[-1] = last = Piece(last.start, end, fault, end)
            end = closer.end() if closer else end
        end = _past(text, end, HEADS[opener[1]])
        if len(pieces) == 1:  # then the marks are its own
            pieces = [msgspec.structs.replace(last, start=opener.start(), end=end)]
        return Framed(opener.start(), end, tuple(pieces))

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        """Take a block for settled whose objects were read, if it is closed or text follows."""
        if framed is None or not all(_is_read(piece) for piece in framed.pieces):
            return False
        closer = HEADS[opener[1]]
        end, following = framed.end, _following(text, framed.end)
        if closer and not is_closed_for_good(text, end, following):
            return False
        closed = bool(closer) and text.endswith(closer, opener.end(), end)
        return closed or _FOLLOWED.match(text, end) is not None

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        block = json.dumps({"name": name, "arguments": args}, ensure_ascii=False)
        return f"<tool_call>\n{block}\n</tool_call>"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write one JSON object with its name and its arguments between the "
            "tags `<tool_call>` and `</tool_call>`. One block is one call."
        )


def _pieces(text: str, at: int, closer: str, reading: Reading) -> list[Piece]:
    """Return the objects that stand at *at*, one behind the other; at least one."""
    separator = _GAP if closer else _SEPARATOR
    pieces: list[Piece] = []
    while True:
        body = read_body(text, at, reading)
        if isinstance(body, Unread):
            return [*pieces, _unread(text, at, closer, body, reading)]
        piece = _read(text, at, closer, body, reading)
        comma = separator.match(text, piece.end)
        if comma is None:
            return [*pieces, _last(text, closer, piece)]
        pieces.append(piece)
        at = comma.end()


def _read(text: str, at: int, closer: str, body: Body, reading: Reading) -> Piece:
    """Return the call that the object at *at* makes, if nothing that belongs to it follows it."""
    end = past_surplus(text, body.end, body.value, _KEYS)
    if end is None or (end > body.end and (body.repeated or not reading.repairs)):
        fault = Fault("malformed_block", "it ends before what belongs to it: a brace too many")
        limit, closed = _limit(text, body.end, closer)
        return Piece(at, limit if closed else body.end, fault, body.end)
    repairs = (*body.repairs, "extra_closer") if end > body.end else body.repairs
    return Piece(at, end, _draft(body.value, closer), at, repairs, body.repeated)


def _last(text: str, closer: str, piece: Piece) -> Piece:
    """Return *piece*, the last one of its block, if that may end there."""
    behind = _past(text, piece.end, closer)
    if not closer or not _closed_again(text, behind, closer):
        return piece
    fault = Fault("malformed_block", "it is closed twice: escape quotes in strings")
    return Piece(piece.start, piece.end, fault, behind)


def _unread(text: str, at: int, closer: str, body: Unread, reading: Reading) -> Piece:
    """Return the object at *at*, which could not be read, mended if that can be done."""
    if body.stop is None:
        return Piece(at, body.end, body.fault, body.place)
    limit, closed = _limit(text, body.end, closer)
    complete = closed or (limit == len(text) and reading.stop_reason == "stop")
    doubtful = closed and _closed_again(text, limit + len(closer), closer)
    mended = mend_body(text, at, limit, reading, keys=_KEYS, complete=complete)
    if mended is None or doubtful:
        return Piece(at, max(limit, at + 1), body.fault, min(body.place, limit))
    return Piece(at, mended.end, _draft(mended.value, closer), at, mended.repairs)


def _limit(text: str, at: int, closer: str) -> tuple[int, bool]:
    """Return how far a block can reach that is open at *at*, and whether it is closed there."""
    limit = _following(text, at)
    close = text.find(closer, at, limit) if closer else -1
    if close >= 0:
        return close, True
    blank = text.find(_BLANK_LINE, at, limit)
    return (blank if blank >= 0 else limit), False


def _closed_again(text: str, behind: int, closer: str) -> bool:
    """Say whether what ends at *behind* may be a part of a string whose quote was written twice.

    The last quote of the string then stands behind it on its line, and what truly closes the
    block behind that.
    """
    limit = _following(text, behind)
    rest = _REST.match(text, behind, limit)
    return rest is not None and text.find(closer, rest.end(), limit) >= 0


def _following(text: str, at: int) -> int:
    """Return where the next block begins, the end of the text if none does."""
    found = HeadedDialect.opener.search(text, at)
    return found.start() if found else len(text)


def _past(text: str, end: int, closer: str) -> int:
    """Return the place behind *closer* if that is what follows *end*."""
    at = past_space(text, end)
    return at + len(closer) if closer and text.startswith(closer, at) else end


def _is_read(piece: Piece) -> bool:
    return isinstance(piece.draft, Draft) and not piece.repairs


def _draft(block: dict[str, Any], closer: str) -> Draft | Fault:
    function = block.get("function")
    inner = function if isinstance(function, dict) else block
    name = _first(inner, _NAMES)
    if not is_tool_name(name):
        keyed = _keyed(block) if closer == _KEYED else None
        return keyed or Fault("missing_name", f"'name' must name a tool, got {name!r:.60}")
    given = _first(block, _IDS)
    surplus = [key for key in inner if key not in _KEYS and not key.startswith("_")]
    keys = [key for key in _ARGUMENTS if key in inner]
    if surplus and not keys:
        return Fault("args_type", f"'arguments' is missing; {listed(surplus)} belong in it")
    if len(keys) > 1:
        said = " and ".join(map(repr, keys))
        return Fault("args_type", f"the arguments are given twice, as {said}")
    if inner is not block and any(key in block for key in _ARGUMENTS):
        return Fault("args_type", "'arguments' belong in 'function'")
    args = object_args(_first(inner, _ARGUMENTS), "arguments", strict=False, code="args_json")
    if isinstance(args, Fault):
        return args
    notes = (("unknown_field", f"ignored {listed(surplus)}"),) if surplus else ()
    return Draft(name, args, given if is_call_id(given) else None, None, notes)


def _keyed(block: dict[str, Any]) -> Draft | None:
    """Return the call whose name is the only key of its object, and the value its arguments."""
    [*pairs] = block.items()
    if len(pairs) != 1:
        return None
    name, args = pairs[0]
    named = is_tool_name(name) and name not in _KEYS and isinstance(args, dict)
    return Draft(name, args, None) if named else None


def _first(block: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((block[key] for key in keys if key in block), None)
