"""How calls that wait for a person read: all of them in a table, one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ksi_client.text import Paint, visible
from ksi_client.views.tables import Cell, Column, plain, table

__all__ = ["listed", "shown"]


def listed(
    waiting: Sequence[Mapping[str, Any]], now: datetime, paint: Paint, cells: int
) -> Iterator[str]:
    """Yield a table of what waits at the time *now*."""
    if not waiting:
        yield "nothing waits for a person"
        return
    columns = [Column(name) for name in ("approval", "agent", "event", "left", "data")]
    rows = (
        (
            Cell(plain(each.get("approval_id")), "bold"),
            Cell(plain(each.get("agent_id")), "cyan"),
            plain(each.get("event")),
            Cell(_left(str(each.get("expires")), now), "dim"),
            msgspec.json.encode(each.get("data")).decode(),
        )
        for each in waiting
    )
    yield from table(columns, rows, paint=paint, cells=cells)


def shown(asked: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    """Yield the whole of a call that waits: who would do what, with which data."""
    who, what = visible(plain(asked.get("agent_id"))), visible(plain(asked.get("event")))
    yield f"{paint(who, 'cyan')} asks for {paint(what, 'bold')} with"
    data = msgspec.json.format(msgspec.json.encode(asked.get("data")), indent=2).decode()
    yield visible(data, lines=True)


def _left(expires: str, now: datetime) -> str:
    seconds = int((datetime.fromisoformat(expires) - now).total_seconds())
    return f"{seconds // 60} min" if seconds >= 60 else f"{max(seconds, 0)} s"
