"""Read one JSON object at a place in a text, or say exactly where and why reading stopped.

Two readers of the same grammar. ``scan`` is the C scanner of the standard library: it is fast, and
any failure, of whatever kind, only means "not plain JSON". ``trace`` then
walks the same text with regular expressions, without recursion and without building values. It
finds the end of an object that is whole but odd (a raw newline in a string, NaN, nesting too deep
for the C stack), or the place where the grammar breaks and which objects are open there.

Both accept the same language, except that ``trace`` also accepts what ``scan`` refuses on
purpose: raw control characters in strings, NaN and Infinity, repeated keys, numbers too large.
Knows nothing of calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from json import JSONDecodeError, JSONDecoder
from math import isinf
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "KEY",
    "SCALAR",
    "STRING",
    "WS",
    "Closed",
    "Frame",
    "Odd",
    "Read",
    "Stop",
    "control_place",
    "depth_exceeds",
    "is_json",
    "read_any",
    "read_at",
    "read_object",
    "read_odd",
    "scan",
    "trace",
    "unsound",
]

WS: Final = r"[ \t\n\r]*+"
_TEXT: Final = r"""[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+"""
STRING: Final = rf'"{_TEXT}"'
# An empty container counts as a scalar: nothing in it can be open.
SCALAR: Final = (
    rf"(?:{STRING}"
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
    r"|null|true|false|NaN|-?Infinity"
    rf"|\{{{WS}\}}|\[{WS}\])"
)

KEY: Final = "a key in double quotes"

_OPENER: Final = rf"(\{{(?!{WS}\}})|\[(?!{WS}\]))"
_EMPTY: Final = re.compile(rf"\{{{WS}\}}")
_MEMBER: Final = re.compile(rf"{WS}({STRING}){WS}:{WS}(?:({SCALAR}){WS}([,}}])|{_OPENER})")
_ELEMENT: Final = re.compile(rf"{WS}()(?:({SCALAR}){WS}([,\]])|{_OPENER})")
_AFTER_MEMBER: Final = re.compile(rf"{WS}([,}}])")
_AFTER_ELEMENT: Final = re.compile(rf"{WS}([,\]])")
# As much of an item as there is; the groups tell which pieces of it were found.
_PART_OF_MEMBER: Final = re.compile(rf"{WS}(?:({STRING}){WS}(?:(:){WS}(?:({SCALAR}){WS})?+)?+)?+")
_SPACE: Final = re.compile(WS)
_PART_OF_ELEMENT: Final = re.compile(rf"{WS}()()(?:({SCALAR}){WS})?+")
_BROKEN_STRING: Final = re.compile(rf'"{_TEXT}')
# What is left when a text breaks off within a literal or before a number's first digit.
_CUT_TOKEN: Final = re.compile(r"(?:-|-?I|n|nu|nul|t|tr|tru|f|fa|fal|fals|)\Z")
_ANY_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

_PEEK: Final = 256
_MANY_OBJECTS: Final = 4
_MANY_VALUES: Final = 64
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))

_encode: Final = msgspec.json.Encoder().encode


class Frame(msgspec.Struct, gc=False):
    """An object or array that is open: where it starts and which members it has told so far."""

    start: int
    array: bool
    head: dict[str, str] | None = None


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The object ends just before *end*; *head* are its members, *depth* its deepest nesting."""

    end: int
    head: dict[str, str] | None
    depth: int


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Reading stopped at *at*, where *expected* was not found.

    *frames* are open there, outermost first. *member* is where the member in progress begins,
    *resume* the last place at *at* or before it that is outside a string. *ended*: the text is
    over. *after_string*: the value before *at* is a string, so a quote may have closed it early.
    """

    at: int
    expected: str
    frames: list[Frame]
    member: int
    resume: int
    ended: bool
    after_string: bool = False


class Odd(msgspec.Struct, frozen=True):
    """A whole object that ``scan`` would not take.

    *value* is None, and *fault* a message, if it cannot be read without guessing. *repeated* are
    keys that an object holds twice. *control*: a string holds a raw control character.
    """

    value: dict[str, Any] | None
    fault: str | None
    repeated: tuple[str, ...]
    control: bool


class Read(msgspec.Struct, frozen=True):
    """An object that ends just before *end*, nested *depth* deep, and what it holds."""

    end: int
    depth: int
    odd: Odd


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _has_repeated_key(value: Any, text: str, start: int, end: int) -> bool:
    """Say whether *value* has lost a member that the text has: then quotes are missing too.

    Also true of a text that writes a quote as ``\\u0022``, and of one that has no UTF-8.
    """
    try:
        written = _encode(value)
    except UnicodeEncodeError:
        return True
    quotes = text.count('"', start, end)
    return written.count(b'"') != quotes or text.find("\\u0022", start, end) >= 0


def _finite(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError
    return number


def _refuse(name: str) -> float:
    raise ValueError(name)


def _scanner(decoder: JSONDecoder) -> Callable[[str, int], tuple[Any, int]]:
    # Not in the type stubs, though documented by the module's own source since Python 2.6: the
    # one function of the standard library that reads a value at a place and says where it ends.
    return decoder.scan_once  # type: ignore[attr-defined,no-any-return]


_scan_checked: Final = _scanner(
    JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse)
)
_scan_unchecked: Final = _scanner(JSONDecoder(parse_float=_finite, parse_constant=_refuse))
_scan_loose: Final = _scanner(JSONDecoder(strict=False))
_scan_looser: Final = _scanner(JSONDecoder(strict=False, parse_int=float))
_scan_raw: Final = _scanner(
    JSONDecoder(
        strict=False, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse
    )
)
# Finds raw control characters; never fails on the digits of an integer.
_scan_exact: Final = _scanner(JSONDecoder(parse_int=float))


def scan(text: str, start: int) -> tuple[Any, int]:
    """Return the value at *start*, plain JSON without a repeated key, and where it ends.

    Raise StopIteration, ValueError or RecursionError if there is none.
    """
    # A call in Python for every object is cheap where there are few, and dear in tables. In a
    # string such a quote has a backslash, so code in one does not count.
    if text.count('{"', start, start + _PEEK) < _MANY_OBJECTS:
        return _scan_checked(text, start)
    value, end = _scan_unchecked(text, start)
    if _has_repeated_key(value, text, start, end):
        raise ValueError
    return value, end


def trace(text: str, start: int, keys: Collection[str] = ()) -> Closed | Stop:
    """Find the end of the object at *start*, or where it breaks.

    Heads hold those members whose key, as written with its quotes, is in *keys*; None if none is.
    """
    root = frame = Frame(start, False)
    frames = [root]
    deepest = 1
    at = start + 1
    while True:
        found = (_ELEMENT if frame.array else _MEMBER).match(text, at)
        if found is None:
            if at == start + 1 and (empty := _EMPTY.match(text, start)):
                return Closed(empty.end(), None, 1)
            return _stop_in_item(text, at, frames)
        key, scalar, separator, opener = found.groups()
        if key in keys:
            if frame.head is None:
                frame.head = {}
            frame.head[key] = scalar or opener
        at = found.end()
        if opener:
            frame = Frame(at - 1, opener == "[")
            frames.append(frame)
            if len(frames) > deepest:
                deepest = len(frames)
            continue
        while separator != ",":
            frames.pop()
            if not frames:
                return Closed(at, root.head, deepest)
            frame = frames[-1]
            after = (_AFTER_ELEMENT if frame.array else _AFTER_MEMBER).match(text, at)
            if after is None:
                return _stop_in_gap(text, at, frames)
            separator = after[1]
            at = after.end()


def read_odd(piece: str) -> Odd:
    """Read *piece*, one whole object by ``trace`` that ``scan`` would not take."""
    try:
        return Odd(_scan_raw(piece, 0)[0], None, (), control_place(piece) > 0)
    except RecursionError:
        return Odd(None, "it is nested too deeply", (), False)
    except ValueError:
        return _read_with_findings(piece)


def control_place(piece: str) -> int:
    """Return the offset of the first raw control character in a string of *piece*."""
    try:
        _scan_exact(piece, 0)
    except JSONDecodeError as exc:
        return exc.pos
    return 0


def _read_with_findings(piece: str) -> Odd:
    repeated: list[str] = []
    faults: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            repeated.extend(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        return found

    def number(digits: str) -> float:
        if isinf(float(digits)):
            faults.append("a number is out of range")
        return float(digits)

    def constant(name: str) -> float:
        faults.append(f"{name} is not JSON")
        return 0.0

    decoder = JSONDecoder(
        strict=False, object_pairs_hook=members, parse_float=number, parse_constant=constant
    )
    try:
        value, _ = _scanner(decoder)(piece, 0)
    except ValueError:  # of int(), the one thing left that can be wrong in a whole object
        return Odd(None, "an integer has too many digits", (), False)
    if faults:
        return Odd(None, faults[0], (), False)
    return Odd(value, None, tuple(repeated), control_place(piece) > 0)


def read_any(piece: str) -> dict[str, Any] | None:
    """Read *piece*, one whole object by ``trace``, guessing where need be; None if too deep."""
    for scan_loosely in (_scan_loose, _scan_looser):
        try:
            value, _ = scan_loosely(piece, 0)
        except RecursionError:
            return None
        except ValueError:
            continue
        return value if isinstance(value, dict) else None
    return None


def is_json(text: str) -> bool:
    """Say whether *text* is one value of plain JSON, of any type."""
    text = text.strip(" \t\n\r")
    try:
        return scan(text, 0)[1] == len(text)
    except (StopIteration, ValueError, RecursionError):
        return False


def read_at(text: str, start: int) -> Read | Stop:
    """Read the object that is known to begin at *start*, however odd, or say where it stops."""
    found = trace(text, start)
    if isinstance(found, Stop):
        return found
    piece = text[start : found.end]
    try:
        return Read(found.end, found.depth, Odd(scan(piece, 0)[0], None, (), False))
    except (StopIteration, ValueError, RecursionError):
        return Read(found.end, found.depth, read_odd(piece))


def read_object(text: str) -> dict[str, Any] | None:
    """Return *text* as one object of plain JSON with nothing beside it, or None."""
    text = text.strip(" \t\n\r")
    try:
        value, end = scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(text) else None


def unsound(args: dict[str, Any], max_depth: int) -> Literal["depth", "surrogate"] | None:
    """Say what keeps *args* from being stored: nesting beyond *max_depth*, or no UTF-8 form."""
    waiting: list[Any] = [args]
    met = 0
    while waiting:
        container = waiting.pop()
        met += 1
        if met > max_depth or len(container) > _MANY_VALUES:
            return _unsound_as_written(args, max_depth)
        children: Iterable[Any] = container
        if type(container) is dict:
            keys = "".join(container)
            if not (keys.isascii() or _has_utf8(keys)):
                return _unsound_as_written(args, max_depth)
            children = container.values()
        for child in children:
            kind = type(child)
            if kind is str:
                if not (child.isascii() or _has_utf8(child)):
                    return _unsound_as_written(args, max_depth)
            elif kind is dict or kind is list:
                waiting.append(child)
    return None


def depth_exceeds(value: Any, limit: int) -> bool:
    """Say whether containers in *value* nest more than *limit* deep, *value* itself included."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _unsound_as_written(
    args: dict[str, Any], max_depth: int
) -> Literal["depth", "surrogate"] | None:
    """Say the same as ``unsound``: faster where values are many, slower where they are few."""
    try:
        written = _encode(args)
    except UnicodeEncodeError:
        return "depth" if depth_exceeds(args, max_depth) else "surrogate"
    except RecursionError:
        return "depth"
    shallow = _is_shallow(written, max_depth)
    return None if shallow or not depth_exceeds(args, max_depth) else "depth"


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_shallow(written: bytes, limit: int) -> bool:
    """Say whether brackets in *written*, those in strings too, surely nest within *limit*.

    Each round takes off the innermost level, and may take off one more.
    """
    brackets = written.translate(None, _NOT_BRACKETS)
    for _ in range(limit // 2):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not fewer or len(fewer) == len(brackets):
            return not fewer
        brackets = fewer
    return False


def _stop_in_item(text: str, item: int, frames: list[Frame]) -> Stop:
    """Find which piece of the item at *item* is missing."""
    part = (_PART_OF_ELEMENT if frames[-1].array else _PART_OF_MEMBER).match(text, item)
    assert part is not None  # it matches the empty string
    key, colon, value = part.groups()
    at = part.end()
    if key is None:
        return _stop_at_token(text, at, frames, item, KEY)
    if colon is None:
        return Stop(at, "':' after the key", frames, item, at, at == len(text), True)
    if value is None:
        return _stop_at_token(text, at, frames, item, "a value")
    return _stop_after_value(text, at, frames, item, after_string=value[0] == '"')


def _stop_in_gap(text: str, item: int, frames: list[Frame]) -> Stop:
    gap = _SPACE.match(text, item)
    return _stop_after_value(text, gap.end() if gap else item, frames, item)


def _stop_after_value(
    text: str, at: int, frames: list[Frame], item: int, *, after_string: bool = False
) -> Stop:
    expected = "',' or ']'" if frames[-1].array else "',' or '}'"
    return Stop(at, expected, frames, item, at, at == len(text), after_string)


def _stop_at_token(text: str, at: int, frames: list[Frame], item: int, expected: str) -> Stop:
    if not text.startswith('"', at):
        cut = _CUT_TOKEN.match(text, at) is not None
        return Stop(len(text) if cut else at, expected, frames, item, at, cut)
    if _ANY_STRING.match(text, at) is None:
        return Stop(len(text), "the end of a string", frames, item, at, True)
    sound = _BROKEN_STRING.match(text, at)
    bad = sound.end() if sound else at
    return Stop(bad, "a valid escape", frames, item, at, False)
