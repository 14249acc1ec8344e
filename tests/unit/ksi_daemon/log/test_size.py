from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog
from ksi_daemon.log.size import Day, Share, measure
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.work import Ended, Work

NewEvent = Callable[..., Event]

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)


async def fill(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        for ago, name, agent, text in (
            (20, "a:b", None, "é"),
            (2, "a:b", "ann", ""),
            (1, "c:d", "ann", "x" * 50),
            (1, "c:d", "bob", ""),
        ):
            event = new_event(name, text, agent_id=agent, ts=NOW - timedelta(days=ago))
            await log.submit(Work(event=event))
        await log.submit(Work(ended=Ended(4, Outcome("handled"))))


async def test_what_a_log_takes(path: Path, new_event: NewEvent) -> None:
    await fill(path, new_event)
    with Snapshot.open(path) as snapshot:
        found = measure(snapshot, NOW, 10, 1)
    # In bytes, not in characters: an é has two, and each text two quotes.
    assert found.names == [Share("c:d", 2, 54), Share("a:b", 2, 6)]
    assert found.agents == [Share("ann", 2, 54), Share("", 1, 4), Share("bob", 1, 2)]
    assert found.days == [Day("2026-06-08", 1, 2), Day("2026-06-09", 2, 54)]
    assert (found.events, found.first_seq, found.last_seq) == (4, 1, 4)
    assert (found.due, found.over_bytes) == (1, found.bytes - found.free_bytes - 1)
    assert found.bytes == (await _size(path))


@pytest.mark.parametrize(
    ("days", "limit", "due", "over"),
    [
        pytest.param(0, 0, 0, 0, id="no limits"),
        pytest.param(30, 10**9, 0, 0, id="within them"),
        pytest.param(1.5, 0, 2, 0, id="too old"),
    ],
)
async def test_what_retention_will_take(
    path: Path, new_event: NewEvent, days: float, limit: int, due: int, over: int
) -> None:
    await fill(path, new_event)
    with Snapshot.open(path) as snapshot:
        found = measure(snapshot, NOW, days, limit)
    assert (found.due, found.over_bytes) == (due, over)


async def test_an_empty_log(path: Path) -> None:
    async with EventLog.open(path, durability="process"):
        pass
    with Snapshot.open(path) as snapshot:
        found = measure(snapshot, NOW, 30, 0)
    assert (found.events, found.names, found.days, found.due) == (0, [], [], 0)


async def _size(path: Path) -> int:
    return path.stat().st_size  # noqa: ASYNC240
