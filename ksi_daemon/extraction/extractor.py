"""Turn a text into calls: what the scanner finds, read by the dialects, under a protocol.

The scanner says where objects are and the dialects what they mean. Here it is decided which of
them fire: layout (quoted blocks do not), limits, ids, policy. The same text under the same
protocol gives the same result, but for the ids that are generated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import getrandbits
from time import time_ns
from typing import Any, Final

from ksi_daemon.extraction.dialects import (
    Answer,
    Dialect,
    Draft,
    Fault,
    Framed,
    ObjectDialect,
    Piece,
    Reading,
    Schemas,
)
from ksi_daemon.extraction.dialects.framing import stopped, where
from ksi_daemon.extraction.dialects.json_action import FORMS
from ksi_daemon.extraction.findings import AFTERMATH, Findings
from ksi_daemon.extraction.frames import Frames
from ksi_daemon.extraction.model import Call, Extraction
from ksi_daemon.extraction.plain import read_plain
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.quoting import Quoting
from ksi_daemon.extraction.reader import control_place, depth_exceeds
from ksi_daemon.extraction.repair import Mended, Mender, may_be_spilt
from ksi_daemon.extraction.scanner import Block, Broken, Scanner, Whole
from ksi_daemon.extraction.whole import Sole, read_whole

__all__ = ["Reply", "extract", "new_call_id", "read_closely", "too_long"]

NEAR: Final = 8  # characters before an object in which a colon stands if it is a member's value
# What a call may hold beside the keys of its dialect.
OWN_KEYS: Final = frozenset({"id", "_k"})


def new_call_id() -> str:
    """Return an id that no other call has: ``ksiu_<milliseconds>_<random>``."""
    return f"ksiu_{time_ns() // 1_000_000}_{getrandbits(48).to_bytes(6).hex()}"


def extract(
    text: str,
    protocol: Protocol,
    *,
    stop_reason: str | None = None,
    tools: Schemas | None = None,
    new_id: Callable[[], str] = new_call_id,
) -> Extraction:
    """Find every call in *text*. Never raises for any text.

    *stop_reason* is the provider's word for why the text ends, None if it is not known. *tools*
    maps the names of tools to the JSON Schemas of their arguments: dialects whose arguments are
    plain text read them by it. *new_id* gives ids to calls that have none.

    Some templates open the model's thought before the reply begins. The tag that closes it then
    stands alone, and where the protocol allows for that, what lies before it is as much a thought
    as if it had been opened in the text.
    """
    plain = read_plain(text, protocol, new_id)
    if isinstance(plain, Extraction):
        return plain
    return read_closely(text, protocol, stop_reason, tools, new_id, plain)


def read_closely(
    text: str,
    protocol: Protocol,
    stop_reason: str | None,
    tools: Schemas | None,
    new_id: Callable[[], str],
    known: Sequence[Call] = (),
) -> Extraction:
    """Do the same place by place, behind the calls *known*."""
    if not protocol.dialects:
        return Extraction(text)
    reply = Reply(text, protocol, stop_reason, tools, new_id)
    if len(text) > protocol.max_reply_chars:
        reply.refuse_long()
    elif protocol.whole:
        reply.read_whole()
    else:
        reply.read(reply.begin_with(known))
        thought_until = reply.thought_end() if protocol.open_thought else 0
        if thought_until:
            reply = Reply(text, protocol, stop_reason, tools, new_id, thought_until)
            reply.read()
    return reply.result()


def too_long(length: int, limit: int) -> str:
    """Return what is said to a reply of *length* characters."""
    return f"the reply has {length} characters, more than the limit of {limit}"


class Reply(Findings):
    """One text while it is read."""

    def __init__(
        self,
        text: str,
        protocol: Protocol,
        stop_reason: str | None,
        tools: Schemas | None,
        new_id: Callable[[], str],
        thought_until: int = 0,
    ) -> None:
        super().__init__(text, protocol, new_id)
        self._strict = protocol.mode == "strict"
        self._scanner = Scanner(text, self._plan)
        self._mender: Mender | None = None  # most texts need none
        self._quoting = Quoting(text, thought_until)
        self._stop_reason = stop_reason
        self._tools = tools

    def begin_with(self, known: Sequence[Call]) -> int:
        """Take the calls *known*, the first ones of the text, and return where the last one ends.

        Nothing but prose is before them.
        """
        for call in known:
            self._quoting.at(call.start)
            self._quoting.pass_over(call.end)
            self._calls.append(call)
            self._ids[call.id] = call
            self._counted = call.end
        return self._counted

    def read(self, at: int = 0) -> None:
        """Read all blocks that begin at *at* or behind it."""
        frames = self._frames()
        while not self._is_spent() and (found := frames.next(at)) is not None:
            dialect, framed = found
            at = self._read_objects(at, framed.start)
            if at <= framed.start:
                at = self._take_framed(dialect, framed)
        self._read_objects(at, len(self._text))
        if self._is_spent():
            self._note("size_limit", "so many blocks: the rest was not read", *self._text_end)
        elif self._unlisted:
            self._note("size_limit", f"{self._unlisted} more blocks were rejected", *self._text_end)

    def read_whole(self) -> None:
        """Read the text as one object, or one command, with nothing beside it."""
        found = read_whole(self._text, self._stop_reason)
        if isinstance(found, Sole):
            self._take_sole(found)
        elif self._text.lstrip().startswith("{") or not self._take_lone_frame():
            fault, place = found
            self._reject(fault.code, fault.message, self._first, 0, len(self._text), place)

    def thought_end(self) -> int:
        """Return where the thought ends in whose middle the text began, 0 if it did not."""
        return self._quoting.thought_end()

    def refuse_long(self) -> None:
        length = len(self._text)
        message = too_long(length, self._protocol.max_reply_chars)
        self._reject("size_limit", message, self._first, 0, length, 0)

    def _take_sole(self, found: Sole) -> None:
        start, end = found.start, found.end
        dialects = self._plan.dialects
        if all(dialect.read(found.value, strict=True) is None for dialect in dialects):
            self._reject("invalid_protocol", FORMS, self._first, start, end, start)
        else:
            self._take_object(start, end, found.value, repeated=found.repeated)

    def _take_lone_frame(self) -> bool:
        """Take the one framed block that the text consists of, and say whether it does."""
        found = self._frames().next(0)
        if found is None:
            return False
        dialect, framed = found
        if self._text[: framed.start].strip() or self._text[framed.end :].strip():
            message = "the reply is one call, with nothing beside it"
            self._reject("extra_text", message, dialect, 0, len(self._text), framed.start)
        else:
            self._take_framed(dialect, framed)
        return True

    def _reading(self) -> Reading:
        limits = self._protocol
        return Reading(
            self._strict, limits.repairs, limits.max_depth, self._stop_reason, self._tools
        )

    def _frames(self) -> Frames:
        return Frames(self._text, self._plan.framed, self._reading())

    def _read_objects(self, at: int, before: int) -> int:
        """Read the objects that begin at *at* or behind it and before *before*.

        Return where the last one ends.
        """
        if not self._plan.dialects:
            return at
        next_found = self._scanner.next
        while at < before and (found := next_found(at, before)) is not None:
            if self._is_spent():
                return before
            if isinstance(found, Whole):
                at = self._take_object(found.start, found.end, found.value)
            else:
                at = self._take_odd(found) if isinstance(found, Block) else self._take_broken(found)
        return at

    def _take_framed(self, dialect: Dialect, framed: Framed) -> int:
        """Deal with a block that has marks around it and return where to go on."""
        shown = self._quoting.at(framed.start)
        self._quoting.pass_over(framed.end)
        if shown is not None:
            self._note_shown(dialect, shown, framed.start, framed.end)
            return framed.end
        self._hidden.append((framed.start, framed.end))
        self._thought = self._thought or framed.thought
        for code, message in framed.notes:
            self._note(code, message, framed.start, framed.end)
        for piece in framed.pieces:
            self._take_piece(dialect, piece)
        return framed.end

    def _take_piece(self, dialect: Dialect, piece: Piece) -> None:
        start, end = piece.start, piece.end
        draft = self._checked(piece.draft, dialect, end - start)
        if isinstance(draft, Fault):
            self._reject(draft.code, draft.message, dialect, start, end, piece.place)
            return
        self._admit(draft, dialect, start, end, piece.repairs)
        if piece.repeated:
            self._note_repeated(piece.repeated, start, end)

    def _take_object(
        self,
        start: int,
        end: int,
        value: dict[str, Any],
        *,
        repairs: tuple[str, ...] = (),
        repeated: tuple[str, ...] = (),
    ) -> int:
        """Deal with an object that could be read and return where to go on."""
        if ":" in self._text[max(0, start - NEAR) : start]:
            beheaded = self._scanner.beheaded(start)
            if beheaded is not None:
                return self._refuse_value(beheaded, start, end)
        if self._plan.members.isdisjoint(value):
            return self._pass_data(start, end, value)
        for dialect in self._plan.dialects:
            draft = dialect.read(value, strict=self._strict)
            if draft is not None:
                break
        else:
            return self._pass_data(start, end, value)
        shown = self._quoting.at(start)
        self._quoting.pass_over(end)
        if shown is not None:
            self._note_shown(dialect, shown, start, end)
            return end
        if isinstance(draft, Answer):
            self._take_answer(draft, start, end)
            return end
        draft = self._checked(draft, dialect, end - start)
        if type(draft) is Draft and self._ended_early(dialect, value, repeated, start, end):
            draft = Fault("malformed_block", "it ends before what belongs to it: a brace too many")
        if isinstance(draft, Fault):
            self._reject(draft.code, draft.message, dialect, start, end, start)
        else:
            self._admit(draft, dialect, start, end, repairs)
            if repeated:
                self._note_repeated(repeated, start, end)
        return end

    def _refuse_value(self, dialect: Dialect, start: int, end: int) -> int:
        """Reject a call that lost its first brace, of which the object here is a member."""
        shown = self._quoting.at(start)
        self._quoting.pass_over(end)
        if shown is not None:
            self._note_shown(dialect, shown, start, end)
        else:
            message = f"a {dialect.name} block lacks the '{{' before its first key"
            self._reject("malformed_block", message, dialect, start, end, start)
        return end

    def _take_answer(self, answer: Answer, start: int, end: int) -> None:
        for code, message in answer.notes:
            self._note(code, message, start, end)
        self._answers.append(answer)
        self._keep_thought(answer.thought, start, end)
        self._hidden.append((start, end))

    def _take_odd(self, block: Block) -> int:
        """Deal with a whole object that is not plain JSON and return where to go on."""
        self._quoting.at(block.start)
        at = self._take_odd_object(block)
        if at == block.end:
            self._quoting.pass_over(at)
        return at

    def _take_odd_object(self, block: Block) -> int:
        if block.depth > self._protocol.max_depth:
            return self._refuse_odd(block, "depth_limit", self._too_deep(), block.start)
        if block.value is None:
            return self._refuse_odd(block, "malformed_block", block.fault or "", block.start)
        if block.control and not self._protocol.repairs:
            place = block.start + control_place(self._text[block.start : block.end])
            spot = where(self._text, block.start, place)
            message = f"a string holds a raw control character at {spot}"
            return self._refuse_odd(block, "malformed_block", message, place)
        repairs = ("control_character",) if block.control else ()
        return self._take_object(
            block.start, block.end, block.value, repairs=repairs, repeated=block.repeated
        )

    def _refuse_odd(self, block: Block, code: str, message: str, place: int) -> int:
        start, end = block.start, block.end
        for dialect in self._plan.dialects:
            if dialect.resembles(block.head):
                shown = self._quoting.at(start)
                if shown is None:
                    self._reject(code, message, dialect, start, end, place)
                else:
                    self._note_shown(dialect, shown, start, end)
                break
        return end

    def _take_broken(self, broken: Broken) -> int:
        """Reject an object that resembles a call, unless it is only shown."""
        start = broken.start
        if self._quoting.at(start) is not None:
            return start + 1
        mended = self._mended(broken)
        if mended is not None:
            self._quoting.pass_over(mended.end)
            return self._take_object(start, mended.end, mended.value, repairs=mended.repairs)
        cut_off = self._stop_reason == "length"
        end, restarted = self._scanner.end_of(broken, cut_off=cut_off)
        while self._text[end - 1].isspace():
            end -= 1
        self._quoting.pass_over(end)
        if len(self._rejected) < self._protocol.max_calls:
            code, message = self._failure(broken, restarted)
            self._reject(code, message, broken.dialect, start, end, min(broken.stop.at, end))
        else:
            self._unlisted += 1
            self._pass_braces(start, end)
        return end

    def _mended(self, broken: Broken) -> Mended | None:
        """Return the object that *broken* was meant to be, if that is certain, and is a call."""
        # A text of so many faults is noise, and each attempt costs.
        if not self._protocol.repairs or len(self._rejected) >= self._protocol.max_calls:
            return None
        complete = self._stop_reason == "stop"
        keys = {*broken.dialect.keys, *OWN_KEYS}
        self._mender = self._mender or Mender(self._text)
        found = self._mender.mend(
            broken.start, len(self._text), keys, complete=complete, stop=broken.stop
        )
        if found is None or broken.dialect.read(found.value, strict=False) is None:
            return None
        if "missing_closer" in found.repairs and self._holds_second_try(broken.start, found.end):
            return None
        return found

    def _holds_second_try(self, start: int, end: int) -> bool:
        """Say whether a call begins a line of the object, which may have been cut off before it."""
        return self._plan.line_restart.search(self._text, start + 1, end) is not None

    def _failure(self, broken: Broken, restarted: bool) -> tuple[str, str]:
        """Return the code and the message of a block that stops making sense."""
        if broken.depth > self._protocol.max_depth:
            return "depth_limit", self._too_deep()
        if restarted:
            return "unterminated_block", "another block begins before this one ends"
        fault = stopped(self._text, broken.start, broken.stop, broken.opens, self._stop_reason)
        return fault.code, fault.message

    def _pass_data(self, start: int, end: int, value: dict[str, Any]) -> int:
        """Pass over an object that is no call, or enter it if the protocol says so."""
        if not self._holds_call(start, end):
            return end
        if self._protocol.descend and not depth_exceeds(value, self._protocol.max_depth):
            return start + 1
        if self._quoting.at(start) is None:
            self._note("nested_call", "a call within other data was not run", start, end)
        self._quoting.pass_over(end)
        return end

    def _holds_call(self, start: int, end: int) -> bool:
        text = self._text
        if text.find("{", start + 1, end) < 0:
            return False
        markers = (marker for dialect in self._plan.dialects for marker in dialect.markers)
        if not any(text.find(marker, start, end) >= 0 for marker in markers):
            return False
        return self._plan.restart.search(text, start + 1, end) is not None

    def _ended_early(
        self,
        dialect: ObjectDialect,
        value: dict[str, Any],
        repeated: tuple[str, ...],
        start: int,
        end: int,
    ) -> bool:
        """Say whether the object may have been closed by a brace within it that is too many."""
        found = AFTERMATH.match(self._text, end)
        if found is None or not self._is_alone(start):
            return False
        if found["brace"] is None or repeated or may_be_spilt(value, {*dialect.keys, *OWN_KEYS}):
            return True
        # Of an object in several lines, the line may be lost on which a member's brace was opened.
        return "\n" in found[0] and self._text.find("\n", start, end) >= 0
