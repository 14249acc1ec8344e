from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksi_daemon.errors import InvalidData, StorageError
from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome, Status, matches_any
from ksi_daemon.log import EventLog, reader, statements
from ksi_daemon.log.metrics import wilson
from ksi_daemon.log.model import Attempt, EventFilter, GroupKey, LoggedAttempt, LoggedCompletion
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


# -- reliability ---------------------------------------------------------------------------------


async def test_reliability_by_hand(path: Path, new_event: NewEvent) -> None:
    """Two models; every way in which a block can end."""
    ends: list[tuple[dict[str, Any], Outcome | None]] = [
        ({}, HANDLED),
        ({"verdict": "repaired"}, HANDLED),
        ({}, FAILED),
        ({}, Outcome("timeout", error=ErrorInfo("handler_timeout", "late"))),
        ({}, Outcome("denied", error=ErrorInfo("denied", "no"))),
        ({}, Outcome("unknown", error=ErrorInfo("unknown_event", "what"))),
        ({}, Outcome("rejected", error=ErrorInfo("args_schema", "wrong"))),
        ({}, Outcome("rejected", error=ErrorInfo("component_invalid", "wrong"))),
        ({}, None),
        ({"verdict": "rejected", "code": "malformed"}, Outcome("rejected")),
        ({"verdict": "held", "code": "echo"}, Outcome("rejected")),
    ]
    works = [completion("c1"), completion("c2", latency_ms=40), completion("c3", latency_ms=20)]
    works += [completion("d1", model="n", latency_ms=1)]
    for number, (fields, end) in enumerate(ends, start=1):
        works += [
            Work(statements=(statements.attempt(attempt(ordinal=number, **fields)),)),
            Work(event=new_event(id=f"c1.{number}")),
            *([Work(ended=Ended(number, end))] if end else []),
        ]
    works += [
        Work(statements=(statements.attempt(attempt("c2")),)),
        Work(event=new_event(id="c2.1"), outcome=HANDLED),
        Work(statements=(statements.attempt_corrected("c1", 10, 1),)),
    ]
    async with logged(path, *works) as log:
        rows = await log.reliability(["model", "dialect"], None, None)
        by_model = await log.reliability(["model"], None, None)
    counts = {
        "seen": 12, "strict": 9, "repaired": 1, "rejected": 1, "invalid": 1, "unknown": 1,
        "denied": 1, "handled": 3, "failed": 2, "corrected": 1, "quoted": 1,
    }  # fmt: skip
    none = dict.fromkeys(counts, 0) | {"rate": None, "low": None, "high": None}
    low, high = wilson(3, 11) or (0, 0)
    some = counts | {"rate": 3 / 11, "low": low, "high": high}
    silent = {"p50_ms": 20.0, "p95_ms": 20.0, "tokens": 120}
    assert rows == [
        {"model": "m", "dialect": None, "completions": 1} | none | silent,
        {"model": "m", "dialect": "event", "completions": 2} | some
        | {"p50_ms": 10.5, "p95_ms": 40.0, "tokens": 240},
        {"model": "n", "dialect": None, "completions": 1} | none
        | {"p50_ms": 1.0, "p95_ms": 1.0, "tokens": 120},
    ]  # fmt: skip
    assert by_model[0] == {"model": "m", "completions": 3} | some | {
        "p50_ms": 20.0, "p95_ms": 40.0, "tokens": 360,
    }  # fmt: skip


KEYS: tuple[GroupKey, ...] = ("agent", "model", "provider", "dialect", "tool", "hour")
DIALECTS = ("event", "ksi_body")


def made_up(new_event: NewEvent) -> tuple[list[Work], list[dict[str, Any]]]:
    """Return the works of 60 completions, and each block (or silence) with all its facts."""
    chance = random.Random(11)
    works: list[Work] = []
    facts: list[dict[str, Any]] = []
    for number in range(60):
        about: dict[str, Any] = {
            "agent_id": chance.choice([None, "ann"]),
            "model": chance.choice("mn"),
            "provider": chance.choice("pq"),
        }
        ts = HOUR + timedelta(minutes=chance.randrange(180))
        latency, tokens, name = chance.randrange(1, 90), chance.randrange(50), f"c{number}"
        works.append(completion(name, ts, latency_ms=latency, input_tokens=tokens, **about))
        group = {
            "agent": about["agent_id"], "model": about["model"], "provider": about["provider"],
            "hour": f"{ts:%Y-%m-%dT%H}:00:00Z",
        }  # fmt: skip
        of = group | {"id": name, "ts": ts, "latency": latency, "tokens": tokens + 20}
        blocks = chance.randrange(4)
        if not blocks:
            facts.append(of | {"dialect": None, "tool": None, "verdict": None})
        for ordinal in range(1, blocks + 1):
            fact = of | {
                "dialect": chance.choice(DIALECTS),
                "tool": chance.choice([None, "a:b", "a:c"]),
                "verdict": chance.choice(["strict", "strict", "repaired", "rejected", "held"]),
                "status": chance.choice(["handled", "handled", "failed", "denied", "unknown"]),
            }
            made = attempt(
                name, ordinal, dialect=fact["dialect"], tool=fact["tool"],
                verdict=fact["verdict"], **about,
            )  # fmt: skip
            works.append(Work(statements=(statements.attempt(made),)))
            works.append(
                Work(event=new_event(id=f"{name}.{ordinal}"), outcome=Outcome(fact["status"]))
            )
            facts.append(fact)
    return works, facts


def counted(facts: list[dict[str, Any]], keys: tuple[GroupKey, ...]) -> list[dict[str, Any]]:
    """Count *facts* the plain way."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for fact in facts:
        groups.setdefault(tuple(fact[key] for key in keys), []).append(fact)
    rows = []
    for values, members in groups.items():
        blocks = [fact for fact in members if fact["verdict"]]
        verdicts = Counter(fact["verdict"] for fact in blocks)
        ends = Counter(f["status"] for f in blocks if f["verdict"] in ("strict", "repaired"))
        replies = {fact["id"]: fact for fact in members}.values()
        latencies = sorted(float(fact["latency"]) for fact in replies)
        trials = len(blocks) - verdicts["held"]
        low, high = wilson(ends["handled"], trials) or (None, None)
        rows.append(
            dict(zip(keys, values, strict=True))
            | {
                "completions": len(replies), "seen": len(blocks), "strict": verdicts["strict"],
                "repaired": verdicts["repaired"], "rejected": verdicts["rejected"], "invalid": 0,
                "unknown": ends["unknown"], "denied": ends["denied"],
                "handled": ends["handled"], "failed": ends["failed"], "corrected": 0,
                "quoted": verdicts["held"],
                "rate": ends["handled"] / trials if trials else None, "low": low, "high": high,
                "p50_ms": latencies[-(-len(latencies) // 2) - 1],
                "p95_ms": latencies[-(-len(latencies) * 19 // 20) - 1],
                "tokens": sum(fact["tokens"] for fact in replies),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: [(row[key] is not None, row[key]) for key in keys])


@pytest.mark.parametrize(
    "keys",
    [*((key,) for key in KEYS), ("model", "dialect"), ("tool", "agent", "hour"), KEYS],
    ids="+".join,
)
async def test_reliability_agrees_with_plain_counting(
    path: Path, new_event: NewEvent, keys: tuple[GroupKey, ...]
) -> None:
    works, facts = made_up(new_event)
    since, until = HOUR + timedelta(minutes=40), HOUR + timedelta(minutes=150)
    async with logged(path, *works) as log:
        assert await log.reliability(keys, None, None) == counted(facts, keys)
        within = [fact for fact in facts if since <= fact["ts"] < until]
        assert await log.reliability(keys, since, until) == counted(within, keys)


@pytest.mark.parametrize("keys", [[], ["model", "ts"], ["1) --"]], ids=str)
async def test_groups_by_its_own_keys_only(path: Path, keys: Any) -> None:
    async with logged(path) as log:
        with pytest.raises(InvalidData, match="cannot group by"):
            await log.reliability(keys, None, None)
