"""What the log takes on the disk: by event name, by agent, by day, and what retention will take."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ksi_daemon.log import queries
from ksi_daemon.log.pruning import used_bytes
from ksi_daemon.log.rows import microseconds
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.watch import wal_path

__all__ = ["Day", "LogSize", "Share", "measure"]

DAYS: Final = 14


class Share(msgspec.Struct, frozen=True):
    """The events of one name or of one agent: how many, and the bytes of their texts."""

    name: str
    events: int
    bytes: int


class Day(msgspec.Struct, frozen=True):
    """The events of one day, in UTC."""

    day: str
    events: int
    bytes: int


class LogSize(msgspec.Struct, frozen=True):
    """Bytes on the disk, of them *free_bytes* to be used again; *due* events are old enough to
    go, and as far as *over_bytes* is above 0 there are too many."""

    path: str
    bytes: int
    wal_bytes: int
    free_bytes: int
    events: int
    first_seq: int
    last_seq: int
    names: list[Share]
    agents: list[Share]
    days: list[Day]
    retention_days: float
    retention_bytes: int
    due: int
    over_bytes: int


def measure(
    snapshot: Snapshot, now: datetime, retention_days: float, retention_bytes: int
) -> LogSize:
    """Return what the log of *snapshot* takes; limits of 0 are none."""
    named, connection = queries.load(), snapshot.connection
    used = used_bytes(connection)
    first, last = snapshot.bounds()
    since = microseconds(now - timedelta(days=DAYS))
    before = microseconds(now - timedelta(days=retention_days)) if retention_days else 0
    wal = wal_path(snapshot.path)
    size = snapshot.path.stat().st_size
    return LogSize(
        path=str(snapshot.path),
        bytes=size,
        wal_bytes=wal.stat().st_size if wal.exists() else 0,
        free_bytes=_free_bytes(connection),
        events=last - first + 1,
        first_seq=first,
        last_seq=last,
        names=[Share(*row) for row in snapshot.rows(named["size_by_name"])],
        agents=[Share(*row) for row in snapshot.rows(named["size_by_agent"])],
        days=[Day(*row) for row in snapshot.rows(named["size_by_day"], (since,))],
        retention_days=retention_days,
        retention_bytes=retention_bytes,
        due=next(snapshot.rows(named["size_due"], (before,)))[0],
        over_bytes=max(0, used - retention_bytes) if retention_bytes else 0,
    )


def _free_bytes(connection: sqlite3.Connection) -> int:
    [pages] = connection.execute("PRAGMA freelist_count").fetchone()
    [size] = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * size)
