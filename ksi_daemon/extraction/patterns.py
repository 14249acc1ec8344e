"""Regular expressions of JSON Schema: a text that one matches, and whether it matches a text.

Schemas come from strangers, and a pattern given to a backtracking engine can take for ever. Here a
pattern is a tree, matched by the set of all places where each piece of it may end. Read are
alternatives, groups, classes, quantifiers and the anchors ``^`` and ``$`` (ECMA-262, as JSON
Schema asks for); of what is not (look-around, back references, word boundaries, properties of
Unicode) nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

import msgspec

__all__ = ["Node", "matches", "matching", "parsed"]

MAX_DEPTH: Final = 16
MAX_TEXT: Final = 512  # characters that are made, or matched
MAX_STEPS: Final = 100_000

_LAST: Final = 0x10FFFF
_SETS: Final = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0)),
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_CODE: Final = re.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_GROUP: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_COUNT: Final = re.compile(r"(?:([*+?])|\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\})\??")
# What a person would take from a class, if it is there.
_LIKED: Final = "a1A_- .x0"
# How often a repeated piece is taken beyond the least: once more first, it reads better.
_EXTRAS: Final = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)

_Ranges: TypeAlias = tuple[tuple[int, int], ...]


class _Chars(msgspec.Struct, frozen=True):
    ranges: _Ranges


class _Sequence(msgspec.Struct, frozen=True):
    parts: tuple[Node, ...]


class _Choice(msgspec.Struct, frozen=True):
    options: tuple[Node, ...]


class _Repeat(msgspec.Struct, frozen=True):
    part: Node
    least: int
    most: int


class _Anchor(msgspec.Struct, frozen=True):
    end: bool


Node: TypeAlias = _Chars | _Sequence | _Choice | _Repeat | _Anchor


class _Unread(ValueError):
    """The pattern is none, or holds what is not read here."""


@lru_cache(maxsize=256)
def parsed(pattern: str) -> Node | None:
    """Return *pattern* as a tree, None if it is none or holds what is not read here."""
    try:
        node, at = _choice(pattern, 0, 0)
    except (_Unread, IndexError):
        return None
    return node if at == len(pattern) else None


def matches(node: Node, text: str) -> bool:
    """Say whether the pattern is found anywhere in *text*; True if that is too much to tell."""
    if len(text) > MAX_TEXT:
        return True
    try:
        return bool(_Match(text).ends(node, set(range(len(text) + 1))))
    except _Unread:
        return True


def matching(node: Node, *, least: int = 0, most: int = MAX_TEXT) -> str | None:
    """Return a short text of *least* to *most* characters that the pattern matches, or None."""
    for extra, filling in product(_EXTRAS, ("", "a", " ", "1")):
        try:
            text = _text(node, extra)
        except _Unread:
            return None
        text += filling * (least - len(text))
        if text.strip() and least <= len(text) <= most and matches(node, text):
            return text
    return "" if least == 0 and matches(node, "") else None


def _text(node: Node, extra: int) -> str:
    """Return a text that *node* matches, with repeated pieces *extra* times more than need be."""
    match node:
        case _Chars(ranges):
            return _liked(ranges)
        case _Sequence(parts):
            return "".join(_text(part, extra) for part in parts)
        case _Choice(options):
            return _text(options[0], extra)
        case _Repeat(part, least, most):
            times = min(least + extra, most)
            piece = _text(part, extra) if times else ""
            if len(piece) * times > MAX_TEXT:
                raise _Unread
            return piece * times
    return ""


def _liked(ranges: _Ranges) -> str:
    for character in _LIKED:
        if _holds(ranges, character):
            return character
    if not ranges:
        raise _Unread
    return chr(ranges[0][0])


class _Match:
    """The places where the pieces of a pattern may end in one text, and the work left for it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MAX_STEPS

    def ends(self, node: Node, starts: set[int]) -> set[int]:
        """Return every place where *node* may end that begins at one of *starts*."""
        self._left -= 1 + len(starts)
        if self._left < 0:
            raise _Unread
        match node:
            case _Chars(ranges):
                text = self._text
                return {at + 1 for at in starts if at < len(text) and _holds(ranges, text[at])}
            case _Sequence(parts):
                for part in parts:
                    starts = self.ends(part, starts)
                return starts
            case _Choice(options):
                return set().union(*(self.ends(option, starts) for option in options))
            case _Repeat():
                return self._repeated_ends(node, starts)
            case _Anchor(end):
                return starts & {len(self._text) if end else 0}

    def _repeated_ends(self, node: _Repeat, starts: set[int]) -> set[int]:
        for _ in range(node.least):
            following = self.ends(node.part, starts)
            if following == starts:
                break
            starts = following
        found, latest = set(starts), starts
        for _ in range(node.most - node.least):
            latest = self.ends(node.part, latest) - found
            if not latest:
                break
            found |= latest
        return found


def _holds(ranges: _Ranges, character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in ranges)


def _choice(pattern: str, at: int, depth: int) -> tuple[Node, int]:
    if depth > MAX_DEPTH:
        raise _Unread
    options = []
    while True:
        option, at = _sequence(pattern, at, depth)
        options.append(option)
        if not pattern.startswith("|", at):
            return (options[0] if len(options) == 1 else _Choice(tuple(options))), at
        at += 1


def _sequence(pattern: str, at: int, depth: int) -> tuple[Node, int]:
    parts: list[Node] = []
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _atom(pattern, at, depth)
        count = _COUNT.match(pattern, at)
        if count is not None:
            part, at = _repeated(part, count), count.end()
        parts.append(part)
    return _Sequence(tuple(parts)), at


def _repeated(part: Node, count: re.Match[str]) -> Node:
    if isinstance(part, _Anchor):
        raise _Unread
    sign, least, comma, most = count.groups()
    if sign:
        return _Repeat(part, int(sign == "+"), 1 if sign == "?" else MAX_TEXT)
    low = int(least)
    return _Repeat(part, low, int(most) if most else max(low, MAX_TEXT) if comma else low)


def _atom(pattern: str, at: int, depth: int) -> tuple[Node, int]:
    character = pattern[at]
    match character:
        case "(":
            opening = _GROUP.match(pattern, at)
            if opening is None:
                raise _Unread
            node, at = _choice(pattern, opening.end(), depth + 1)
            if pattern[at] != ")":
                raise _Unread
            return node, at + 1
        case "[":
            return _class(pattern, at + 1)
        case ".":
            return _Chars(tuple(_outside([(0x0A, 0x0A), (0x0D, 0x0D)]))), at + 1
        case "^" | "$":
            return _Anchor(character == "$"), at + 1
        case "\\":
            ranges, at = _escape(pattern, at + 1)
            return _Chars(ranges), at
        case "*" | "+" | "?" | "{":
            raise _Unread
    return _Chars(((ord(character), ord(character)),)), at + 1


def _class(pattern: str, at: int) -> tuple[Node, int]:
    negated = pattern[at] == "^"
    at += negated
    ranges: list[tuple[int, int]] = []
    while pattern[at] != "]":
        members, at = _member(pattern, at)
        single = len(members) == 1 and members[0][0] == members[0][1]
        if single and pattern[at] == "-" and pattern[at + 1] != "]":
            last, at = _member(pattern, at + 1)
            members = ((members[0][0], last[0][1]),)
            if members[0][0] > members[0][1]:
                raise _Unread
        ranges += members
    return _Chars(tuple(_outside(ranges) if negated else ranges)), at + 1


def _member(pattern: str, at: int) -> tuple[_Ranges, int]:
    if pattern[at] == "\\":
        return _escape(pattern, at + 1)
    return ((ord(pattern[at]), ord(pattern[at])),), at + 1


def _escape(pattern: str, at: int) -> tuple[_Ranges, int]:
    """Return the characters that the escape stands for whose letter is at *at*, and its end."""
    letter = pattern[at]
    if letter.lower() in _SETS:
        ranges = _SETS[letter.lower()]
        return (tuple(_outside(ranges)) if letter.isupper() else ranges), at + 1
    code = _CODE.match(pattern, at)
    if code is not None:
        value = int(code[1] or code[2], 16)
        return ((value, value),), code.end()
    character = _CONTROLS.get(letter, letter)
    if character == letter and letter.isalnum():
        raise _Unread
    return ((ord(character), ord(character)),), at + 1


def _outside(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between *ranges*."""
    low = 0
    for first, last in sorted(ranges):
        if first > low:
            yield low, first - 1
        low = max(low, last + 1)
    if low <= _LAST:
        yield low, _LAST
