"""Calls and literals of Python, read without Python: nothing is compiled, nothing evaluated.

The grammar is that of the language reference (Lexical analysis, 2.4 and 2.5; Calls, 6.3.4), cut
down to what stands for data: strings but no bytes and no format strings, numbers with a sign,
``True``, ``False`` and ``None``, lists, tuples, dictionaries with text for keys; arguments by
keyword, or as a dictionary behind ``**``. It is wider where models are: ``true``, ``false`` and
``null`` are known, a keyword may name an argument, a raw line end may stand in a string. It is
narrower where Python guesses what was meant: strings side by side are not joined, because one that
holds its own quotes unescaped looks the same.
"""

from __future__ import annotations

import re
import unicodedata
from math import isinf
from types import MappingProxyType
from typing import Final

import msgspec

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

__all__ = [
    "ARGUMENT",
    "A_CALL",
    "CALLEE",
    "LONG_STRING_END",
    "PythonCall",
    "is_argument_name",
    "read_call",
]

A_CALL: Final = "a call"
ARGUMENT: Final = "an argument with its name, as in path='a'"
LONG_STRING_END: Final = "the end of a string in three quotes"
_VALUE: Final = "a literal value"
CALLEE: Final = r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}+(?=[ \t]*+\()"

_CALLEE: Final = re.compile(rf"({CALLEE})[ \t]*+\(")
_NAME: Final = re.compile(r"[^\W\d]\w*+")
_KEYWORD: Final = re.compile(r"([^\W\d]\w*+)[ \t\n\r\f]*+=(?!=)")
_STRING: Final = re.compile(
    r"(?:(?P<raw>[rR])|[uU])?+(?:"
    r'"""(?P<long2>(?:[^"\\]++|\\.|"(?!""))*+)"""'
    r"|'''(?P<long1>(?:[^'\\]++|\\.|'(?!''))*+)'''"
    r'|"(?!"")(?P<short2>(?:[^"\\]++|\\.)*+)"'
    r"|'(?!'')(?P<short1>(?:[^'\\]++|\\.)*+)')",
    re.DOTALL,
)
_QUOTE: Final = re.compile("[rRuU]?+(?:(?P<long>\"\"\"|''')|[\"'])")
_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|N\{([^}\n]{1,120})\}|(\r\n|.))",
    re.DOTALL,
)
_SIMPLE: Final = MappingProxyType(
    {
        "\n": "",
        "\r": "",
        "\r\n": "",
        "\\": "\\",
        "'": "'",
        '"': '"',
        "a": "\a",
        "b": "\b",
        "f": "\f",
        "n": "\n",
        "r": "\r",
        "t": "\t",
        "v": "\v",
    }
)
_DIGITS: Final = r"[0-9](?:_?[0-9])*+"
_NUMBER: Final = re.compile(
    r"(?P<minus>-)?+\+?+[ \t]*+(?:"
    r"(?P<based>0[xX](?:_?[0-9a-fA-F])++|0[oO](?:_?[0-7])++|0[bB](?:_?[01])++)"
    rf"|(?P<float>(?:(?:{_DIGITS})?\.{_DIGITS}|{_DIGITS}\.)(?:[eE][-+]?{_DIGITS})?"
    rf"|{_DIGITS}[eE][-+]?{_DIGITS})"
    r"|(?P<whole>0(?:_?0)*+|[1-9](?:_?[0-9])*+)"
    r")(?![\w.])"
)
_WORDS: Final = MappingProxyType(
    {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
)
_CUT_TOKEN: Final = re.compile(r"[\w.+-]*+\Z")


class PythonCall(msgspec.Struct, frozen=True):
    """A call of *name* from *start* to just before *end*; *arguments* is its dictionary."""

    name: str
    start: int
    end: int
    arguments: Literal


def read_call(text: str, start: int) -> PythonCall | Halt:
    """Read the call that begins at *start*, or say where it stops being one."""
    callee = _CALLEE.match(text, start)
    if callee is None:
        return Halt(start, A_CALL, _CUT_TOKEN.match(text, start) is not None)
    arguments = read_literal(text, callee.end(), PYTHON, CALL)
    if isinstance(arguments, Halt):
        return arguments
    return PythonCall(callee[1], start, arguments.end, arguments)


def is_argument_name(key: str) -> bool:
    """Say whether *key* can stand before an equals sign as it is."""
    return _NAME.fullmatch(key) is not None


def _keyword(text: str, at: int) -> Token | Halt:
    found = _KEYWORD.match(text, at)
    if found is not None:
        return Token(found[1], found.end())
    if text.startswith("**", at):
        return Token(None, at + 2)
    return Halt(at, ARGUMENT, _CUT_TOKEN.match(text, at) is not None)


def _dictionary_key(text: str, at: int) -> Token | Halt:
    key = _scalar(text, at)
    if isinstance(key, Halt):
        return key
    if not isinstance(key.value, str):
        return Halt(at, "a key in quotes", False)
    colon = past_blanks(text, key.end)
    if not text.startswith(":", colon):
        return Halt(colon, "':' behind the key", colon == len(text))
    return Token(key.value, colon + 1, key.control)


def _scalar(text: str, at: int) -> Token | Halt:
    string = _STRING.match(text, at)
    if string is not None:
        return _string(string)
    quote = _QUOTE.match(text, at)
    if quote is not None:
        end = LONG_STRING_END if quote["long"] else "the end of a string"
        return Halt(len(text), end, True)
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(number)
    word = _NAME.match(text, at)
    if word is not None and word[0] in _WORDS:
        return Token(_WORDS[word[0]], word.end())
    return Halt(at, _VALUE, _CUT_TOKEN.match(text, at) is not None)


def _string(found: re.Match[str]) -> Token | Halt:
    form = found.lastgroup or ""
    inner = found[form]
    control = form.startswith("short") and ("\n" in inner or "\r" in inner)
    if found["raw"] or "\\" not in inner:
        return Token(inner, found.end(), control)
    try:
        return Token(_ESCAPE.sub(_unescaped, inner), found.end(), control)
    except _BadEscape as exc:
        return Halt(found.start(form) + exc.at, "a valid escape", False)


class _BadEscape(Exception):
    """A backslash at *at* begins no escape."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no escape at {at}")
        self.at = at


def _unescaped(escape: re.Match[str]) -> str:
    octal, short, four, eight, name, other = escape.groups()
    if other is not None:
        if other in ("x", "u", "U", "N"):
            raise _BadEscape(escape.start())
        # Python keeps the backslash of what is no escape.
        return _SIMPLE.get(other, escape[0])
    try:
        if name is not None:
            return unicodedata.lookup(name)
        return chr(int(octal, 8) if octal else int(short or four or eight, 16))
    except (KeyError, ValueError) as exc:
        raise _BadEscape(escape.start()) from exc


def _number(found: re.Match[str]) -> Token | Halt:
    digits = found["based"] or found["float"] or found["whole"]
    if len(digits) > MAX_DIGITS:
        return Halt(found.start(), f"a number of at most {MAX_DIGITS} digits", False)
    value = float(digits) if found["float"] else int(digits, 0)
    if isinf(value):
        return Halt(found.start(), "a number within the range of a double", False)
    return Token(-value if found["minus"] else value, found.end())


_DICTIONARY: Final = Bracket("}", _dictionary_key)
CALL: Final = Bracket(")", _keyword, unique=True)
PYTHON: Final = Language(
    MappingProxyType({"[": Bracket("]"), "(": Bracket(")", group=True), "{": _DICTIONARY}),
    _scalar,
)
