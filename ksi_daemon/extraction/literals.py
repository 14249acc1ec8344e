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
    "Bracket",
    "Halt",
    "Language",
    "Literal",
    "Reader",
    "Token",
    "past_blanks",
    "read_literal",
]

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
    commas: int = 0

    def value(self) -> Any:
        if self.bracket.key is not None:
            return self.members
        alone = self.bracket.group and len(self.items) == 1 and not self.commas
        return self.items[0] if alone else self.items


def read_literal(text: str, at: int, language: Language, bracket: Bracket) -> Literal | Halt:
    """Read what *bracket* holds from *at* on, just behind the character that opened it."""
    return _Machine(text, language, bracket).run(at)


def past_blanks(text: str, at: int) -> int:
    """Return the first place at *at* or behind it that is no ASCII white space."""
    found = _BLANKS.match(text, at)
    return found.end() if found else at


class _Machine:
    """One reading."""

    def __init__(self, text: str, language: Language, bracket: Bracket) -> None:
        self._text = text
        self._language = language
        self._open = [_Open(bracket, [], {})]
        self._repeated: list[str] = []
        self._control = False

    def run(self, at: int) -> Literal | Halt:
        while True:
            after = self._item(past_blanks(self._text, at))
            if isinstance(after, Halt):
                return after
            closed = self._gap(past_blanks(self._text, after))
            if isinstance(closed, Halt | Literal):
                return closed
            at = closed

    def _item(self, at: int) -> int | Halt:
        """Read the item at *at*, as far as no bracket opens in it, and return where it ends.

        An opening bracket is entered; a closing one ends nothing yet.
        """
        while not self._text.startswith(self._open[-1].bracket.closer, at):
            value = self._key(at)
            if isinstance(value, Halt):
                return value
            entered = self._language.brackets.get(self._text[value : value + 1])
            if entered is None:
                return self._scalar(value)
            self._open.append(_Open(entered, [], {}))
            at = past_blanks(self._text, value + 1)
        return at

    def _key(self, at: int) -> int | Halt:
        """Read the key at *at*, if there are keys, and return where its value begins."""
        frame = self._open[-1]
        if frame.bracket.key is None:
            return at
        token = frame.bracket.key(self._text, at)
        if isinstance(token, Halt):
            return token
        frame.key, frame.key_at = token.value, at
        return past_blanks(self._text, token.end)

    def _scalar(self, at: int) -> int | Halt:
        token = self._language.scalar(self._text, at)
        if isinstance(token, Halt):
            return token
        self._control = self._control or token.control
        return self._add(token.value) or token.end

    def _gap(self, at: int) -> int | Halt | Literal:
        """Read what follows an item, up to the next one or to the end."""
        text = self._text
        while True:
            frame = self._open[-1]
            if text.startswith(",", at):
                frame.commas += 1
                return at + 1
            if not text.startswith(frame.bracket.closer, at):
                return Halt(at, f"',' or {frame.bracket.closer!r}", at == len(text))
            value = self._open.pop().value()
            if not self._open:
                return Literal(at + 1, value, tuple(dict.fromkeys(self._repeated)), self._control)
            halt = self._add(value)
            if halt is not None:
                return halt
            at = past_blanks(text, at + 1)

    def _add(self, value: Any) -> Halt | None:
        """Add *value* to the innermost bracket."""
        frame = self._open[-1]
        if frame.bracket.key is None:
            frame.items.append(value)
            return None
        if frame.key is None and not isinstance(value, dict):
            return Halt(frame.key_at, "an object behind '**'", False)
        members = value if frame.key is None else {frame.key: value}
        twice = [key for key in members if key in frame.members]
        if twice and frame.bracket.unique:
            return Halt(frame.key_at, "an argument that was not given before", False)
        self._repeated += twice
        frame.members.update(members)
        return None
