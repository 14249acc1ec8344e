from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import StorageError, UsageError
from ksi_daemon.log import database, soundness
from ksi_daemon.log.database import (
    APPLICATION_ID,
    BUSY_TIMEOUT_MS,
    checkpoint,
    head_of,
    migrations,
    open_writer,
    read_only,
)

Ask = Callable[..., list[tuple[Any, ...]]]

INSERT = (
    "INSERT INTO events (id, ts, name, data, source, correlation_id, hop, status)"
    " VALUES (?, 0, 'a:b', ?, 's', 'c', 0, 'handled')"
)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def fill(path: Path, rows: int = 500) -> None:
    with closing(open_writer(path, "process")) as connection:
        connection.executemany(INSERT, ((f"e{n}", "x" * 200) for n in range(rows)))


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_pragmas(path: Path, durability: Any, level: int) -> None:
    with closing(open_writer(path, durability)) as connection:
        found = {
            name: pragma(connection, name)
            for name in (
                "journal_mode", "synchronous", "foreign_keys", "busy_timeout", "auto_vacuum",
                "cell_size_check", "trusted_schema", "mmap_size", "user_version", "application_id",
            )
        }  # fmt: skip
    assert found == {
        "journal_mode": "wal", "synchronous": level, "foreign_keys": 1, "busy_timeout": 5000,
        "auto_vacuum": 2, "cell_size_check": 1, "trusted_schema": 0, "mmap_size": 0,
        "user_version": len(migrations()), "application_id": APPLICATION_ID,
    }  # fmt: skip


def test_a_pragma_that_is_not_kept_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SYNCHRONOUS", {"process": 7})
    with pytest.raises(StorageError, match="SQLite keeps synchronous at 0, the log needs 7"):
        open_writer(path, "process")


def test_files_are_private(path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(open_writer(path, "process")) as connection:
            connection.execute(INSERT, ("e1", "{}"))
            modes = {entry.name: entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"events.db": 0o600, "events.db-wal": 0o600, "events.db-shm": 0o600}


def test_opens_what_it_closed(path: Path, outside: Ask) -> None:
    fill(path, 3)
    with closing(open_writer(path, "power")) as connection:
        assert head_of(connection).seq == 3
    assert outside("SELECT id FROM events") == [("e0",), ("e1",), ("e2",)]


@pytest.mark.parametrize("begun", ["empty", "blank"])
def test_goes_on_where_a_crash_left_an_unfinished_file(path: Path, begun: str) -> None:
    path.touch()
    if begun == "blank":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA auto_vacuum = 2")
            connection.execute("PRAGMA journal_mode = wal")
        assert path.stat().st_size > 0
    with closing(open_writer(path, "process")) as connection:
        assert (head_of(connection).seq, pragma(connection, "auto_vacuum")) == (0, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("missing/events.db", "No such file or directory", id="no directory"),
        pytest.param(".", "Is a directory", id="a directory"),
    ],
)
def test_cannot_create(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_writer(tmp_path / name, "process")
    assert caught.value.exit_code == 73
    assert str(tmp_path) in caught.value.message


# -- what is no sound log ------------------------------------------------------------------------


NEWER = f"has schema {len(migrations()) + 1}, this ksi knows up to {len(migrations())}"


def newer(path: Path) -> None:
    with closing(open_writer(path, "process", [*migrations(), "CREATE TABLE later (x);"])):
        pass


def newer_in_wal(path: Path) -> None:
    """A newer log whose process was killed: what it wrote is in the WAL only."""
    script = (
        "import os, pathlib, signal, sys\n"
        "from ksi_daemon.log.database import migrations, open_writer\n"
        "scripts = [*migrations(), 'CREATE TABLE later (x);']\n"
        "open_writer(pathlib.Path(sys.argv[1]), 'process', scripts)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False, timeout=30)
    assert killed.returncode == -signal.SIGKILL
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database " * 1000)


def header_destroyed(path: Path) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.write(b"\0" * 100)


def page_destroyed(path: Path) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.seek(4096 * 20)
        file.write(b"\xff" * 4096 * 10)


def cut_off(path: Path) -> None:
    fill(path)
    os.truncate(path, path.stat().st_size // 2)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        pytest.param(newer, "newer_schema", NEWER, id="newer"),
        pytest.param(newer_in_wal, "newer_schema", NEWER, id="newer, killed"),
        pytest.param(garbage, "storage_failed", "file is not a database", id="no database"),
        pytest.param(header_destroyed, "storage_failed", "file is not a database", id="header"),
        pytest.param(page_destroyed, "storage_failed", "damaged|malformed", id="pages"),
        pytest.param(cut_off, "storage_failed", "damaged|malformed", id="cut off"),
        pytest.param(foreign, "storage_failed", "no log of ksi", id="another program's"),
    ],
)
def test_refuses_and_changes_nothing(
    path: Path, make: Callable[[Path], None], code: str, message: str
) -> None:
    make(path)
    before = digest(path)
    with pytest.raises((StorageError, UsageError), match=message) as caught:
        open_writer(path, "process")
    assert caught.value.code == code
    assert str(path) in caught.value.message
    assert caught.value.hint in (
        "use the newer ksi that wrote it",
        "nothing was changed in it; `ksi log repair` saves what can be read, and keeps it",
        "choose another path",
    )
    assert digest(path) == before
    if isinstance(caught.value, UsageError):
        assert caught.value.exit_code == 78


def test_a_lock_is_waited_for_then_told(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match="database is locked") as caught:
            open_writer(path, "process", busy_timeout_ms=20)
    assert (caught.value.code, caught.value.retryable) == ("storage_busy", True)


def test_the_check_is_cut_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 2_000)
    told: list[str] = []
    for limit, expected in ((-1.0, ["cut short"]), (60.0, [])):
        monkeypatch.setattr(soundness, "CHECK_S", limit)
        told.clear()
        with closing(
            open_writer(path, "process", on_cut_short=lambda: told.append("cut short"))
        ) as connection:
            assert head_of(connection).seq == 2_000
        assert told == expected


# -- migrations ----------------------------------------------------------------------------------


def test_an_older_schema_is_copied_then_migrated(path: Path, outside: Ask) -> None:
    fill(path, 2)
    scripts = [*migrations(), "ALTER TABLE events ADD COLUMN origin TEXT;"]
    with closing(open_writer(path, "process", scripts)) as connection:
        assert pragma(connection, "user_version") == len(scripts)
    assert outside("SELECT id, origin FROM events") == [("e0", None), ("e1", None)]
    copy = path.with_name(f"events.db.schema{len(migrations())}")
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(open_writer(copy, "process")) as connection:
        assert head_of(connection).seq == 2
    with closing(open_writer(path, "process", scripts)) as connection:
        assert pragma(connection, "user_version") == len(scripts)


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_D10_each_older_schema_is_brought_up_to_date(
    path: Path, outside: Ask, version: int
) -> None:
    """With its rows; the chain begins behind them, and a copy of the old log is kept."""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(
            "PRAGMA auto_vacuum = 2; PRAGMA journal_mode = WAL;"
            f"{''.join(migrations()[:version])}"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};"
        )
        old.executemany(INSERT, ((f"e{n}", "{}") for n in range(3)))
        at = ", at" if version >= 6 else ""
        old.execute(
            f"INSERT INTO outcomes (seq, ts, status{at}) VALUES (2, 0, 'handled'{at and ', 0'})"
        )
        old.commit()
    with closing(open_writer(path, "process")) as connection:
        assert pragma(connection, "user_version") == len(migrations())
        assert pragma(connection, "integrity_check") == "ok"
        assert head_of(connection).seq == 3
    assert outside("SELECT id FROM events") == [("e0",), ("e1",), ("e2",)]
    assert outside("SELECT seq, status FROM outcomes") == [(2, "handled")]
    with closing(sqlite3.connect(f"{path}.schema{version}")) as copy:
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (3,)
        assert copy.execute("PRAGMA user_version").fetchone() == (version,)


def test_a_migration_that_fails_leaves_the_old_schema(path: Path, outside: Ask) -> None:
    fill(path, 2)
    broken = "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);"
    with pytest.raises(StorageError, match="no such table: nowhere"):
        open_writer(path, "process", [*migrations(), broken])
    assert outside("PRAGMA user_version") == [(len(migrations()),)]
    assert outside("SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == [(0,)]


def test_migrations_are_numbered_without_a_gap() -> None:
    folder = Path(database.__file__).parent / "migrations"
    numbers = [int(entry.name[:4]) for entry in sorted(folder.glob("*.sql"))]
    assert numbers == list(range(1, len(migrations()) + 1))


# -- checkpoints ---------------------------------------------------------------------------------


def wal_bytes(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


@pytest.mark.parametrize(
    ("limit", "truncate", "cut"),
    [
        pytest.param(10**9, False, False, id="small"),
        pytest.param(1, False, True, id="grown"),
        pytest.param(10**9, True, True, id="asked for"),
    ],
)
def test_checkpoint(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, truncate: bool, cut: bool
) -> None:
    monkeypatch.setattr(database, "WAL_BYTES", limit)
    with closing(open_writer(path, "process")) as connection:
        connection.execute(INSERT, ("e1", "{}"))
        checkpoint(connection, path, truncate=truncate)
        assert (wal_bytes(path) == 0) is cut
        assert pragma(connection, "busy_timeout") == 5000
        assert b"a:b" in path.read_bytes()


def test_checkpoint_waits_for_no_reader(path: Path) -> None:
    with (
        closing(open_writer(path, "process")) as connection,
        closing(sqlite3.connect(read_only(path), uri=True, isolation_level=None)) as reader,
    ):
        connection.execute(INSERT, ("e1", "{}"))
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        connection.execute(INSERT, ("e2", "{}"))
        started = time.perf_counter()
        checkpoint(connection, path, truncate=True)
        assert time.perf_counter() - started < BUSY_TIMEOUT_MS / 1000
        assert wal_bytes(path) > 0
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_read_only_paths_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c %41.db"
    fill(path, 1)
    with closing(sqlite3.connect(read_only(path), uri=True)) as reader:
        assert reader.execute("SELECT id FROM events").fetchall() == [("e0",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM events")
