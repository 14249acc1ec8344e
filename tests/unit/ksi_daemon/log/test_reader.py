from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksi_daemon.errors import StorageError
from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome, Status, matches_any
from ksi_daemon.log import EventLog, reader, statements
from ksi_daemon.log.model import Attempt, EventFilter, LoggedAttempt, LoggedCompletion
from ksi_daemon.log.reader import LogReader
from ksi_daemon.work import Ended, Work

NewEvent = Callable[..., Event]

HOUR = datetime(2026, 1, 31, 12, tzinfo=UTC)
HANDLED = Outcome("handled", msgspec.Raw(b"1"), duration_ms=2.5)
FAILED = Outcome("failed", error=ErrorInfo("handler_failed", "it broke"))


@asynccontextmanager
async def logged(path: Path, *works: Work) -> AsyncIterator[LogReader]:
    async with EventLog.open(path, durability="process") as log:
        await asyncio.gather(*(log.submit(work) for work in works))
        yield log.reader


# -- events --------------------------------------------------------------------------------------


async def test_reads_what_was_written(path: Path, new_event: NewEvent) -> None:
    event = new_event(
        "a:b",
        {"k": "é\0"},
        ts=HOUR + timedelta(microseconds=123_457),
        correlation_id="story",
        cause_id="cause",
        hop=2,
        agent_id="ann",
        completion_id="c1",
        call=CallRef("ksiu_1", "event", 3, 9, ("comment",)),
    )
    async with logged(path, Work(event=event), Work(ended=Ended(1, FAILED))) as log:
        found = [await log.event(1), await log.event("e1"), *await log.events(EventFilter())]
        assert [await log.event(2), await log.event("nobody")] == [None, None]
    event.status, event.error = "failed", FAILED.error
    assert found == [event] * 3


@pytest.mark.parametrize(
    ("inline", "later", "expected"),
    [
        pytest.param(None, None, None, id="not ended"),
        pytest.param(HANDLED, None, HANDLED, id="ended with the event"),
        pytest.param(None, HANDLED, HANDLED, id="ended later"),
        pytest.param(None, FAILED, FAILED, id="failed later"),
    ],
)
async def test_outcome(
    path: Path,
    new_event: NewEvent,
    inline: Outcome | None,
    later: Outcome | None,
    expected: Outcome | None,
) -> None:
    ends = [Work(ended=Ended(1, later))] if later else []
    async with logged(path, Work(event=new_event(), outcome=inline), *ends) as log:
        assert await log.outcome(1) == expected
        assert await log.outcome(2) is None
        event = await log.event(1)
    assert event is not None
    assert event.status == (expected.status if expected else "received")
    assert event.duration_ms == (expected.duration_ms if expected else None)


NAMES = ("a:b", "a:c", "agent:spawn", "x[1]:y", "x?:y")
PATTERNS = st.sampled_from(
    ["*", "a:*", "*:y", "a:b", "x[1]:*", "x?:*", "x?:y", "a*b", "*a*e*n*", "none:*", ""]
)
STATUSES: tuple[Status, ...] = ("received", "handled", "failed", "denied")
SEQS = st.none() | st.integers(0, 130)


def works(new_event: NewEvent) -> list[Work]:
    """Make 120 events of a few kinds, a third of which end later."""
    chance = random.Random(7)
    made = [
        Work(
            event=new_event(
                chance.choice(NAMES),
                agent_id=chance.choice([None, "ann", "bob"]),
                correlation_id=chance.choice("rst"),
                completion_id=chance.choice([None, "c1", "c2"]),
                status=chance.choice(STATUSES),
            )
        )
        for _ in range(120)
    ]
    ends = [Work(ended=Ended(seq, chance.choice([HANDLED, FAILED]))) for seq in range(3, 120, 3)]
    return made + ends


def fits(event: Event, wanted: EventFilter) -> bool:
    return (
        (not wanted.patterns or matches_any(wanted.patterns, event.name))
        and (wanted.after_seq is None or event.seq > wanted.after_seq)
        and (wanted.before_seq is None or event.seq < wanted.before_seq)
        and wanted.agent_id in (None, event.agent_id)
        and wanted.correlation_id in (None, event.correlation_id)
        and wanted.completion_id in (None, event.completion_id)
        and wanted.status in (None, event.status)
    )


@pytest.mark.parametrize("window", [7, 50_000])
async def test_events_agree_with_a_plain_search(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """However the log is searched, the answer is that of a loop over all events."""
    monkeypatch.setattr(reader, "WINDOW", window)
    filters = st.builds(
        EventFilter,
        patterns=st.lists(PATTERNS, max_size=2).map(tuple),
        after_seq=SEQS,
        before_seq=SEQS,
        agent_id=st.sampled_from([None, None, "ann", "nobody"]),
        correlation_id=st.sampled_from([None, None, "r", "s"]),
        completion_id=st.sampled_from([None, None, "c1"]),
        status=st.sampled_from([None, None, *STATUSES]),
        limit=st.integers(1, 130),
        reverse=st.booleans(),
    )
    wanted: list[EventFilter] = []

    @settings(max_examples=300, database=None, suppress_health_check=list(HealthCheck))
    @given(filters)
    def collect(example: EventFilter) -> None:
        wanted.append(example)

    collect()
    async with logged(path, *works(new_event)) as log:
        events = await log.events(EventFilter(limit=1_000))
        assert [event.seq for event in events] == list(range(1, 121))
        for each in wanted:
            expected = [event for event in events if fits(event, each)]
            expected = (expected[::-1] if each.reverse else expected)[: each.limit]
            assert await log.events(each) == expected, each


async def test_pages_join_without_gap_or_repeat(path: Path, new_event: NewEvent) -> None:
    async with logged(path, *works(new_event)) as log:
        seqs: list[int] = []
        while page := await log.events(
            EventFilter(patterns=("a*",), after_seq=seqs[-1] if seqs else 0, limit=7)
        ):
            seqs += [event.seq for event in page]
        whole = await log.events(EventFilter(patterns=("a*",), limit=1_000))
    assert seqs == [event.seq for event in whole]


async def test_an_empty_log(path: Path) -> None:
    async with logged(path) as log:
        assert await log.events(EventFilter()) == []
        assert await log.events(EventFilter(reverse=True, agent_id="ann")) == []
        assert await log.last_seq() == 0
        assert await log.reliability(["model"], None, None) == []
        stats = await log.stats()
    assert (stats.events, stats.last_seq, set(stats.rows.values())) == ({}, 0, {0})


async def test_stories(path: Path, new_event: NewEvent) -> None:
    def step(name: str, cause: str | None, story: str = "root") -> Work:
        return Work(event=new_event("a:b", id=name, cause_id=cause, correlation_id=story))

    steps = [
        step("root", None), step("left", "root"), step("other", None, "other"),
        step("right", "root"), step("leaf", "left"), step("leaf2", "leaf"),
    ]  # fmt: skip
    async with logged(path, *steps) as log:
        found = {
            "tree": await log.tree("root"),
            "causes": await log.causes("leaf2"),
            "causes of the first": await log.causes("root"),
            "effects": await log.effects("left"),
            "effects of the last": await log.effects("right"),
            "nobody": await log.causes("nobody") + await log.effects("nobody"),
        }
        assert await log.last_seq() == 6
    assert {what: [event.id for event in events] for what, events in found.items()} == {
        "tree": ["root", "left", "right", "leaf", "leaf2"],
        "causes": ["root", "left", "leaf", "leaf2"],
        "causes of the first": ["root"],
        "effects": ["left", "leaf", "leaf2"],
        "effects of the last": ["right"],
        "nobody": [],
    }


async def test_events_that_cause_each_other_end(path: Path, new_event: NewEvent) -> None:
    loop = [Work(event=new_event(cause_id="e2")), Work(event=new_event(cause_id="e1"))]
    async with logged(path, *loop) as log:
        assert [event.id for event in await log.causes("e1")] == ["e1", "e2"]
        assert [event.id for event in await log.effects("e1")] == ["e1", "e2"]


async def test_unfinished(path: Path, new_event: NewEvent) -> None:
    works = [
        Work(event=new_event()),
        Work(event=new_event(), outcome=HANDLED),
        Work(event=new_event()),
        Work(event=new_event()),
        Work(ended=Ended(3, FAILED)),
    ]
    async with logged(path, *works) as log:
        assert await log.unfinished() == [1, 4]


async def test_stats(path: Path, new_event: NewEvent) -> None:
    works = [
        Work(event=new_event("a:b")),
        Work(event=new_event("a:b")),
        Work(event=new_event("a:c"), outcome=HANDLED),
        Work(ended=Ended(2, FAILED)),
        Work(statements=(statements.agent("ann", b"{}", HOUR),)),
    ]
    async with logged(path, *works) as log:
        stats = await log.stats()
    assert stats.events == {"a:b": {"received": 1, "failed": 1}, "a:c": {"handled": 1}}
    assert stats.rows == {
        "events": 3, "outcomes": 1, "completions": 0, "attempts": 0, "agents": 1, "messages": 0,
        "state": 0,
    }  # fmt: skip
    assert stats.last_seq == 3
    assert stats.bytes > 0
    assert stats.wal_bytes > 0


async def test_reads_beside_each_other(path: Path, new_event: NewEvent) -> None:
    """More questions than connections wait for their turn."""
    async with logged(path, *works(new_event)) as log:
        answers = await asyncio.gather(*(log.events(EventFilter(limit=5)) for _ in range(20)))
    assert [len(answer) for answer in answers] == [5] * 20


async def test_a_question_that_is_given_up_harms_no_other(path: Path, new_event: NewEvent) -> None:
    async with logged(path, *works(new_event)) as log:
        tasks = [asyncio.ensure_future(log.stats()) for _ in range(8)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await log.last_seq() == 120


def spoil(path: Path, first_page: int) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096 * first_page)
        file.write(b"\xff" * (size - 4096 * first_page))


async def test_a_damaged_page_is_told(path: Path, new_event: NewEvent) -> None:
    async with EventLog.open(path, durability="process") as log:
        for _ in range(20):
            await log.submit(Work(event=new_event(data="x" * 5_000)))
    async with LogReader.open(path) as log_reader:
        spoil(path, first_page=12)
        with pytest.raises(StorageError, match="the log cannot be read: ") as caught:
            await log_reader.events(EventFilter(limit=1_000))
    assert caught.value.code == "storage_read"


async def test_cannot_write(path: Path) -> None:
    async with logged(path) as log:
        with pytest.raises(StorageError, match="readonly"):
            await log._rows("DELETE FROM events")
        assert await log._rows("PRAGMA query_only") == [(1,)]


# -- completions ---------------------------------------------------------------------------------


def completion(completion_id: str = "c1", ts: datetime = HOUR, **fields: Any) -> Work:
    given: dict[str, Any] = {
        "agent_id": "ann", "request_id": "r1", "turn": 1, "provider": "scripted", "model": "m",
        "preset": "ksi", "stop_reason": "stop", "latency_ms": 10.5, "input_tokens": 100,
        "output_tokens": 20, "extractor": 1,
    }  # fmt: skip
    row = statements.completion(completion_id=completion_id, ts=ts, **(given | fields))
    return Work(statements=(row,))


def attempt(completion_id: str = "c1", ordinal: int = 1, **fields: Any) -> Attempt:
    given: dict[str, Any] = {
        "agent_id": "ann", "provider": "scripted", "model": "m", "dialect": "event",
        "tool": "a:b", "verdict": "strict", "start": 3, "end": 9,
        "event_id": f"{completion_id}.{ordinal}",
    }  # fmt: skip
    return Attempt(completion_id=completion_id, ordinal=ordinal, **(given | fields))


async def test_completion(path: Path) -> None:
    done = Work(statements=(statements.completion_done("c2"),))
    async with logged(path, completion("c1"), completion("c2", turn=2), done) as log:
        first, second = await log.completion("c1"), await log.completion("c2")
        assert await log.completion("nobody") is None
    expected = LoggedCompletion(
        id="c1", ts=HOUR, agent_id="ann", request_id="r1", turn=1, provider="scripted", model="m",
        preset="ksi", stop_reason="stop", latency_ms=10.5, input_tokens=100, output_tokens=20,
        state="stored", extractor=1,
    )  # fmt: skip
    assert first == expected
    assert second == msgspec.structs.replace(expected, id="c2", turn=2, state="done")


async def test_attempts(path: Path, new_event: NewEvent) -> None:
    made = [
        attempt(ordinal=2, verdict="repaired", tool=None, repairs=("comment", "trailing_comma")),
        attempt(ordinal=1, verdict="rejected", code="malformed", event_id=None),
        attempt("c2"),
    ]
    works = [
        completion("c1"),
        completion("c2"),
        Work(statements=tuple(statements.attempt(each) for each in made)),
        Work(statements=(statements.attempt_corrected("c1", 1, 3),)),
        Work(event=new_event(id="c1.2"), outcome=FAILED),
    ]
    async with logged(path, *works) as log:
        found = await log.attempts("c1")
        assert await log.attempts("nobody") == []
    given = [msgspec.structs.asdict(each) for each in (made[1], made[0])]
    assert found == [
        LoggedAttempt(
            **given[0], ts=found[0].ts, corrected=3, seq=None, status=None, error_code=None
        ),
        LoggedAttempt(
            **given[1],
            ts=found[1].ts,
            corrected=0,
            seq=1,
            status="failed",
            error_code="handler_failed",
        ),
    ]
