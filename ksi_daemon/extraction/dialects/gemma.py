"""Calls of Gemma 4 and FunctionGemma: keys without quotes, and a token around each string.

    <|tool_call>call:read_file{path:<|"|>a.txt<|"|>,lines:3}<tool_call|>
    <start_function_call>call:read_file{path:<escape>a.txt<escape>}<end_function_call>

The grammar is that of the models' chat templates and of Google's page on the formatting of
FunctionGemma. In a string everything stands for itself, backslashes and quotes too. Strings and
keys as JSON writes them are read as well: nothing else can be meant, and a string that holds the
token of strings cannot be written otherwise. What Gemma 4 thinks stands in a channel of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from math import isinf
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
    is_tool_name,
)
from ksi_daemon.extraction.dialects.framing import halted
from ksi_daemon.extraction.dialects.reach import Reach, reach
from ksi_daemon.extraction.literals import (
    MAX_DIGITS,
    Bracket,
    Halt,
    Language,
    Literal,
    Token,
    past_blanks,
    read_literal,
)
from ksi_daemon.extraction.reader import STRING

__all__ = ["FORMS", "Form", "GemmaDialect"]


class Form(msgspec.Struct, frozen=True):
    """What closes a block, and the token on either side of a string."""

    closer: str
    quote: str


FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "<|tool_call>": Form("<tool_call|>", '<|"|>'),  # Gemma 4
        "<start_function_call>": Form("<end_function_call>", "<escape>"),  # FunctionGemma
    }
)

_MARK: Final = "|".join(map(re.escape, FORMS))
_THOUGHT: Final = "<|channel>thought"
_CHANNEL: Final = "<|channel>"
_THOUGHT_END: Final = "<channel|>"
_CLOSERS: Final = (_THOUGHT_END, *(form.closer for form in FORMS.values()))

_BLOCK: Final = re.compile(_MARK)
_HEAD: Final = re.compile(r"\s*+call:[ \t]*+(?P<name>[^\s{}<>\[\]()|\"'`]{0,200}+)\s*+")
_HEAD_BEGUN: Final = beginning(_HEAD)
# A part of the word before the name, with which the text ends.
_CUT: Final = re.compile(r"\s*+(?:c(?:a(?:ll?+)?+)?+)?+\Z")
_BARE_KEY: Final = re.compile(r"[^\s:{}\[\],<>\"'|]++")
_PLAIN_KEY: Final = re.compile(r"[^\W\d]\w*+")
_STRING: Final = re.compile(STRING)
_ANY_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]++)?+(?P<power>[eE][-+]?[0-9]++)?+(?![\w.])"
)
_WORDS: Final = MappingProxyType({"true": True, "false": False, "null": None})
_WORD: Final = re.compile(r"(?:true|false|null)\b")
_CUT_TOKEN: Final = re.compile(r"[\w.+-]*+\Z")
# A token at which reading stopped, when no more text can make another one of it.
_TOKEN_OVER: Final = re.compile(r"[\w.+-]*+\s*+[^\s\w.+-]")
_GOES_ON: Final = re.compile(r"\s*+[},\]:]")
_STRING_END: Final = "the end of a string"


class GemmaDialect(FramedDialect):
    name: ClassVar[str] = "gemma"
    markers: ClassVar[tuple[str, ...]] = (*FORMS, _THOUGHT)
    begins: ClassVar[str] = "<"
    opener: ClassVar[re.Pattern[str]] = re.compile(rf"(?P<mark>{_MARK})|{re.escape(_THOUGHT)}\b")
    restart: ClassVar[str] = rf"(?:{_MARK})"
    closing: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?:{'|'.join(map(re.escape, _CLOSERS))})[\s\S]"
    )

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        if opener["mark"] is None:
            return _thought(text, opener)
        head = _HEAD.match(text, opener.end())
        if head is not None:
            return _called(text, opener, head, reading)
        if _CUT.match(text, opener.end()) is None:
            return None
        start, end = opener.start(), len(text)
        fault = Fault("unterminated_block", "the reply ends before the name of the tool")
        return Framed(start, end, (Piece(start, end, fault, start),))

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        at = opener.end()
        if opener["mark"] is None:
            return framed is not None or text.find(_CHANNEL, at) >= 0
        if framed is None:
            return _HEAD_BEGUN.match(text, at) is None
        head = _HEAD.match(text, at)
        return head is not None and _is_settled(text, head, FORMS[opener["mark"]])

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return f"<|tool_call>call:{name}{_written(args)}<tool_call|>"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write `<|tool_call>call:` and its name, its arguments in braces, and "
            '`<tool_call|>`. Keys have no quotes; a text stands between two of the tokens `<|"|>`, '
            "and nothing in it is escaped. One block is one call."
        )


def _thought(text: str, opener: re.Match[str]) -> Framed | None:
    """Return the thought that begins at *opener*: nothing in it is said."""
    following = text.find(_CHANNEL, opener.end())
    limit = following if following >= 0 else len(text)
    end = text.find(_THOUGHT_END, opener.end(), limit)
    if end < 0:
        return None
    thought = text[opener.end() : end].strip()
    return Framed(opener.start(), end + len(_THOUGHT_END), (), thought=thought)


def _called(text: str, opener: re.Match[str], head: re.Match[str], reading: Reading) -> Framed:
    """Return the block whose name *head* tells."""
    start, form, at = opener.start(), FORMS[opener["mark"]], head.end()
    read = _arguments(text, at, form)
    if isinstance(read, Halt):
        cut = read.ended and read.expected == _STRING_END
        bounds = reach(text, at, _BLOCK, form.closer, in_string=cut)
        return _refused(text, start, at, bounds, read, reading)
    behind = past_blanks(text, read.end)
    bounds = reach(text, behind, _BLOCK, form.closer)
    halt = _unclosed(text, behind, bounds, form, reading)
    if halt is not None:
        return _refused(text, start, at, bounds, halt, reading)
    end = read.end if bounds.closes is None else bounds.end
    repairs = ("control_character",) if read.control else ()
    draft = _draft(head["name"], read, reading)
    return Framed(start, end, (Piece(start, end, draft, at, repairs, read.repeated),))


def _is_settled(text: str, head: re.Match[str], form: Form) -> bool:
    """Say whether more text cannot change what the block is whose name *head* tells."""
    at = head.end()
    read = _arguments(text, at, form)
    if isinstance(read, Halt) and (read.ended or not _TOKEN_OVER.match(text, read.at)):
        return False
    begun = at if isinstance(read, Halt) else past_blanks(text, read.end)
    closed = reach(text, begun, _BLOCK, form.closer).closes is not None
    return closed or _BLOCK.search(text, begun) is not None


def _arguments(text: str, at: int, form: Form) -> Literal | Halt:
    """Read the arguments at *at*, which may be left out."""
    if text.startswith(form.closer, at):
        return Literal(at, {}, (), False)
    if not text.startswith("{", at):
        return Halt(at, "'{'", at == len(text))
    language = _LANGUAGES[form.quote]
    return read_literal(text, at + 1, language, language.brackets["{"])


def _unclosed(text: str, behind: int, bounds: Reach, form: Form, reading: Reading) -> Halt | None:
    """Say what is wrong with how a block goes on behind its arguments, if something is."""
    if bounds.closes is not None:
        return None if bounds.closes == behind else Halt(behind, repr(form.closer), False)
    if reading.strict:
        return Halt(behind, repr(form.closer), True)
    return Halt(behind, repr(form.closer), False) if _GOES_ON.match(text, behind) else None


def _refused(text: str, start: int, at: int, bounds: Reach, halt: Halt, reading: Reading) -> Framed:
    fault = halted(text, start, halt, reading.stop_reason)
    end = max(start + len(text[start : bounds.end].rstrip()), at)
    return Framed(start, end, (Piece(start, end, fault, min(halt.at, end)),))


def _draft(name: str, read: Literal, reading: Reading) -> Draft | Fault:
    if not is_tool_name(name):
        return Fault("missing_name", f"the block must name a tool, got {name!r:.60}")
    if read.control and not reading.repairs:
        return Fault("malformed_block", "a string in quotes holds a raw control character")
    return Draft(name, read.value, None)


def _key(quote: str, text: str, at: int) -> Token | Halt:
    bare = _BARE_KEY.match(text, at)
    key = Token(bare[0], bare.end()) if bare else _string(quote, text, at)
    if isinstance(key, Halt):
        return key
    if not text.startswith(":", colon := past_blanks(text, key.end)):
        return Halt(colon, "':' behind the key", colon == len(text))
    return Token(key.value, colon + 1, key.control)


def _scalar(quote: str, text: str, at: int) -> Token | Halt:
    if text.startswith(('"', quote), at):
        return _string(quote, text, at)
    word = _WORD.match(text, at)
    if word is not None:
        return Token(_WORDS[word[0]], word.end())
    number = _NUMBER.match(text, at)
    if number is not None and len(number[0]) <= MAX_DIGITS:
        value = float(number[0]) if number.lastgroup else int(number[0])
        return Halt(at, "a number in range", False) if isinf(value) else Token(value, number.end())
    return Halt(at, "a value", _CUT_TOKEN.match(text, at) is not None)


def _string(quote: str, text: str, at: int) -> Token | Halt:
    """Read the string at *at*, in tokens or as JSON writes it."""
    if text.startswith(quote, at):
        begin = at + len(quote)
        end = text.find(quote, begin)
        if end < 0:
            return Halt(len(text), _STRING_END, True)
        return Token(text[begin:end], end + len(quote))
    found = _STRING.match(text, at)
    if found is not None:
        value = json.loads(found[0], strict=False)
        return Token(value, found.end(), _CONTROL.search(found[0]) is not None)
    if not text.startswith('"', at):
        return Halt(at, "a key", at == len(text))
    if _ANY_STRING.match(text, at):
        return Halt(at, "a string with no escapes but those of JSON", False)
    return Halt(len(text), _STRING_END, True)


def _written(value: Any) -> str:
    """Return *value* as Gemma writes it."""
    quote = FORMS["<|tool_call>"].quote
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if quote in value else quote + value + quote
    if isinstance(value, Mapping):
        members = (f"{_written_key(key)}:{_written(each)}" for key, each in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value)


def _written_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _language(quote: str) -> Language:
    members = Bracket("}", partial(_key, quote))
    return Language(MappingProxyType({"{": members, "[": Bracket("]")}), partial(_scalar, quote))


_LANGUAGES: Final = {form.quote: _language(form.quote) for form in FORMS.values()}
