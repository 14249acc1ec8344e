"""Deleting the oldest events: what goes, what stays, and that the rest still verifies."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ksi_daemon.events import ErrorInfo, Event, Outcome
from ksi_daemon.log import EventLog, pruning, standing, statements
from ksi_daemon.log.approvals import Approval, approval, verdict
from ksi_daemon.log.model import Attempt
from ksi_daemon.log.pruning import Pruned
from ksi_daemon.log.verification import verify
from ksi_daemon.work import Ended, Idempotency, Work

NewEvent = Callable[..., Event]
Ask = Callable[..., list[tuple[object, ...]]]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HANDLED = Outcome("handled")


def at(hours: float) -> datetime:
    return NOW + hours * HOUR


async def write(log: EventLog, new_event: NewEvent, *hours: float) -> None:
    """Write handled events of so many hours before or after NOW."""
    for ago in hours:
        await log.submit(Work(event=new_event(ts=at(ago)), outcome=HANDLED))


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        healthy = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return healthy and verify(connection).bad_seq is None


@pytest.mark.parametrize(
    ("hours", "kept"),
    [
        pytest.param([-9, -8, -3, -2], [3, 4], id="the old"),
        pytest.param([-9, -8], [], id="all"),
        pytest.param([-2, -9, -1], [1, 2, 3], id="none, for the oldest is young"),
        pytest.param([-9, 5, -8, -1], [4], id="a time to come says nothing"),
        pytest.param([-9, 5, -1], [2, 3], id="nor does it before a young one"),
        pytest.param([5, 6, -1], [1, 2, 3], id="all of the beginning to come"),
        pytest.param([], [], id="an empty log"),
    ],
)
async def test_by_age(
    path: Path, new_event: NewEvent, outside: Ask, hours: list[float], kept: list[int]
) -> None:
    async with EventLog.open(path, durability="process") as log:
        await write(log, new_event, *hours)
        gone = await log.prune(at(-5), NOW)
        assert outside("SELECT seq FROM events ORDER BY seq") == [(seq,) for seq in kept]
        await write(log, new_event, 0)
    assert (gone.events, gone.through_seq) == (len(hours) - len(kept),) * 2
    assert sound(path)


async def test_times_to_come_for_longer_than_a_step(
    path: Path, new_event: NewEvent, outside: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the clock was wrong for a long time, the log is pruned all the same."""
    monkeypatch.setattr(pruning, "STEP_EVENTS", 3)
    monkeypatch.setattr(pruning, "MAX_STEP_EVENTS", 3)
    async with EventLog.open(path, durability="process") as log:
        await write(log, new_event, *[1000] * 10, -9, -1)
        await log.prune(at(-5), NOW)
    assert outside("SELECT seq FROM events ORDER BY seq") == [(12,)]


async def test_many_steps(path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "STEP_EVENTS", 7)
    monkeypatch.setattr(pruning, "MAX_STEP_EVENTS", 7)
    async with EventLog.open(path, durability="process") as log:
        await write(log, new_event, *[-9] * 100, -1)
        units = log.gauges().units
        assert (await log.prune(at(-5), NOW)).events == 100
        assert log.gauges().units - units > 100 / 7
    assert sound(path)


async def test_by_size(path: Path, new_event: NewEvent, outside: Ask) -> None:
    """The file shrinks to what it may hold, and no further than that and the age allow."""
    limit = 2_000_000
    async with EventLog.open(path, durability="process") as log:
        for _ in range(400):
            event = new_event(data={"text": "x" * 10_000}, ts=at(-9))
            await log.submit(Work(event=event, outcome=HANDLED))
        await write(log, new_event, -1)
        gone = await log.prune(at(-5), NOW, limit)
        assert 150 < gone.events < 400
        assert await log.prune(at(-5), NOW, limit) == Pruned()
        assert (await log.prune(at(-5), NOW, 1)).events == 400 - gone.events
        assert outside("SELECT count(*) FROM events") == [(1,)]
    assert (await asyncio.to_thread(path.stat)).st_size < limit / 4
    assert gone.bytes > 1_500_000
    assert sound(path)


async def test_an_event_that_has_not_ended_stays(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with EventLog.open(path, durability="process") as log:
        await write(log, new_event, -9)
        running = await log.submit(Work(event=new_event(ts=at(-8))))
        await write(log, new_event, -7)
        await log.prune(at(-5), NOW)
        assert outside("SELECT seq FROM events") == [(2,), (3,)]
        assert await log.prune(at(-5), NOW) == Pruned()
        assert running.event is not None
        await log.submit(Work(ended=Ended(running.event.seq, HANDLED)))
        await log.prune(at(-5), NOW)
        assert outside("SELECT seq FROM events") == []
        # No later event covers this outcome yet: it waits for the next one, and for its pruning.
        assert outside("SELECT seq, at FROM outcomes") == [(2, 3)]
        await write(log, new_event, -6, -5.5)
        assert sound(path)
        await log.prune(at(-5), NOW)
        assert outside("SELECT seq FROM outcomes") == []


async def test_what_belongs_to_an_event_goes_with_it(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with EventLog.open(path, durability="process") as log:
        for number, ago in enumerate((-9, -1)):
            name = f"c{number}"
            event = new_event("completion:result", id=name, completion_id=name, ts=at(ago))
            await log.submit(
                Work(
                    event=event,
                    outcome=HANDLED,
                    idempotency=Idempotency("system", name, b"d"),
                    statements=(_completion(name, at(ago)), _attempt(name)),
                )
            )
            denied = Outcome("denied", error=ErrorInfo("approval_required", "ask"))
            asked = new_event(id=f"d{number}", ts=at(ago))
            rows = (_approval(f"ap{number}", f"d{number}", at(ago)),)
            await log.submit(Work(event=asked, outcome=denied, statements=rows))
            said = verdict(f"ap{number}", "denied", "client:0/1", at(ago))
            await log.submit(Work(statements=(said,)))
        await log.prune(at(-5), NOW)
    assert outside("SELECT id FROM completions") == [("c1",)]
    assert outside("SELECT completion_id FROM attempts") == [("c1",)]
    assert outside("SELECT approval_id FROM approvals") == [("ap1",)]
    assert outside("SELECT approval_id FROM verdicts") == [("ap1",)]
    assert sound(path)


async def test_what_lives_stays(path: Path, new_event: NewEvent, outside: Ask) -> None:
    """Conversations, state, timers, mailboxes, and the events that these still name."""
    async with EventLog.open(path, durability="process") as log:
        names = ("spawn", "gone", "set", "sent", "answered", "c1", "other")
        for name in names:
            event = new_event(
                "completion:result" if name == "c1" else "a:b",
                id=name,
                ts=at(-9),
                completion_id="c1" if name == "c1" else None,
            )
            await log.submit(Work(event=event, outcome=HANDLED))
        rows = (
            statements.agent("ann", b"{}", at(-9)),
            statements.agent("bob", b"{}", at(-9)),
            *statements.agent_terminated("bob", at(-8)),
            standing.timer("tea", b"{}", None, "set", at(9)),
            _message("sent", "still to be answered"),
            _message("answered", "answered"),
            statements.message_answered("ann", "answered"),
            _completion("c1", at(-9), request_id="sent"),
        )
        await log.submit(Work(statements=rows))
        await write(log, new_event, -1)
        await log.prune(at(-5), NOW)
        for name in names:
            kept = await log.reader.event(name)
            assert (kept is not None) is (name in ("set", "sent", "c1")), name
        assert [each.request_id for each in await log.reader.pending_messages()] == ["sent"]
        assert (await log.reader.pending_messages())[0].unfinished_completion == "c1"
        assert await log.reader.agents() == [(b"{}", None)]
        assert outside("SELECT agent_id FROM agents") == [("ann",)]
        await log.submit(Work(statements=(standing.timer_deleted("tea"),)))
        await write(log, new_event, -6)
        await log.prune(at(0.5), at(1))
        assert await log.reader.event("set") is None
        assert await log.reader.event("sent") is not None


async def test_a_key_is_known_as_long_as_its_event(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        key = Idempotency("client:0", "k", b"d")
        for expected in (False, True):
            work = Work(event=new_event(ts=at(-9)), outcome=HANDLED, idempotency=key)
            assert (await log.submit(work)).duplicate is expected
        await log.prune(at(-5), NOW)
        again = await log.submit(Work(event=new_event(), outcome=HANDLED, idempotency=key))
        assert again.duplicate is False


async def test_seq_goes_on_behind_what_was_pruned(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        await write(log, new_event, -9, -9)
        await log.prune(at(-5), NOW)
    async with EventLog.open(path, durability="process") as log:
        assert log.last_seq == 2
        await write(log, new_event, -9, -9)
    assert sound(path)


def _completion(name: str, ts: datetime, request_id: str = "r") -> tuple[str, tuple[object, ...]]:
    return statements.completion(
        completion_id=name, ts=ts, agent_id="ann", request_id=request_id, turn=1, provider="p",
        model="m", preset="ksi", stop_reason="stop", latency_ms=1, input_tokens=1,
        output_tokens=1, extractor=1,
    )  # fmt: skip


def _attempt(name: str) -> tuple[str, tuple[object, ...]]:
    return statements.attempt(
        Attempt(
            completion_id=name,
            ordinal=0,
            agent_id="ann",
            provider="p",
            model="m",
            dialect="event",
            tool="a:b",
            verdict="strict",
            start=3,
            end=9,
            event_id=f"{name}.0",
        )
    )


def _approval(name: str, event_id: str, made: datetime) -> tuple[str, tuple[object, ...]]:
    asked = Approval(
        approval_id=name, agent_id="ann", event_id=event_id, event="a:b",
        data=msgspec.Raw(b"{}"), digest=b"d", made=made, expires=made + HOUR,
    )  # fmt: skip
    return approval(asked)


def _message(request_id: str, content: str) -> tuple[str, tuple[object, ...]]:
    return statements.waiting_message(
        agent_id="ann", content=content, untrusted=False, request_id=request_id, ts=at(-9)
    )
