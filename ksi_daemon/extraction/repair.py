"""Mend an object that is almost JSON, or leave it alone.

The object is traced; where that stops, one edit is made there if there is only one that makes
sense, and it is traced again. So nothing is ever changed that the grammar accepts. An edit takes
out what is no JSON (a comment, a comma or brace too many), puts in what is missing between two
members or at the end, or writes a string or literal of another language as JSON writes it. What a
string says is never touched, no string is ever closed, and an array is never given a member.

Where two readings are possible there is no edit: brackets of the wrong kind, a lost opening
bracket, strings side by side, a member without a value, a quote that ended a string too early. A
closing bracket that is missing can be missing earlier than at the end. If it is, some container
holds members that belong to the one around it, which must be of the same kind; the last of these
members is followed by closing brackets only. So a container can be told to be whole if it is alone
in what surrounds it, of another kind, or, for the outermost object, if the member is none of its.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.reader import KEY, Frame, Odd, Stop, read_at, scan

__all__ = ["Edit", "Mended", "Mender", "may_be_cut", "may_be_spilt"]

MAX_PIECE: Final = 1 << 16  # characters
MAX_EDITS: Final = 64
# Of tracing, for all objects of a text together: what keeps a text of nothing but faults cheap.
BUDGET: Final = 1 << 20  # characters

_VALUE: Final = "a value"
_ESCAPE: Final = "a valid escape"
_COMMENT: Final = re.compile(r"(?://|#(?=[ \t]))[^\n]*+(?=\n)|/\*(?:[^*]++|\*(?!/))*+\*/")
_PLAIN_QUOTE: Final = re.compile(r'(?<!\\)"')
_BRACKET: Final = re.compile(r"[{}\[\]]")
_LITERAL: Final = re.compile(r"(True|False|None)(?=\s*+[,}\]])")
_LITERALS: Final = (("True", "true"), ("False", "false"), ("None", "null"))
_SINGLE: Final = re.compile(r"'((?:[^'\\\n]++|\\[^\n])*+)'(?=\s*+([:,}\]]))")
_SMART: Final = re.compile(
    r"""(?:[“”„]([^“”„"\\\n]*+)[“”]|[‘’]([^‘’"\\\n]*+)[‘’])(?=\s*+([:,}\]]))"""
)
_MEMBER_LINE: Final = re.compile(r'"[^"\\\n]++"[ \t]*+:')
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PAIR: Final = re.compile(r"""\\(.)|(")""", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\.|\n", re.DOTALL)
_CLOSERS: Final = re.compile(r"[\s}\]]*+")
# All that may stand behind an object whose last brackets are missing: the end of its fence.
_OVER: Final = re.compile(r"\s*+(?:(?:`{3,}|~{3,})\s*+)?\Z")
# Behind an object that ended in the middle of what it should hold.
_LEFT_OVER: Final = re.compile(r"""[ \t]*+["'):}“”]""")


class Edit(msgspec.Struct, frozen=True):
    """What stands from *start* to *end* of the text is read as *text*."""

    name: str
    start: int
    end: int
    text: str = ""


class Mended(msgspec.Struct, frozen=True):
    """An object that can be read after *repairs*; it ends just before *end* of the text.

    *edits* are those that changed something, in the order of the text.
    """

    end: int
    value: dict[str, Any]
    repairs: tuple[str, ...]
    edits: tuple[Edit, ...] = ()


class _Whole(msgspec.Struct, frozen=True):
    """What was read of an object that ends just before *end*."""

    end: int
    odd: Odd


class Mender:
    """What can be spent on the objects of one text.

    *reached* is the place up to which the last object was read before it was given up.
    """

    def __init__(self, text: str, budget: int = BUDGET) -> None:
        self._text = text
        self._left = budget
        self.reached = 0

    def over(self, text: str) -> Mender:
        """Return one for the objects of *text*, with what is left to spend here."""
        return Mender(text, self._left)

    def mend(
        self,
        start: int,
        limit: int,
        keys: Collection[str] | None,
        *,
        complete: bool,
        stop: Stop | None = None,
    ) -> Mended | None:
        """Return the object at *start*, of which nothing lies behind *limit*.

        *keys* are all that such an object has, None if it may have any. *complete* says that the
        writer stopped at *limit* by itself. *stop* is where reading the text from *start* on is
        known to stop. None if the object cannot be mended.
        """
        piece = self._text[start : min(limit, start + MAX_PIECE)]
        complete = complete and len(piece) == limit - start
        known = stop is not None and start + len(piece) == len(self._text)
        shift = 0
        edits: list[Edit] = []
        while len(edits) <= MAX_EDITS and self._left > 0:
            found = _moved(stop, start) if stop and known and not edits else _read(piece)
            place = found.at if isinstance(found, Stop) else found.end
            self._left -= place
            self.reached = start - shift + place
            if not isinstance(found, Stop):
                return _verified(piece, found, start - shift, edits, keys)
            edit = _edit(piece, found, complete=complete)
            if edit is None:
                return None
            piece = piece[: edit.start] + edit.text + piece[edit.end :]
            place = _in_text(start + edit.start, edits)
            edits.append(Edit(edit.name, place, place + edit.end - edit.start, edit.text))
            shift += len(edit.text) - (edit.end - edit.start)
        return None


def _moved(stop: Stop, start: int) -> Stop:
    """Return *stop* as it is for the object at *start* if the text begins there."""
    frames = [
        Frame(frame.start - start, frame.array) for frame in stop.frames if frame.start >= start
    ]
    places = {name: getattr(stop, name) - start for name in ("at", "member", "resume")}
    return msgspec.structs.replace(stop, frames=frames, **places)


def _read(piece: str) -> _Whole | Stop:
    """Read the object that *piece* begins with, fast if an edit has made it plain."""
    try:
        value, end = scan(piece, 0)
    except (StopIteration, ValueError, RecursionError):
        read = read_at(piece, 0)
        return read if isinstance(read, Stop) else _Whole(read.end, read.odd)
    return _Whole(end, Odd(value, None, (), False))


def _in_text(place: int, edits: Collection[Edit]) -> int:
    """Return where what is at *place* after *edits* was before them."""
    for edit in _in_order(edits):
        if edit.start > place:
            break
        place += edit.end - edit.start - len(edit.text)
    return place


def _in_order(edits: Collection[Edit]) -> list[Edit]:
    # They are made as they are needed: a comma is dropped once what follows it is read.
    return sorted(edits, key=lambda edit: edit.start)


def may_be_spilt(value: dict[str, Any], keys: Collection[str]) -> bool:
    """Say whether a brace too many may have closed an object in *value* before its last members.

    They then stand in what surrounds it, behind it: it ends with two braces, and what surrounds
    it is the outermost object, of which *keys* are the own ones, or ends with it.
    """
    if any(key not in keys for key in value):
        return True
    inner: Any = value
    while isinstance(inner, dict) and inner:
        *before, last = inner.values()
        if any(isinstance(each, dict) and _ends_with_object(each) for each in before):
            return True
        inner = last
    return False


def may_be_cut(value: Any) -> bool:
    """Say whether one of the objects in *value* may have been closed before its last members.

    Those would stand in what surrounds it, behind it, and that would end where *value* ends.
    """
    while isinstance(value, dict) and value:
        *before, last = value.values()
        if any(isinstance(each, dict) for each in before):
            return True
        value = last
    return False


def _holds_cut_item(value: dict[str, Any]) -> bool:
    """Say whether an array in *value* has an object that may be cut."""
    waiting: list[Any] = [value]
    while waiting:
        outer = waiting.pop()
        inner = outer if isinstance(outer, list) else outer.values()
        if isinstance(outer, list) and any(map(may_be_cut, outer)):
            return True
        waiting += [each for each in inner if isinstance(each, dict | list)]
    return False


def _ends_with_object(value: dict[str, Any]) -> bool:
    return bool(value) and isinstance(value[next(reversed(value))], dict)


def _verified(
    piece: str, found: _Whole, offset: int, edits: list[Edit], keys: Collection[str] | None
) -> Mended | None:
    """Return the object *found* in *piece*, if it is sound and nothing is left over."""
    odd, end = found.odd, found.end
    if odd.value is None or odd.repeated or _LEFT_OVER.match(piece, end):
        return None
    repairs = [edit.name for edit in edits]
    if "missing_closer" in repairs and not _is_nested_surely(odd.value, keys):
        return None
    if "extra_closer" in repairs and _holds_cut_item(odd.value):
        return None
    if odd.control:
        repairs.append("control_character")
    return Mended(offset + end, odd.value, tuple(dict.fromkeys(repairs)), tuple(_in_order(edits)))


def _is_nested_surely(value: dict[str, Any], keys: Collection[str] | None) -> bool:
    """Say whether no container that ends where *value* ends may have ended before."""
    outer: Any = value
    allowed = keys
    while outer:
        inner = outer[next(reversed(outer))] if isinstance(outer, dict) else outer[-1]
        if not isinstance(inner, dict | list):
            return True
        if isinstance(outer, list) and (isinstance(inner, list) or not inner):
            return False  # the bracket may as well be one opened too often
        alike = len(inner) > 1 and type(inner) is type(outer)
        if alike and (allowed is None or next(reversed(inner)) in allowed):
            return False
        outer, allowed = inner, None
    return True


def _edit(piece: str, stop: Stop, *, complete: bool) -> Edit | None:
    """Return the one edit that lets reading go on behind *stop*, None if none is certain."""
    if stop.ended:
        return _close_all(piece, stop) if complete else None
    got = piece[stop.at]
    if got in "/#":
        return _drop_comment(piece, stop)
    if stop.expected == _ESCAPE:
        return _unescape(piece, stop)
    if stop.expected in (KEY, _VALUE):
        return _rewrite_token(piece, stop) or _drop_comma(piece, stop)
    if stop.expected.startswith("','"):
        return _join_or_close(piece, stop, complete=complete)
    return None


def _drop_comment(piece: str, stop: Stop) -> Edit | None:
    # A bracket in it may be one that counts, a quote the end of a string or a member of its own.
    comment = _COMMENT.match(piece, stop.at)
    if comment is None or _BRACKET.search(comment[0]):
        return None
    if len(_PLAIN_QUOTE.findall(comment[0])) % 2:  # then it is a string that lacks its first quote
        return None
    if '"' in comment[0] and not piece[: stop.at].rstrip(" \t").endswith("\n"):
        return None
    if stop.expected == _VALUE and not comment[0].startswith(("// ", "# ", "/*")):
        return None
    return Edit("comment", stop.at, comment.end())


def _unescape(piece: str, stop: Stop) -> Edit | None:
    """Write apostrophes without a backslash in the string around *stop*."""
    string = _STRING.match(piece, stop.resume)
    if string is None or not piece.startswith("\\'", stop.at) or _may_lack_quote(string[0]):
        return None
    plain = _PAIR.sub(lambda pair: "'" if pair[1] == "'" else pair[0], string[0])
    return Edit("escaped_apostrophe", string.start(), string.end(), plain)


def _may_lack_quote(string: str) -> bool:
    """Say whether a backslash before an apostrophe in *string* may be what a lost quote left.

    Not if it is the habit of the writer to escape apostrophes. Else, quotes come in pairs on a
    line, and none stands in the middle of a word.
    """
    escaped = [pair[0] for pair in _ESCAPED.finditer(string)].count("\\'")
    if escaped > 1 and escaped == string.count("'"):
        return False
    lines = [[False, False]]  # of each: whether its quotes are odd, whether one may be lost there
    for pair in _ESCAPED.finditer(string):
        if pair[0] in ("\n", "\\n"):
            lines.append([False, False])
        elif pair[0] == '\\"':
            lines[-1][0] ^= True
        elif pair[0] == "\\'":
            around = string[pair.start() - 1] + string[pair.end()]
            lines[-1][1] |= not around.isalnum()
    return [True, True] in lines


def _rewrite_token(piece: str, stop: Stop) -> Edit | None:
    literal = _LITERAL.match(piece, stop.at)
    if literal is not None and stop.expected == _VALUE:
        return Edit("python_literal", stop.at, literal.end(), dict(_LITERALS)[literal[1]])
    single = _SINGLE.match(piece, stop.at)
    if single is not None and _fits(single[2], stop):
        # Of the escapes those that JSON knows stay as they are; another one stops the next trace.
        inner = _PAIR.sub(_requoted, single[1])
        return Edit("single_quotes", stop.at, single.end(), f'"{inner}"')
    smart = _SMART.match(piece, stop.at)
    if smart is not None and _fits(smart[3], stop):
        return Edit("smart_quotes", stop.at, smart.end(), f'"{smart[1] or smart[2] or ""}"')
    return None


def _requoted(pair: re.Match[str]) -> str:
    if pair[2]:
        return '\\"'
    return "'" if pair[1] == "'" else pair[0]


def _fits(following: str, stop: Stop) -> bool:
    """Say whether *following* is what follows a key, or a value, as *stop* expects it."""
    if stop.expected == KEY:
        return following == ":"
    return following in (",", "]" if stop.frames[-1].array else "}")


def _drop_comma(piece: str, stop: Stop) -> Edit | None:
    """Drop the comma before a closing bracket, if there is a member before it."""
    before = piece[: stop.at].rstrip()
    if piece[stop.at] != _closer(stop) or not before.endswith(","):
        return None
    comma = len(before) - 1
    if before[:comma].rstrip().endswith((",", "{", "[", ":")):
        return None
    return Edit("trailing_comma", comma, comma + 1)


def _join_or_close(piece: str, stop: Stop, *, complete: bool) -> Edit | None:
    """Put in the comma between two members, or the brackets that are missing, or drop a brace."""
    at, got = stop.at, piece[stop.at]
    gap = piece[len(piece[:at].rstrip()) : at]
    if got == '"':
        # A comma that ends the string may be the one that is missing behind it.
        apart = "\n" in gap and not stop.frames[-1].array and not _ends_in(piece, stop, ",")
        joins = apart and _MEMBER_LINE.match(piece, at)
        return Edit("missing_comma", at - len(gap), at - len(gap), ",") if joins else None
    if got in "}]":
        return _drop_brace(piece, stop) or _close_inner(piece, stop)
    return _close_all(piece, stop) if complete and _OVER.match(piece, at) else None


def _drop_brace(piece: str, stop: Stop) -> Edit | None:
    # Only a brace behind an object in an array: a bracket too many may as well be one opened too
    # few times, for an array can stand in an array but no object directly in an object.
    # On a line of its own it may have closed what was opened on a line that is lost.
    at = stop.at
    behind = piece[at + 1 :].lstrip()[:1]
    if piece[at] == "}" and stop.frames[-1].array and piece[:at].rstrip(" \t").endswith("}"):
        return Edit("extra_closer", at, at + 1) if behind in (",", "]") and behind else None
    return None


def _close_inner(piece: str, stop: Stop) -> Edit | None:
    """Put in a closing bracket where only closing brackets follow, down to the outermost.

    Whatever was forgotten among them, the value is the same.
    """
    run = _CLOSERS.match(piece, stop.at)
    if run is None or _may_hold_bracket(piece, stop):
        return None
    rest = [each for each in run[0] if not each.isspace()]
    needed = ["]" if frame.array else "}" for frame in reversed(stop.frames)]
    if rest[-1] != "}" or piece.startswith((",", ":", '"'), run.end()):
        return None
    while needed and rest:
        if needed.pop(0) == rest[0]:
            del rest[0]
    return None if rest or needed else Edit("missing_closer", stop.at, stop.at, _closer(stop))


def _close_all(piece: str, stop: Stop) -> Edit | None:
    """Put in the brackets that are missing at the end, if the last member is whole."""
    if not stop.expected.startswith("','"):
        return None
    end = len(piece[: stop.at].rstrip())
    if piece[end - 1].isdigit():  # who knows whether it was the last one
        return None
    if _may_hold_bracket(piece, stop):
        return None
    missing = "".join("]" if frame.array else "}" for frame in reversed(stop.frames))
    return Edit("missing_closer", end, end, missing)


def _ends_in(piece: str, stop: Stop, characters: str) -> bool:
    """Say whether the string before *stop* ends in one of *characters*, which may belong behind."""
    return stop.after_string and piece[: stop.at].rstrip()[-2:-1] in characters


def _may_hold_bracket(piece: str, stop: Stop) -> bool:
    """Say whether a string before *stop* may have taken in a bracket that stood next to it."""
    last = piece[: stop.at].rstrip(" \t\r\n}]")
    if last.endswith('"') and last[-2:-1] in ("}", "]"):
        return True
    frame = stop.frames[-1]
    opened = frame.array and piece.startswith('"', frame.start + 1)
    return opened and piece.find("]", frame.start, stop.at) >= 0


def _closer(stop: Stop) -> str:
    return "]" if stop.frames[-1].array else "}"
