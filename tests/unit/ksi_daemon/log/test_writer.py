from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import Conflict, KsiError, StorageError
from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome
from ksi_daemon.log.chain import GENESIS, linked
from ksi_daemon.log.database import open_writer
from ksi_daemon.log.rows import EVENT_COLUMNS
from ksi_daemon.log.writer import MAX_UNITS, LogWriter
from ksi_daemon.work import Ended, Idempotency, Work

NewEvent = Callable[..., Event]
Ask = Callable[..., list[tuple[Any, ...]]]

DONE = msgspec.Raw(b'{"done":true}')
HANDLED = Outcome("handled", DONE, duration_ms=1.5)


class Told:
    """What a writer told, in the order of telling."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failures: list[StorageError] = []
        self.failed = asyncio.Event()

    def fail(self, error: StorageError) -> None:
        self.failures.append(error)
        self.failed.set()


@asynccontextmanager
async def running(
    connection: sqlite3.Connection, path: Path, told: Told | None = None, **limits: int
) -> AsyncIterator[LogWriter]:
    told = told or Told()
    writer = LogWriter(
        connection, path, on_commit=told.events.extend, on_failure=told.fail, **limits
    )
    try:
        yield writer
    finally:
        await writer.close()


@asynccontextmanager
async def held(writer: LogWriter) -> AsyncIterator[None]:
    """Keep the writer's thread busy, so that what is submitted meanwhile waits together."""
    began, release = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> msgspec.Raw:
        began.set()
        release.wait(10)
        return DONE

    holding = writer.submit(Work(transaction=hold))
    assert await anyio.to_thread.run_sync(began.wait, 10)
    try:
        yield
    finally:
        release.set()
        await holding


def seq(work: Work) -> int:
    assert work.event is not None
    return work.event.seq


async def outcomes(futures: list[asyncio.Future[Work]]) -> list[Work | BaseException]:
    return await asyncio.gather(*futures, return_exceptions=True)


async def test_order(path: Path, new_event: NewEvent) -> None:
    """The order of submission is the order of seq, of the feed and of the answers; no gap."""
    told, answered = Told(), list[int]()
    async with running(open_writer(path, "process"), path, told) as writer:
        futures = [writer.submit(Work(event=new_event())) for _ in range(10_000)]
        for future in futures:
            future.add_done_callback(lambda done: answered.append(seq(done.result())))
        await outcomes(futures)
        gauges = writer.gauges()
    expected = list(range(1, 10_001))
    assert [event.seq for event in told.events] == expected
    assert answered == expected
    assert (gauges.units, gauges.last_seq, gauges.depth, gauges.bytes) == (10_000, 10_000, 0, 0)
    assert gauges.batches < 200


async def test_batches_are_bounded_in_units(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            futures = [writer.submit(Work(event=new_event())) for _ in range(300)]
            assert writer.gauges().depth == 301
        await outcomes(futures)
        assert (writer.gauges().batches, writer.gauges().last_batch) == (3, 44)
        assert writer.gauges().batch_sizes == (1, 0, 0, 0, 0, 0, 1, 0, 1)


async def test_batches_are_bounded_in_bytes(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            large = [
                writer.submit(Work(event=new_event(data={"s": "x" * 600_000}))) for _ in range(3)
            ]
            assert writer.gauges().bytes > 1_800_000
        await outcomes(large)
        assert (writer.gauges().batches, writer.gauges().last_batch) == (3, 1)


@pytest.mark.parametrize(
    ("count", "statements"),
    [
        pytest.param(1, ["INSERT"], id="one event is one statement"),
        pytest.param(64, ["INSERT"], id="so are as many as fit in one"),
        pytest.param(200, ["BEGIN", *["INSERT"] * 4, "COMMIT"], id="more are one transaction"),
    ],
)
async def test_a_batch_is_one_commit(
    path: Path, new_event: NewEvent, count: int, statements: list[str]
) -> None:
    connection, seen = open_writer(path, "process"), list[str]()
    connection.set_trace_callback(lambda sql: seen.append(sql.split()[0]))
    async with running(connection, path) as writer:
        async with held(writer):
            futures = [writer.submit(Work(event=new_event())) for _ in range(count)]
        await outcomes(futures)
    after_holding = seen[seen.index("COMMIT") + 1 :]
    assert after_holding[: after_holding.index("PRAGMA")] == statements


async def test_tells_the_feed_what_is_durable_before_it_answers(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    seen: list[tuple[bool, int]] = []

    def look(events: list[Event]) -> None:
        seen.append((future.done(), outside("SELECT count(*) FROM events")[0][0]))

    writer = LogWriter(
        open_writer(path, "process"), path, on_commit=look, on_failure=lambda error: None
    )
    future = writer.submit(Work(event=new_event()))
    await future
    await writer.close()
    assert seen == [(False, 1)]


async def test_a_feed_that_raises_leaves_nobody_waiting(path: Path, new_event: NewEvent) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, what: reported.append(what))

    def broken(events: list[Event]) -> None:
        raise LookupError("broken feed")

    writer = LogWriter(
        open_writer(path, "process"), path, on_commit=broken, on_failure=lambda error: None
    )
    work = await writer.submit(Work(event=new_event()))
    await writer.close()
    assert seq(work) == 1
    assert [str(what["exception"]) for what in reported] == ["broken feed"]


async def test_who_stops_waiting_is_committed_all_the_same(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            writer.submit(Work(event=new_event())).cancel()
            another = writer.submit(Work(event=new_event()))
        with anyio.fail_after(5):
            assert seq(await another) == 2
    assert outside("SELECT id FROM events") == [("e1",), ("e2",)]


# -- what is written ---------------------------------------------------------------------------


async def test_writes_all_that_an_event_has(path: Path, new_event: NewEvent, outside: Ask) -> None:
    event = new_event(
        "a:b",
        {"k": "v"},
        correlation_id="story",
        cause_id="cause",
        hop=2,
        agent_id="ann",
        completion_id="c1",
        call=CallRef("ksiu_1", "event", 3, 9, ("comment",)),
        status="denied",
    )
    error = ErrorInfo("denied", "no")
    async with running(open_writer(path, "process"), path) as writer:
        work = await writer.submit(
            Work(
                event=event,
                outcome=Outcome("denied", error=error, duration_ms=0.25),
                idempotency=Idempotency("client:1000", "key", b"digest"),
            )
        )
    assert (event.seq, event.status, event.error, event.duration_ms) == (1, "denied", error, 0.25)
    assert (work.event, work.duplicate) == (event, False)
    [(*canonical, hash_)] = outside(f"SELECT {', '.join(EVENT_COLUMNS)}, hash FROM events")
    assert hash_ == linked(GENESIS, (), tuple(canonical))
    [row] = outside("SELECT * FROM events")
    assert row[0:2] + row[3:] == (
        1, "e1", "a:b", '{"k":"v"}', "client:1000/1", "story", "cause", 2, "ann", "c1",
        '{"id":"ksiu_1","dialect":"event","start":3,"end":9,"repairs":["comment"]}',
        "denied", None, '{"code":"denied","message":"no","retryable":false}', 250,
        "client:1000", "key", b"digest", hash_,
    )  # fmt: skip


async def test_records_an_end(path: Path, new_event: NewEvent, outside: Ask) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        first = await writer.submit(Work(event=new_event()))
        assert first.event is not None
        await writer.submit(Work(ended=Ended(first.event.seq, HANDLED)))
    assert outside("SELECT seq, status, result, error, duration_us FROM outcomes") == [
        (1, "handled", '{"done":true}', None, 1500)
    ]


async def test_executes_statements_with_the_event(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    insert = "INSERT INTO state VALUES (?, 'k', '1', 1, 0, 0)"
    async with running(open_writer(path, "process"), path) as writer:
        await writer.submit(
            Work(event=new_event(), statements=((insert, ("a",)), (insert, ("b",))))
        )
    assert outside("SELECT namespace FROM state") == [("a",), ("b",)]
    assert outside("SELECT count(*) FROM events") == [(1,)]


# -- transactions ------------------------------------------------------------------------------


def keep(name: str) -> Callable[[sqlite3.Connection], msgspec.Raw]:
    def transaction(connection: sqlite3.Connection) -> msgspec.Raw:
        connection.execute(
            "INSERT INTO state VALUES (?, 'k', '1', 1, 0, 0)",
            (name,),
        )
        return DONE

    return transaction


def keep_and_raise(name: str, error: Exception) -> Callable[[sqlite3.Connection], msgspec.Raw]:
    def transaction(connection: sqlite3.Connection) -> msgspec.Raw:
        keep(name)(connection)
        raise error

    return transaction


async def test_transaction_is_one_commit_with_its_event(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        work = await writer.submit(Work(event=new_event(), transaction=keep("a")))
    assert work.outcome is not None
    assert (work.outcome.status, work.outcome.result) == ("handled", DONE)
    assert work.event is not None
    assert work.event.status == "handled"
    assert outside("SELECT status, result FROM events") == [("handled", '{"done":true}')]
    assert outside("SELECT namespace FROM state") == [("a",)]
    assert outside("SELECT count(*) FROM outcomes") == [(0,)]


@pytest.mark.parametrize(
    ("error", "info"),
    [
        pytest.param(
            Conflict("taken", code="version_conflict", details={"version": 3}),
            ErrorInfo("version_conflict", "taken", details={"version": 3}),
            id="an error of ksi",
        ),
        pytest.param(
            ZeroDivisionError("x"),
            ErrorInfo("handler_failed", "the handler raised ZeroDivisionError: x"),
            id="an error of the handler",
        ),
        pytest.param(
            sqlite3.IntegrityError("UNIQUE"),
            ErrorInfo("handler_failed", "the handler raised IntegrityError: UNIQUE"),
            id="an error of its SQL",
        ),
    ],
)
async def test_transaction_that_raises_is_undone_alone(
    path: Path, new_event: NewEvent, outside: Ask, error: Exception, info: ErrorInfo
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            futures = [
                writer.submit(Work(event=new_event(), transaction=keep("before"))),
                writer.submit(Work(event=new_event(), transaction=keep_and_raise("bad", error))),
                writer.submit(Work(event=new_event(), transaction=keep("behind"))),
            ]
        works = [await future for future in futures]
    assert [work.outcome and work.outcome.status for work in works] == [
        "handled", "failed", "handled",
    ]  # fmt: skip
    assert works[1].event is not None
    assert works[1].event.error == info
    assert outside("SELECT seq, status FROM events") == [
        (1, "handled"), (2, "failed"), (3, "handled"),
    ]  # fmt: skip
    assert outside("SELECT namespace FROM state") == [("before",), ("behind",)]


async def test_transactions_see_those_before_them(path: Path, new_event: NewEvent) -> None:
    def count(connection: sqlite3.Connection) -> msgspec.Raw:
        [n] = connection.execute("SELECT count(*) FROM state").fetchone()
        keep(f"{n}")(connection)
        return msgspec.Raw(b"%d" % n)

    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            futures = [writer.submit(Work(event=new_event(), transaction=count)) for _ in range(20)]
        works = [await future for future in futures]
    assert [work.outcome and work.outcome.result for work in works] == [
        msgspec.Raw(b"%d" % n) for n in range(20)
    ]


# -- bad units ---------------------------------------------------------------------------------


def bad_units() -> list[Any]:
    statement = "INSERT INTO state VALUES (?, ?, '1', 1, 0, 0)"
    rows: dict[str, tuple[Callable[[NewEvent], Work], str]] = {
        "an id that is taken": (lambda e: Work(event=e(id="e1")), "UNIQUE"),
        "data that is not UTF-8": (
            lambda e: Work(event=e(data=msgspec.Raw(b'"\xff"'))),
            "utf-8",
        ),
        "an integer of 65 bits": (lambda e: Work(event=e(hop=2**64)), "ints < -2**63"),
        "a lone surrogate": (lambda e: Work(event=e(source="\ud800")), "surrogates"),
        "a name with a NUL": (lambda e: Work(event=e("a:b\0")), "CHECK"),
        "a duration of 65 bits": (
            lambda e: Work(event=e(), ended=Ended(1, Outcome("handled", duration_ms=2.0**64))),
            "ints < -2**63",
        ),
        "a statement that is no SQL": (lambda e: Work(e(), statements=(("SELEC", ()),)), "syntax"),
        "a statement of two": (
            lambda e: Work(e(), statements=(("DELETE FROM state; DELETE FROM agents", ()),)),
            "one statement",
        ),
        "a value of no type": (
            lambda e: Work(e(), statements=((statement, ("a", object())),)),
            "not supported",
        ),
        "a NULL where none may be": (
            lambda e: Work(e(), statements=((statement, ("a", None)),)),
            "NOT NULL",
        ),
        "a result that is no JSON text": (
            lambda e: Work(e(), transaction=lambda connection: {"no": "raw"}),  # type: ignore[arg-type,return-value]
            "decoding to str",
        ),
    }
    return [pytest.param(make, text, id=name) for name, (make, text) in rows.items()]


@pytest.mark.parametrize(("bad", "text"), bad_units())
async def test_bad_unit_fails_alone(
    path: Path,
    new_event: NewEvent,
    outside: Ask,
    bad: Callable[[NewEvent], Work],
    text: str,
) -> None:
    told = Told()
    async with running(open_writer(path, "process"), path, told) as writer:
        async with held(writer):
            futures = [
                writer.submit(Work(event=new_event())),
                writer.submit(bad(new_event)),
                writer.submit(Work(event=new_event(id="last"), transaction=keep("last"))),
            ]
        first, error, last = await outcomes(futures)
        gauges = writer.gauges()
    assert isinstance(error, StorageError)
    assert (error.code, error.retryable) == ("storage_refused", False)
    assert text in error.message
    assert isinstance(first, Work)
    assert isinstance(last, Work)
    assert outside("SELECT seq, id, status FROM events") == [
        (1, "e1", "received"), (2, "last", "handled"),
    ]  # fmt: skip
    assert outside("SELECT namespace FROM state") == [("last",)]
    assert [event.id for event in told.events] == ["e1", "last"]
    assert (gauges.refused, gauges.units, told.failures) == (1, 3, [])


async def test_the_end_of_an_event_is_written_once(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        await writer.submit(Work(event=new_event()))
        await writer.submit(Work(ended=Ended(1, HANDLED)))
        with pytest.raises(StorageError, match=r"UNIQUE constraint failed: outcomes\.seq"):
            await writer.submit(Work(ended=Ended(1, Outcome("timeout"))))
    assert outside("SELECT status FROM outcomes") == [("handled",)]


# -- idempotency -------------------------------------------------------------------------------


def keyed(event: Event, key: str = "k", digest: bytes = b"d", scope: str = "s", **of: Any) -> Work:
    return Work(event=event, idempotency=Idempotency(scope, key, digest), **of)


async def test_a_repeated_key_gets_the_earlier_event_and_its_outcome(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    told = Told()
    async with running(open_writer(path, "process"), path, told) as writer:
        await writer.submit(keyed(new_event(), outcome=HANDLED))
        again = await writer.submit(keyed(new_event(), transaction=keep("again")))
    assert (again.duplicate, seq(again), again.outcome) == (True, 1, HANDLED)
    assert outside("SELECT id FROM events") == [("e1",)]
    assert outside("SELECT * FROM state") == []
    assert [event.id for event in told.events] == ["e1"]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(None, None, id="not ended"),
        pytest.param(HANDLED, HANDLED, id="ended later"),
        pytest.param(
            Outcome("failed", error=ErrorInfo("x", "y", "z", True, {"n": 1})),
            Outcome("failed", error=ErrorInfo("x", "y", "z", True, {"n": 1})),
            id="failed later",
        ),
    ],
)
async def test_a_repeated_key_finds_the_later_end(
    path: Path, new_event: NewEvent, end: Outcome | None, outcome: Outcome | None
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        await writer.submit(keyed(new_event()))
        if end is not None:
            await writer.submit(Work(ended=Ended(1, end)))
        again = await writer.submit(keyed(new_event()))
    assert (again.duplicate, again.outcome) == (True, outcome)


async def test_a_key_twice_in_one_batch(path: Path, new_event: NewEvent, outside: Ask) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            futures = [
                writer.submit(keyed(new_event(), transaction=keep("first"))),
                writer.submit(keyed(new_event(), transaction=keep("second"))),
                writer.submit(keyed(new_event(), scope="other")),
            ]
        first, second, third = [await future for future in futures]
    assert [seq(work) for work in (first, second, third)] == [1, 1, 2]
    assert [work.duplicate for work in (first, second, third)] == [False, True, False]
    assert second.outcome == first.outcome
    assert outside("SELECT namespace FROM state") == [("first",)]


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "later"])
async def test_A6_a_key_with_another_body_is_a_conflict(
    path: Path, new_event: NewEvent, outside: Ask, together: bool
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        if not together:
            await writer.submit(keyed(new_event()))
        async with held(writer):
            futures = [writer.submit(keyed(new_event()))] if together else []
            futures += [
                writer.submit(keyed(new_event(), digest=b"other")),
                writer.submit(Work(event=new_event(id="last"))),
            ]
        *_, error, last = await outcomes(futures)
    assert isinstance(error, Conflict)
    assert error.code == "idem_conflict"
    assert isinstance(last, Work)
    assert outside("SELECT seq, id FROM events") == [(1, "e1"), (2, "last")]


# -- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        pytest.param({"queue_units": 3}, 2, id="units"),  # one more is being written
        pytest.param({"queue_bytes": 5_000}, 3, id="bytes"),
    ],
)
async def test_a_full_queue_refuses_at_once(
    path: Path, new_event: NewEvent, limits: dict[str, int], fits: int
) -> None:
    async with running(open_writer(path, "process"), path, None, **limits) as writer:
        async with held(writer):
            futures = [writer.submit(Work(event=new_event(data="x" * 900))) for _ in range(6)]
            refused = [future for future in futures if future.done()]
            assert len(refused) == 6 - fits
        errors = [error for error in await outcomes(futures) if isinstance(error, StorageError)]
        assert {(error.code, error.retryable) for error in errors} == {("storage_busy", True)}
        assert len(errors) == 6 - fits
        await writer.submit(Work(event=new_event()))
        assert writer.gauges().refused == 6 - fits


async def test_what_is_larger_than_the_queue_passes_alone(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path, queue_bytes=1_000) as writer:
        work = await writer.submit(Work(event=new_event(data="x" * 5_000)))
    assert seq(work) == 1


# -- together ------------------------------------------------------------------------------------


async def test_what_is_submitted_together_is_one_commit(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        with writer.together():
            futures = [writer.submit(Work(event=new_event())) for _ in range(3)]
        assert [seq(work) for work in await asyncio.gather(*futures)] == [1, 2, 3]
        assert writer.gauges().batches == 1


@pytest.mark.parametrize(("bad", "text"), bad_units())
async def test_what_follows_a_bad_unit_is_refused_with_it(
    path: Path, new_event: NewEvent, outside: Ask, bad: Callable[[NewEvent], Work], text: str
) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        await writer.submit(Work(event=new_event(id="e1")))
        with writer.together():
            futures = [
                writer.submit(bad(new_event)),
                writer.submit(Work(event=new_event(id="next"), transaction=keep("next"))),
            ]
        errors = await outcomes(futures)
        await writer.submit(Work(event=new_event(id="last")))
    assert [text in getattr(error, "message", "") for error in errors] == [True, True]
    assert outside("SELECT id FROM events") == [("e1",), ("last",)]
    assert outside("SELECT namespace FROM state") == []


async def test_what_is_together_is_not_split_between_batches(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    futures = []
    async with running(open_writer(path, "process"), path) as writer:
        async with held(writer):
            for number in range(2 * MAX_UNITS // 3 + 1):
                with writer.together():
                    works = [Work(event=new_event(id=f"e{number}.{place}")) for place in range(3)]
                    futures += [writer.submit(work) for work in works]
        seqs = [seq(work) for work in await asyncio.gather(*futures)]
        gauges = writer.gauges()
    assert seqs == list(range(1, len(futures) + 1))
    # The first batch is what held the writer; the others hold whole groups, up to the limit.
    assert gauges.batches == 1 + 3
    assert gauges.last_batch == len(futures) - 2 * (MAX_UNITS // 3 * 3)
    assert outside("SELECT count(*) FROM events") == [(len(futures),)]


async def test_a_bad_unit_behind_a_good_one_fails_alone(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        with writer.together():
            futures = [writer.submit(Work(event=new_event(id=name))) for name in ("e1", "e1", "e2")]
        good, bad, other = await outcomes(futures)
    assert isinstance(good, Work)
    assert isinstance(bad, StorageError)
    assert isinstance(other, Work)


async def test_what_follows_a_unit_that_found_no_room_finds_none(
    path: Path, new_event: NewEvent
) -> None:
    async with running(open_writer(path, "process"), path, queue_bytes=5_000) as writer:
        async with held(writer):
            writer.submit(Work(event=new_event()))
            with writer.together():
                futures = [
                    writer.submit(Work(event=new_event(data="x" * 9_000))),
                    writer.submit(Work(event=new_event())),
                ]
            alone = writer.submit(Work(event=new_event()))
            assert [future.done() for future in (*futures, alone)] == [True, True, False]
        codes = [getattr(error, "code", None) for error in await outcomes(futures)]
    assert codes == ["storage_busy", "storage_busy"]


# -- failing storage ---------------------------------------------------------------------------


async def test_a_full_disk_is_survived(path: Path, new_event: NewEvent, outside: Ask) -> None:
    told, connection = Told(), open_writer(path, "process")
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 10}")
    async with running(connection, path, told) as writer:
        await writer.submit(Work(event=new_event()))
        large = Work(event=new_event(data="x" * 100_000), statements=(("DELETE FROM state", ()),))
        with pytest.raises(StorageError, match="the disk is full") as caught:
            await writer.submit(large)
        assert (caught.value.code, caught.value.retryable) == ("storage_full", True)
        assert outside("SELECT id FROM events") == [("e1",)]
        small = await writer.submit(Work(event=new_event()))
        connection.execute("PRAGMA max_page_count = 1000000")
        again = await writer.submit(large)
    assert (seq(small), seq(again)) == (2, 3)
    assert told.failures == []


async def test_a_lock_of_another_process_is_waited_for_then_refused(
    path: Path, new_event: NewEvent
) -> None:
    told, connection = Told(), open_writer(path, "process", busy_timeout_ms=50)
    async with running(connection, path, told) as writer:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        futures = [writer.submit(Work(event=new_event())) for _ in range(3)]
        errors = await outcomes(futures)
        other.execute("ROLLBACK")
        other.close()
        work = await writer.submit(Work(event=new_event()))
    assert [(e.code, e.retryable) for e in errors if isinstance(e, KsiError)] == [
        ("storage_busy", True)
    ] * 3
    assert len({id(error) for error in errors}) == 3
    assert seq(work) == 1
    assert told.failures == []


def failing(code: int) -> Callable[[sqlite3.Connection], msgspec.Raw]:
    def transaction(connection: sqlite3.Connection) -> msgspec.Raw:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        raise error

    return transaction


async def test_any_other_failure_is_final(path: Path, new_event: NewEvent, outside: Ask) -> None:
    told = Told()
    async with running(open_writer(path, "process"), path, told) as writer:
        async with held(writer):
            futures = [
                writer.submit(Work(event=new_event())),
                writer.submit(Work(event=new_event(), transaction=failing(1034))),
                *(writer.submit(Work(event=new_event())) for _ in range(300)),
            ]
        errors = await outcomes(futures)
        later = writer.submit(Work(event=new_event()))
        assert later.done()
        errors.append((await outcomes([later]))[0])
    assert {(e.code, e.retryable) for e in errors if isinstance(e, StorageError)} == {
        ("storage_failed", False)
    }
    assert len(errors) == 303
    assert [str(failure) for failure in told.failures] == [
        "the log cannot be written: disk I/O error (SQLITE_IOERR_FSYNC)"
    ]
    assert outside("SELECT * FROM events") == []


@pytest.mark.parametrize("name", ["events.db", "events.db-wal"])
async def test_a_lost_file_is_noticed(path: Path, new_event: NewEvent, name: str) -> None:
    told = Told()
    async with running(open_writer(path, "process"), path, told) as writer:
        await writer.submit(Work(event=new_event()))
        path.with_name(name).unlink()
        with anyio.fail_after(5):
            await told.failed.wait()
        with pytest.raises(StorageError, match="was removed or replaced") as caught:
            await writer.submit(Work(event=new_event()))
    assert caught.value.code == "storage_lost"
    assert len(told.failures) == 1


async def test_a_lost_file_is_noticed_under_load(path: Path, new_event: NewEvent) -> None:
    told = Told()
    async with running(open_writer(path, "process"), path, told) as writer:
        await writer.submit(Work(event=new_event()))
        os.rename(path, f"{path}.elsewhere")
        with anyio.fail_after(5), suppress(StorageError):
            while True:
                await writer.submit(Work(event=new_event()))
        await told.failed.wait()
    assert [failure.code for failure in told.failures] == ["storage_lost"]


# -- the end -----------------------------------------------------------------------------------


async def test_close_commits_what_waits(path: Path, new_event: NewEvent, outside: Ask) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        futures = [writer.submit(Work(event=new_event())) for _ in range(1_000)]
    assert all(future.done() for future in futures)
    assert outside("SELECT count(*) FROM events") == [(1_000,)]
    assert not path.with_name("events.db-wal").exists()


async def test_closed_is_closed(path: Path, new_event: NewEvent) -> None:
    async with running(open_writer(path, "process"), path) as writer:
        pass
    with pytest.raises(StorageError, match="the log is closed"):
        await writer.submit(Work(event=new_event()))


async def test_quiet_brings_the_wal_into_the_database(path: Path, new_event: NewEvent) -> None:
    connection = open_writer(path, "process")
    checkpointed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def trace(sql: str) -> None:
        if "wal_checkpoint(PASSIVE)" in sql:
            loop.call_soon_threadsafe(checkpointed.set)

    connection.set_trace_callback(trace)
    async with running(connection, path) as writer:
        await writer.submit(Work(event=new_event()))
        with anyio.fail_after(5):
            await checkpointed.wait()


async def test_seq_goes_on_where_it_ended(path: Path, new_event: NewEvent, outside: Ask) -> None:
    """Also after the newest events were deleted, with the triggers that forbid it."""
    async with running(open_writer(path, "process"), path) as writer:
        await outcomes([writer.submit(Work(event=new_event())) for _ in range(3)])
    connection = open_writer(path, "process")
    connection.execute("DROP TRIGGER events_kept")
    connection.execute("DELETE FROM events WHERE seq > 1")
    async with running(connection, path) as writer:
        assert writer.last_seq == 3
        work = await writer.submit(Work(event=new_event()))
    assert seq(work) == 4
    assert outside("SELECT seq FROM events") == [(1,), (4,)]
