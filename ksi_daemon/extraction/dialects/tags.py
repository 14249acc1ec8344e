"""Calls in tags, one tag a parameter: the families of tags, and where the text of a value ends.

    <function=write_file>
    <parameter=path>
    a.txt
    </parameter>
    </function>

Nothing in a value is escaped, so it may hold anything, tags too. What is certain:

1.  A closing tag ends a value only if the next parameter, or the end of the call, follows it.
2.  A call of the same family that is begun in a value belongs to it, with all that ends it. So
    does a parameter, but where each tag has a line of its own, only one at the start of a line.
3.  If what ends a call comes once more behind its end, with no other call begun between, then the
    value held such tags and it is not certain where it ends. The call is refused.

What is repaired, where no other tag of the family follows: the closing tags behind the last value,
if what surrounds the call ends there or the writer stopped of its own accord; and the closing tag
of a value of one line, where that of the call stands. A value without a closing tag before the next
parameter could hold what seems to be that parameter, so such a call is refused.

Linear, because a value is searched for tags once, and of calls within calls only MAX_NESTED are
followed: no more than so many blocks can be open at one place.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ksi_daemon.extraction.dialects.base import Fault, Reading
from ksi_daemon.extraction.dialects.framing import past_space, where

__all__ = ["Ended", "Family", "Forms", "Text", "Walk", "last_end"]

MAX_NESTED: Final = 8
MAX_LINE: Final = 1000  # characters of a value that lacks its closing tag
MAX_TAG: Final = 200  # characters of a tag that is cut off

_GROUP_NAME: Final = re.compile(r"\(\?P<\w+>")
_BEHIND: Final = 80  # characters that are searched for the start of a line
_CDATA: Final = "<![CDATA["


class Forms(msgspec.Struct, frozen=True):
    """One family of tags, in regular expressions.

    *call* has a group ``name`` and may have one ``empty``, for a call that ends there; *parameter*
    has ``key`` and may have ``kind``; *parameter_end* may have ``of``, the key again. What begins
    with *call_mark* or *parameter_mark* is such a tag, or a damaged one. *wrappers* are the tags
    that may stand around calls, *gap* what may stand between tags, *bare* where a call without a
    wrapper begins, if not wherever its tag is followed by a parameter or the end. Each but *gap*
    begins with a character as it is. *lines*: each
    tag has a line of its own. *quotes*: a value may stand between ``<![CDATA[`` and ``]]>``.
    """

    call: str
    parameter: str
    parameter_end: str
    call_end: str
    call_mark: str
    parameter_mark: str
    wrappers: tuple[tuple[str, str], ...] = ()
    gap: str = r"\s*+"
    bare: tuple[str, ...] = ()
    lines: bool = False
    quotes: bool = False


class Family:
    """The patterns of one family, made of its *forms*.

    In those that are searched for, each alternative begins with a character and tells by an empty
    group behind it that it was found: so the search passes over plain text at once.
    """

    def __init__(self, forms: Forms) -> None:
        gap, call, parameter, end = forms.gap, forms.call, forms.parameter, forms.call_end
        # A tag that is empty begins nothing, unless it has a line of its own.
        begun = rf"(?<!/>)(?={gap}(?:{forms.parameter_mark}|{end}))"
        alone = r"(?<=/>)(?=[ \t]*+(?:\r?\n|\Z))"
        opened = [re.escape(opening) for opening, _ in forms.wrappers]
        self.forms = forms
        self.call = re.compile(call)
        self.wrapper = re.compile(rf"({'|'.join(opened)}){gap}(?={forms.call_mark})")
        self.next_call = re.compile(rf"{gap}(?={forms.call_mark})")
        self.next = re.compile(rf"{gap}(?:(?P<parameter>{parameter})|(?P<call_end>{end}))")
        self.tag = re.compile(
            rf"{forms.parameter_end}(?P<parameter_end>)|{end}(?P<call_end>)"
            rf"|{parameter}(?P<parameter>)|{call}{begun}(?P<call>)"
        )
        # A text that breaks off in or behind the tag of a parameter, or in any other tag.
        ends = _unnamed(f"{forms.parameter_end}|{end}")
        self.cut = re.compile(
            rf"(?:{forms.parameter_mark}(?:(?!{ends})[^\n]){{0,{MAX_TAG}}}+\s*+)?+"
            rf"(?:[<\]][^>\n]{{0,{MAX_TAG}}}+)?+\Z"
        )
        self.quoted_end = re.compile(_unnamed(rf"\]\]>{gap}{forms.parameter_end}"))
        cut = rf"{forms.call_mark}[^<>\n]*+\Z"
        wrapped = [rf"{tag}{gap}(?:{call}(?!{gap}\{{)|{cut})" for tag in opened]
        bare = forms.bare or (f"{call}{begun}",)
        if "(?P<empty>" in call:
            bare = (*bare, rf"{call[0]}(?<![^\n]{call[0]}){call[1:]}{alone}")
        self.openers = [_unnamed(each) for each in (*wrapped, *bare)]
        # The end of a call, or another one that begins.
        ends = _unnamed(rf"{forms.parameter_end}{gap}(?:{parameter}|{end})")
        self.later = re.compile("|".join([f"{ends}()", *self.openers]), re.MULTILINE)
        self.until = re.compile("|".join([f"{end}()", *self.openers]), re.MULTILINE)
        self.restart = rf"(?:(?:{'|'.join(opened)}){gap})?+{forms.call_mark}"
        self.may_be_empty = "empty" in self.call.groupindex
        self.tells_kind = "kind" in self.tag.groupindex
        self.tells_end = "of" in self.tag.groupindex


class Text(msgspec.Struct, frozen=True):
    """The text of an argument: from *start* to *end*, of *kind* if its tag says so."""

    key: str
    start: int
    end: int
    kind: str | None = None
    quoted: bool = False


class Ended(msgspec.Struct, frozen=True):
    """A call that ends just before *end*: its texts, or why it is refused, and where that is."""

    end: int
    texts: tuple[Text, ...] = ()
    repairs: tuple[str, ...] = ()
    fault: Fault | None = None
    place: int = 0


class _Level(msgspec.Struct):
    """A call that is open: between two values, or in the value that *tag* opened.

    *inner* counts the parameters that are open in the value, *first* is where the first of them
    begins.
    """

    tag: re.Match[str] | None = None
    inner: int = 0
    first: int = -1


class Walk:
    """One call of *family* whose tag begins at *start*, read up to its end.

    *alone*: what is repaired only where no tag follows is repaired wherever that may be.
    """

    def __init__(
        self, family: Family, text: str, start: int, reading: Reading, *, alone: bool = False
    ) -> None:
        self._family = family
        self._text = text
        self._start = start
        self._reading = reading
        self._levels = [_Level()]
        self._texts: list[Text] = []
        self._repairs: list[str] = []
        self._alone = alone
        self._next_tag = -1  # behind the place that was asked for last
        self._unquoted = False  # no CDATA section ends behind here

    def read(self, at: int) -> Ended:
        """Return the call, *at* being the end of its own tag."""
        found: int | Ended = at
        while not isinstance(found, Ended):
            in_value = self._levels[-1].tag is not None
            found = self._go_on_in_value(found) if in_value else self._go_on_between(found)
        return found

    def _go_on_between(self, at: int) -> int | Ended:
        found = self._family.next.match(self._text, at)
        if found is None:
            return self._without_end(at)
        if found["call_end"] is not None:
            return self._close(found.end())
        self._levels[-1] = _Level(found)
        return self._past_quoted(found.end())

    def _go_on_in_value(self, at: int) -> int | Ended:
        tag = self._family.tag.search(self._text, at)
        if tag is None:
            return self._unterminated()
        level = self._levels[-1]
        match tag.lastgroup:
            case "call":
                self._levels.append(_Level())
                return tag.end() if len(self._levels) <= MAX_NESTED else self._too_deep(tag)
            case "call_end":
                return self._end_line(tag) if self._ends_line(level, tag) else tag.end()
        if tag["parameter"] is not None:
            if self._begins_parameter(tag):
                level.inner += 1
                level.first = tag.start() if level.first < 0 else level.first
        elif level.inner:
            level.inner -= 1
        elif self._ends_value(level, tag):
            self._end_value(tag.start())
        return tag.end()

    def _close(self, end: int) -> int | Ended:
        self._levels.pop()
        if self._levels:
            return end
        return Ended(end, tuple(self._texts), tuple(self._repairs))

    def _end_value(self, end: int, *, quoted: bool = False) -> None:
        level = self._levels[-1]
        if len(self._levels) == 1 and level.tag is not None:
            start = level.tag.end() if not quoted else self._quote(level.tag.end())
            kind = level.tag["kind"] if self._family.tells_kind else None
            self._texts.append(Text(level.tag["key"], start, end, kind, quoted))
        self._levels[-1] = _Level()

    def _begins_parameter(self, tag: re.Match[str]) -> bool:
        if not self._family.forms.lines:
            return True
        before = self._text[max(0, tag.start() - _BEHIND) : tag.start()].rstrip(" \t")
        return before.endswith(("\n", ">"))

    def _ends_value(self, level: _Level, tag: re.Match[str]) -> bool:
        """Say whether the closing *tag* is the end of the value of *level*."""
        if self._family.tells_end and level.tag is not None and tag["of"] != level.tag["key"]:
            return False
        if self._family.next.match(self._text, tag.end()):
            return True
        return self._ends_there(tag.end())

    def _ends_there(self, at: int) -> bool:
        """Say whether a call whose end is missing ends at *at*, for certain."""
        at = past_space(self._text, at)
        if at == len(self._text):
            return self._reading.stop_reason == "stop"
        closers = tuple(closer for _, closer in self._family.forms.wrappers)
        return self._text.startswith(closers, at) and self._is_last(at)

    def _ends_line(self, level: _Level, tag: re.Match[str]) -> bool:
        """Say whether the end of the call at *tag* ends the value as well, for certain."""
        if level.tag is None or tag.start() - level.tag.end() > MAX_LINE:
            return False
        value = self._text[level.tag.end() : tag.start()].strip()
        if not value or "\n" in value or self._family.tag.search(value):
            return False
        return self._is_last(tag.end())

    def _end_line(self, tag: re.Match[str]) -> int | Ended:
        opening = self._levels[-1].tag
        if opening is not None and len(self._levels) == 1:
            if not self._reading.repairs:
                message = f"the value of {opening['key'][:40]!r} has no closing tag"
                return self._refused(tag.end(), "malformed_block", message, tag.start())
            self._repairs.append("missing_closer")
        self._end_value(tag.start())
        return self._close(tag.end())

    def _is_last(self, at: int) -> bool:
        """Say whether no tag of the family stands behind *at*, so that none can end the value."""
        if self._alone:
            return True
        if self._next_tag < at:
            found = self._family.tag.search(self._text, at)
            self._next_tag = found.start() if found else len(self._text) + 1
        return self._next_tag > len(self._text)

    def _past_quoted(self, at: int) -> int:
        """Return *at*, or the end of the quoted value that begins there."""
        if not self._family.forms.quotes or self._unquoted:
            return at
        start = past_space(self._text, at)
        if not self._text.startswith(_CDATA, start):
            return at
        found = self._family.quoted_end.search(self._text, start)
        if found is None:
            self._unquoted = True
            return at
        self._end_value(found.start(), quoted=True)
        return found.end()

    def _quote(self, at: int) -> int:
        return past_space(self._text, at) + len(_CDATA)

    def _without_end(self, at: int) -> int | Ended:
        """Go on where neither a parameter nor the end of the call follows."""
        nested = len(self._levels) > 1
        if self._texts and not nested and self._ends_there(at):
            if not self._reading.repairs:
                message = "the end of the call is missing"
                return self._refused(at, "unterminated_block", message, at)
            self._repairs.append("missing_closer")
            return self._close(at)
        if nested:
            self._levels.pop()
            return at
        here = past_space(self._text, at)
        if self._family.cut.match(self._text, here):
            message = "the reply ends within the call"
            return self._refused(len(self._text), "unterminated_block", message, here)
        got = self._text[here : here + 20]
        spot = where(self._text, self._start, here)
        message = f"expected a parameter or the end of the call, got {got!r} at {spot}"
        end = self._family.until.search(self._text, here)
        behind = end.end() if end and end[1] is not None else here
        return self._refused(behind, "malformed_block", message, here)

    def _unterminated(self) -> Ended:
        root, end = self._levels[0], len(self._text)
        tag = root.tag
        assert tag is not None  # between values the text need not go on
        key = tag["key"][:40]
        if root.inner or root.first >= 0:
            spot = where(self._text, self._start, root.first)
            message = (
                f"in the value of {key!r} another parameter begins at {spot}, "
                "so where the value ends is not certain"
            )
            return self._refused(end, "malformed_block", message, root.first)
        cut = "the reply was cut off" if self._reading.stop_reason == "length" else "the reply ends"
        message = f"{cut} in the value of {key!r}, which has no closing tag"
        return self._refused(end, "unterminated_block", message, tag.start())

    def _too_deep(self, tag: re.Match[str]) -> Ended:
        message = f"calls are nested in its values deeper than {MAX_NESTED} levels"
        return self._refused(len(self._text), "depth_limit", message, tag.start())

    def _refused(self, end: int, code: str, message: str, place: int) -> Ended:
        return Ended(end, fault=Fault(code, message), place=place)


def last_end(family: Family, text: str, at: int) -> int:
    """Return where the last of the ends of a call ends that stand behind *at*, -1 if there is none.

    Those behind the beginning of another call do not count.
    """
    last = -1
    while (found := family.later.search(text, at)) and found[1] is not None:
        last = at = found.end()
    return last


def _unnamed(pattern: str) -> str:
    """Return *pattern* without the names of its groups, so that it may stand beside others."""
    return _GROUP_NAME.sub("(?:", pattern).replace("(?:)", "()")
