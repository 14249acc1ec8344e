"""A log file opened only to be read, as it is at one moment; with or without a daemon on it.

The connection holds one read transaction, so all that is read belongs together. While it is open
the writer goes on, but the WAL is not cut: read what is needed and close.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ksi_daemon.errors import NotFound, StorageError
from ksi_daemon.events import matches
from ksi_daemon.log import queries
from ksi_daemon.log.database import (
    APPLICATION_ID,
    BUSY_TIMEOUT_MS,
    explained,
    migrations,
    read_only,
)
from ksi_daemon.log.export.record import Record, record_from_row
from ksi_daemon.log.filters import condition
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.search import holds
from ksi_daemon.log.watch import wal_path

__all__ = ["Snapshot"]


class Snapshot:
    """What a log held when it was opened. ``open`` it; *schema* is that of the file."""

    def __init__(self, path: Path, connection: sqlite3.Connection, schema: int) -> None:
        self.path = path
        self.connection = connection
        self.schema = schema

    @staticmethod
    @contextmanager
    def open(path: Path) -> Iterator[Snapshot]:
        """Open the log at *path* for the time of the block; its errors name the file.

        Raise NotFound, or StorageError with ``not_a_log``, ``newer_schema``, ``older_schema`` or
        ``storage_failed``.
        """
        path = path.absolute()
        if not path.exists():
            raise NotFound("log", str(path))
        with explained(path), closing(_connected(path)) as connection:
            schema = _checked(connection, path)
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.create_function("matches", 2, matches, deterministic=True)
            connection.create_function("holds", -1, holds, deterministic=True)
            connection.execute("BEGIN")
            yield Snapshot(path, connection, schema)

    def bounds(self) -> tuple[int, int]:
        """Return the oldest and the newest seq; 1 and 0 of an empty log."""
        oldest, newest = self.connection.execute(queries.load()["bounds"]).fetchone()
        return oldest, newest

    def last_seq(self) -> int:
        """Return the highest seq that was ever given out."""
        row = self.connection.execute(queries.load()["last_seq"]).fetchone()
        return int(row[0]) if row else 0

    def records(self, wanted: EventFilter) -> Iterator[Record]:
        """Yield the events of *wanted* in the order of seq, however many; its limit is not used."""
        which, values = condition(wanted)
        sql = f"{queries.load()['records']} WHERE {which} ORDER BY e.seq"
        for row in self.connection.execute(sql, values):
            yield record_from_row(row)

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Return the rows of *sql*, which are read as they are asked for."""
        return self.connection.execute(sql, values)


def _connected(path: Path) -> sqlite3.Connection:
    """Open *path* read-only, also in a directory where nothing may be written.

    SQLite needs its side files for a log in WAL mode. Where they cannot be made nobody writes
    either, and without a WAL the file alone is the log.
    """
    uri = read_only(path)
    wal = wal_path(path)
    if not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size):
        uri += "&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def _checked(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema of the log; raise StorageError if this ksi cannot read it."""
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    known = len(migrations())
    if found != APPLICATION_ID:
        raise StorageError(f"{str(path)!r} is no log of ksi", code="not_a_log")
    if schema > known:
        raise StorageError(
            f"{str(path)!r} has schema {schema}, this ksi knows up to {known}",
            code="newer_schema",
            hint="use the newer ksi that wrote it",
        )
    if schema < known:
        raise StorageError(
            f"{str(path)!r} has schema {schema}, this ksi reads {known}",
            code="older_schema",
            hint="ksi up on its directory brings it up to date and keeps a copy",
        )
    return schema
