"""Find the blocks in a text that have marks around them, for the dialects that are not JSON alone.

A dialect is looked for only where one of its markers stands in the text. Most texts hold none, and
that must not cost a search for each of the many: markers are kept by their rarest character, and
where that is missing none of them is looked for.

Each opening mark is read once. A dialect is sought on only when the last block that it gave lies
behind, so the cost is that of the text, however many dialects there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

import msgspec

from ksi_daemon.extraction.dialects import Framed, FramedDialect, Reading

__all__ = ["Frames", "frames", "hints", "may_begin", "present"]

# By how seldom they are met in prose and in JSON.
RARE: Final = "｜▁@~<[`>|_"
_second: Final = itemgetter(1)
ONE_SEARCH: Final = 4  # from so many markers on, one search for all is faster than one for each
FEW: Final = 16  # hits of a character that cost less to look at than a search for a longer text
SPARSE: Final = 32  # characters of text for each hit, from which on single searches are faster


class _Watch(msgspec.Struct, frozen=True):
    """Markers that share their rarest *character*, "" if they have none that is rare.

    *owners* are, by marker, the dialects that it speaks for, *shared* is what all of these markers
    begin with. *pattern* finds any of them.
    """

    character: str
    shared: str
    owners: dict[str, frozenset[FramedDialect]]
    pattern: re.Pattern[str] | None


class Frames:
    """The framed blocks of one text, asked for at places that only move forward."""

    def __init__(self, text: str, dialects: Sequence[FramedDialect], reading: Reading) -> None:
        self._text = text
        self._reading = reading
        self._openers = {
            dialect: _openers(text, dialect) for dialect in present(text, tuple(dialects))
        }
        self._found: dict[FramedDialect, Framed] = {}
        self._rank = {dialect: rank for rank, dialect in enumerate(dialects)}

    def next(self, at: int) -> tuple[FramedDialect, Framed] | None:
        """Return the first block that begins at *at* or behind it.

        Of two that begin at one place, that of the dialect which comes first.
        """
        for dialect in list(self._openers):
            self._seek(dialect, at)
        if not self._found:
            return None
        return min(self._found.items(), key=lambda found: (found[1].start, self._rank[found[0]]))

    def _seek(self, dialect: FramedDialect, at: int) -> None:
        found = self._found.get(dialect)
        if found is not None and found.start >= at:
            return
        self._found.pop(dialect, None)
        for opener in self._openers[dialect]:
            if opener.end() <= at:
                continue
            framed = dialect.frame(self._text, opener, self._reading)
            if framed is not None and framed.start >= at:
                self._found[dialect] = framed
                return
        del self._openers[dialect]


def present(text: str, dialects: tuple[FramedDialect, ...]) -> list[FramedDialect]:
    """Return those of *dialects*, in their order, that have a marker in *text*."""
    found: set[FramedDialect] = set()
    for watch in _watches(dialects):
        if watch.character not in text:
            continue
        if watch.pattern is None:
            if watch.shared and not _may_hold(text, watch):
                continue
            for marker, owners in watch.owners.items():
                if marker in text:
                    found |= owners
        else:
            _collect(text, watch, watch.pattern, found)
    return [dialect for dialect in dialects if dialect in found] if found else []


@lru_cache(maxsize=64)
def hints(dialect: FramedDialect) -> tuple[str, ...]:
    """Return texts, one at least of which stands where a block of *dialect* begins."""
    return tuple(dialect.begins or set(map(_rarest, dialect.markers)))


def may_begin(text: str, start: int, end: int, dialects: Sequence[FramedDialect]) -> bool:
    """Say whether a block of *dialects* may begin between *start* and *end* of *text*."""
    return any(_may_begin(text, start, end, dialect) for dialect in dialects)


def _may_begin(text: str, start: int, end: int, dialect: FramedDialect) -> bool:
    opener = dialect.opener
    if not start and opener.match(text):
        return True
    found = [(hint, at) for hint in hints(dialect) if (at := text.find(hint, start, end)) >= 0]
    before = found and not dialect.begins  # it may begin before the hint
    if before and any(text.find(marker, start, end) >= 0 for marker in dialect.markers):
        return True
    for hint, at in found:
        for _ in range(FEW):
            if opener.match(text, at):
                return True
            at = text.find(hint, at + 1, end)
            if at < 0:
                break
        else:
            return True  # perhaps: to look at more would cost more than a closer look
    return False


def frames(
    text: str, dialects: Sequence[FramedDialect], reading: Reading
) -> Iterator[tuple[FramedDialect, Framed]]:
    """Yield every block of *dialects*, also those that stand in others."""
    for dialect in present(text, tuple(dialects)):
        for opener in _openers(text, dialect):
            framed = dialect.frame(text, opener, reading)
            if framed is not None:
                yield dialect, framed


def _openers(text: str, dialect: FramedDialect) -> Iterator[re.Match[str]]:
    """Yield what ``finditer`` of the opener would: at the characters that it can begin with."""
    opener = dialect.opener
    first = dialect.begins
    if not first:
        yield from opener.finditer(text)
        return
    # The characters are those behind others; at the start of the text there may be a match too.
    found = opener.match(text)
    end = 0
    if found is not None:
        yield found
        end = max(found.end(), 1)
    if sum(map(text.count, first)) * SPARSE > len(text):
        yield from _guarded(opener, first).finditer(text, end)
        return
    for at in _places(text, first, end):
        if at >= end and (found := opener.match(text, at)) is not None:
            end = max(found.end(), at + 1)
            yield found


@lru_cache(maxsize=256)
def _guarded(opener: re.Pattern[str], characters: str) -> re.Pattern[str]:
    """Return *opener*, tried only at one of *characters*: else each place costs all of it."""
    return re.compile(f"(?=[{re.escape(characters)}])(?:{opener.pattern})", opener.flags)


def _may_hold(text: str, watch: _Watch) -> bool:
    """Say whether a marker of *watch* may be in *text*; surely not, if its few signs are none."""
    markers = tuple(watch.owners)
    at = text.find(watch.shared)
    for _ in range(FEW):
        if at < 0 or text.startswith(markers, at):
            return at >= 0
        at = text.find(watch.shared, at + 1)
    return True


def _places(text: str, characters: str, start: int) -> Iterator[int]:
    """Yield each place from *start* on where one of *characters* stands, in order."""
    following = {each: at for each in characters if (at := text.find(each, start)) >= 0}
    while following:
        character, at = min(following.items(), key=_second)
        yield at
        following[character] = text.find(character, at + 1)
        if following[character] < 0:
            del following[character]


def _collect(text: str, watch: _Watch, pattern: re.Pattern[str], found: set[FramedDialect]) -> None:
    """Add to *found* the dialects that the markers in *text* speak for, until that is all."""
    missing = frozenset[FramedDialect]().union(*watch.owners.values()) - found
    at = 0
    while missing and (match := pattern.search(text, at)):
        owners = watch.owners[match[0]]
        found |= owners
        missing -= owners
        at = match.start() + 1


@lru_cache(maxsize=64)
def _watches(dialects: tuple[FramedDialect, ...]) -> tuple[_Watch, ...]:
    markers = {marker for dialect in dialects for marker in dialect.markers}
    groups: dict[tuple[str, bool], list[str]] = {}
    for marker in sorted(markers, key=lambda each: (-len(each), each)):
        rarest = _rarest(marker)
        groups.setdefault((rarest, marker[0] == rarest), []).append(marker)
    return tuple(_watch(*key, group, dialects) for key, group in groups.items())


def _watch(
    character: str, leads: bool, markers: list[str], dialects: tuple[FramedDialect, ...]
) -> _Watch:
    # A marker within a longer one is met wherever that one is.
    owners = {
        marker: frozenset(
            dialect for dialect in dialects if any(each in marker for each in dialect.markers)
        )
        for marker in markers
    }
    # Only a pattern that begins with a literal is found fast.
    together = leads and len(markers) >= ONE_SEARCH
    pattern = re.compile("|".join(map(re.escape, markers))) if together else None
    return _Watch(character, _common_beginning(markers), owners, pattern)


def _rarest(marker: str) -> str:
    """Return the character of *marker* that is seldom met elsewhere, *marker* if there is none."""
    return next((each for each in RARE if each in marker), marker)


def _common_beginning(markers: list[str]) -> str:
    # Whatever all share, the first and the last in alphabetical order share.
    first, last = min(markers), max(markers)
    differs = (at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1)
    return first[: next(differs, len(first))]
