"""Find the objects in a text that could be calls. The one hard file: its theory first.

A *candidate* is an opening brace that begins an object: what follows it is a whole first member,
or the opening of the first member with a key that calls have. Prose and code fail this at once.

1.  Candidates are tried in order. Where one can be read as an object, it claims its whole span:
    objects nested in it and braces in its strings are never candidates.
2.  Where reading stops at a place e, the text from the candidate to e is a correct beginning of
    JSON. So of the candidates between the two, in the same parity of quotes,

    -   those still open at e would stop at e as well: they are *doomed*, and remembered as such,
    -   those closed before e are whole: they are tried in their turn and succeed,

    and those which the failed reading took for text within a string are of the other parity.
    These are tried afresh. A stray brace or quote in prose therefore hides nothing that follows.
3.  A doomed object that *resembles* a call is broken: it is rejected as a whole, up to where its
    brackets balance, and nothing within it can fire. One that does not is prose.
4.  A broken object that never balances ends where another call begins: at the start of a line
    wherever that is, even within what seems a string (the string was never closed), in the
    middle of a line only where no value can stand. Failing that it ends with the text. But where
    a brace behind that call closes one that was open before it, the writer went on with the
    object, and the call is an example that one of its strings quotes without escapes.

Why this is linear. A candidate needs a quote of its own next to its brace, so the test of its
first member overlaps only the next few candidates. By 2, failed readings of the same parity are
disjoint, and so are successful ones; there are two parities (three with escapes). Each broken
object consumes the text over which its end was sought. What would be quadratic is avoided:

-   The C scanner counts newlines from the start of the text for its error message, and does not
    bound the depth it descends to before it fails. After MAX_FAILURES failures the text is noise
    or hostile: from then on only candidates are tried, and traced before they are read.
-   Nesting deeper than the C stack is traced without recursion.
-   Nothing looks ahead further than AHEAD characters, or behind further than BEHIND.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from ksi_daemon.extraction.braces import Braces
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.dialects.base import QUOTE, FramedDialect, Head, ObjectDialect
from ksi_daemon.extraction.reader import (
    KEY,
    SCALAR,
    STRING,
    WS,
    Closed,
    Stop,
    read_odd,
    scan,
    trace,
)

__all__ = ["AHEAD", "BEHIND", "Block", "Broken", "Plan", "Scanner", "Whole", "plan"]

MAX_FAILURES: Final = 8
AHEAD: Final = 256
NEAR: Final = 64  # characters before a brace that tell whether a value can stand there
BEHIND: Final = 512

_NOTHING: Final = "(?!)"  # a pattern that matches nowhere
_COMMENT: Final = r"(?:(?://|\#)[^\n{]*+\n|/\*[^*{]*+\*/)"
_VALUE_BEGUN: Final = "(?=[\"'‘“{\\[])"  # behind a key that lost its colon
_PIECE: Final = re.compile(
    r"""(?P<string> "(?:[^"\\]++|\\.)*+(?:"|\Z) )
      | (?P<open> [{\[] )
      | (?P<close> [}\]] )
      | \n[ \t]*+(?=```|~~~)  # a fence cannot stand between the pieces of an object
    """,
    re.VERBOSE | re.DOTALL,
)
_VALUE_PLACE: Final = re.compile(rf"{QUOTE}\s*+:\s*+\Z|\[\s*+\Z")
_BARE_VALUE_PLACE: Final = re.compile(r"[\w\"'‘’“”]\s*+:\s*+\Z|\[\s*+\Z")


class Whole(msgspec.Struct, frozen=True, gc=False):
    """An object of plain JSON."""

    start: int
    end: int
    value: dict[str, Any]


class Block(msgspec.Struct, frozen=True):
    """An object that ends where it should and is not plain JSON.

    *value* is None, and *fault* says why, if it cannot be used. *head* serves to tell whether it
    was meant for a call. *repeated* and *control* are as in ``reader.Odd``.
    """

    start: int
    end: int
    value: dict[str, Any] | None
    fault: str | None
    head: Head
    depth: int
    repeated: tuple[str, ...] = ()
    control: bool = False


class _Doomed(msgspec.Struct, frozen=True, gc=False):
    """An object that is open where *stop* is, as its frame number *index*."""

    stop: Stop
    index: int


class Broken(msgspec.Struct, frozen=True, gc=False):
    """An object that resembles a call of *dialect* and stops making sense at ``stop.at``.

    It is the frame number *index* of *stop*.
    """

    start: int
    dialect: ObjectDialect
    stop: Stop
    index: int

    @property
    def depth(self) -> int:
        """How many brackets are open where it stops, its own among them."""
        return len(self.stop.frames) - self.index

    @property
    def opens(self) -> list[bool]:
        """Whether each of these brackets is an array's, outermost first."""
        return [frame.array for frame in self.stop.frames[self.index :]]


Found: TypeAlias = Whole | Block | Broken


class Plan(msgspec.Struct, frozen=True):
    """What the dialects of a protocol have the scanner look for.

    *dialects* are those that write objects, *framed* those that write marks around them.
    *candidate* is a brace that may begin an object, *restart* one that begins a call, and
    *line_restart* a call that begins a line. *headless* are the first members of a call whose
    brace was lost, from the start of a line up to the brace of a member. *members* are the keys
    of calls, *keys* the same as they are written.
    """

    dialects: tuple[ObjectDialect, ...]
    framed: tuple[FramedDialect, ...]
    candidate: re.Pattern[str]
    restart: re.Pattern[str]
    line_restart: re.Pattern[str]
    headless: re.Pattern[str]
    members: frozenset[str]
    keys: frozenset[str]


@lru_cache(maxsize=64)
def plan(names: tuple[str, ...]) -> Plan:
    """Return the plan for dialects *names*, in their order of precedence."""
    known = [DIALECTS[name] for name in names]
    dialects = tuple(each for each in known if isinstance(each, ObjectDialect))
    framed = tuple(each for each in known if isinstance(each, FramedDialect))
    keys = sorted({key for dialect in dialects for key in dialect.keys})
    words = "|".join(map(re.escape, keys)) or _NOTHING
    openings = "|".join(dialect.opening for dialect in dialects) or _NOTHING
    opening = rf"\{{{WS}(?:{openings})"
    restarts = "|".join([opening, *(each.restart for each in framed)])
    candidate = (
        rf"\{{{WS}(?:{STRING}{WS}:{WS}(?:[{{\[]|{SCALAR}{WS}[,}}])"
        rf"|(?:{_COMMENT}{WS})*+(?:{QUOTE}{{0,2}}+(?:{words})\b{QUOTE}{{0,2}}+{WS}:"
        rf"|{QUOTE}(?:{words}){QUOTE}{WS}{_VALUE_BEGUN}))"
    )
    return Plan(
        dialects,
        framed,
        re.compile(candidate),
        re.compile(opening),
        re.compile(rf"\n[ \t]*+({restarts})"),
        re.compile(rf"^[ \t]*+((?:{openings})(?:{WS}(?:{STRING}|[:,]))*+){WS}\{{?\Z", re.MULTILINE),
        frozenset(keys),
        frozenset(f'"{key}"' for key in keys),
    )


class Scanner:
    """The objects of one text, each asked for in turn."""

    def __init__(self, text: str, plan: Plan) -> None:
        self._text = text
        self._plan = plan
        self._failures = 0
        self._doomed: dict[int, _Doomed | None] = {}  # None: and cannot resemble a call
        self._line_restart = 0, 0  # sought from, found at
        self._next_start = 0, -1  # a candidate: the same
        self._braces: Braces | None = None  # most texts need none
        self.hinges_on_rest = False  # whether all of the text decided where an object ends

    def next(self, at: int, before: int | None = None) -> Found | None:
        """Return the first object that begins at *at* or behind it, and before *before*.

        None stands for the end of the text; nothing behind that gives None.
        """
        text = self._text
        if before is None:
            before = len(text)
        while self._failures < MAX_FAILURES:
            start = text.find("{", at, before)
            if start < 0:
                return None
            found = self._read(start)
            if found is not None:
                return found
            at = start + 1
        return self._next_candidate(at, before)

    def _next_candidate(self, at: int, before: int) -> Found | None:
        """Do the same in a text that is noise or hostile, where most braces begin nothing."""
        while (start := self._candidate(at)) < before:
            found = self._spoilt(start) if start in self._doomed else self._traced(start)
            if found is not None:
                return found
            at = start + 1
        return None

    def end_of(self, broken: Broken, *, cut_off: bool = False) -> tuple[int, bool]:
        """Return where *broken* ends, and whether it is another call that ends it.

        Of a text that was *cut off* a string may go on to the end, with all that seems to be a
        call in it: a document of which an example is a part.
        """
        restart = self._cut_string(broken)
        if restart is not None:
            return (len(self._text), False) if cut_off else (restart, True)
        if self._text.startswith(("```", "~~~"), broken.stop.at):
            return broken.stop.at, False
        opens = broken.opens
        for piece in _PIECE.finditer(self._text, broken.stop.resume):
            start = piece.start()
            match piece.lastgroup:
                case "string":
                    restart = self._next_line_restart(start)
                    if start < restart < piece.end() and self._is_second_try(restart, quoted=True):
                        return (len(self._text), False) if cut_off else (restart, True)
                case "open":
                    if self._restarts(start, opens, broken.stop):
                        return start, True
                    opens.append(piece[0] == "[")
                case "close":
                    opens.pop()
                    if not opens:
                        return piece.end(), False
                case _:
                    return start, False
        return len(self._text), False

    def _candidate(self, at: int) -> int:
        """Return the first candidate at *at* or behind it; the end of the text if there is none."""
        sought, found = self._next_start
        if not sought <= at <= found:
            match = self._plan.candidate.search(self._text, at)
            found = match.start() if match else len(self._text)
            self._next_start = at, found
        return found

    def _read(self, start: int) -> Found | None:
        if start in self._doomed:
            return self._spoilt(start) if self._is_candidate(start) else None
        try:
            value, end = scan(self._text, start)
        except (StopIteration, ValueError, RecursionError):
            self._failures += 1
            return self._traced(start) if self._is_candidate(start) else None
        if value:
            return Whole(start, end, value)
        # An empty object can be no call, and nothing is in it.
        self._failures += 1
        return None

    def _is_candidate(self, start: int) -> bool:
        return self._plan.candidate.match(self._text, start) is not None

    def _traced(self, start: int) -> Found | None:
        """Return the object at the candidate *start*.

        If it breaks, all objects that are open there are doomed.
        """
        found = trace(self._text, start, self._plan.keys)
        if isinstance(found, Closed):
            return self._closed(start, found)
        for index, frame in enumerate(found.frames[1:], 1):
            if not frame.array:
                told = frame.head or index == len(found.frames) - 1
                self._doomed[frame.start] = _Doomed(found, index) if told else None
        return self._broken(start, found, 0)

    def _closed(self, start: int, found: Closed) -> Whole | Block:
        text, end = self._text, found.end
        if found.head is None and text.find("\\u", start, end) < 0:
            # Without any key that calls have it is data, whatever else it holds.
            if found.depth == 1 and text.find("\n", start, end) < 0:
                return Whole(start, end, {})
            return Block(start, end, {}, None, Head({}, ""), found.depth)
        piece = text[start:end]
        try:
            return Whole(start, end, scan(piece, 0)[0])
        except (StopIteration, ValueError, RecursionError):
            odd = read_odd(piece)
        head = Head(found.head or {}, "")
        return Block(start, end, odd.value, odd.fault, head, found.depth, odd.repeated, odd.control)

    def _spoilt(self, start: int) -> Broken | None:
        """Return the doomed object at the candidate *start* if it resembles a call."""
        doomed = self._doomed[start]
        return self._broken(start, doomed.stop, doomed.index) if doomed else None

    def _broken(self, start: int, stop: Stop, index: int) -> Broken | None:
        """Return the object that is frame number *index* of *stop* if it resembles a call."""
        innermost = index == len(stop.frames) - 1
        head = Head(stop.frames[index].head or {}, self._ahead(stop.member) if innermost else "")
        for dialect in self._plan.dialects:
            if dialect.resembles(head):
                return Broken(start, dialect, stop, index)
        return None

    def _ahead(self, at: int) -> str:
        brace = self._text.find("{", at, at + AHEAD)
        return self._text[at : at + AHEAD if brace < 0 else brace]

    def _restarts(self, brace: int, opens: list[bool], stop: Stop) -> bool:
        """Say whether the brace outside a string begins a call of its own.

        After an unescaped quote nobody knows what is text, so then only the start of a line is
        trusted.
        """
        if not self._plan.restart.match(self._text, brace):
            return False
        before = self._text[max(0, brace - NEAR) : brace]
        if stop.after_string and not before.rstrip(" \t").endswith("\n"):
            return False
        if opens[-1] and before.rstrip().endswith(","):
            return False
        # Where one key has no quotes, others will not have them either.
        place = _BARE_VALUE_PLACE if stop.expected == KEY else _VALUE_PLACE
        return place.search(before) is None and self._is_second_try(brace, quoted=False)

    def _cut_string(self, broken: Broken) -> int | None:
        """Return the brace that cuts off the string before the stop, if one does.

        The string was never closed, so it took the first quote of the next call for its end.
        """
        if not broken.stop.after_string:
            return None
        restart = self._next_line_restart(broken.stop.member)
        cuts = restart < broken.stop.at and self._is_second_try(restart, quoted=True)
        return restart if cuts else None

    def beheaded(self, start: int) -> ObjectDialect | None:
        """Return the dialect whose call lost its first brace, if the object at *start* is in it."""
        near = max(0, start - BEHIND)
        if near and self._text.find("\n", near, start) < 0:
            return None
        head = self._plan.headless.search(self._text, near, start + 1)
        if head is None:
            return None
        told = Head({}, head[1])
        return next((each for each in self._plan.dialects if each.resembles(told)), None)

    def _is_second_try(self, restart: int, *, quoted: bool) -> bool:
        """Say whether the object that is open at *restart* was given up there.

        *quoted*: a string of it seems to be open.
        """
        self.hinges_on_rest = True
        if self._braces is None:
            self._braces = Braces(self._text)
        return not self._braces.close_more(restart, quoted=quoted)

    def _next_line_restart(self, at: int) -> int:
        """Return the first brace behind *at* that begins a call at the start of a line."""
        sought, found = self._line_restart
        if not sought <= at < found:
            match = self._plan.line_restart.search(self._text, at)
            found = match.start(1) if match else len(self._text)
            self._line_restart = at, found
        return found
