"""Read data as a programming language writes it: brackets, separators, keys and scalars.

One machine for every such language. What is open is kept on a stack of its own, so nesting costs
no recursion, and each character is looked at once. A ``Language`` says which brackets there are and
how a key and a scalar are written. JSON has a reader of its own, ``reader``, which is faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

__all__ = [
    "MAX_DIGITS",
    "Bracket",
    "Halt",
    "Language",
    "Literal",
    "Reader",
    "Token",
    "past_blanks",
    "read_literal",
]

# More cannot be written in decimal again: Python refuses it to keep conversion linear.
MAX_DIGITS: Final = 3500

_BLANK: Final = frozenset(" \t\n\r\f")
_BLANKS: Final = re.compile(r"[ \t\n\r\f]*+")


class Halt(msgspec.Struct, frozen=True, gc=False):
    """Reading stopped at *at*, where *expected* was not found. *ended*: the text is over there."""

    at: int
    expected: str
    ended: bool


class Token(msgspec.Struct, frozen=True):
    """A scalar, or a key with what separates it from its value; it ends just before *end*.

    *control* says that a raw line end stands in a string that should have none. A key of None
    means that the value is an object whose members belong here.
    """

    value: Any
    end: int
    control: bool = False


Reader: TypeAlias = Callable[[str, int], Token | Halt]


class Bracket(msgspec.Struct, frozen=True):
    """What stands between an opening bracket and *closer*.

    Members with a *key*, none of them twice if they are *unique*, or values alone if it is None.
    In a *group* one value without a comma is that value and no array.
    """

    closer: str
    key: Reader | None = None
    unique: bool = False
    group: bool = False


class Language(msgspec.Struct, frozen=True):
    """How values are written: *brackets* by the character that opens them, and scalars."""

    brackets: Mapping[str, Bracket]
    scalar: Reader


class Literal(msgspec.Struct, frozen=True):
    """A value that was read; it ends just before *end*.

    *repeated* are keys that an object holds twice: the last value counts. *control* is as in
    ``Token``.
    """

    end: int
    value: Any
    repeated: tuple[str, ...]
    control: bool


class _Open(msgspec.Struct):
    """A bracket that is open: what it holds so far, and the member in progress."""

    bracket: Bracket
    items: list[Any]
    members: dict[str, Any]
    key: str | None = None
    key_at: int = 0
    comma: bool = False

    def value(self) -> Any:
        if self.bracket.key is not None:
            return self.members
        alone = self.bracket.group and len(self.items) == 1 and not self.comma
        return self.items[0] if alone else self.items

    def add(self, value: Any, repeated: list[str]) -> Halt | None:
        """Add *value*, and to *repeated* the keys that it has a second time."""
        if self.bracket.key is None:
            self.items.append(value)
            return None
        if self.key is None and not isinstance(value, dict):
            return Halt(self.key_at, "an object behind '**'", False)
        members = value if self.key is None else {self.key: value}
        twice = self.members.keys() & members.keys()
        if twice and self.bracket.unique:
            return Halt(self.key_at, "an argument that was not given before", False)
        repeated += twice
        self.members.update(members)
        return None


def read_literal(text: str, at: int, language: Language, bracket: Bracket) -> Literal | Halt:
    """Read what *bracket* holds from *at* on, just behind the character that opened it."""
    frame = _Open(bracket, [], {})
    frames = [frame]
    repeated: list[str] = []
    control = False
    while True:
        at = past_blanks(text, at)
        if not text.startswith(frame.bracket.closer, at):
            if frame.bracket.key is not None:
                key = frame.bracket.key(text, at)
                if isinstance(key, Halt):
                    return key
                frame.key, frame.key_at = key.value, at
                control = control or key.control
                at = past_blanks(text, key.end)
            entered = language.brackets.get(text[at : at + 1])
            if entered is not None:
                frame = _Open(entered, [], {})
                frames.append(frame)
                at += 1
                continue
            token = language.scalar(text, at)
            if isinstance(token, Halt):
                return token
            halt = frame.add(token.value, repeated)
            if halt is not None:
                return halt
            control = control or token.control
            at = past_blanks(text, token.end)
        while not text.startswith(",", at):
            if not text.startswith(frame.bracket.closer, at):
                return Halt(at, f"',' or {frame.bracket.closer!r}", at == len(text))
            frames.pop()
            if not frames:
                return Literal(at + 1, frame.value(), tuple(dict.fromkeys(repeated)), control)
            halt = frames[-1].add(frame.value(), repeated)
            if halt is not None:
                return halt
            frame = frames[-1]
            at = past_blanks(text, at + 1)
        frame.comma = True
        at += 1


def past_blanks(text: str, at: int) -> int:
    """Return the first place at *at* or behind it that is no ASCII white space."""
    if text[at : at + 1] not in _BLANK:
        return at
    found = _BLANKS.match(text, at)
    return found.end() if found else at
