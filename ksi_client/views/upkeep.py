"""How the care of the log reads: checks, copies, what was deleted, what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ksi_client.text import Paint, visible
from ksi_client.views.tables import Cell, Column, table
from ksi_daemon.log.backup import Copied
from ksi_daemon.log.salvage import Repaired
from ksi_daemon.log.size import LogSize, Share
from ksi_daemon.log.verification import Verdict

__all__ = ["copied", "pruned", "repaired", "size", "verdict"]

# So many names and agents are shown; JSON has all.
MOST = 12


def verdict(found: Verdict, paint: Paint) -> Iterator[str]:
    """Yield what a check of the chain found."""
    since = f"after #{found.after_seq}" if found.after_seq else "from the first on"
    checked = f"{found.events:,} events and {found.outcomes:,} outcomes {since}"
    if found.bad_seq is not None:
        yield f"{paint('✗ damaged', 'red')} at event #{found.bad_seq}: {found.why}"
        yield f"sound before it: {checked}"
        return
    yield f"{paint('✓ sound', 'green')}  {checked}"
    yield f"head  #{found.seq}  {found.hash}"


def copied(found: Copied) -> Iterator[str]:
    """Yield what was copied where."""
    yield f"{visible(found.path)}  up to #{found.last_seq}, {_bytes(found.bytes)}, checked"
    yield f"head  #{found.last_seq}  {found.hash}"
    if found.kept is not None:
        yield f"the log that was there: {visible(found.kept)}"


def pruned(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was deleted, or would be."""
    if "would_delete" in found:
        yield f"{found['would_delete']:,} events would be deleted"
    elif not found["events"]:
        yield "nothing to delete"
    else:
        smaller = f"; the file is {_bytes(found['bytes'])} smaller" if found["bytes"] else ""
        yield f"deleted {found['events']:,} events, up to #{found['through_seq']}{smaller}"


def repaired(found: Repaired) -> Iterator[str]:
    """Yield what was saved of a damaged log."""
    rows = ", ".join(f"{count:,} {name}" for name, count in found.saved.items() if count)
    yield f"saved: {rows or 'nothing'}"
    yield f"lost: {found.lost:,} events that are known of, up to #{found.last_seq}"
    yield f"the damaged log is kept: {visible(found.kept)}"
    yield "what was saved cannot be verified any more; the chain begins anew behind it"


def size(found: LogSize, paint: Paint, cells: int) -> Iterator[str]:
    """Yield what the log takes, and what retention will take of it."""
    yield (
        f"{visible(found.path)}  {_bytes(found.bytes)}"
        f"  (free in it {_bytes(found.free_bytes)}, WAL {_bytes(found.wal_bytes)})"
    )
    yield f"{found.events:,} events, #{found.first_seq} to #{found.last_seq}"
    for title, shares in (("event", found.names), ("agent", found.agents)):
        yield ""
        yield from _shares(title, shares, paint, cells)
    yield ""
    days = [(day.day, f"{day.events:,}", _bytes(day.bytes)) for day in found.days]
    columns = [Column("day"), Column("events", right=True), Column("text", right=True)]
    yield from table(columns, days, paint=paint, cells=cells)
    yield ""
    yield from _due(found)


def _shares(title: str, shares: list[Share], paint: Paint, cells: int) -> Iterator[str]:
    columns = [Column(title), Column("events", right=True), Column("text", right=True)]
    rows = [
        (Cell(visible(share.name) or "(none)", "cyan"), f"{share.events:,}", _bytes(share.bytes))
        for share in shares[:MOST]
    ]
    yield from table(columns, rows, paint=paint, cells=cells)
    if len(shares) > MOST:
        yield f"and {len(shares) - MOST} more"


def _due(found: LogSize) -> Iterator[str]:
    if found.retention_days:
        yield (
            f"retention_days = {found.retention_days:g}:"
            f" {found.due:,} events are older and will be deleted"
        )
    else:
        yield "retention_days = 0: events do not grow too old"
    if not found.retention_bytes:
        yield "retention_bytes = 0: the log may grow as large as it will"
    elif found.over_bytes:
        yield (
            f"retention_bytes = {_bytes(found.retention_bytes)}: {_bytes(found.over_bytes)} too"
            " much, the oldest events will be deleted, but none of the last 24 hours"
        )
    else:
        yield f"retention_bytes = {_bytes(found.retention_bytes)}: there is room"


def _bytes(count: int) -> str:
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
