"""One batch of work on one connection: many units, one commit.

Theory. Events and outcomes are collected and written with one INSERT of many rows, because what
a row costs is mostly the call around it and the two hand-overs of the interpreter's lock that
SQLite's calls imply. Transactions and statements are executed in the order of their units. Seqs
and hashes are given out here, on from the chain's head: a transaction that fails uses none up.

A batch is written on the assumption that all of it is good. If anything in it is not, it is
rolled back and written again unit by unit, each in a savepoint, so that a bad unit fails alone.
Only then is it looked up which idempotency keys were used before: the unique index finds a
repeated key at no cost when there is none.

So a transaction may run twice, of which one run is committed, and it does not find the events
and outcomes of its own batch in their tables yet.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from typing import Any, Final, NamedTuple

import structlog

from ksi_daemon.errors import Conflict, HandlerFailed, KsiError
from ksi_daemon.events import Event, Outcome, now
from ksi_daemon.log.chain import Head, link, linked
from ksi_daemon.log.failures import refusal, storage_failure
from ksi_daemon.log.rollup import Tally
from ksi_daemon.log.rows import (
    EVENT_COLUMNS,
    OUTCOME_COLUMNS,
    PLAIN_COLUMNS,
    event_row,
    microseconds,
    outcome_from_row,
    outcome_row,
)
from ksi_daemon.work import Idempotency, Transaction, Work

__all__ = ["CHUNK", "UNFIT", "Done", "apply", "write", "write_singly"]

_PLAIN: Final = (*PLAIN_COLUMNS, "hash")
_FULL: Final = (*EVENT_COLUMNS, "hash")
_OUTCOME: Final = (*OUTCOME_COLUMNS, "at")
# Rows in one INSERT. The gain of more is small; each number of rows up to this is a prepared
# statement of its own, which the connection keeps.
CHUNK: Final = 64
# What a unit can raise that does not fit the log: SQLite's own errors, text that is not UTF-8,
# integers of more than 64 bits, values that are no JSON.
UNFIT: Final = (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError)

_EARLIER: Final = """
SELECT e.idem_digest, e.seq, coalesce(o.status, e.status), coalesce(o.result, e.result),
       coalesce(o.error, e.error), coalesce(o.duration_us, e.duration_us)
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.idem_scope = ? AND e.idem_key = ?
"""


class Done(NamedTuple):
    """What the commit makes true of a unit: its event's *seq*, 0 without one, and *outcome*."""

    seq: int
    outcome: Outcome | None
    duplicate: bool = False


def write(
    connection: sqlite3.Connection, works: Sequence[Work], head: Head
) -> tuple[list[Done], Head]:
    """Commit *works* together after *head*; return what came of them and the new head.

    Raise one of UNFIT, with nothing written, if that cannot be.
    """
    batch = _Batch(connection, head)
    if not all(_is_plain(work) for work in works):
        with _transaction(connection):
            done = [batch.add(work) for work in works]
            batch.flush()
        return done, batch.head
    done = [batch.add(work) for work in works]
    if batch.statements == 1:
        # One statement is a transaction by itself.
        batch.flush()
    else:
        with _transaction(connection):
            batch.flush()
    return done, batch.head


def write_singly(
    connection: sqlite3.Connection, works: Sequence[Work], head: Head
) -> tuple[list[Done | KsiError], Head]:
    """Commit those of *works* that fit the log; the others' places hold their errors.

    Raise sqlite3.Error, with nothing written, if the storage is at fault.
    """
    done: list[Done | KsiError] = []
    refused: dict[int, KsiError] = {}
    with _transaction(connection):
        for work in works:
            result: Done | KsiError
            if work.after is not None and id(work.after) in refused:
                result = copy(refused[id(work.after)])
            else:
                result, head = _write_one(connection, work, head)
            if isinstance(result, KsiError):
                refused[id(work)] = result
            done.append(result)
    return done, head


def apply(work: Work, done: Done) -> Event | None:
    """Tell *work* what was committed; return its event if that is new."""
    work.outcome = outcome = done.outcome
    work.duplicate = done.duplicate
    event = work.event
    if event is None:
        return None
    event.seq = done.seq
    if outcome is not None:
        event.status, event.error = outcome.status, outcome.error
        event.duration_ms = outcome.duration_ms
    return None if done.duplicate else event


class _Batch:
    """Units on their way into one transaction."""

    def __init__(self, connection: sqlite3.Connection, head: Head) -> None:
        self._connection = connection
        self._seq, self._hash, loose = head
        self._loose = list(loose)
        self._plain: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._outcomes: list[tuple[Any, ...]] = []
        self._tally = Tally()
        self._keys: dict[tuple[str, str], tuple[bytes, Done]] = {}

    @property
    def head(self) -> Head:
        """The end of the chain with what was taken in."""
        return Head(self._seq, self._hash, tuple(self._loose))

    @property
    def statements(self) -> int:
        """How many statements ``flush`` will execute."""
        inserts = sum(
            -(-len(rows) // CHUNK) for rows in (self._plain, self._events, self._outcomes)
        )
        return inserts + bool(self._tally)

    def add(self, work: Work) -> Done:
        """Take *work* in; its rows are written by ``flush``, all else now."""
        key = work.idempotency
        if key is not None and (key.scope, key.key) in self._keys:
            return _repeated(key, *self._keys[key.scope, key.key])
        outcome = work.outcome
        if work.transaction is not None:
            outcome = _transacted(self._connection, work.transaction)
        done = Done(self._event(work, outcome), outcome)
        if work.ended is not None:
            row = outcome_row(work.ended.seq, microseconds(now()), work.ended.outcome)
            self._outcomes.append((*row, self._seq))
            self._loose.append(link(row))
            if work.ended.call:
                self._tally.ended(work.ended.seq, work.ended.outcome)
        for sql, values in work.statements:
            changed = self._connection.execute(sql, values).rowcount
            self._tally.note(sql, values, changed)
        if key is not None:
            self._keys[key.scope, key.key] = key.digest, done
        return done

    def flush(self) -> None:
        """Write the events and outcomes that were taken in, and count them."""
        self._insert("events", _PLAIN, self._plain)
        self._insert("events", _FULL, self._events)
        self._insert("outcomes", _OUTCOME, self._outcomes)
        self._tally.write(self._connection)

    def _event(self, work: Work, outcome: Outcome | None) -> int:
        if work.event is None:
            return 0
        self._seq += 1
        row = event_row(self._seq, work.event, outcome, work.idempotency)
        self._hash = linked(self._hash, self._loose, row)
        self._loose.clear()
        rows = self._plain if len(row) == len(PLAIN_COLUMNS) else self._events
        rows.append((*row, self._hash))
        if work.event.call is not None:
            self._tally.ended(self._seq, outcome or _end_of(work.event))
        return self._seq

    def _insert(
        self, table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            self._connection.execute(_insertion(table, columns, len(chunk)), _flat(chunk))


def _end_of(event: Event) -> Outcome:
    return Outcome(event.status, error=event.error)


def _is_plain(work: Work) -> bool:
    return work.transaction is None and not work.statements


def _write_one(
    connection: sqlite3.Connection, work: Work, head: Head
) -> tuple[Done | KsiError, Head]:
    try:
        with _savepoint(connection, "unit"):
            earlier = _earlier(connection, work.idempotency)
            if earlier is not None:
                return earlier, head
            batch = _Batch(connection, head)
            done = batch.add(work)
            batch.flush()
        return done, batch.head
    except KsiError as exc:
        return exc, head
    except UNFIT as exc:
        if storage_failure(exc) is not None:
            raise
        return refusal(exc), head


def _earlier(connection: sqlite3.Connection, key: Idempotency | None) -> Done | None:
    """Return what was logged under *key* before; raise Conflict if that was something else."""
    if key is None:
        return None
    row = connection.execute(_EARLIER, (key.scope, key.key)).fetchone()
    if row is None:
        return None
    digest, seq, *end = row
    return _repeated(key, digest, Done(seq, outcome_from_row(tuple(end))))


def _repeated(key: Idempotency, digest: bytes, done: Done) -> Done:
    if digest != key.digest:
        raise Conflict(
            f"idempotency key {key.key!r} was used for another event",
            code="idem_conflict",
            hint="a key belongs to one name and data; use a new key",
        )
    return Done(done.seq, done.outcome, duplicate=True)


def _transacted(connection: sqlite3.Connection, transaction: Transaction) -> Outcome:
    """Run *transaction*; what it wrote is undone if it raises, and that is the outcome."""
    started = time.perf_counter()
    try:
        with _savepoint(connection, "handler"):
            result = transaction(connection)
    except KsiError as exc:
        return Outcome("failed", error=exc.info(), duration_ms=_since(started))
    except (Exception, SystemExit) as exc:  # handlers are other people's code
        if storage_failure(exc) is not None:
            raise
        structlog.get_logger().exception("transaction_failed")
        error = HandlerFailed(f"the handler raised {type(exc).__name__}: {exc}"[:500])
        return Outcome("failed", error=error.info(), duration_ms=_since(started))
    return Outcome("handled", result, duration_ms=_since(started))


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    # IMMEDIATE: the lock is waited for here, not in the middle of the batch.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself when the disk is full or fails.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _savepoint(connection: sqlite3.Connection, name: str) -> Iterator[None]:
    connection.execute(f"SAVEPOINT {name}")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute(f"ROLLBACK TO {name}")
            connection.execute(f"RELEASE {name}")
        raise
    connection.execute(f"RELEASE {name}")


@lru_cache(maxsize=3 * CHUNK)
def _insertion(table: str, columns: tuple[str, ...], rows: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"


def _flat(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [value for row in rows for value in row]
