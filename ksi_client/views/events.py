"""How an event reads: one line of a log, and the marks for how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from ksi_client.text import Color, Paint, clip, pad, visible, width
from ksi_client.views.tables import GAP, Cell
from ksi_client.wire import Push
from ksi_daemon.events import ErrorInfo, Event, Status

__all__ = ["LogLine", "duration", "headline", "mark", "outcome", "summary"]

# Room for a number of six digits, an agent's id, a usual event name.
_SEQ, _TIME, _WHO, _NAME = 7, 12, 16, 22
_NARROW: Final = 90
# How much of a megabyte is looked at to fill a line.
_ENOUGH: Final = 2_000


# The field that says what an event is about, where the data hold more than that.
_TELLING: Final = {
    "agent:send": "message",
    "completion:result": "text",
    "extraction:rejected": "text",
}


class Mark(NamedTuple):
    """A status as a sign and a colour."""

    sign: str
    color: Color


_MARKS: Final[dict[Status, Mark]] = {
    "received": Mark("…", "dim"),
    "handled": Mark("✓", "green"),
    "failed": Mark("✗", "red"),
    "timeout": Mark("✗", "red"),
    "denied": Mark("⊘", "yellow"),
    "unknown": Mark("?", "yellow"),
    "rejected": Mark("✗", "magenta"),
    "lost": Mark("!", "red"),
}


class LogLine:
    """Lines of a log, in columns that stand still however long it grows."""

    def __init__(self, paint: Paint, cells: int) -> None:
        self._paint = paint
        self._cells = cells
        self._name = max(_NAME, cells // 4)

    def push(self, push: Push) -> str:
        """Return the line for an event or for the outcome of an earlier one."""
        if push.event is not None:
            return self.event(push.event)
        if push.outcome is None:
            return ""
        status, error = push.outcome.status, push.outcome.error
        end = Cell(outcome(status, push.outcome.duration_ms, error), "dim")
        return self._line(self._place(push.seq, None), status, [], [end])

    def event(self, event: Event) -> str:
        """Return the line for *event*: seq, time, sign, name, who, what went wrong, data."""
        who = clip(visible(event.agent_id or event.source), _WHO)
        columns = [
            Cell(pad(clip(visible(event.name), self._name), _NAME), "bold"),
            Cell(pad(who, _WHO), "cyan"),
        ]
        rest = [Cell(summary(event), "dim" if event.error else "")]
        if event.error is not None:
            rest.insert(0, Cell(_error(event.error), _MARKS[event.status].color))
        return self._line(self._place(event.seq, event.ts), event.status, columns, rest)

    def _place(self, seq: int, ts: datetime | None) -> list[Cell]:
        """Return the cells for where and when; a narrow terminal goes without the time."""
        place = [Cell(pad(f"#{seq}", _SEQ, right=True), "dim")]
        if self._cells >= _NARROW:
            clock = f"{ts.astimezone():%H:%M:%S.%f}"[:_TIME] if ts is not None else ""
            place.append(Cell(pad(clock, _TIME), "dim"))
        return place

    def _line(
        self, place: list[Cell], status: Status, columns: list[Cell], rest: list[Cell]
    ) -> str:
        """Return the cells in a line; those of *rest* share the room that is left."""
        left = self._cells - 2 - sum(width(cell.text) + len(GAP) for cell in (*place, *columns))
        for cell in rest:
            text = clip(cell.text, left)
            columns.append(Cell(text, cell.color))
            left -= width(text) + len(GAP)
        where, what = _joined(place, self._paint), _joined(columns, self._paint)
        return f"{where}{GAP}{mark(status, self._paint)} {what}".rstrip()


def mark(status: Status, paint: Paint) -> str:
    """Return the sign of *status*."""
    sign, color = _MARKS[status]
    return paint(sign, color)


def headline(event: Event, paint: Paint, cells: int, *, about: bool = True) -> str:
    """Return *event* in one line: sign, seq, name, who, how it ended, and its ``summary``.

    Without *about* the summary is left out. The line is clipped to *cells* at its summary.
    """
    end = Cell(_ended(event), "dim" if event.status == "handled" else _MARKS[event.status].color)
    seq = paint(f"#{event.seq}", "dim")
    columns = [
        Cell(visible(event.name), "bold"),
        Cell(visible(event.agent_id or event.source), "cyan"),
        Cell(clip(end.text, max(cells // 2, 20)), end.color),
    ]
    used = width(f"? #{event.seq}")
    used += sum(len(GAP) + width(cell.text) for cell in columns if cell.text)
    about_it = clip(summary(event), cells - used - len(GAP)) if about else ""
    columns.append(Cell(about_it, "dim"))
    return f"{mark(event.status, paint)} {seq}{GAP}{_joined(columns, paint)}".rstrip()


def outcome(status: Status, duration_ms: float | None, error: ErrorInfo | None) -> str:
    """Return how an event ended as a sentence: the status, how long it took, why."""
    words: list[str] = [status]
    if duration_ms is not None:
        words.append(f"in {duration(duration_ms)}")
    if error is None:
        return " ".join(words)
    if error.code == status:
        words[0] = _error(error)
        return " ".join(words)
    return f"{' '.join(words)}, {_error(error)}"


def duration(ms: float) -> str:
    """Return a time in the unit in which it is read best."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 1000:
        return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s"


def summary(event: Event) -> str:
    """Return what *event* is about in one visible line.

    For a reply of a model its text, for a message the message, otherwise the beginning of the
    data as JSON, empty for ``{}``.
    """
    telling = _TELLING.get(event.name)
    if telling is not None:
        data = msgspec.json.decode(event.data)
        if isinstance(data.get(telling), str):
            return visible(data[telling][:_ENOUGH].strip())
    text = bytes(event.data)[:_ENOUGH].decode("utf-8", "ignore")
    return "" if text == "{}" else visible(text)


def _joined(cells: Iterable[Cell], paint: Paint) -> str:
    return GAP.join(paint(cell.text, cell.color) for cell in cells if cell.text)


def _ended(event: Event) -> str:
    """Return how *event* ended, in short if it ended well."""
    if event.status == "handled":
        return "" if event.duration_ms is None else duration(event.duration_ms)
    return outcome(event.status, event.duration_ms, event.error)


def _error(error: ErrorInfo) -> str:
    return visible(f"{error.code}: {error.message}")
