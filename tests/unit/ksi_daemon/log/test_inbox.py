from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome
from ksi_daemon.log import EventLog, attempts, statements
from ksi_daemon.log.attempts import AttemptFilter, BadAttempt
from ksi_daemon.log.inbox import Inbox
from ksi_daemon.log.model import Attempt
from ksi_daemon.work import Ended, Statement, Work

NewEvent = Callable[..., Event]

TS = datetime(2026, 1, 31, 12, tzinfo=UTC)
CALL = CallRef("k", "event", 3, 9)


def outcome(status: Any, code: str | None = None) -> Outcome:
    return Outcome(status, error=ErrorInfo(code, "no") if code else None)


def rows(name: str, verdict: str = "strict", code: str | None = None) -> tuple[Statement, ...]:
    """Return the rows of the completion *name* with one block."""
    made = Attempt(
        completion_id=name, ordinal=1, agent_id="ann", provider="p", model="m", dialect="event",
        tool="a:b", verdict=verdict, code=code, start=3, end=9, event_id=f"{name}.1",
    )  # fmt: skip
    completion = statements.completion(
        completion_id=name, ts=TS, agent_id="ann", request_id="r", turn=1, provider="p", model="m",
        preset="ksi", stop_reason="stop", latency_ms=1, input_tokens=1, output_tokens=1,
        extractor=1,
    )  # fmt: skip
    return completion, statements.attempt(made)


@asynccontextmanager
async def log_with(path: Path, new_event: NewEvent) -> AsyncIterator[tuple[EventLog, Inbox]]:
    """A log with one call for each way to go wrong; seqs are those of the names."""
    async with EventLog.open(path, durability="process") as log:
        for name, verdict, code, end in (
            ("c1", "rejected", "malformed_block", outcome("rejected", "malformed_block")),
            ("c2", "held", "echo", outcome("rejected", "echo")),
            ("c3", "strict", None, outcome("rejected", "args_schema")),
            ("c4", "repaired", None, outcome("unknown", "unknown_event")),
            ("c5", "strict", None, outcome("denied", "denied")),
            ("c6", "strict", None, outcome("handled")),
        ):
            event = new_event("a:b", id=f"{name}.1", call=CALL, completion_id=name, ts=TS)
            await log.submit(Work(event=event, outcome=end, statements=rows(name, verdict, code)))
        for name, end in (("c7", outcome("failed", "odd")), ("c8", outcome("lost"))):
            event = new_event("a:b", id=f"{name}.1", call=CALL, completion_id=name, ts=TS)
            await log.submit(Work(event=event, statements=rows(name)))
            await log.submit(Work(ended=Ended(event.seq, end)))
        running = new_event("a:b", id="c9.1", call=CALL, completion_id="c9", ts=TS)
        await log.submit(Work(event=running, statements=rows("c9")))
        # What a client did is no attempt of an agent, however it ended.
        await log.submit(Work(event=new_event("a:b"), outcome=outcome("failed", "odd")))
        yield log, Inbox(log.reader)


def wanted(**fields: Any) -> AttemptFilter:
    return AttemptFilter(**fields)


@pytest.mark.parametrize(
    ("chosen", "seqs"),
    [
        pytest.param({}, [8, 7, 5, 4, 3, 1], id="all but those held"),
        pytest.param({"kind": "held"}, [2], id="held"),
        pytest.param({"code": "echo"}, [2], id="by a code of those held"),
        pytest.param({"kind": "failed"}, [8, 7], id="failed, and cut off"),
        pytest.param({"kind": "invalid"}, [3], id="invalid"),
        pytest.param({"code": "lost"}, [8], id="without an error the status is the code"),
        pytest.param({"agent_id": "bob"}, [], id="of another agent"),
        pytest.param({"model": "m", "limit": 2}, [8, 7], id="the newest"),
        pytest.param({"before_seq": 5}, [4, 3, 1], id="the page before"),
        pytest.param({"since": TS}, [8, 7, 5, 4, 3, 1], id="since"),
        pytest.param({"until": TS}, [], id="until"),
        pytest.param({"since": TS + timedelta(seconds=1)}, [], id="since later"),
        pytest.param({"state": "open"}, [8, 7, 5, 4, 3, 1], id="open"),
        pytest.param({"state": "resolved"}, [], id="resolved"),
    ],
)
async def test_which(
    path: Path, new_event: NewEvent, chosen: dict[str, Any], seqs: list[int]
) -> None:
    async with log_with(path, new_event) as (_, inbox):
        assert [each.seq for each in await inbox.attempts(wanted(**chosen))] == seqs


async def test_one_is_found_by_its_seq(path: Path, new_event: NewEvent) -> None:
    async with log_with(path, new_event) as (_, inbox):
        every = await inbox.attempts(wanted())
        assert [await inbox.attempt(each.seq) for each in every] == every
        assert [await inbox.attempt(seq) for seq in (6, 9, 10, 99)] == [None] * 4
    found = every[-1]
    assert (found.kind, found.code, found.start, found.end) == ("rejected", "malformed_block", 3, 9)
    assert (found.event_id, found.completion_id, found.correction) == ("c1.1", "c1", None)


async def state_of(inbox: Inbox, seq: int) -> str:
    found = await inbox.attempt(seq)
    assert found is not None
    return found.state


def fixed(attempt: BadAttempt, number: int, kind: Any = "edited") -> Statement:
    event_id = None if kind == "dismissed" else f"{attempt.event_id}.fix{number}"
    return attempts.fix(
        attempt, number, kind, event_id=event_id, source="client:0", reason="", ts=TS
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("handled", "resolved"),
        ("failed", "open"),
        ("denied", "open"),
        ("unknown", "open"),
        ("lost", "open"),
    ],
)
async def test_a_fix_resolves_what_it_brings_to_good(
    path: Path, new_event: NewEvent, status: str, state: str
) -> None:
    async with log_with(path, new_event) as (log, inbox):
        attempt = await inbox.attempt(3)
        assert attempt is not None
        event = new_event("a:b", id="c3.1.fix1")
        await log.submit(
            Work(event=event, outcome=outcome(status), statements=(fixed(attempt, 1),))
        )
        assert await state_of(inbox, 3) == state
        [fix] = await inbox.fixes(attempt)
        assert (fix.number, fix.kind, fix.seq, fix.status) == (1, "edited", event.seq, status)
        assert await inbox.fixed_by("c3.1.fix1") == 3
        assert await inbox.fixed_by("c3.1") is None
        counts = await inbox.counts(wanted())
        assert counts.states["resolved"] == (state == "resolved")
        assert counts.fixes == {status: 1}


async def test_the_last_word_counts(path: Path, new_event: NewEvent) -> None:
    async with log_with(path, new_event) as (log, inbox):
        attempt = await inbox.attempt(3)
        assert attempt is not None
        await log.submit(Work(statements=(fixed(attempt, 1, "dismissed"),)))
        assert await state_of(inbox, 3) == "dismissed"
        with pytest.raises(Exception, match="UNIQUE"):
            await log.submit(Work(statements=(fixed(attempt, 1),)))
        event = new_event("a:b", id="c3.1.fix2")
        work = Work(event=event, outcome=outcome("handled"), statements=(fixed(attempt, 2),))
        await log.submit(work)
        assert await state_of(inbox, 3) == "resolved"
        assert [each.kind for each in await inbox.fixes(attempt)] == ["dismissed", "edited"]


async def test_what_the_agent_made_good_and_was_told(path: Path, new_event: NewEvent) -> None:
    async with log_with(path, new_event) as (log, inbox):
        told = attempts.correction("c3", 1, "Error.")
        await log.submit(Work(statements=(statements.attempt_corrected("c3", 1, 2), told, told)))
        found = await inbox.attempt(3)
    assert found is not None
    assert (found.state, found.corrected, found.correction) == ("resolved", 2, "Error.")
