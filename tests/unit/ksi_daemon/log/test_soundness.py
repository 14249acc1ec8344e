"""A log that is too large to be checked at its start is checked while it is used."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from ksi_daemon.errors import StorageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog, soundness
from ksi_daemon.log.soundness import check
from ksi_daemon.work import Work

NewEvent = Callable[..., Event]
PAGE = 4096


async def fill(path: Path, new_event: NewEvent, count: int = 3_000) -> None:
    async with EventLog.open(path, durability="process") as log:
        futures = [
            log.submit(Work(event=new_event(data={"n": n}), outcome=Outcome("handled")))
            for n in range(count)
        ]
        for future in futures:
            await future


def destroy_a_page(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    at = raw.index(b'{"n":700}') // PAGE * PAGE
    raw[at : at + PAGE] = b"\xff" * PAGE
    path.write_bytes(raw)


async def test_D13_a_large_log_is_checked_behind_its_start(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path, new_event)
    monkeypatch.setattr(soundness, "CHECK_S", -1.0)
    with capture_logs() as said:
        async with EventLog.open(path, durability="process") as log:
            with anyio.fail_after(10):
                while not any(each["event"] == "log_checked" for each in said):
                    await log.submit(Work(event=new_event(), outcome=Outcome("handled")))


async def test_D13_damage_that_is_found_late_ends_all_acknowledgements(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path, new_event)
    await asyncio.to_thread(destroy_a_page, path)
    monkeypatch.setattr(soundness, "CHECK_S", -1.0)
    failed: asyncio.Future[StorageError] = asyncio.get_running_loop().create_future()
    async with EventLog.open(path, durability="process", on_failure=failed.set_result) as log:
        with anyio.fail_after(10):
            error = await failed
        assert (error.code, error.retryable) == ("storage_failed", False)
        assert "ksi log repair" in str(error.hint)
        with pytest.raises(StorageError, match="damaged"):
            await log.submit(Work(event=new_event(), outcome=Outcome("handled")))


async def test_a_log_that_is_closed_waits_for_no_check(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path, new_event)
    monkeypatch.setattr(soundness, "CHECK_S", -1.0)
    with capture_logs() as said:
        async with EventLog.open(path, durability="process"):
            pass
    assert [each["event"] for each in said][-1:] == ["log_head"]


async def test_a_check_that_is_enough(path: Path, new_event: NewEvent) -> None:
    await fill(path, new_event)
    with closing(sqlite3.connect(path)) as connection:
        assert check(connection, path, lambda: False)
        assert not check(connection, path, lambda: True)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (3_000,)
