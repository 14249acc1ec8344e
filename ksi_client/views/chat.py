"""How an exchange with an agent reads while it happens: its text, and its calls as they end.

Theory. The text comes in pieces, of which some may be missing, and once more as a whole when the
model is done. What was shown of the pieces is the beginning of the whole or, rarely, not (a piece
was left out, the provider asked again); then the whole is shown on a new line. The same extractor
that the daemon uses takes the calls out of the text; what becomes of each comes as an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ksi_client.text import Paint, clip, visible
from ksi_client.views import reports
from ksi_client.wire import Ending, Push
from ksi_daemon.events import Event, Piece
from ksi_daemon.extraction import Extractor, Protocol, Text

__all__ = ["Talk"]

_RECORDS: Final = "extraction:"
_GOOD_ENDS: Final = frozenset({"stop", "final"})
# What is left between paragraphs where a call stood.
_GAP: Final = re.compile(r"[ \t]*\n[ \t]*\n\s*")


class Talk:
    """One exchange of *agent_id*, the one that began the story *correlation_id*.

    *seen* is the seq up to which it was told; *request_id* names the exchange once it is known.
    """

    def __init__(
        self, agent_id: str, correlation_id: str, protocol: Protocol, paint: Paint, cells: int
    ) -> None:
        self.seen = 0
        self.request_id: str | None = None
        self._agent_id = agent_id
        self._story = correlation_id
        self._protocol = protocol
        self._paint = paint
        self._cells = cells
        self._under_way: dict[int, Event] = {}
        self._told: set[str] = set()
        self._has_spoken = False
        self._is_line_open = False
        self._begin(0)

    def take(self, push: Push) -> str:
        """Return what is to be written for *push*, often nothing."""
        self.seen = max(self.seen, push.seq)
        if push.text is not None:
            return self._heard(push.text)
        if push.outcome is not None:
            event = self._under_way.pop(push.seq, None)
            return "" if event is None else self._called(event, push.outcome)
        if push.event is None or push.event.correlation_id != self._story:
            return ""
        return self._happened(push.event)

    def end(self, answer: Mapping[str, Any]) -> str:
        """Return what *answer*, the end of the exchange, says beyond what was shown."""
        shown = "" if self._has_spoken else self._spoken(str(answer.get("text") or ""))
        for call in answer.get("calls") or ():
            if call.get("id") not in self._told:
                shown += self._line(reports.called(call, self._paint, self._cells))
        if answer.get("finish_reason") not in _GOOD_ENDS or answer.get("error"):
            shown += self._line(reports.ended(answer, self._paint))
        return shown + self._closed()

    def _happened(self, event: Event) -> str:
        if event.name == "agent:send" and event.agent_id is None:
            self.request_id = event.id
        if event.agent_id != self._agent_id:
            return ""
        if event.name == "completion:result":
            return self._replied(msgspec.json.decode(event.data))
        if event.name == "extraction:rejected" and event.error is not None:
            text = visible(f"✗ {event.error.code}: {event.error.message}")
            return self._line(self._paint(clip(text, self._cells), "magenta"))
        if event.call is None or event.name.startswith(_RECORDS):
            return ""
        if event.status != "received":
            return self._called(event, Ending(event.status, None, event.error))
        self._under_way[event.seq] = event
        return ""

    def _called(self, event: Event, ending: Ending) -> str:
        self._told.add(event.call.id if event.call else "")
        error = None if ending.error is None else msgspec.to_builtins(ending.error)
        told = {"name": event.name, "status": ending.status, "result": ending.result}
        return self._line(reports.called({**told, "error": error}, self._paint, self._cells))

    def _begin(self, turn: int) -> None:
        self._turn = turn
        self._pieces: list[str] = []
        self._extractor = Extractor(self._protocol)
        self._fed_out = 0
        self._space = ""

    def _heard(self, piece: Piece) -> str:
        if (piece.agent_id, piece.request_id) != (self._agent_id, self.request_id):
            return ""
        if piece.turn != self._turn:
            self._begin(piece.turn)
        self._pieces.append(piece.text)
        return self._read(piece.text)

    def _replied(self, data: Mapping[str, Any]) -> str:
        """Return what a whole reply adds to the pieces of it that were heard."""
        text, heard, before = str(data.get("text") or ""), "".join(self._pieces), ""
        if data.get("turn") != self._turn or not text.startswith(heard):
            before = self._closed()
            self._begin(int(data.get("turn") or 0))
            heard = ""
        shown = self._read(text[len(heard) :])
        found = self._extractor.close(data.get("stop_reason"))
        shown += self._spoken(found.residual[self._fed_out :])
        if found.final is not msgspec.UNSET:
            final = found.final
            shown += self._spoken(final if isinstance(final, str) else _json(final))
        self._begin(self._turn)
        return before + shown + self._closed()

    def _read(self, text: str) -> str:
        outcomes: Iterable[object] = self._extractor.feed(text)
        shown = ""
        for outcome in outcomes:
            if isinstance(outcome, Text):
                self._fed_out += len(outcome.text)
                shown += self._spoken(outcome.text)
        return shown

    def _spoken(self, text: str) -> str:
        """Return *text* as it is shown, without the space around and much of it between."""
        text = self._space + text
        kept = text.rstrip()
        self._space = text[len(kept) :]
        if not self._is_line_open:
            kept = kept.lstrip()
        if not kept:
            return ""
        self._has_spoken = self._is_line_open = True
        return visible(_GAP.sub("\n\n", kept), lines=True)

    def _line(self, text: str) -> str:
        return f"{self._closed()}{text}\n"

    def _closed(self) -> str:
        was_open, self._is_line_open = self._is_line_open, False
        return "\n" if was_open else ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
