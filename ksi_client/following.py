"""How a client keeps its place: in the log while it follows it, and in time while it retries.

Values and arithmetic only. The async and the blocking client both move through these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ksi_client.wire import Answer, Ending, Frame, Push
from ksi_daemon.events import Event

__all__ = ["Cursor", "pauses"]

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0


def pauses(patience_s: float) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt, doubling, *patience_s* in all."""
    pause, left = FIRST_PAUSE_S, patience_s
    while left > 0:
        yield min(pause, left)
        left -= pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


class _Begun(msgspec.Struct):
    last_seq: int


class Cursor:
    """The place of one subscription in the log, over any number of connections.

    Theory. Events come in seq order, so the last seq handed on says which to skip and where to
    resume. Outcomes do not: they name an event that came earlier. The events that had not ended
    when they came are therefore remembered, and a new connection resumes before the first of
    them: seen again in the backlog, an event that has ended meanwhile yields its outcome, and
    all else that was handed on before is dropped.
    """

    def __init__(
        self, patterns: str | Iterable[str], *, after_seq: int | None, include: Iterable[str]
    ) -> None:
        self._patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        self._include = tuple(include)
        self._last = after_seq
        self._open: set[int] = set()

    def data(self) -> dict[str, Any]:
        """Return the data of the ``monitor:subscribe`` that goes on from here."""
        data: dict[str, Any] = {"patterns": self._patterns, "include": self._include}
        if self._last is not None:
            data["after_seq"] = min(self._open, default=self._last + 1) - 1
        return data

    def begun(self, answer: Answer) -> None:
        """Take note of where a subscription without a starting place began."""
        if self._last is None:
            self._last = answer.read(_Begun).last_seq

    def take(self, frame: Frame) -> Push | None:
        """Return what *frame* brings, or None if it was handed on before."""
        if frame.seq is None:
            return None
        if frame.text is not None:
            return Push(frame.seq, text=frame.text)
        if frame.event is not None:
            return self._event(frame.seq, frame.event)
        if frame.outcome is not None and frame.seq in self._open:
            self._open.discard(frame.seq)
            return Push(frame.seq, outcome=frame.outcome)
        return None

    def _event(self, seq: int, event: Event) -> Push | None:
        ended = event.status != "received"
        if self._last is None or seq > self._last:
            self._last = seq
            if not ended and "outcomes" in self._include:
                self._open.add(seq)
            return Push(seq, event=event)
        if ended and seq in self._open:
            self._open.discard(seq)
            return Push(seq, outcome=Ending(event.status, None, event.error, event.duration_ms))
        return None
