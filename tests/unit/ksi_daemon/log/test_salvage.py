"""Logs that were damaged in ways that disks and people damage files, and what is saved of them."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ksi_daemon.errors import StorageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog, statements
from ksi_daemon.log.salvage import repair
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import verify
from ksi_daemon.work import Work

NewEvent = Callable[..., Event]
HANDLED = Outcome("handled")
STATE = "INSERT INTO state (namespace, key, value, version, ts) VALUES ('n', 'k', '1', 1, 0)"
EVENTS = 2_000
PAGE = 4096


async def fill(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        futures = []
        for number in range(EVENTS):
            row = statements.waiting_message(
                agent_id="ann",
                content=f"message {number}",
                untrusted=False,
                request_id=f"r{number}",
                ts=new_event().ts,
            )
            event = new_event(id=f"n{number}", data={"n": number, "x": "y" * 100})
            futures.append(log.submit(Work(event=event, outcome=HANDLED, statements=(row,))))
        for future in futures:
            await future


async def one_more(path: Path, new_event: NewEvent) -> int:
    async with EventLog.open(path, durability="process") as log:
        work = await log.submit(Work(event=new_event(), outcome=HANDLED))
    assert work.event is not None
    return work.event.seq


def overwrite(path: Path, at: int, size: int, byte: bytes = b"\xff") -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(byte * size)


def page_of(path: Path, text: bytes) -> int:
    return path.read_bytes().index(text) // PAGE * PAGE


def header_gone(path: Path) -> None:
    overwrite(path, 0, 100, b"\0")


def first_page_gone(path: Path) -> None:
    overwrite(path, 0, PAGE, b"\0")


def pages_gone(path: Path) -> None:
    overwrite(path, page_of(path, b'{"n":700,'), PAGE)
    overwrite(path, page_of(path, b'{"n":1500,'), PAGE)


def half_gone(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def bit_flipped(path: Path) -> None:
    raw = path.read_bytes()
    at = raw.index(b'{"n":700,') + 6
    overwrite(path, at, 1, bytes([raw[at] ^ 1]))


def is_sound(path: Path) -> bool:
    try:
        with Snapshot.open(path) as snapshot:
            report = next(snapshot.rows("PRAGMA quick_check(1)"))[0]
            return report == "ok" and verify(snapshot.connection).bad_seq is None
    except StorageError:
        return False


@pytest.mark.parametrize(
    ("damage", "least"),
    [
        pytest.param(header_gone, EVENTS, id="header"),
        pytest.param(first_page_gone, EVENTS, id="first page"),
        pytest.param(pages_gone, EVENTS - 60, id="pages in the middle"),
        pytest.param(half_gone, EVENTS // 3, id="end"),
        pytest.param(bit_flipped, EVENTS, id="a bit that SQLite does not see"),
    ],
)
def test_D8_what_can_be_read_is_saved(
    path: Path, new_event: NewEvent, damage: Callable[[Path], None], least: int
) -> None:
    asyncio.run(fill(path, new_event))
    damage(path)
    damaged = path.read_bytes()
    assert not is_sound(path)
    found = repair(path)
    assert Path(found.kept).read_bytes() == damaged
    assert is_sound(path)
    assert found.saved["events"] >= least
    if damage is not half_gone:
        assert found.saved["events"] + found.lost == EVENTS
        assert found.last_seq == EVENTS
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        rows = connection.execute("SELECT seq, id, data FROM events").fetchall()
        assert verify(connection).bad_seq is None
    wrong = [
        row
        for row in rows
        if row[1] != f"n{row[0] - 1}" or not row[2].startswith(f'{{"n":{row[0] - 1},')
    ]
    assert len(wrong) <= (damage is bit_flipped)
    assert asyncio.run(one_more(path, new_event)) == found.last_seq + 1
    with closing(sqlite3.connect(path)) as connection:
        assert (verify(connection).events, verify(connection).bad_seq) == (1, None)
    assert not [name for name in os.listdir(path.parent) if name.startswith(".")]


def test_what_is_in_the_wal_is_saved(path: Path, new_event: NewEvent) -> None:
    asyncio.run(fill(path, new_event))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(STATE)
        overwrite(path, page_of(path, b'{"n":700,'), PAGE)
        found = repair(path)
    assert found.saved["state"] == 1
    assert found.lost > 0


def test_what_is_no_database_at_all(path: Path) -> None:
    path.write_bytes(b"a letter to grandma\n" * 1_000)
    with pytest.raises(StorageError, match="nothing of a log can be read") as caught:
        repair(path)
    assert caught.value.code == "not_a_log"
    assert path.read_bytes().startswith(b"a letter")
    assert os.listdir(path.parent) == [path.name]
