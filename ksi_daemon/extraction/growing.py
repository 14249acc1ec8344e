"""Read a text that is still growing: every step of the batch reader that no more text can change.

The reader of a whole text goes from block to block. Here the same code takes the same steps, each
only when it is *certain*: whatever follows, the reader of the whole text would take it too. So
what was taken equals what it finds, by construction; only certainty has to be shown, and a doubt
costs time and never an answer.

-   An object that was read is certain, for JSON says itself where it ends. But a brace or a member
    right behind a call belongs to it perhaps, so the first visible character there is awaited.
-   An object that stops making sense is certain to be prose when that place is not at the end of
    the text, and so much of what follows has come as a dialect looks at.
-   A broken call is certain when it was mended, or found to be beyond mending, and a line and
    something visible on the next have come behind it.
-   A place where the beginning of an opening mark stands at the end of the text is in doubt.
-   Of a block between marks, its dialect says whether it is certain.

Text before the first doubt is not needed again, and dropped. What is kept of it is the state of
the reader: layout, ids, the calls, and how many braces are open since the last call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.beginnings import beginning, beginning_or_match, either
from ksi_daemon.extraction.dialects import Framed, FramedDialect, Schemas
from ksi_daemon.extraction.extractor import Reply, too_long
from ksi_daemon.extraction.findings import AFTERMATH, EXCERPT
from ksi_daemon.extraction.frames import Frames
from ksi_daemon.extraction.model import Call, Diagnostic, Rejected
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.quoting import Quoting
from ksi_daemon.extraction.reader import Stop, trace
from ksi_daemon.extraction.repair import Mended, Mender
from ksi_daemon.extraction.scanner import AHEAD, BEHIND, Block, Broken, Found, Scanner, Whole, plan

__all__ = ["Doubt", "Growing", "Signs", "signs"]

_AFTERMATH_BEGUN: Final = beginning(AFTERMATH)
_VISIBLE: Final = re.compile(r"\S")
_ANYTHING: Final = re.compile(r"[\s\S]")
_ASCII: Final = tuple(map(chr, range(128)))
# What may stand before a character: one at least of these passes any look behind.
_WITHIN: Final = tuple(" a_0.,:;!?\"'`~@#|/\\<>(){}[]=-*é")
_FIRST: Final = ("", "\n")
_NEVER: Final = re.compile("(?!)")
_LINE: Final = re.compile(r"\n\s*+\S|\*/")
_LINE_END: Final = re.compile(r"\n")
_OPENED: Final = re.compile(r"[{\n]")
# What can only be told when it ends: a number or word that may go on.
_TOKEN_OVER: Final = re.compile(r"[\w.+\-]*+[^\w.+\-]")
# An edit looks no further than to the end of its line, or past brackets, blanks and a fence.
_BEYOND: Final = re.compile(r"[^\n]*+\n[\s}\]`~]*+[^\s}\]`~]")


class Signs(msgspec.Struct, frozen=True):
    """What the dialects of a protocol have a stream look out for.

    *suspect* is a place where a block may begin; *lively* is a character that can begin one.
    *begun* is a place where it depends on text to come whether an opening mark begins; *opener* is
    any opening mark. The last two are a candidate and a second try in doubt, as the scanner knows
    them.
    """

    suspect: re.Pattern[str]
    lively: re.Pattern[str]
    begun: re.Pattern[str]
    opener: re.Pattern[str]
    candidate_begun: re.Pattern[str]
    restart_begun: re.Pattern[str]


class Doubt(msgspec.Struct, frozen=True):
    """The first place of which nothing is certain, and what would help.

    *wake* is worth another look when it is found in what comes, None: the end of the object that
    is open there.
    """

    place: int
    wake: re.Pattern[str] | None


class Growing(Reply):
    """A reply of which more may come. All places are in the text that is left of it."""

    def __init__(
        self, protocol: Protocol, tools: Schemas | None, new_id: Callable[[], str]
    ) -> None:
        super().__init__("", protocol, None, tools, new_id)
        self._signs = signs(protocol.dialects)
        self._at = 0
        self._thought_told = not protocol.open_thought  # whether the text began in a thought
        self._stopped: set[int] = set()  # objects that are open at a stop which is certain

    def extend(self, more: str) -> None:
        self._move(self._text + more, 0)

    def shrink(self) -> int:
        """Drop the text that is not needed again and return how much that was.

        All before the last doubt has been read out by the caller.
        """
        line_end = self._text.rfind("\n", 0, self._at)
        needed = self._quoting.settle(line_end)
        if not self._thought_told and self._quoting.lone_end:
            self._may_be_thought(line_end)
            needed = self._quoting.settle(line_end)
        cut = max(min(needed, self._at - BEHIND) - 1, 0)  # some blocks look at what is before them
        if cut:
            self._count_braces(cut)
            self._move(self._text[cut:], cut)
        return cut

    def advance(self) -> Doubt | None:
        """Take every block that is certain; None if nothing is in doubt up to the end."""
        frames: Frames | None = None
        while not self._is_spent():
            if self._begins_object():
                within = self._advance_objects(self._at + 1)
                if within is not None:
                    return within
                continue
            if frames is None and self._plan.framed:
                frames = self._frames()
            doubt, framed = self._first_frame(frames)
            limit = framed[1].start if framed else doubt.place if doubt else len(self._text)
            within = self._advance_objects(limit)
            if within is not None:
                return within
            if self._is_spent():
                break
            if self._at > limit:
                continue
            self._at = limit
            if framed is None:
                return doubt
            if self._may_be_thought(limit):
                return Doubt(limit, _NEVER)
            self._at = self._take_framed(*framed)
        self._at = len(self._text)
        return None

    def finish(self, stop_reason: str | None) -> None:
        """Read what is left: the text is over."""
        self._stop_reason = stop_reason
        if self._protocol.whole:
            self.read_whole()
        else:
            self.read(self._at)
            thought_until = 0 if self._thought_told else self.thought_end()
            if thought_until:
                self._begin_anew(thought_until)
                self.read(self._at)
        self._at = len(self._text)

    def pass_prose(self) -> None:
        """Take all that is left for prose: the caller has seen that nothing begins in it."""
        self._at = len(self._text)

    def refusal(self, at: int, length: int) -> Rejected:
        """Return the rejection of what is left from *at* on, for the text is *length* long."""
        message = too_long(length, self._protocol.max_reply_chars)
        excerpt = self._text[at : at + EXCERPT]
        return Rejected("size_limit", message, self._first.name, at, length, excerpt)

    def ending(self) -> tuple[Any, str]:
        """Return the content of the final answer, and the thought, as in ``Extraction``."""
        return self._final(), self._thought

    def visible(self, at: int, calls: int, rejected: int) -> Iterator[tuple[int, str]]:
        """Yield each stretch of visible text from *at* on that is certain, and its place.

        *calls* and *rejected* are how many were found before *at*.
        """
        spans = [*self._hidden, (self._at, self._at)]
        spans += [call.span for call in self._calls[calls:]]
        spans += [block.span for block in self._rejected[rejected:]]
        self._hidden.clear()
        for start, end in sorted(spans):
            if at < start:
                yield at, self._text[at:start]
            at = max(at, end)

    @property
    def size(self) -> int:
        """The length of the text that is kept."""
        return len(self._text)

    @property
    def open_text(self) -> str:
        """The text that is in doubt."""
        return self._text[self._at :]

    @property
    def read_up_to(self) -> int:
        """The place before which everything is certain."""
        return self._at

    @property
    def calls(self) -> list[Call]:
        return self._calls

    @property
    def rejected(self) -> list[Rejected]:
        return self._rejected

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._diagnostics

    def _move(self, text: str, cut: int) -> None:
        self._text = text
        self._at -= cut
        self._counted = max(self._counted - cut, 0)
        self._scanner = Scanner(text, self._plan)
        self._quoting.move(text, cut)
        self._mender = self._mender.over(text) if self._mender else None
        self._stopped.clear()

    def _may_be_thought(self, place: int) -> bool:
        """Say whether *place* could be in a thought whose end is still to come."""
        if self._thought_told:
            return False
        self._quoting.at(place)
        end = self._quoting.lone_end
        if end:
            self._quoting = Quoting(self._text, end)
        self._thought_told = end != 0
        return end == 0

    def _begin_anew(self, thought_until: int) -> None:
        """Forget what was found, which is all in the text that is left."""
        for found in (self._calls, self._rejected, self._diagnostics, self._answers, self._hidden):
            found.clear()
        self._ids.clear()
        self._thought, self._unlisted, self._braces, self._counted = "", 0, 0, 0
        self._mender = None
        self._scanner = Scanner(self._text, self._plan)
        self._quoting = Quoting(self._text, thought_until)

    def _begins_object(self) -> bool:
        """Say whether the next thing to read is an object and no block between marks.

        Where an object is open this is all there is to ask, and it is asked again and again.
        """
        text, at = self._text, self._at
        if not (self._plan.dialects and text.startswith("{", at)):
            return False
        return not (self._signs.begun.match(text, at) or self._signs.opener.match(text, at))

    def _first_frame(
        self, frames: Frames | None
    ) -> tuple[Doubt | None, tuple[FramedDialect, Framed] | None]:
        """Return the first block between marks, or the first place where one is in doubt."""
        if frames is None:
            return None, None
        at, end = self._at, len(self._text)
        begun = self._signs.begun.search(self._text, at)
        doubt = Doubt(begun.start(), _ANYTHING) if begun and begun.start() < end else None
        framed = frames.next(at)
        limit = min(framed[1].start if framed else end, doubt.place if doubt else end)
        unsettled = self._unsettled(at, limit)
        if unsettled is not None:
            return unsettled, None
        if framed is None or (doubt is not None and doubt.place <= framed[1].start):
            return doubt, None
        return None, framed

    def _unsettled(self, at: int, limit: int) -> Doubt | None:
        """Return the first opening mark up to *limit* of which a dialect is not sure."""
        text, reading = self._text, self._reading()
        while (found := self._signs.opener.search(text, at)) and found.start() <= limit:
            at = found.start()
            for dialect in self._plan.framed:
                opener = dialect.opener.match(text, at)
                if opener is None:
                    continue
                framed = dialect.frame(text, opener, reading)
                ended = framed is None or framed.end < len(text)
                if not (ended and dialect.settled(text, opener, framed, reading)):
                    closed = dialect.closing and dialect.closing.search(text, opener.end())
                    return Doubt(at, _LINE_END if closed else dialect.closing or _NEVER)
            at += 1
        return None

    def _advance_objects(self, before: int) -> Doubt | None:
        """Take the objects that begin before *before*, up to the first doubt."""
        if not self._plan.dialects:
            return None
        text = self._text
        while not self._is_spent() and (start := text.find("{", self._at, before)) >= 0:
            self._at = start
            if self._signs.candidate_begun.match(text, start):
                return Doubt(start, None)
            if not self._plan.candidate.match(text, start):
                self._at = start + 1
                continue
            found = self._scanner.next(start, start + 1)
            if found is not None and self._may_be_thought(start):
                return Doubt(start, _NEVER)
            doubt = self._object_doubt(start, found)
            if doubt is not None:
                return doubt
            self._at = start + 1 if found is None else self._take(found)
        return None

    def _take(self, found: Found) -> int:
        if isinstance(found, Whole):
            return self._take_object(found.start, found.end, found.value)
        return self._take_odd(found) if isinstance(found, Block) else self._take_broken(found)

    def _object_doubt(self, start: int, found: Found | None) -> Doubt | None:
        if isinstance(found, Broken):
            return self._broken_doubt(found)
        if found is not None:
            return self._end_doubt(start, found.end)
        if start in self._stopped:
            return None
        stop = trace(self._text, start)
        return self._stop_doubt(start, stop, 0) if isinstance(stop, Stop) else None

    def _end_doubt(self, start: int, end: int) -> Doubt | None:
        """Doubt an object whose last brace may be one too many."""
        if self._is_alone(start) and _AFTERMATH_BEGUN.match(self._text, end):
            return Doubt(start, _VISIBLE)
        return None

    def _stop_doubt(self, start: int, stop: Stop, index: int) -> Doubt | None:
        """Doubt the place where an object stops making sense, or what a dialect says to it.

        The object is the frame number *index* of *stop*. Of the innermost one a dialect looks at
        the text ahead.
        """
        text, member = self._text, stop.member
        if stop.ended:
            return Doubt(start, None)
        if not _TOKEN_OVER.match(text, stop.at):
            return Doubt(start, _ANYTHING)
        told = len(text) >= member + AHEAD or text.find("{", member) >= 0
        if not told and index == len(stop.frames) - 1:
            return Doubt(start, _OPENED)
        frames = stop.frames if told else stop.frames[:-1]
        self._stopped.update(frame.start for frame in frames)
        return None

    def _broken_doubt(self, broken: Broken) -> Doubt | None:
        start, text = broken.start, self._text
        doubt = self._stop_doubt(start, broken.stop, broken.index)
        if doubt is not None or self._quoting.at(start) is not None:
            return doubt
        if text.endswith("\\"):  # whether it escapes a quote is not known
            return Doubt(start, _ANYTHING)
        mended, reached = self._tried(broken)
        if mended is not None:
            settled = _BEYOND.match(text, mended.end)
            return self._end_doubt(start, mended.end) if settled else Doubt(start, _LINE)
        end, _ = self._scanner.end_of(broken)
        if self._scanner.hinges_on_rest:
            return Doubt(start, _NEVER)
        if text.startswith("/*", reached) and text.find("*/", reached) < 0:
            return Doubt(start, _LINE)
        begun = self._signs.restart_begun.search(text, broken.stop.member)
        if begun is not None and begun.start() < min(end + 1, len(text)):
            return Doubt(start, _LINE)
        return None if _BEYOND.match(text, max(end, reached)) else Doubt(start, _LINE)

    def _tried(self, broken: Broken) -> tuple[Mended | None, int]:
        """Mend *broken* without spending on it; return also how far it was read."""
        kept = self._mender
        self._mender = trial = (kept or Mender(self._text)).over(self._text)
        mended = self._mended(broken)
        self._mender = kept
        return mended, trial.reached


@lru_cache(maxsize=64)
def signs(names: tuple[str, ...]) -> Signs:
    """Return what a stream looks out for with dialects *names*."""
    wanted = plan(names)
    openers = [dialect.opener for dialect in wanted.framed]
    braces = [re.compile(r"\{")] if wanted.dialects else []
    suspect = either([beginning_or_match(each) for each in (*braces, *openers)])
    lively = _lively(suspect)
    return Signs(
        _guarded(suspect, lively),
        re.compile(lively, re.MULTILINE),
        _guarded(either([beginning(each) for each in openers]), lively),
        _guarded(either(openers), lively),
        beginning(wanted.candidate),
        either([beginning(wanted.restart), beginning(wanted.line_restart)]),
    )


def _guarded(pattern: re.Pattern[str], lively: str) -> re.Pattern[str]:
    """Return *pattern*, tried only where a lively character is: else each place costs them all."""
    return re.compile(rf"(?=(?m:{lively}))(?:{pattern.pattern})")


def _lively(suspect: re.Pattern[str]) -> str:
    """Return a pattern for a character at which *suspect* can match, within a line or first."""
    inside = _class(each for each in _ASCII if _matches(suspect, each, _WITHIN))
    first = _class(each for each in _ASCII if _matches(suspect, each, _FIRST))
    return rf"[{inside}\x80-\U0010ffff]|^[{first}]"


def _matches(suspect: re.Pattern[str], character: str, before: Iterable[str]) -> bool:
    return any(suspect.match(each + character, len(each)) for each in before)


def _class(characters: Iterable[str]) -> str:
    return "".join(map(re.escape, characters)) or "\\x80"
