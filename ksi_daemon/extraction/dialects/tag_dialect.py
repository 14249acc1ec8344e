"""What the dialects of tags with parameters share: from families of tags to calls, and back.

The text of a value is raw: nothing in it is escaped or unescaped. Line breaks that only lay the
tags out do not belong to it: where the family gives each tag a line of its own, one on either
side; elsewhere one on either side if there are both.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Framed,
    FramedDialect,
    Piece,
    Reading,
    is_tool_name,
    listed,
)
from ksi_daemon.extraction.dialects.framing import past_space
from ksi_daemon.extraction.dialects.tags import Ended, Family, Text, Walk, last_end
from ksi_daemon.extraction.dialects.typed import (
    Meant,
    kinds_of,
    read_json,
    read_text,
    write_text,
)

__all__ = ["RAW_VALUES", "TagDialect", "closing_of", "opener_of", "padded", "restart_of"]

RAW_VALUES: Final = (
    "Text stands between the tags as it is: nothing in it is escaped, and it has no quotes around "
    "it. What is no text is written as JSON."
)
_SEVERAL_ENDS: Final = (
    "what ends a call stands here once more, so where the values before it end is not certain"
)


class _Arguments(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    repairs: tuple[str, ...]
    repeated: tuple[str, ...]


class TagDialect(FramedDialect):
    """One way to write calls in tags; *families* are those that are read, the first is written."""

    families: ClassVar[tuple[Family, ...]]

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        start = opener.start()
        family = self._family(opener)
        wrapper = family.wrapper.match(text, start)
        first = wrapper.end() if wrapper else start
        if reading.nested:
            return _every_reading(text, family, first, reading)
        pieces, sound = _pieces(text, family, first, wrapper, reading)
        at = pieces[-1].end
        if not sound:
            return _framed(pieces, start, at)
        opening, closing = _wrapper(text, at, family, wrapper)
        end = past_space(text, at) + len(closing) if closing else at
        if bool(opening) != bool(closing):
            pieces[-1] = _half_wrapped(pieces[-1], opening or closing, reading)
        later = last_end(family, text, end)
        if later >= 0:
            fault = Fault("malformed_block", _SEVERAL_ENDS)
            return Framed(start, later, (Piece(start, later, fault, end),))
        return _framed(pieces, start, end)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        """Say so of a block behind which another call begins: until then its end may come again."""
        if framed is None or framed.end == len(text):
            return False
        return self._family(opener).later.search(text, framed.end) is not None

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        """Return the text of a call.

        A string that would be taken for something else without a schema is written in quotes,
        unless *schemas* says that a string is wanted. Raise ValueError if the texts of *args* hold
        tags in such a way that it would not be certain where they end.
        """
        texts = {
            key: write_text(value, kinds_of(self.schemas, name, key)) for key, value in args.items()
        }
        written = self.laid_out(name, texts)
        if self._texts_in(written, name) != texts:
            raise ValueError(f"the tags of {self.name} cannot hold these arguments of {name!r}")
        return written

    @abstractmethod
    def laid_out(self, name: str, texts: Mapping[str, str]) -> str:
        """Return a call of the tool *name* with *texts* as its arguments."""

    def _family(self, opener: re.Match[str]) -> Family:
        """Return the family whose opener matched: there is a group behind each of them."""
        group = opener.lastindex or 1
        for family in self.families:
            if group <= len(family.openers):
                return family
            group -= len(family.openers)
        raise AssertionError(opener)  # it has no other groups

    def _texts_in(self, written: str, name: str) -> dict[str, Any] | None:
        """Return the texts of the arguments in *written*, None if it is not just that call."""
        opener = self.opener.match(written)
        tools = {name: {"additionalProperties": {"type": "string"}}}
        reading = Reading(strict=True, repairs=False, max_depth=1, tools=tools)
        framed = self.frame(written, opener, reading) if opener else None
        if framed is None or framed.end != len(written) or len(framed.pieces) != 1:
            return None
        draft = framed.pieces[0].draft
        return draft.args if isinstance(draft, Draft) and draft.name == name else None


def opener_of(families: Iterable[Family]) -> re.Pattern[str]:
    """Return the pattern for where a block of any of *families* may begin.

    Behind each of their openers stands an empty group.
    """
    openers = [f"{opener}()" for family in families for opener in family.openers]
    return re.compile("|".join(openers), re.MULTILINE)


def restart_of(families: Iterable[Family]) -> str:
    """Return the pattern for a place at the start of a line where such a block begins."""
    return "|".join(each.restart for each in families)


def closing_of(families: Iterable[Family]) -> re.Pattern[str]:
    """Return the pattern for what ends a call of any of *families*."""
    return re.compile("|".join(each.forms.call_end for each in families))


def padded(text: str) -> str:
    """Return *text* with line breaks around it, if its own would be taken for such."""
    return text if _stripped(text, lines=False) == text else f"\n{text}\n"


def _every_reading(text: str, family: Family, at: int, reading: Reading) -> Framed:
    """Return the call at *at* as it stands, and as it is repaired if nothing follows it."""
    piece, _ = _piece(text, family, at, reading)
    alone, _ = _piece(text, family, at, reading, alone=True)
    pieces = (piece, alone) if alone.repairs and alone != piece else (piece,)
    return Framed(at, max(each.end for each in pieces), pieces)


def _pieces(
    text: str, family: Family, at: int, wrapper: re.Match[str] | None, reading: Reading
) -> tuple[list[Piece], bool]:
    """Return the calls that begin at *at*, several in a wrapper, and whether each has its end."""
    pieces: list[Piece] = []
    while True:
        piece, sound = _piece(text, family, at, reading)
        pieces.append(piece)
        following = family.next_call.match(text, piece.end) if wrapper and sound else None
        if following is None:
            return pieces, sound
        at = following.end()


def _piece(
    text: str, family: Family, at: int, reading: Reading, *, alone: bool = False
) -> tuple[Piece, bool]:
    """Return the call at *at*, and whether it has an end.

    *alone*: it is read as if no tag stood behind it.
    """
    call = family.call.match(text, at)
    if call is None:
        fault = Fault("unterminated_block", "the reply ends in the tag that names the tool")
        return Piece(at, len(text), fault, at), False
    if family.may_be_empty and call["empty"]:
        ended = Ended(call.end())
    else:
        ended = Walk(family, text, at, reading, alone=alone).read(call.end())
    if ended.fault is not None:
        return Piece(at, ended.end, ended.fault, ended.place), False
    name = call["name"].strip()
    if not is_tool_name(name):
        fault = Fault("missing_name", f"the tag must name a tool, got {name!r:.60}")
        return Piece(at, ended.end, fault, at), True
    found = _arguments(text, family, name, ended, reading)
    if isinstance(found, Piece):
        return msgspec.structs.replace(found, start=at), True
    repairs = (*ended.repairs, *found.repairs)
    draft = Draft(name, found.values, None)
    return Piece(at, ended.end, draft, at, repairs, found.repeated), True


def _arguments(
    text: str, family: Family, name: str, ended: Ended, reading: Reading
) -> _Arguments | Piece:
    """Return the arguments of a call of the tool *name*, or the call as it is refused."""
    values: dict[str, Any] = {}
    repairs: list[str] = []
    repeated: list[str] = []
    for each in ended.texts:
        key = each.key.strip()
        found = _meant(text, family, name, each, reading)
        if isinstance(found, Meant) and values.get(key, found.value) != found.value:
            found = Fault("malformed_block", f"{listed([key])} is given twice, with two values")
        if isinstance(found, Fault):
            return Piece(0, ended.end, found, each.start)
        repairs += found.repairs
        repeated += (*found.repeated, *([key] if key in values else []))
        values[key] = found.value
    return _Arguments(values, tuple(dict.fromkeys(repairs)), tuple(dict.fromkeys(repeated)))


def _meant(text: str, family: Family, name: str, each: Text, reading: Reading) -> Meant | Fault:
    """Return what a text stands for: as its tag says, or the schema of the tool, or its look."""
    raw = text[each.start : each.end]
    if each.kind == "true" or (each.quoted and kinds_of(reading.tools, name, each.key) is None):
        return Meant(raw)
    bare = raw if each.quoted else _stripped(raw, lines=family.forms.lines)
    if each.kind == "false":
        found = read_json(bare, reading)
    else:
        found = read_text(bare, kinds_of(reading.tools, name, each.key.strip()), reading)
    if isinstance(found, Fault):
        return Fault(found.code, f"{listed([each.key])}: {found.message}")
    return found


def _stripped(raw: str, *, lines: bool) -> str:
    """Return *raw* without the line breaks that lay out its tags."""
    crlf = raw.startswith("\r\n")
    head = 2 if crlf else int(raw.startswith("\n"))
    tail = 2 if crlf and raw.endswith("\r\n") else int(raw.endswith("\n"))
    if len(raw) < head + tail:
        return raw if not lines else ""
    if not lines and not (head and tail):
        return raw
    return raw[head : len(raw) - tail]


def _wrapper(text: str, at: int, family: Family, wrapper: re.Match[str] | None) -> tuple[str, str]:
    """Return the tags around calls of which the last ends at *at*, "" for one that is missing."""
    at = past_space(text, at)
    for opening, closing in family.forms.wrappers:
        if (wrapper is None or wrapper[1] == opening) and text.startswith(closing, at):
            return wrapper[1] if wrapper else "", closing
    return wrapper[1] if wrapper else "", ""


def _half_wrapped(piece: Piece, tag: str, reading: Reading) -> Piece:
    """Return *piece*, the last of those around which *tag* stands without its counterpart.

    Models leave out the opening one by habit, so nothing needs to be repaired then.
    """
    opened = "</" not in tag
    if isinstance(piece.draft, Fault) or (not opened and not reading.strict):
        return piece
    if opened and reading.repairs:
        repairs = tuple(dict.fromkeys((*piece.repairs, "missing_closer")))
        return msgspec.structs.replace(piece, repairs=repairs)
    code = "unterminated_block" if opened else "malformed_block"
    fault = Fault(code, f"the counterpart of the tag {tag!r} is missing")
    return msgspec.structs.replace(piece, draft=fault, place=piece.end if opened else piece.start)


def _framed(pieces: Sequence[Piece], start: int, end: int) -> Framed:
    """Return the block with *pieces*; what stands around one call is a part of its span."""
    if len(pieces) > 1:
        return Framed(start, end, tuple(pieces))
    [one] = pieces
    if (one.start, one.end) != (start, end):
        one = msgspec.structs.replace(one, start=start, end=end)
    return Framed(start, end, (one,))
