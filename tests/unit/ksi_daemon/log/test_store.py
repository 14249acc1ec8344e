from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import anyio
import pytest

from ksi_daemon.errors import StorageError, UsageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog
from ksi_daemon.log.model import EventFilter
from ksi_daemon.work import Work

NewEvent = Callable[..., Event]
Ask = Callable[..., list[tuple[Any, ...]]]


async def test_writes_and_reads(path: Path, new_event: NewEvent) -> None:
    told: list[Event] = []
    async with EventLog.open(path, on_commit=told.extend) as log:
        assert (log.durability, log.last_seq) == ("power", 0)
        event = new_event()
        await log.submit(Work(event=event, outcome=Outcome("handled")))
        assert await log.reader.events(EventFilter()) == [event]
        assert (log.last_seq, log.gauges().last_seq, log.gauges().units) == (1, 1, 1)
    assert told == [event]


async def test_an_ack_is_readable_at_once(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        for _ in range(50):
            work = await log.submit(Work(event=new_event()))
            assert work.event is not None
            assert await log.reader.event(work.event.seq) is not None


async def test_opens_again(path: Path, new_event: NewEvent) -> None:
    for seq in (1, 2, 3):
        async with EventLog.open(path, durability="process") as log:
            work = await log.submit(Work(event=new_event()))
            assert work.event is not None
            assert work.event.seq == seq


async def test_a_relative_path(
    tmp_path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with EventLog.open(Path("events.db"), durability="process") as log:
        monkeypatch.chdir("/")
        await log.submit(Work(event=new_event()))
        assert await log.reader.last_seq() == 1


async def test_the_end_cuts_the_wal_away(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        await log.submit(Work(event=new_event()))
        await log.reader.last_seq()
    assert sorted(os.listdir(path.parent)) == ["events.db"]


async def test_what_waits_is_committed_though_the_block_is_cancelled(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    with anyio.CancelScope() as scope:
        async with EventLog.open(path, durability="process") as log:
            for _ in range(500):
                log.submit(Work(event=new_event()))
            scope.cancel()
            await anyio.sleep_forever()
    assert outside("SELECT count(*) FROM events") == [(500,)]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(b"garbage" * 100, StorageError, id="garbage"),
        pytest.param(None, UsageError, id="no directory"),
    ],
)
async def test_does_not_open_what_is_no_log(
    path: Path, content: bytes | None, error: type[Exception]
) -> None:
    if content is None:
        path = path.parent / "missing" / path.name
    else:
        await asyncio.to_thread(path.write_bytes, content)
    with pytest.raises(error):
        async with EventLog.open(path):
            pass


WRITE_FOR_EVER = """
import asyncio, sys
from pathlib import Path
import msgspec, structlog, uuid_utils
from ksi_daemon.events import Event, now
from ksi_daemon.log import EventLog
from ksi_daemon.work import Work

# Stdout is for what was acknowledged.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

async def emit(log):
    while True:
        event_id = str(uuid_utils.uuid7())
        event = Event(id=event_id, ts=now(), name="a:b", data=msgspec.Raw(b"{}"), source="s",
                      correlation_id=event_id, status="handled")
        await log.submit(Work(event=event))
        print(event.seq, event_id, flush=True)

async def main():
    async with EventLog.open(Path(sys.argv[1]), durability=sys.argv[2]) as log:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(16):
                tasks.create_task(emit(log))

asyncio.run(main())
"""


def killed_writer(path: Path, durability: str, acks: int) -> dict[int, str]:
    """Run a writer, kill it at once after some *acks*; return the seqs and ids it had acked."""
    acked: dict[int, str] = {}
    with Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(path), durability], stdout=PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            _note(acked, line)
            if len(acked) == acks:
                process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
    return acked


def _note(acked: dict[int, str], line: str) -> None:
    if line.endswith("\n"):  # the last one may be torn
        seq, event_id = line.split()
        acked[int(seq)] = event_id


@pytest.mark.parametrize("durability", ["process", "power"])
def test_what_was_acked_survives_a_kill(path: Path, durability: str) -> None:
    acked: dict[int, str] = {}
    for acks in (1, 150, 700):
        acked |= killed_writer(path, durability, acks)
    with closing(sqlite3.connect(path)) as connection:
        found = dict(connection.execute("SELECT seq, id FROM events").fetchall())
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(acked) >= 851
    assert {seq: found.get(seq) for seq in acked} == acked
    assert sorted(found) == list(range(1, len(found) + 1))
