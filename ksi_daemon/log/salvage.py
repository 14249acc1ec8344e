"""Saving what can be saved of a damaged log: into a new one, the damaged files kept.

Rows are read in the order of their keys. Where a page cannot be read, the rows on it are left out
and reading goes on behind them. Where the beginning of the file was overwritten, that of a new log
takes its place: logs of one schema begin alike.

What was saved is as it was found, and no proof that it is as it was written: the chain begins anew
behind it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ksi_daemon.errors import StorageError
from ksi_daemon.log.backup import complete, put_aside, unfinished_beside
from ksi_daemon.log.chain import GENESIS
from ksi_daemon.log.database import migrations, open_writer

__all__ = ["Repaired", "repair"]

_HEADER: Final = 100
_PAGE: Final = 4096
# Rows that are read together while all is well.
_BATCH: Final = 1_000
# A damaged tree may end in a circle; no log has a larger key.
_LAST: Final = 2**62
# What every new log has by itself.
_FIXED: Final = frozenset({"anchor", "rollup_days"})


class Repaired(msgspec.Struct, frozen=True):
    """How many rows of each table were *saved*; *lost* are events that are known to be missing.

    *kept* is where the damaged log is.
    """

    path: str
    kept: str
    saved: dict[str, int]
    lost: int
    last_seq: int


def repair(path: Path) -> Repaired:
    """Put a sound log in the place of the damaged one at *path*, with all that can be read.

    No daemon may use it. Raise StorageError if nothing can be read; then it is as it was.
    """
    kept = put_aside(path, "damaged")
    with ExitStack() as undo:
        for suffix in ("", "-wal"):
            copy = kept.with_name(kept.name + suffix)
            undo.callback(copy.unlink, missing_ok=True)
        repaired = _repaired(path, kept)
        undo.pop_all()
    return repaired


def _repaired(path: Path, kept: Path) -> Repaired:
    with unfinished_beside(path) as unfinished, unfinished_beside(kept) as readable:
        _mend_beginning(kept, readable)
        version = _version(readable)
        scripts = migrations()[:version]
        with closing(open_writer(unfinished, "power", scripts)) as connection:
            saved = _saved(readable, connection)
            if not any(saved.values()):
                raise StorageError(
                    f"nothing of a log can be read in {str(path)!r}",
                    code="not_a_log",
                    hint="put a backup back with `ksi log restore`, or move the file away",
                )
            last, lost = _anchored(connection)
        open_writer(unfinished, "power").close()
        complete(unfinished, path)
    return Repaired(str(path), str(kept), saved, lost, last)


def _mend_beginning(damaged: Path, readable: Path) -> None:
    """Make a copy of *damaged* whose tables SQLite finds, if it can."""
    shutil.copyfile(damaged, readable)
    wal = damaged.with_name(f"{damaged.name}-wal")
    if wal.exists():
        shutil.copyfile(wal, readable.with_name(f"{readable.name}-wal"))
    fresh = _fresh_beginning(readable)
    for size in (_HEADER, len(fresh)):
        if _has_tables(readable):
            return
        with readable.open("r+b") as file:
            file.write(fresh[:size])


def _has_tables(readable: Path) -> bool:
    with closing(sqlite3.connect(readable)) as connection, suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema = 1")
        return connection.execute("SELECT seq FROM events LIMIT 1") is not None
    return False


def _fresh_beginning(beside: Path) -> bytes:
    """Return the first page of a new log, made to be the beginning of any."""
    fresh = beside.with_name(f"{beside.name}.fresh")
    open_writer(fresh, "process").close()
    with fresh.open("rb") as file:
        page = bytearray(file.read(_PAGE))
    # The number of pages is that of the file where these two differ; which are free is not known.
    page[24:28] = (1).to_bytes(4, "big")
    page[92:96] = (0).to_bytes(4, "big")
    page[32:40] = bytes(8)
    return bytes(page)


def _version(readable: Path) -> int:
    newest = len(migrations())
    with closing(sqlite3.connect(readable)) as connection, suppress(sqlite3.Error):
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        return found if 0 < found <= newest else newest
    return newest


def _saved(readable: Path, connection: sqlite3.Connection) -> dict[str, int]:
    """Copy every row that can be read; return how many of each table."""
    saved: dict[str, int] = {}
    connection.execute("PRAGMA foreign_keys = 0")
    connection.execute("BEGIN IMMEDIATE")
    tables = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        " AND name NOT LIKE 'sqlite%' ORDER BY name"
    ).fetchall()
    with closing(sqlite3.connect(readable, isolation_level=None)) as damaged:
        damaged.execute("PRAGMA cell_size_check = 1")
        # Has tables be used whose definitions can be read, when those of others cannot.
        damaged.execute("PRAGMA writable_schema = 1")
        for name, without_rowid in tables:
            if name in _FIXED:
                continue
            described = connection.execute(f"PRAGMA table_info({name})").fetchall()
            columns = [row[1] for row in described]
            keys = [row[1] for row in sorted(described, key=lambda row: row[5]) if row[5]]
            rows = (
                _by_key(damaged, name, columns, keys)
                if without_rowid
                else _by_rowid(damaged, name, columns)
            )
            saved[name] = sum(_kept(connection, name, columns, row) for row in rows)
        _continued(damaged, connection)
    _drop_orphans(connection)
    connection.execute("COMMIT")
    return saved


def _kept(
    connection: sqlite3.Connection, name: str, columns: list[str], row: tuple[Any, ...]
) -> bool:
    """Write one row; say whether it was fit to be written."""
    marks = ", ".join("?" * len(columns))
    with suppress(sqlite3.Error):
        done = connection.execute(
            f"INSERT OR IGNORE INTO {name} ({', '.join(columns)}) VALUES ({marks})", row
        )
        return done.rowcount == 1
    return False


def _by_rowid(
    damaged: sqlite3.Connection, name: str, columns: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table with rowids; what cannot be read is searched for its end."""
    sql = (
        f"SELECT rowid, {', '.join(columns)} FROM {name} NOT INDEXED"
        f" WHERE rowid >= ? AND rowid <= ? ORDER BY rowid LIMIT {_BATCH}"
    )
    low = -_LAST
    while True:
        at, broken = low, False
        try:
            for row in damaged.execute(sql, (low, _LAST)):
                at = row[0] + 1
                yield row[1:]
        except sqlite3.Error:
            broken = True
        if broken:
            found = _next_readable(damaged, sql, at)
            if found is None:
                return
            at = found
        elif at <= low:
            return
        low = at


def _next_readable(damaged: sqlite3.Connection, sql: str, low: int) -> int | None:
    """Return a rowid from which on rows can be read again, None if there is none.

    The step doubles until a row is found, then the damage is closed in on from behind.
    """
    start, step = max(low, 0), 1
    while start + step < _LAST:
        first = _first(damaged, sql, start + step)
        if first is not None:
            return _earliest(damaged, sql, start, start + step)
        step *= 2
    return None


def _earliest(damaged: sqlite3.Connection, sql: str, bad: int, good: int) -> int:
    while good - bad > 1:
        middle = (bad + good) // 2
        if _first(damaged, sql, middle) is None:
            bad = middle
        else:
            good = middle
    return good


def _first(damaged: sqlite3.Connection, sql: str, low: int) -> int | None:
    try:
        row = damaged.execute(sql, (low, _LAST)).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else int(row[0])


def _by_key(
    damaged: sqlite3.Connection, name: str, columns: list[str], keys: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table without rowids: up to the damage, then from the end to it."""
    for order in ("ASC", "DESC"):
        by = ", ".join(f"{key} {order}" for key in keys)
        try:
            yield from damaged.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY {by}")
        except sqlite3.Error:
            continue
        return


def _drop_orphans(connection: sqlite3.Connection) -> None:
    """Delete rows whose parent is lost, and those whose parent they were."""
    while orphans := connection.execute("PRAGMA foreign_key_check").fetchall():
        for table, parent, number in {(row[0], row[2], row[3]) for row in orphans}:
            links = [
                (row[3], row[4] or row[3])
                for row in connection.execute(f"PRAGMA foreign_key_list({table})")
                if row[0] == number
            ]
            same = " AND ".join(f"p.{theirs} = {table}.{ours}" for ours, theirs in links)
            connection.execute(
                f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM {parent} p WHERE {same})"
            )


def _continued(damaged: sqlite3.Connection, connection: sqlite3.Connection) -> None:
    """Have no seq be given out twice, and the roll-up be counted on or anew."""
    newest = days = None
    with suppress(sqlite3.Error):
        sql = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
        newest = damaged.execute(sql).fetchone()
    if newest is not None:
        connection.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'events'", newest
        )
    with suppress(sqlite3.Error):
        days = damaged.execute("SELECT before FROM rollup_days").fetchone()
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'rollup_days'").fetchone():
        # NULL: the next start counts all that there is.
        connection.execute("UPDATE rollup_days SET before = ?", days or (None,))


def _anchored(connection: sqlite3.Connection) -> tuple[int, int]:
    """Have the chain begin behind what was saved; return the last seq and the gaps before it."""
    first, count, last = connection.execute(
        "SELECT coalesce(min(seq), 1), count(*),"
        " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) FROM events"
    ).fetchone()
    row = connection.execute("SELECT hash FROM events WHERE seq = ?", (last,)).fetchone()
    hash_ = row[0] if row and row[0] else GENESIS
    connection.execute("INSERT OR REPLACE INTO anchor VALUES (1, ?, ?)", (last, hash_))
    return last, last - first + 1 - count
