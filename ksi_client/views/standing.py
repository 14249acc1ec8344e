"""How rules and timers read: what sets each off, what it does, how often it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ksi_client.durations import spoken
from ksi_client.text import Paint, visible
from ksi_client.views.tables import Cell, Column, plain, table

__all__ = ["due", "rules", "timers"]


def rules(
    rows: Sequence[Mapping[str, Any]], now: datetime, paint: Paint, cells: int
) -> Iterator[str]:
    """Yield a table of rules at the time *now*."""
    if not rows:
        yield "no rules; ksi rules add makes one"
        return
    columns = [Column(name) for name in ("rule", "made by", "on", "does")]
    columns += [Column("fired", right=True), Column("left"), Column("if, and with")]
    yield from table(columns, (_rule(row, now) for row in rows), paint=paint, cells=cells)


def timers(
    rows: Sequence[Mapping[str, Any]], now: datetime, paint: Paint, cells: int
) -> Iterator[str]:
    """Yield a table of timers at the time *now*."""
    if not rows:
        yield "no timers; ksi timers set makes one"
        return
    columns = [Column(name) for name in ("timer", "made by", "in", "every", "does")]
    columns += [Column("fired", right=True), Column("with")]
    yield from table(columns, (_timer(row, now) for row in rows), paint=paint, cells=cells)


def due(made: Mapping[str, Any]) -> str:
    """Return what is said of a timer that was set."""
    moment = datetime.fromisoformat(str(made["due"])).astimezone()
    return f"set {visible(plain(made['name']))}, due {moment:%Y-%m-%d %H:%M:%S}"


def _rule(row: Mapping[str, Any], now: datetime) -> tuple[Cell | str, ...]:
    left = _until(row["expires"], now) if row.get("expires") else "-"
    parts = [_json(row[key]) for key in ("condition", "mapping") if row.get(key)]
    return (
        Cell(plain(row.get("name")), "bold"),
        Cell(plain(row.get("agent_id")), "cyan"),
        plain(row.get("pattern")),
        _does(row.get("target")),
        _fired(row),
        Cell(left, "dim"),
        Cell(" → ".join(parts) or "-", "dim"),
    )


def _timer(row: Mapping[str, Any], now: datetime) -> tuple[Cell | str, ...]:
    every = row.get("every_s")
    return (
        Cell(plain(row.get("name")), "bold"),
        Cell(plain(row.get("agent_id")), "cyan"),
        _until(row.get("due"), now),
        "-" if every is None else spoken(every),
        _does(row.get("target")),
        _fired(row),
        Cell(_json(row.get("data") or {}), "dim"),
    )


def _does(target: Any) -> str:
    return f"tell {plain(target.get('agent'))}" if isinstance(target, dict) else plain(target)


def _fired(row: Mapping[str, Any]) -> str:
    most = row.get("max_fires")
    return plain(row.get("fires")) if most is None else f"{plain(row.get('fires'))} of {most}"


def _until(moment: Any, now: datetime) -> str:
    return spoken((datetime.fromisoformat(str(moment)) - now).total_seconds())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
