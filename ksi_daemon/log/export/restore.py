"""A new log from the lines of ``dump``: all of it, or nothing.

The log is made beside where it shall be, with the schema that the export was made from, and is
brought up to date and given its name only when all is in it and the end says so.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec

from ksi_daemon.errors import Conflict, KsiError, StorageError
from ksi_daemon.log.database import APPLICATION_ID, checkpoint, explained, migrations, open_writer
from ksi_daemon.log.export.dump import table
from ksi_daemon.log.export.lines import (
    ANCHOR,
    RECORDS,
    VERSION,
    WHOLE,
    End,
    Header,
    Table,
    decoder,
)
from ksi_daemon.log.scan import rebuild
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import verify

__all__ = ["Restored", "restore"]

# Rows that are inserted together.
BATCH: Final = 1_000
# A line is a row; the longest are replies and results, which are bounded.
MAX_LINE: Final = 64 * 1024 * 1024
_AGAIN: Final = "make the export again, or copy the file again"


class Restored(NamedTuple):
    """What was imported: the export's header, and how many rows of each table."""

    header: Header
    rows: dict[str, int]


def restore(
    source: IO[bytes], path: Path, on_line: Callable[[int], None] = lambda size: None
) -> Restored:
    """Make a log at *path* of the lines in *source*; *on_line* is told the size of each.

    Raise Conflict if there is a file, KsiError ``export_invalid`` with the number of the line if
    the lines are no export, are cut off or were changed, ``export_version`` if they need another
    ksi. Then nothing is left at *path*.
    """
    if path.exists():
        raise Conflict(
            f"{str(path)!r} exists, and a log is imported as a new file",
            code="already_exists",
            hint="choose another with --var or --to",
        )
    with _beside(path) as unfinished, explained(path):
        numbered = _numbered(source, on_line)
        header, digest = _header(numbered)
        rows = _filled(unfinished, header, numbered, digest)
        if header.schema < len(migrations()):
            open_writer(unfinished, "power").close()
        os.rename(unfinished, path)
    return Restored(header, rows)


def _numbered(source: IO[bytes], on_line: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(iter(lambda: source.readline(MAX_LINE), b""), 1):
        on_line(len(line))
        if len(line) == MAX_LINE:
            raise _invalid(number, f"the line is longer than {MAX_LINE} bytes", _AGAIN)
        yield number, line


def _header(lines: Iterator[tuple[int, bytes]]) -> tuple[Header, Any]:
    _, line = next(lines, (1, b""))
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as exc:
        hint = "ksi export writes what is read here"
        raise _invalid(1, f"no header of an export: {exc}", hint) from exc
    known = len(migrations())
    if header.version != VERSION or not 1 <= header.schema <= known:
        raise KsiError(
            f"the export has version {header.version} and schema {header.schema}, "
            f"this ksi reads version {VERSION} and schemas up to {known}",
            code="export_version",
            hint=f"use the ksi that wrote it ({header.ksi}), or a newer one",
        )
    return header, sha256(line)


def _filled(
    path: Path, header: Header, lines: Iterator[tuple[int, bytes]], digest: Any
) -> dict[str, int]:
    """Make a log of the header's schema at *path* with the rows of *lines*; return their counts."""
    with closing(_created(path, header.schema)) as connection:
        new = Snapshot(path, connection, header.schema)
        # A table that this schema has not has no columns.
        tables = [found for name in RECORDS if (found := table(new, name)).columns]
        # Who refers to whom is looked at when all is there.
        connection.execute("PRAGMA foreign_keys = 0")
        connection.execute("BEGIN IMMEDIATE")
        rows = _inserted(connection, tables, lines, digest)
        anchored = tables[-1].name == ANCHOR
        _continue_after(connection, header, anchored=anchored)
        astray = connection.execute("PRAGMA foreign_key_check").fetchone()
        if astray is not None:
            raise KsiError(
                f"a row of {astray[0]} belongs to one of {astray[2]} that is not in the export",
                code="export_invalid",
                hint=_AGAIN,
            )
        if anchored:
            _check_chain(connection)
        if header.filter is not None and header.schema == len(migrations()):
            rebuild(connection)
        connection.execute("COMMIT")
        checkpoint(connection, path, truncate=True)
    return rows


def _created(path: Path, schema: int) -> sqlite3.Connection:
    """Make an empty log of *schema*; what an older one lacks, its migration makes of the rows."""
    scripts = migrations()
    if schema == len(scripts):
        return open_writer(path, "process")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA auto_vacuum = 2")
    connection.execute("PRAGMA journal_mode = wal")
    connection.executescript("\n".join(scripts[:schema]))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema}")
    return connection


def _continue_after(connection: sqlite3.Connection, header: Header, *, anchored: bool) -> None:
    """Have new events come after all that the exported log had."""
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
    connection.execute("INSERT INTO sqlite_sequence VALUES ('events', ?)", (header.last_seq,))
    if header.filter is not None and anchored:
        connection.execute(
            "INSERT OR REPLACE INTO anchor VALUES (1, ?, zeroblob(32))", (header.last_seq,)
        )


def _check_chain(connection: sqlite3.Connection) -> None:
    found = verify(connection)
    if found.bad_seq is not None:
        raise KsiError(
            f"event {found.bad_seq}: {found.why}",
            code="export_invalid",
            hint="the export was changed, or the log that it is of: `ksi log verify` says",
        )


def _inserted(
    connection: sqlite3.Connection,
    tables: Sequence[Table],
    lines: Iterator[tuple[int, bytes]],
    digest: Any,
) -> dict[str, int]:
    by_type = {each.type: each for each in tables}
    rows: dict[str, int] = {}
    decode = decoder(tables)
    batch: list[tuple[Any, ...]] = []
    of: Table | None = None
    number = 1
    for number, line in lines:
        try:
            found = decode(line)
            if isinstance(found, End):
                _insert(connection, of, batch, number - 1)
                return _ended(found, rows, digest, number, lines)
            kind = by_type[type(found)]
            if kind is not of or len(batch) == BATCH:
                _insert(connection, of, batch, number - 1)
                of, batch = kind, []
            batch.append(kind.row(found))
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            if not line.endswith(b"\n"):
                break
            raise _invalid(number, str(exc), _AGAIN) from exc
        digest.update(line)
        rows[kind.name] = rows.get(kind.name, 0) + 1
    raise _invalid(number, "the export ends here, before its end was written", _AGAIN)


def _ended(
    end: End, rows: dict[str, int], digest: Any, number: int, rest: Iterator[tuple[int, bytes]]
) -> dict[str, int]:
    """Return *rows* if they are those that *end* speaks of."""
    if {name: count for name, count in end.rows.items() if count} != rows:
        raise _invalid(number, f"{end.rows} rows were exported, {rows} came before this", _AGAIN)
    if end.sha256 != digest.hexdigest():
        raise _invalid(number, "the lines before this are not those that were exported", _AGAIN)
    if next(rest, None) is not None:
        raise _invalid(number + 1, "there is more behind the end of the export", _AGAIN)
    return end.rows


def _insert(
    connection: sqlite3.Connection, of: Table | None, batch: Sequence[tuple[Any, ...]], last: int
) -> None:
    if of is None or not batch:
        return
    columns, marks = ", ".join(of.columns), ", ".join("?" * len(of.columns))
    try:
        verb = "INSERT OR REPLACE" if of.name in WHOLE else "INSERT"
        connection.executemany(f"{verb} INTO {of.name} ({columns}) VALUES ({marks})", batch)
    except sqlite3.IntegrityError as exc:
        first = last - len(batch) + 1
        raise KsiError(
            f"lines {first} to {last}: one of them does not fit the log: {exc}",
            code="export_invalid",
            hint=_AGAIN,
        ) from exc


def _invalid(number: int, why: str, hint: str) -> KsiError:
    return KsiError(f"line {number}: {why}", code="export_invalid", hint=hint)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield where a log is made before it is at *path*; whatever is there is gone afterwards."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield unfinished
    except OSError as exc:
        raise StorageError(
            f"cannot make {str(path)!r}: {exc.strerror}", code="cannot_create"
        ) from exc
    finally:
        with suppress(OSError):
            for left in path.parent.glob(f"{unfinished.name}*"):
                left.unlink(missing_ok=True)
