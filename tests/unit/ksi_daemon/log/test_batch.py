from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from ksi_daemon.errors import Conflict, StorageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log.batch import CHUNK, Done, apply, write, write_singly
from ksi_daemon.log.chain import GENESIS, Head
from ksi_daemon.log.database import open_writer
from ksi_daemon.work import Ended, Idempotency, Work

NewEvent = Callable[..., Event]

HANDLED = Outcome("handled")
START = Head(0, GENESIS)


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_writer(path, "process")) as opened:
        yield opened


def seqs(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT seq FROM events ORDER BY seq")]


@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 1])
def test_any_number_of_rows(
    connection: sqlite3.Connection, new_event: NewEvent, count: int
) -> None:
    """Plain events, others and ends, in turn."""
    works = [
        Work(event=new_event(agent_id="ann" if n % 3 else None), outcome=None) for n in range(count)
    ]
    done, head = write(connection, works, Head(10, GENESIS))
    assert done == [Done(11 + n, None) for n in range(count)]
    assert (head.seq, head.loose) == (10 + count, ())
    assert seqs(connection) == list(range(11, 11 + count))
    ends = [Work(ended=Ended(11 + n, HANDLED)) for n in range(count)]
    done, after = write(connection, ends, head)
    assert done == [Done(0, None)] * count
    assert (after[:2], len(after.loose)) == (head[:2], count)
    assert connection.execute("SELECT count(*) FROM outcomes").fetchone() == (count,)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(1, ["INSERT"], id="one is its own transaction"),
        pytest.param(CHUNK, ["INSERT"], id="so is a chunk"),
        pytest.param(2 * CHUNK, ["BEGIN", "INSERT", "INSERT", "COMMIT"], id="two chunks"),
        pytest.param(8 * CHUNK, ["BEGIN", *["INSERT"] * 8, "COMMIT"], id="eight chunks"),
    ],
)
def test_statements_are_one_for_each_chunk(
    connection: sqlite3.Connection, new_event: NewEvent, events: int, expected: list[str]
) -> None:
    statements: list[str] = []
    works = [Work(event=new_event(), outcome=HANDLED) for _ in range(events)]
    connection.set_trace_callback(statements.append)
    write(connection, works, START)
    connection.set_trace_callback(None)
    own = [statement.split()[0] for statement in statements if not statement.startswith("--")]
    assert own == expected


def test_ids_keep_to_their_seqs(connection: sqlite3.Connection, new_event: NewEvent) -> None:
    """Rows of two shapes are written apart; the order of submission is the order of seq."""
    works = [Work(event=new_event(agent_id="ann" if n % 2 else None)) for n in range(10)]
    write(connection, works, START)
    rows = connection.execute("SELECT id FROM events ORDER BY seq").fetchall()
    assert rows == [(f"e{n}",) for n in range(1, 11)]


def test_a_failed_batch_writes_nothing_and_uses_no_seq(
    connection: sqlite3.Connection, new_event: NewEvent
) -> None:
    works = [Work(event=new_event()), Work(event=new_event(id="e1"))]
    with pytest.raises(sqlite3.IntegrityError):
        write(connection, works, START)
    assert (seqs(connection), connection.in_transaction) == ([], False)
    done, head = write(connection, [Work(event=new_event())], START)
    assert (done, head.seq) == ([Done(1, None)], 1)


def test_singly_keeps_the_good(connection: sqlite3.Connection, new_event: NewEvent) -> None:
    works = [
        Work(event=new_event()),
        Work(event=new_event(id="e1")),
        Work(event=new_event(), idempotency=Idempotency("s", "k", b"1")),
        Work(event=new_event(), idempotency=Idempotency("s", "k", b"2")),
        Work(event=new_event(), idempotency=Idempotency("s", "k", b"1")),
        Work(ended=Ended(1, HANDLED)),
        Work(event=new_event()),
    ]
    done, head = write_singly(connection, works, START)
    assert (head.seq, len(head.loose)) == (3, 0)
    assert [each if isinstance(each, Done) else type(each) for each in done] == [
        Done(1, None), StorageError, Done(2, None), Conflict, Done(2, None, duplicate=True),
        Done(0, None), Done(3, None),
    ]  # fmt: skip
    assert (seqs(connection), connection.in_transaction) == ([1, 2, 3], False)


def test_singly_fails_whole_when_the_storage_does(
    connection: sqlite3.Connection, new_event: NewEvent
) -> None:
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    works = [Work(event=new_event()), Work(event=new_event(data="x" * 50_000))]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write_singly(connection, works, START)
    assert (seqs(connection), connection.in_transaction) == ([], False)


def test_a_transaction_runs_again_when_its_batch_failed(
    connection: sqlite3.Connection, new_event: NewEvent
) -> None:
    runs: list[int] = []

    def count(connection: sqlite3.Connection) -> msgspec.Raw:
        connection.execute(
            "INSERT INTO state (namespace, key, value, version, ts) VALUES ('n', 'k', '1', 1, 0)"
        )
        runs.append(1)
        return msgspec.Raw(b"null")

    works = [Work(event=new_event(), transaction=count), Work(event=new_event(id="e1"))]
    with pytest.raises(sqlite3.IntegrityError):
        write(connection, works, START)
    (done, refused), _ = write_singly(connection, works, START)
    assert isinstance(done, Done)
    assert isinstance(refused, StorageError)
    assert len(runs) == 2
    assert connection.execute("SELECT count(*) FROM state").fetchone() == (1,)


@pytest.mark.parametrize(
    ("done", "fresh", "status"),
    [
        pytest.param(Done(5, None), True, "received", id="not ended"),
        pytest.param(Done(5, HANDLED), True, "handled", id="ended"),
        pytest.param(Done(5, HANDLED, True), False, "handled", id="duplicate"),
    ],
)
def test_apply(new_event: NewEvent, done: Done, fresh: bool, status: str) -> None:
    work = Work(event=new_event())
    assert apply(work, done) is (work.event if fresh else None)
    assert work.event is not None
    assert (work.event.seq, work.event.status, work.outcome, work.duplicate) == (
        5, status, done.outcome, done.duplicate,
    )  # fmt: skip


def test_apply_without_an_event() -> None:
    assert apply(Work(), Done(0, None)) is None
