"""Find the calls in a text that comes in pieces: each as soon as nothing behind it can change it.

What is found equals what ``extract`` finds in the whole text, however it is cut: ``growing`` has
the argument. Here it is decided when to look again. A text that is looked at again with each piece
costs the square of its length, so looks are paid for (``watch``). In prose, which is most of a
reply, nothing is looked at but the new piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import msgspec

from ksi_daemon.extraction.dialects import Schemas
from ksi_daemon.extraction.extractor import new_call_id
from ksi_daemon.extraction.growing import Growing, signs
from ksi_daemon.extraction.model import Call, Diagnostic, Extraction, Rejected
from ksi_daemon.extraction.presets import Protocol
from ksi_daemon.extraction.watch import Watch

__all__ = ["Extractor", "Outcome", "Text"]

BATCH: Final = 1 << 12  # characters of prose that are put aside before their layout is read


class Text(msgspec.Struct, frozen=True):
    """Visible text: a stretch of the reply that belongs to no call and to no rejected block."""

    text: str
    start: int
    end: int


Outcome: TypeAlias = Text | Call | Rejected | Diagnostic

_Found = TypeVar("_Found", Call, Rejected, Diagnostic)


class Extractor:
    """The reader of one text that comes in pieces.

    ``feed`` returns what has become certain, in the order of the text; none of it is ever taken
    back. ``close`` returns the result for the whole text, equal to that of ``extract``; what was
    fed out before is a part of it, ids included. Visible text is fed out without markup: put
    together, it is the beginning of the residual.

    A call in JSON is certain when its last brace has come and the first visible character behind
    it, which could make that brace one too many. A block that is open, or in doubt, is held back
    together with what follows it until it ends or the text does. Where a reply must be one object
    and nothing else (strict ``json_action``), all waits for ``close``.

    One difference to ``extract`` there must be. A text above ``max_reply_chars`` is refused whole
    by that; here it is refused from the first place on that was not fed out.

    Memory: what was found, and the text of the block or line that is open.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        tools: Schemas | None = None,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._protocol = protocol
        self._growing = Growing(protocol, tools, new_id)
        self._signs = signs(protocol.dialects)
        self._waits_for_end = protocol.whole
        self._watch = Watch()
        self._pieces: list[str] = []  # that came behind the text that was looked at
        self._waiting = 0  # their length
        self._last = ""  # character
        self._length = 0  # of all that was fed
        self._gone = 0  # of the text that was dropped
        self._told = 0  # the place before which everything was fed out
        self._visible: list[str] = []
        self._calls: list[Call] = []
        self._rejected: list[Rejected] = []
        self._diagnostics: list[Diagnostic] = []
        self._result: Extraction | None = None

    def feed(self, chunk: str) -> tuple[Outcome, ...]:
        """Take the next piece of the text and return what it makes certain.

        Raise ValueError behind ``close``.
        """
        length = self._length + len(chunk)
        if self._waits_for_end or not chunk or length > self._protocol.max_reply_chars:
            return self._put_aside(chunk)
        self._length = length
        self._pieces.append(chunk)
        self._waiting += len(chunk)
        before, self._last = self._last, chunk[-1]
        watch = self._watch
        if watch.is_idle:
            if not self._may_begin_block(before + chunk, len(before)):
                return (self._pass_prose(chunk),)
            watch.wake()
        else:
            watch.see(chunk, length - self._told)
        return self._look() if watch.may_look(self.kept, length) else ()

    def close(self, stop_reason: str | None = None) -> Extraction:
        """Return all that was found; the text is over. *stop_reason* is as for ``extract``."""
        if self._result is None:
            if self._is_too_long():
                self._refuse_rest()
            else:
                self._extend()
                self._growing.finish(stop_reason)
                self._tell()
            self._waits_for_end = True
            self._result = Extraction(
                "".join(self._visible),
                tuple(self._calls),
                tuple(self._rejected),
                tuple(self._diagnostics),
                *self._growing.ending(),
            )
        return self._result

    @property
    def kept(self) -> int:
        """How many characters of the text are kept: those of the block or line that is open."""
        return self._growing.size + self._waiting

    def _put_aside(self, chunk: str) -> tuple[Outcome, ...]:
        """Take a piece of which nothing can become certain before the end."""
        if self._result is not None:
            raise ValueError("the text is closed")
        if not self._is_too_long():
            self._pieces.append(chunk)
            self._waiting += len(chunk)
        self._length += len(chunk)
        self._waits_for_end = self._waits_for_end or self._is_too_long()
        return ()

    def _may_begin_block(self, text: str, at: int) -> bool:
        signs = self._signs
        return signs.lively.search(text, at) is not None and (
            signs.suspect.search(text, at) is not None
        )

    def _is_too_long(self) -> bool:
        return self._length > self._protocol.max_reply_chars

    def _pass_prose(self, chunk: str) -> Text:
        start, self._told = self._told, self._length
        self._visible.append(chunk)
        if self._waiting >= max(BATCH, self._growing.size):
            self._extend()
            self._growing.pass_prose()
            self._gone += self._growing.shrink()
        return Text(chunk, start, self._length)

    def _extend(self) -> None:
        self._growing.extend("".join(self._pieces))
        self._pieces.clear()
        self._waiting = 0

    def _look(self) -> tuple[Outcome, ...]:
        """Take what has become certain, and note what is in doubt now."""
        self._extend()
        doubt = self._growing.advance()
        found = self._tell()
        self._watch.turn(doubt, self._growing.open_text)
        self._gone += self._growing.shrink()
        return found

    def _tell(self) -> tuple[Outcome, ...]:
        """Return what the last steps found, in the order of the text."""
        growing, gone = self._growing, self._gone
        start = self._told - gone
        found: list[Outcome] = [
            Text(text, gone + at, gone + at + len(text))
            for at, text in growing.visible(start, len(self._calls), len(self._rejected))
        ]
        self._visible += (each.text for each in found if isinstance(each, Text))
        found += _moved(self._diagnostics, growing.diagnostics, gone)
        found += _moved(self._calls, growing.calls, gone)
        found += _moved(self._rejected, growing.rejected, gone)
        self._told = gone + growing.read_up_to
        return tuple(sorted(found, key=lambda each: each.start))

    def _refuse_rest(self) -> None:
        self._extend()
        refusal = self._growing.refusal(self._told - self._gone, self._length)
        self._rejected.append(msgspec.structs.replace(refusal, start=self._told))


def _moved(known: list[_Found], found: list[_Found], gone: int) -> list[_Found]:
    """Add to *known* what of *found* is new, *gone* characters further on, and return that."""
    new = [
        msgspec.structs.replace(each, start=each.start + gone, end=each.end + gone)
        for each in found[len(known) :]
    ]
    known += new
    return new
