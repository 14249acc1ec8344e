"""How mistakes read: each one that agents of a story made, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ksi_client.text import Paint, visible
from ksi_client.views.tables import Cell, Column, table
from ksi_daemon.events import Event

__all__ = ["slips"]

_REJECTED: Final = "extraction:rejected"
# Not mistakes: the block was meant to be shown, and was held for that.
_HELD: Final = frozenset({"echo", "quoted"})


def slips(events: Iterable[Event], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a table of the calls that were mended and of those that went back."""
    rows = [row for event in events if (row := _row(event)) is not None]
    if not rows:
        yield "none that it took notice of"
        return
    columns = [Column(name) for name in ("event", "agent", "what came of it", "what was wrong")]
    yield from table(columns, rows, paint=paint, cells=cells)


def _row(event: Event) -> tuple[Cell | str, ...] | None:
    place, who = Cell(f"#{event.seq}", "dim"), Cell(event.agent_id or event.source, "cyan")
    if event.name == _REJECTED and event.error is not None:
        if event.error.code in _HELD:
            return None
        wrong = visible(f"{event.error.code}: {event.error.message}")
        return place, who, Cell("sent back", "magenta"), wrong
    if event.call is not None and event.call.repairs:
        wrong = f"{', '.join(event.call.repairs)} in {event.name}"
        return place, who, Cell(f"mended, {event.status}", "yellow"), wrong
    return None
