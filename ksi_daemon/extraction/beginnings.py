"""What a pattern could still match when more text comes: the question of every stream.

``re`` says whether a pattern matches a text. A stream must know more: whether what stands at its
end is the beginning of a match, or a match that more text could change or undo. That is a pattern
too, made from the first one. For ``ab+c`` it is: at the end; or ``a`` and then the end; or ``a``,
some ``b`` and then the end.

The answer errs on one side only: it may say "perhaps" where the pattern could never match, for
example where that needs text before the place in question; never "no" where it could.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# The parser that `re` itself uses. It has no other name since 3.11, and a second one of our own
# would read patterns differently one day.
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias

__all__ = ["beginning", "beginning_or_match", "either"]

_END: Final = r"\Z"
_NEVER: Final = "(?!)"
# Where the end of the text may turn out to be another place.
_UNDECIDED: Final = frozenset(
    {
        ops.AT_END,
        ops.AT_END_STRING,
        ops.AT_BOUNDARY,
        ops.AT_NON_BOUNDARY,
    }
)
_PLACES: Final = {
    ops.AT_BEGINNING: "^",
    ops.AT_BEGINNING_STRING: r"\A",
    ops.AT_END: "$",
    ops.AT_END_STRING: r"\Z",
    ops.AT_BOUNDARY: r"\b",
    ops.AT_NON_BOUNDARY: r"\B",
}
_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS: Final = {ops.MAX_REPEAT: "", ops.MIN_REPEAT: "?", ops.POSSESSIVE_REPEAT: "+"}
_SINGLE: Final = frozenset({ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN})
_FLAGS: Final = re.MULTILINE | re.DOTALL | re.IGNORECASE | re.ASCII
_LETTERS: Final = (("m", re.MULTILINE), ("s", re.DOTALL), ("i", re.IGNORECASE), ("a", re.ASCII))

_Item: TypeAlias = tuple[Any, Any]


@lru_cache(maxsize=256)
def beginning(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return what matches where more text could bring, change or undo a match of *pattern*."""
    return re.compile(_begun(_items(pattern)), pattern.flags & _FLAGS)


@lru_cache(maxsize=256)
def beginning_or_match(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return what matches where *pattern* does, or could when more text comes."""
    items = _items(pattern)
    return re.compile(f"{_begun(items)}|{_whole(items)}", pattern.flags & _FLAGS)


def either(patterns: Sequence[re.Pattern[str]]) -> re.Pattern[str]:
    """Return a pattern that matches where one of *patterns* does, without their groups."""
    return re.compile("|".join(map(_flagged, patterns)) or _NEVER)


def _flagged(pattern: re.Pattern[str]) -> str:
    letters = "".join(letter for letter, flag in _LETTERS if pattern.flags & flag)
    return f"(?{letters}:{_whole(_items(pattern))})"


def _items(pattern: re.Pattern[str]) -> list[_Item]:
    return list(parser.parse(pattern.pattern, pattern.flags))


def _begun(items: Sequence[_Item]) -> str:
    """Return a pattern for any text that ends before *items* or within them."""
    found = _NEVER
    for item in reversed(items):
        rest = "" if found == _NEVER else f"|{_whole([item])}{found}"
        found = f"(?:{_begun_item(item)}{rest})"
    return found


def _begun_item(item: _Item) -> str:
    op, value = item
    if op in _SINGLE:
        return _END
    if op in _REPEATS:
        least, most, inner = value
        del least
        return _begun_repeat(op, most, inner)
    if op is ops.BRANCH:
        return f"(?:{'|'.join(_begun(each) for each in value[1])})"
    if op is ops.SUBPATTERN:
        return _begun(value[-1])
    if op is ops.ATOMIC_GROUP:
        return _begun(value)
    if op is ops.ASSERT or op is ops.ASSERT_NOT:
        return _begun(value[1]) if value[0] > 0 else _NEVER
    if op is ops.AT:
        return _END if value in _UNDECIDED else _NEVER
    return r"[\s\S]*+"  # something that looks back into groups: whatever follows may be of it


def _begun_repeat(op: Any, most: Any, inner: Sequence[_Item]) -> str:
    times = "*" if most is parser.MAXREPEAT else f"{{0,{most}}}"
    # One way only to read a run of single characters; elsewhere all ways are tried.
    possessive = "+" if op is ops.POSSESSIVE_REPEAT or _is_single(inner) else ""
    return f"(?:{_whole(inner)}){times}{possessive}{_begun(inner)}"


def _is_single(inner: Sequence[_Item]) -> bool:
    return len(inner) == 1 and inner[0][0] in _SINGLE


def _whole(items: Sequence[_Item]) -> str:
    """Return *items* as a pattern again, without groups that capture."""
    return "".join(map(_whole_item, items))


def _whole_item(item: _Item) -> str:
    op, value = item
    if op in _SINGLE:
        return _character(op, value)
    if op in _REPEATS:
        least, most, inner = value
        upper = "" if most is parser.MAXREPEAT else most
        return f"(?:{_whole(inner)}){{{least},{upper}}}{_REPEATS[op]}"
    if op is ops.BRANCH:
        return f"(?:{'|'.join(_whole(each) for each in value[1])})"
    if op is ops.SUBPATTERN:
        return f"(?:{_whole(value[-1])})"
    if op is ops.ATOMIC_GROUP:
        return f"(?>{_whole(value)})"
    if op is ops.ASSERT or op is ops.ASSERT_NOT:
        return _look(op, *value)
    if op is ops.AT:
        return _PLACES[value]
    return r"[\s\S]*+"


def _look(op: Any, direction: int, inner: Sequence[_Item]) -> str:
    if direction < 0:  # more than a character of the text before a place may be gone
        return f"(?<!{_whole(inner)})" if op is ops.ASSERT_NOT else ""
    return f"(?{'=' if op is ops.ASSERT else '!'}{_whole(inner)})"


def _character(op: Any, value: Any) -> str:
    if op is ops.LITERAL:
        return re.escape(chr(value))
    if op is ops.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    return "." if op is ops.ANY else f"[{''.join(_member(*each) for each in value)}]"


def _member(op: Any, value: Any) -> str:
    if op is ops.NEGATE:
        return "^"
    if op is ops.CATEGORY:
        return _CATEGORIES[value]
    if op is ops.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return re.escape(chr(value))
