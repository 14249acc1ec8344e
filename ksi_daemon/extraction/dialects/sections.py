"""Read a block of ``ksi_body``: where it ends, and what its sections say.

Raw text may hold anything, so nothing but its fence tells where it ends. A block whose fence might
be another's is rejected whole, for its text would be cut or run on. It is so

-   where a fence with a label begins within it: the next bare fence may be that one's;
-   where a bare fence follows its end that nothing opened: the text may go on to there;
-   where its own is missing.

A line of dashes may also belong to a diff in the text. Where the next line looks like that, the
block is rejected too.

To know where a block ends, MAX_FENCES fences behind its first line are looked at, and no more: the
cost of a text stays proportional to its length. A block of more fences than that is rejected, to
its end.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Framed,
    Piece,
    Reading,
    is_call_id,
    is_tool_name,
    nonce_of,
)
from ksi_daemon.extraction.dialects.framing import (
    Body,
    Unread,
    mend_body,
    past_space,
    read_body,
    where,
)

__all__ = ["DIFF", "KEY", "MAX_FENCES", "MIN_RUN", "RUNS", "SectionsReader", "dashes_in"]

MAX_FENCES: Final = 32
MAX_INDENT: Final = 3  # columns: deeper is Markdown for a text that is shown
MIN_RUN: Final = 3  # of tildes, and of dashes

KEY: Final = "[A-Za-z_][A-Za-z0-9_]*+"
DIFF: Final = "+++ "  # begins the second line of a file's changes; the first one begins with dashes
# The literal at the beginning makes the search fast; the look behind keeps it from beginning anew
# at each character of a long run.
RUNS: Final = ("~~~(?<!~~~~)~*+", "```(?<!````)`*+")

# Without a limit the start of a long line would be sought from each of the marks on it.
_MAX_BLANKS: Final = 64
_TILDES, _BACKTICKS = (re.compile(rf"(?P<run>{run})[ \t]*+(?P<label>[^\n]*+)") for run in RUNS)
_CALL: Final = re.compile(r"(?:ksi[ \t]|tool_call\b)")
_HEAD: Final = re.compile(
    r"[ \t]++(?P<name>[^\s`{]++)"
    r"(?:[ \t]++id=(?P<quote>[\"']?+)(?P<id>[^\s\"'`]++)(?P=quote))?+[ \t]*+\r?"
)
_SECTION: Final = re.compile(
    rf"\n {{0,{MAX_INDENT}}}+(?P<dashes>-{{3,}}+)[ \t]++(?P<key>{KEY})[ \t]*+\r?(?=\n|\Z)"
)

_SHARED_LINE: Final = Fault("fence_not_alone", "the opening fence must begin its line")
_FIRST_LINE: Final = Fault(
    "fence_not_alone",
    "the first line must hold an event name and perhaps id=..., and nothing else",
)
_NO_NAME: Final = Fault("missing_name", "the first line must name an event, such as 'state:set'")
_TILDES_ONLY: Final = Fault("malformed_block", "the fence must be of tildes, as in '~~~ksi'")
_INDENTED: Final = Fault("malformed_block", "the block must begin at the margin")
_EMPTY: Final = Fault("empty_block", "the block holds no object and no section")
_OF_A_DIFF: Final = (
    "'--- {key}' may be a line of a diff: put more dashes before the arguments' names"
)
_EXPECTED: Final = "an object, a line '--- name' or the closing line"


class _Fence(msgspec.Struct, frozen=True, gc=False):
    """A line that begins with *length* tildes or backticks; the first of them is at *run*."""

    start: int
    run: int
    end: int
    length: int
    columns: int
    label: str

    @property
    def begins_call(self) -> bool:
        return _CALL.match(self.label) is not None


class _Extent(msgspec.Struct, frozen=True):
    """Where the text of a block ends, and the block; *fault* at *place*: this is not certain."""

    text_end: int
    end: int
    fault: Fault | None = None
    place: int = 0


class SectionsReader:
    """The block that may begin at *opener*, which has the groups ``run`` and ``head``."""

    def __init__(self, text: str, opener: re.Match[str], reading: Reading) -> None:
        indent = _indent(text, opener.start())
        self._columns = None if indent is None else _columns(indent)
        self._text = text
        self._opener = opener
        self._reading = reading
        self._run: str = opener["run"]
        self._start = opener.start()
        self._body = opener.end()
        # What a stream wants to know: where the last thing ends that was looked at to tell whether
        # this is a block, and whether the text ends before the block does.
        self._known = self._body
        self._is_open = False

    def frame(self) -> Framed | None:
        """Return the block, None if its fence is prose, or no more than a fence around events."""
        first_line: str = self._opener["head"]
        if not first_line.strip():
            return self._unnamed()
        head = _HEAD.match(first_line)
        if head is None or head.end() < len(first_line):
            return self._misshapen(head.end() if head else 0)
        return self._in_a_line() if self._columns is None else self._headed(head)

    def settled(self, framed: Framed | None) -> bool:
        """Say whether ``frame``, which returned *framed*, would do so however the text goes on.

        A block is settled when behind it another one begins: until then a fence may follow that
        makes its end doubtful.
        """
        if self._is_open:
            return False
        if framed is None:
            return self._text.find("\n", past_space(self._text, self._known)) >= 0
        fence = next(self._fences(framed.end), None)
        return fence is not None and fence.begins_call and self._text.find("\n", fence.end) >= 0

    def _object(self, at: int) -> Body | Unread:
        body = read_body(self._text, at, self._reading)
        self._known = body.end
        if isinstance(body, Unread) and body.stop is not None and body.stop.ended:
            self._is_open = True
        return body

    def _unnamed(self) -> Framed | None:
        at = past_space(self._text, self._body)
        at = self._object(at).end if self._text.startswith("{", at) else self._body
        return self._refused(self._reach(at), _NO_NAME) if self._section_at(at) else None

    def _misshapen(self, length: int) -> Framed | None:
        """Return the block of which no more than *length* of its first line is as it should be."""
        text, at = self._text, self._opener.start("head") + length
        fault = _SHARED_LINE if self._columns is None else _FIRST_LINE
        if text.startswith("{", at):
            return self._refused(self._past_object(at), fault, at)
        return None if self._columns is None else self._refused(self._reach(at), fault, at)

    def _in_a_line(self) -> Framed | None:
        """Return the block that begins in the middle of a line, None if it is talked about."""
        at = past_space(self._text, self._body)
        if self._text.startswith("{", at):
            return self._refused(self._past_object(at), _SHARED_LINE)
        if self._section_at(self._body):
            return self._refused(self._reach(self._body), _SHARED_LINE)
        return None

    def _headed(self, head: re.Match[str]) -> Framed:
        """Return the block whose first line is *head*."""
        text, name_at = self._text, self._opener.start("head") + head.start("name")
        if (self._columns or 0) > MAX_INDENT:
            return self._refused(self._extent(self._body).end, _INDENTED)
        if self._run[0] != "~":
            return self._refused(self._extent(self._body).end, _TILDES_ONLY)
        if not is_tool_name(head["name"]):
            return self._refused(self._extent(self._body).end, _NO_NAME, name_at)
        at = past_space(text, self._body)
        if not text.startswith("{", at):
            return self._filled(head, None, self._body)
        body = self._object(at)
        if isinstance(body, Unread):
            resumed = self._resumed(body)
            mended = self._mended(at, body, resumed)
            if mended is None:
                return self._refused(self._extent(resumed).end, body.fault, body.place)
            body = mended
        return self._filled(head, body, body.end)

    def _resumed(self, body: Unread) -> int:
        """Return where fences count again: behind the object, or where another call begins.

        The string before the stop may have taken the first quote of that call for its end.
        """
        if body.stop is None or not body.stop.after_string:
            return body.end
        inner = self._fences(body.stop.member, body.stop.at)
        return next((fence.start for fence in inner if fence.begins_call), body.end)

    def _mended(self, at: int, body: Unread, resumed: int) -> Body | None:
        """Return the object at *at* if it can be told what fills the lines up to the next mark."""
        if body.stop is None:
            return None
        fence = next(self._fences(resumed), None)
        limit = fence.start if fence else len(self._text)
        section = _SECTION.search(self._text, resumed, limit)
        limit = section.start() if section else limit
        complete = limit < len(self._text) or self._reading.stop_reason == "stop"
        return mend_body(self._text, at, limit, self._reading, keys=None, complete=complete)

    def _filled(self, head: re.Match[str], body: Body | None, at: int) -> Framed:
        """Return the block whose sections begin at *at*, or which has none."""
        first = self._section_at(at)
        if first is None:
            return self._without_sections(head, body, at)
        extent = self._extent(at)
        if extent.fault is not None:
            return self._refused(extent.end, extent.fault, extent.place)
        args = dict(body.value) if body else {}
        for mark, value in self._sections(first, extent.text_end):
            key = mark["key"]
            if key in args:
                fault = Fault("malformed_block", f"{key!r} is given twice")
                return self._refused(extent.end, fault, mark.start("dashes"))
            if mark is not first and value.startswith(DIFF):
                fault = Fault("malformed_block", _OF_A_DIFF.format(key=key))
                return self._refused(extent.end, fault, mark.start("dashes"))
            args[key] = value
        return self._framed(head, args, body, extent.end)

    def _without_sections(self, head: re.Match[str], body: Body | None, at: int) -> Framed:
        after = past_space(self._text, at)
        if body is not None and self._lacks_only_fence(at, after):
            repairs = tuple(dict.fromkeys((*body.repairs, "missing_closer")))
            body = Body(body.end, body.value, repairs, body.repeated)
            return self._framed(head, body.value, body, body.end)
        extent = self._extent(at)
        if after < extent.text_end:
            got = repr(self._text[after])
            fault = Fault("malformed_block", f"expected {_EXPECTED}, got {got}")
            return self._refused(extent.end, fault, after)
        if extent.fault is not None:
            return self._refused(extent.end, extent.fault, extent.place)
        if body is None:
            return self._refused(extent.end, _EMPTY, after)
        return self._framed(head, body.value, body, extent.end)

    def _lacks_only_fence(self, at: int, after: int) -> bool:
        """Say whether a block without sections must be over at *after*, where its fence is not."""
        if not self._reading.repairs:
            return False
        if after == len(self._text):
            return self._reading.stop_reason == "stop"
        fence = next(self._fences(at), None)
        return fence is not None and fence.begins_call and fence.start <= after

    def _sections(self, first: re.Match[str], end: int) -> Iterator[tuple[re.Match[str], str]]:
        """Yield the mark of each section and its text; the last one ends at *end*."""
        marks = [first]
        for mark in _SECTION.finditer(self._text, first.end(), end):
            if mark["dashes"] == first["dashes"]:
                marks.append(mark)
        stops = [*(mark.start() for mark in marks[1:]), end - 1]
        line_end = "\r" if self._opener["head"].endswith("\r") else ""
        for mark, stop in zip(marks, stops, strict=True):
            yield mark, self._text[mark.end() + 1 : stop].removesuffix(line_end)

    def _section_at(self, at: int) -> re.Match[str] | None:
        """Return the mark of the section that is the next thing behind *at*."""
        newline = self._text.rfind("\n", at, past_space(self._text, at))
        return _SECTION.match(self._text, newline) if newline >= 0 else None

    def _past_object(self, at: int) -> int:
        """Return where a block ends that is not read, whose object begins at *at*."""
        body = self._object(at)
        if isinstance(body, Unread):
            return self._extent(self._resumed(body)).end
        return self._reach(body.end)

    def _reach(self, at: int) -> int:
        """Return where a block ends that is not read, of which something ends at *at*."""
        if self._section_at(at):
            return self._extent(at).end
        line_end = self._text.find("\n", at)
        line_end = len(self._text) if line_end < 0 else line_end
        fence = next(self._fences(line_end, most=MAX_FENCES), None)
        closed = fence is not None and not fence.label and self._run not in self._text[at:line_end]
        return fence.end if fence and closed else line_end

    def _extent(self, at: int) -> _Extent:
        """Return where the block ends of which something ends at *at*."""
        fences = islice(self._fences(at), MAX_FENCES)
        begun: list[_Fence] = []
        ended = 0
        for fence in fences:
            if fence.label:
                begun.append(fence)
            else:
                ended += 1
            if ended > len(begun):
                return self._closed(fence, next(iter(begun), None), _stray(fences))
        return self._unclosed(begun, ended)

    def _closed(self, closing: _Fence, inner: _Fence | None, stray: _Fence | None) -> _Extent:
        odd = inner or stray
        if odd is None or self._reading.nested:
            return _Extent(closing.start, closing.end)
        place = where(self._text, self._start, odd.start)
        message = f"at {place} is a fence as long as the block's: put more tildes around the block"
        end = (stray or closing).end
        return _Extent(closing.start, end, Fault("malformed_block", message), odd.start)

    def _unclosed(self, begun: list[_Fence], ended: int) -> _Extent:
        self._is_open = True
        end = len(self._text)
        known = len(begun) + ended < MAX_FENCES and self._reading.stop_reason != "length"
        if known:
            end = next((fence.start for fence in begun if fence.begins_call), end)
        fault = Fault("unterminated_block", f"the closing line {self._run[:40]!r} is missing")
        return _Extent(end, end, fault, end)

    def _fences(
        self, at: int, end: int | None = None, *, most: int | None = None
    ) -> Iterator[_Fence]:
        """Yield the lines from *at* to *end* that begin with a fence as long as the block's.

        Look at no more than *most* lines that begin with any fence.
        """
        pattern = _TILDES if self._run[0] == "~" else _BACKTICKS
        deepest = max(MAX_INDENT, self._columns or 0)
        fences = _fences(self._text, pattern)
        first = bisect_left(fences, at, key=attrgetter("run"))
        stop = len(fences) if most is None else min(len(fences), first + most)
        for index in range(first, stop):
            fence = fences[index]
            if end is not None and fence.run >= end:
                return
            if fence.length >= len(self._run) and fence.columns <= deepest:
                yield fence

    def _framed(
        self, head: re.Match[str], args: dict[str, Any], body: Body | None, end: int
    ) -> Framed:
        id = head["id"] if is_call_id(head["id"]) else None
        draft = Draft(head["name"], args, id, nonce_of(id) if id else None)
        repairs, repeated = (body.repairs, body.repeated) if body else ((), ())
        piece = Piece(self._start, end, draft, self._start, repairs, repeated)
        return Framed(self._start, end, (piece,))

    def _refused(self, end: int, fault: Fault, place: int | None = None) -> Framed:
        while self._text[end - 1].isspace():
            end -= 1
        place = self._start if place is None else min(place, end)
        return Framed(self._start, end, (Piece(self._start, end, fault, place),))


def dashes_in(text: str) -> Iterator[str]:
    """Yield the dashes of each line of *text* that could begin a section."""
    return (mark["dashes"] for mark in _SECTION.finditer(f"\n{text}"))


# A text may hold many blocks, and each asks for the fences behind it.
@lru_cache(maxsize=2)
def _fences(text: str, pattern: re.Pattern[str]) -> tuple[_Fence, ...]:
    """Return the lines of *text* that begin with a fence."""
    found: list[_Fence] = []
    for mark in pattern.finditer(text):
        indent = _indent(text, mark.start())
        if indent is not None:
            start, run, end = mark.start() - len(indent), mark.start(), mark.start("label")
            length, columns, label = len(mark["run"]), _columns(indent), mark["label"].strip()
            found.append(_Fence(start, run, end, length, columns, label))
    return tuple(found)


def _stray(fences: Iterator[_Fence]) -> _Fence | None:
    """Return the last of *fences*, up to where a call begins, that ends what none began."""
    depth, stray = 0, None
    for fence in fences:
        if fence.begins_call and not depth:
            break
        if fence.label:
            depth += 1
        elif depth:
            depth -= 1
        else:
            stray = fence
    return stray


def _indent(text: str, at: int) -> str | None:
    """Return the blanks between the start of the line and *at*, None if anything else is there."""
    before = text[max(0, at - _MAX_BLANKS) : at]
    rest = before.rstrip(" \t")
    return before[len(rest) :] if rest.endswith("\n") or len(before) - len(rest) == at else None


def _columns(indent: str) -> int:
    return len(indent.expandtabs())
