"""Copies of a log, made while it is written to."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ksi_daemon.errors import Conflict, NotFound, StorageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog, backup
from ksi_daemon.log.backup import back_up, restore
from ksi_daemon.log.verification import verify
from ksi_daemon.work import Work

NewEvent = Callable[..., Event]
HANDLED = Outcome("handled")
STATE = "INSERT INTO state (namespace, key, value, version, ts) VALUES ('n', 'k', '1', 1, 0)"


async def write(path: Path, new_event: NewEvent, count: int) -> None:
    async with EventLog.open(path, durability="process") as log:
        for _ in range(count):
            await log.submit(Work(event=new_event(), outcome=HANDLED))


def seqs(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert verify(connection).bad_seq is None
        return [row[0] for row in connection.execute("SELECT seq FROM events ORDER BY seq")]


def files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_D15_a_copy_made_while_writing_is_one_moment(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer goes on between the steps of the copy, which never begins anew."""
    monkeypatch.setattr(backup, "STEP_PAGES", 5)
    target = path.with_name("copy.db")
    loop = asyncio.get_running_loop()
    async with EventLog.open(path, durability="process") as log:
        for _ in range(300):
            await log.submit(Work(event=new_event(data={"x": "y" * 2_000}), outcome=HANDLED))
        steps: list[int] = []

        def meanwhile(done: int, all_: int) -> None:
            steps.append(done)
            writing = log.submit(Work(event=new_event(), outcome=HANDLED))
            del writing

        def step(done: int, all_: int) -> None:
            loop.call_soon_threadsafe(meanwhile, done, all_)

        copied = await asyncio.to_thread(back_up, path, target, step)
    assert steps == sorted(steps)
    assert len(steps) > 20
    assert (copied.last_seq, copied.events) == (300, 300)
    assert seqs(target) == list(range(1, 301))
    assert len(seqs(path)) == 300 + len(steps)
    assert files(target.parent) >= {"copy.db"}
    assert not {name for name in files(target.parent) if name.startswith(("copy.db-", "."))}


async def test_a_copy_is_a_log(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, 3)
    target = path.with_name("copy.db")
    back_up(path, target)
    assert (await asyncio.to_thread(target.stat)).st_mode & 0o777 == 0o600
    await write(target, new_event, 2)
    assert seqs(target) == [1, 2, 3, 4, 5]


async def test_a_copy_replaces_nothing(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, 3)
    with pytest.raises(Conflict, match="exists, and a copy is a new file"):
        back_up(path, path)


@pytest.mark.parametrize("target", ["nowhere/copy.db", "copy.db/below"])
async def test_where_nothing_can_be_written(path: Path, new_event: NewEvent, target: str) -> None:
    await write(path, new_event, 1)
    await asyncio.to_thread(path.with_name("copy.db").touch)
    with pytest.raises(StorageError, match="cannot write") as caught:
        back_up(path, path.parent / target)
    assert caught.value.code == "cannot_write"


def test_no_log(path: Path) -> None:
    with pytest.raises(NotFound):
        back_up(path, path.with_name("copy.db"))


async def test_a_damaged_log_is_not_copied(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_unchanged")
        connection.execute("UPDATE events SET name = 'c:d' WHERE seq = 2")
    with pytest.raises(StorageError, match="event 2: it is not what was written") as caught:
        back_up(path, path.with_name("copy.db"))
    assert caught.value.code == "log_damaged"
    assert "copy.db" not in files(path.parent)


# -- back again ----------------------------------------------------------------------------------


async def test_a_backup_put_back(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, 3)
    back_up(path, path.with_name("copy.db"))
    await write(path, new_event, 4)
    restored = restore(path.with_name("copy.db"), path)
    assert seqs(path) == [1, 2, 3]
    assert restored.kept == f"{path}.before-restore.1"
    assert seqs(Path(restored.kept)) == list(range(1, 8))
    assert restore(path.with_name("copy.db"), path).kept == f"{path}.before-restore.2"
    await write(path, new_event, 1)
    assert seqs(path) == [1, 2, 3, 4]


async def test_a_backup_where_there_was_no_log(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, 3)
    target = path.with_name("new") / "events.db"
    assert restore(path, target).kept is None
    assert seqs(target) == [1, 2, 3]


async def test_what_was_written_last_to_the_log_that_is_replaced_is_kept_too(
    path: Path, new_event: NewEvent
) -> None:
    """It may stand in a WAL of a daemon that was killed, which is no part of the backup."""
    await write(path, new_event, 2)
    back_up(path, path.with_name("copy.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(STATE)
        kept = restore(path.with_name("copy.db"), path).kept
    assert kept is not None
    assert seqs(path) == [1, 2]
    for where, rows in ((path, []), (Path(kept), [("k",)])):
        with closing(sqlite3.connect(where)) as connection:
            assert connection.execute("SELECT key FROM state").fetchall() == rows


@pytest.mark.parametrize("source", ["garbage", "tampered"])
async def test_a_bad_backup_changes_nothing(path: Path, new_event: NewEvent, source: str) -> None:
    await write(path, new_event, 3)
    bad = path.with_name("bad.db")
    back_up(path, bad)
    if source == "garbage":
        await asyncio.to_thread(bad.write_bytes, b"no log" * 1_000)
    else:
        with closing(sqlite3.connect(bad, isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER events_kept")
            connection.execute("DELETE FROM events WHERE seq = 2")
    with pytest.raises(StorageError):
        restore(bad, path)
    assert seqs(path) == [1, 2, 3]
    assert {name for name in files(path.parent) if "before" in name or name[0] == "."} == set()
