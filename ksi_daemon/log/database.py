"""The database file: opened, checked, brought to the present schema; never recreated.

What is there is looked at through a read-only connection first: a file that a newer ksi wrote,
that is damaged or that is something else is left as it is, byte for byte.

PRAGMAs are set and read back, because SQLite ignores what it does not know and some of them
depend on the file (FAULTS, durability contract 9).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ksi_daemon.errors import StorageError, UsageError
from ksi_daemon.log.chain import Head, link
from ksi_daemon.log.failures import is_damage, name_of, storage_failure
from ksi_daemon.log.model import Durability
from ksi_daemon.log.rows import OUTCOME_COLUMNS
from ksi_daemon.log.scan import prepare
from ksi_daemon.log.soundness import REMEDY, check, deadline
from ksi_daemon.log.watch import wal_path

__all__ = [
    "APPLICATION_ID",
    "BUSY_TIMEOUT_MS",
    "CANNOT_CREATE_EXIT",
    "NEWER_SCHEMA_EXIT",
    "checkpoint",
    "explained",
    "head_of",
    "migrations",
    "open_writer",
    "read_only",
]

NEWER_SCHEMA_EXIT: Final = 78
CANNOT_CREATE_EXIT: Final = 73  # sysexits.h: EX_CANTCREAT
APPLICATION_ID: Final = 0x6B736930  # "ksi0" in the file's header: this database is a log of ksi
BUSY_TIMEOUT_MS: Final = 5_000
# A checkpoint stalls the writer. Under load they are rare, 10,000 pages are 40 MB of WAL; most
# are made in the quiet moments between.
CHECKPOINT_PAGES: Final = 10_000
# A WAL beyond this is cut when it is quiet: SQLite would keep its size for ever.
WAL_BYTES: Final = 64 * 1024 * 1024
# Each number of rows of a multi-row INSERT is a statement of its own.
CACHED_STATEMENTS: Final = 256
_SYNCHRONOUS: Final = {"power": 2, "process": 1}


def open_writer(
    path: Path,
    durability: Durability,
    scripts: Sequence[str] | None = None,
    *,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    on_cut_short: Callable[[], None] = lambda: None,
) -> sqlite3.Connection:
    """Return the one writing connection of the log at *path*, which is created if need be.

    *scripts* are the migrations, those of this ksi unless given. A log of an older schema is
    copied beside itself before it is changed. *on_cut_short* is called when the file is too large
    to be checked within the time that a start may take (``soundness``).

    Raise StorageError if the file is not a sound log, UsageError if it cannot be created or a
    newer ksi wrote it (``newer_schema``); the file is left as it was.
    """
    scripts = migrations() if scripts is None else scripts
    _create(path)
    with explained(path):
        version = _inspected(path, len(scripts), on_cut_short)
        connection = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
            timeout=busy_timeout_ms / 1000,
        )
        try:
            if version is None:
                connection.execute("PRAGMA auto_vacuum = 2")  # only possible in an empty file
            _set_pragmas(connection, durability)
            _migrate(connection, path, version or 0, scripts)
            prepare(connection)
            _sync_directory(path)
        except BaseException:
            connection.close()
            raise
    return connection


def read_only(path: Path) -> str:
    """Return the URI of the database at absolute *path* for connections that only read."""
    return f"file:{quote(os.fspath(path))}?mode=ro"


def head_of(connection: sqlite3.Connection) -> Head:
    """Return the end of the chain. Its seq is the highest that was ever given out."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    seq = int(row[0]) if row else 0
    found = connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
    anchor = connection.execute("SELECT seq, hash FROM anchor").fetchone()
    known = found[0] if found and found[0] else anchor[1]
    columns = ", ".join(OUTCOME_COLUMNS)
    loose = connection.execute(f"SELECT {columns} FROM outcomes WHERE at = ?", (seq,))
    return Head(seq, known, tuple(link(row) for row in loose))


def checkpoint(connection: sqlite3.Connection, path: Path, *, truncate: bool = False) -> None:
    """Bring what is in the WAL into the database as far as readers allow; wait for nobody.

    A WAL that has grown past WAL_BYTES is cut to nothing, with *truncate* any.
    """
    cut = truncate or wal_path(path).stat().st_size > WAL_BYTES
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if cut else 'PASSIVE'})").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def migrations() -> list[str]:
    """Return the scripts that lead from an empty file to the present schema, in order."""
    found = Path(__file__).with_name("migrations").glob("*.sql")
    return [path.read_text(encoding="utf-8") for path in sorted(found)]


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as exc:
        raise UsageError(
            f"cannot write the log {str(path)!r}: {exc.strerror}", exit_code=CANNOT_CREATE_EXIT
        ) from exc


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as StorageErrors that name the file."""
    try:
        yield
    except sqlite3.Error as exc:
        failure = storage_failure(exc) or StorageError("")
        raise StorageError(
            f"cannot use {str(path)!r} as the log: {exc} ({name_of(exc)})",
            code=failure.code,
            hint=REMEDY if is_damage(exc) else failure.hint,
            retryable=failure.retryable,
        ) from exc


def _inspected(path: Path, newest: int, on_cut_short: Callable[[], None]) -> int | None:
    """Return the schema version of the sound log at *path*, None if nothing is in it yet."""
    if path.stat().st_size == 0:
        return None
    with closing(sqlite3.connect(read_only(path), uri=True)) as connection:
        version = _number(connection, "user_version")
        if _is_blank(connection):
            return None
        if _number(connection, "application_id") != APPLICATION_ID:
            raise StorageError(
                f"{str(path)!r} is a database, but no log of ksi", hint="choose another path"
            )
        if version > newest:
            raise _newer(path, version, newest)
        if not check(connection, path, deadline()):
            on_cut_short()
        return version


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Say whether the database was begun and left before its schema was committed."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def _newer(path: Path, version: int, newest: int) -> UsageError:
    error = UsageError(
        f"{str(path)!r} has schema {version}, this ksi knows up to {newest}",
        exit_code=NEWER_SCHEMA_EXIT,
        hint="use the newer ksi that wrote it",
    )
    error.code = "newer_schema"
    return error


def _set_pragmas(connection: sqlite3.Connection, durability: Durability) -> None:
    wanted: dict[str, object] = {
        "journal_mode": "wal",
        "synchronous": _SYNCHRONOUS[durability],
        "foreign_keys": 1,
        "cell_size_check": 1,
        "trusted_schema": 0,
        "mmap_size": 0,
        "wal_autocheckpoint": CHECKPOINT_PAGES,
    }
    for name, value in wanted.items():
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        row = connection.execute(f"PRAGMA {name}").fetchone()
        # A build without memory mapping has nothing to say about its size.
        if row is not None and row[0] != value:
            raise StorageError(f"SQLite keeps {name} at {row[0]!r}, the log needs {value!r}")


def _migrate(
    connection: sqlite3.Connection, path: Path, version: int, scripts: Sequence[str]
) -> None:
    if version == len(scripts):
        return
    if version:
        _back_up(connection, path.with_name(f"{path.name}.schema{version}"))
    pending = "\n".join(scripts[version:])
    # One transaction: after a crash the schema is the old one or the new one.
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{pending}\n"
        f"PRAGMA application_id = {APPLICATION_ID};\n"
        f"PRAGMA user_version = {len(scripts)};\nCOMMIT;"
    )


def _back_up(connection: sqlite3.Connection, path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as target:
        connection.backup(target)


def _sync_directory(path: Path) -> None:
    """Have the files' names outlive a power cut. SQLite tries that too, and ignores a failure."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        raise StorageError(f"cannot sync {str(path.parent)!r}: {exc.strerror}") from exc
    finally:
        os.close(descriptor)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
