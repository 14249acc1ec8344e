"""The arguments of a call whose name was told before them: an object up to what closes it.

An object that is whole can still be cut short by a brace too many within it, and then some of its
members stand behind it. So what follows the object decides too: where a member stands, the block
is refused; where a brace too many stands, it is dropped if it can be that of no inner object.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Piece,
    Reading,
    is_call_id,
    is_tool_name,
    object_args,
)
from ksi_daemon.extraction.dialects.framing import (
    Body,
    Unread,
    mend_body,
    past_space,
    read_body,
    where,
)
from ksi_daemon.extraction.reader import Stop, scan, trace
from ksi_daemon.extraction.repair import may_be_cut

__all__ = ["Ends", "Named", "is_closed_for_good", "is_settled", "past_surplus", "read_arguments"]

_SURPLUS: Final = re.compile(r"\s*+\}[\s}]*+")
_MEMBER: Final = re.compile(r'\s*+,?+\s*+"(?:[^"\\\n]|\\.)*+"\s*+:')
# Something that no object has behind a member or in place of one.
_BEHIND: Final = re.compile(r'\s*+[^\s},"]')
# Something that goes on where an object ended and nothing closes it.
_RUN_ON: Final = re.compile(r"[\w\"']")
_REST: Final = re.compile(r'[^\n"]*+')
_CLOSED_TWICE: Final = Fault("malformed_block", "it is closed twice: escape quotes in strings")
_EMPTY_LAST: Final = re.compile(r'""[\s\]}]*+\Z')
_NEAR: Final = 64  # characters before the end of an object, in which its last value stands
# The last quote of a string, and what goes on with JSON behind it.
_SPILT: Final = re.compile(
    r'[^\n"]*+(?:"(?!\s*+(?:[\]}:]|,\s*+"))[^\n"]*+)*+"\s*+(?:[\]}:]|,\s*+")'
)
_BLANK_LINE: Final = "\n\n"


class Named(msgspec.Struct, frozen=True):
    """What a block that begins at *start* says before its arguments, which begin at *at*."""

    name: str
    id: str | None
    start: int
    at: int


class Ends(msgspec.Struct, frozen=True):
    """What ends a block: *closer* is a part of it, *opener* begins another one.

    *closer* is None where the writer closes nothing.
    """

    opener: re.Pattern[str]
    closer: re.Pattern[str] | None = None


def read_arguments(text: str, told: Named, ends: Ends, reading: Reading) -> Piece:
    """Read the object, the text that holds an object, or the nothing that *told* leads to."""
    at = told.at
    if text.startswith("{", at):
        body = read_body(text, at, reading)
        if isinstance(body, Unread):
            return _unread(text, told, body, ends, reading)
        return _closed(text, told, body, ends, reading)
    limit, closer = _limit(text, at, ends)
    if closer is not None and not text[at : closer.start()].strip():
        return _piece(told, closer.end(), {})
    if at == len(text):
        return _refused(told, at, Fault("unterminated_block", "the arguments are missing"), at)
    if text.startswith('"', at):
        return _quoted(text, told, ends, reading)
    fault = Fault("malformed_block", f"expected an object, got {text[at]!r}")
    return _refused(told, closer.end() if closer else limit, fault, at)


def is_settled(text: str, told: Named, ends: Ends) -> bool:
    """Say whether ``read_arguments`` would return the same however *text* goes on.

    What closes the block must have come, or what begins another one: before that, words behind
    the arguments could turn out to stand where nothing may stand.
    """
    found = _extent(text, told.at)
    if found is None:
        return False
    end, broken = found
    limit, closer = _limit(text, end, ends)
    if closer is not None:
        return is_closed_for_good(text, closer.end(), limit)
    if ends.closer is not None or limit < len(text):
        return limit < len(text)
    if broken:
        return _paragraph(text, end, limit) < limit
    if _ends_empty(text, end) and text.find("\n", end) < 0:
        return False
    return _BEHIND.match(text, end) is not None


def _extent(text: str, at: int) -> tuple[int, bool] | None:
    """Return where the arguments end that begin at *at*, and whether they are broken there.

    None if that depends on text to come.
    """
    if text.startswith("{", at):
        found = trace(text, at)
        if isinstance(found, Stop):
            return None if found.ended or found.at == len(text) else (found.resume, True)
        return found.end, False
    if text.startswith('"', at):
        try:
            return scan(text, at)[1], False
        except (StopIteration, ValueError, RecursionError):
            return None
    return None if at == len(text) else (at, True)


def _ends_empty(text: str, end: int) -> bool:
    """Say whether the last value of the object that ends at *end* is an empty string."""
    return _EMPTY_LAST.search(text, max(0, end - _NEAR), end) is not None


def past_surplus(
    text: str, end: int, value: Any, keys: Collection[str] | None = None
) -> int | None:
    """Return the place behind the closing braces that follow the object *value* and close nothing.

    It is *end* if there are none, and None if *value* may have lost members to a brace too many.
    *keys* are all that such an object has, None if it may have any.
    """
    surplus = _SURPLUS.match(text, end)
    behind = surplus.end() if surplus else end
    if _MEMBER.match(text, behind) or (surplus and _is_cut(value, keys)):
        return None
    return behind


def _is_cut(value: Any, keys: Collection[str] | None) -> bool:
    """Say whether *value*, with a brace too many behind it, may have lost members to that."""
    if keys is None or not isinstance(value, dict):
        return may_be_cut(value)
    if any(key not in keys for key in value):
        return True
    return bool(value) and may_be_cut(value[next(reversed(value))])


def _quoted(text: str, told: Named, ends: Ends, reading: Reading) -> Piece:
    """Return the call whose arguments are a string that holds an object as JSON."""
    try:
        value, end = scan(text, told.at)
    except (StopIteration, ValueError, RecursionError):
        limit, closer = _limit(text, told.at, ends)
        fault = Fault("malformed_block", "expected an object, got a string that does not end")
        return _refused(told, closer.end() if closer else limit, fault, told.at)
    return _closed(text, told, Body(end, value), ends, reading)


def _closed(text: str, told: Named, body: Body, ends: Ends, reading: Reading) -> Piece:
    """Return the call with arguments *body*, if what follows them is in order."""
    limit, closer = _limit(text, body.end, ends)
    end = closer.end() if closer else _paragraph(text, body.end, limit)
    if closer is not None and _closed_again(text, closer, limit, ends):
        return _refused(told, closer.end(), _CLOSED_TWICE, closer.start())
    if closer is None and _ends_empty(text, body.end) and _SPILT.match(text, body.end, limit):
        fault = Fault("malformed_block", "a string ends before its text: it begins with two quotes")
        return _refused(told, end, fault, body.end)
    complete = past_surplus(text, body.end, body.value)
    cut_short = complete is not None and complete > body.end and bool(body.repeated)
    if cut_short or (closer is None and _RUN_ON.match(text, body.end)):
        complete = None
    if complete is None or (complete > body.end and not reading.repairs):
        fault = Fault("malformed_block", "it ends before what belongs to it: a brace too many")
        return _refused(told, end, fault, body.end)
    behind = past_space(text, complete)
    if closer is not None and behind < closer.start():
        spot = where(text, told.start, behind)
        fault = Fault("malformed_block", f"expected {closer[0]!r}, got {text[behind]!r} at {spot}")
        return _refused(told, end, fault, behind)
    if closer is None and ends.closer is not None and reading.strict:
        fault = Fault("unterminated_block", "what closes the block is missing")
        return _refused(told, body.end, fault, body.end)
    repairs = (*body.repairs, "extra_closer") if complete > body.end else body.repairs
    return _piece(told, closer.end() if closer else complete, body.value, repairs, body.repeated)


def _unread(text: str, told: Named, body: Unread, ends: Ends, reading: Reading) -> Piece:
    """Return the call whose arguments could not be read, mended if that can be done."""
    if body.stop is None:
        _, closer = _limit(text, body.end, ends)
        return _refused(told, closer.end() if closer else body.end, body.fault, body.place)
    following, closer = _limit(text, body.end, ends)
    limit = following
    cut = _cut_string(text, body, ends)
    if cut is not None:
        limit, closer = cut, None
    elif closer is not None:
        limit = closer.start()
    else:
        limit = _paragraph(text, body.end, limit)
    complete = closer is not None or (limit == len(text) and reading.stop_reason == "stop")
    end = closer.end() if closer else limit
    if closer is not None and _closed_again(text, closer, following, ends):
        return _refused(told, end, body.fault, min(body.place, end))
    mended = mend_body(text, told.at, limit, reading, keys=None, complete=complete)
    if mended is None:
        return _refused(told, max(end, told.at + 1), body.fault, min(body.place, end))
    return _piece(told, closer.end() if closer else mended.end, mended.value, mended.repairs)


def _closed_again(text: str, closer: re.Match[str], limit: int, ends: Ends) -> bool:
    """Say whether *closer* may be a part of a string whose first quote was written twice.

    The last quote of the string then stands behind it on its line, and what truly closes the
    block behind that.
    """
    quote = _rest_of_line(text, closer.end(), limit)
    if ends.closer is None or not text.startswith('"', quote):
        return False
    return ends.closer.search(text, quote, limit) is not None


def is_closed_for_good(text: str, end: int, limit: int) -> bool:
    """Say whether no text to come can close once more the block that is closed at *end*.

    *limit* is where the next block begins, the end of the text if none does.
    """
    return limit < len(text) or text.startswith("\n", _rest_of_line(text, end, limit))


def _rest_of_line(text: str, at: int, limit: int) -> int:
    """Return the place of the first quote or line end at *at* or behind it, or *limit*."""
    found = _REST.match(text, at, limit)
    return found.end() if found else at


def _cut_string(text: str, body: Unread, ends: Ends) -> int | None:
    """Return the place of the next block's opener if a string that nothing closed has taken it.

    Only the start of a line is trusted: a string may hold an opener, but no raw line end.
    """
    stop = body.stop
    if stop is None or not stop.after_string:
        return None
    for opener in ends.opener.finditer(text, stop.member, stop.at):
        line = text.rfind("\n", stop.member, opener.start())
        if line >= 0 and not text[line : opener.start()].strip():
            return opener.start()
    return None


def _limit(text: str, at: int, ends: Ends) -> tuple[int, re.Match[str] | None]:
    """Return how far a block can reach that is open at *at*, and what closes it before that."""
    following = ends.opener.search(text, at)
    limit = following.start() if following else len(text)
    return limit, ends.closer.search(text, at, limit) if ends.closer else None


def _paragraph(text: str, at: int, limit: int) -> int:
    blank = text.find(_BLANK_LINE, at, limit)
    return limit if blank < 0 else blank


def _piece(
    told: Named,
    end: int,
    value: Any,
    repairs: tuple[str, ...] = (),
    repeated: tuple[str, ...] = (),
) -> Piece:
    if not is_tool_name(told.name):
        fault = Fault("missing_name", f"the block must name a tool, got {told.name!r:.60}")
        return _refused(told, end, fault, told.start)
    args = object_args(value, "arguments", strict=False, code="args_json")
    if isinstance(args, Fault):
        return _refused(told, end, args, told.at)
    draft = Draft(told.name, args, told.id if is_call_id(told.id) else None)
    return Piece(told.start, end, draft, told.at, repairs, repeated)


def _refused(told: Named, end: int, fault: Fault, place: int) -> Piece:
    return Piece(told.start, end, fault, place)
