from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome
from ksi_daemon.log.database import open_writer
from ksi_daemon.log.rows import (
    EVENT_COLUMNS,
    OUTCOME_COLUMNS,
    PLAIN_COLUMNS,
    event_row,
    microseconds,
    moment,
    outcome_from_row,
    outcome_row,
)
from ksi_daemon.work import Idempotency


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back(ts: datetime) -> None:
    assert moment(microseconds(ts)) == ts


@pytest.mark.parametrize(
    ("ts", "us"),
    [
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), 0, id="epoch"),
        pytest.param(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), -1, id="before"),
        pytest.param(
            datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=14))),
            1_769_817_600_000_000,
            id="another zone",
        ),
    ],
)
def test_microseconds(ts: datetime, us: int) -> None:
    assert microseconds(ts) == us


@pytest.mark.parametrize(
    ("fields", "outcome", "key"),
    [
        pytest.param({}, None, None, id="nothing more"),
        pytest.param({}, Outcome("handled", duration_ms=1.0), None, id="ended well"),
        pytest.param({"hop": 3}, None, None, id="hop"),
    ],
)
def test_plain_events_have_a_short_row(
    new_event: Callable[..., Event],
    fields: dict[str, Any],
    outcome: Outcome | None,
    key: Idempotency | None,
) -> None:
    assert len(event_row(1, new_event(**fields), outcome, key)) == len(PLAIN_COLUMNS)


ERROR = ErrorInfo("x", "y")


@pytest.mark.parametrize(
    ("fields", "outcome", "key", "column", "value"),
    [
        ({"cause_id": "c"}, None, None, "cause_id", "c"),
        ({"agent_id": "a"}, None, None, "agent_id", "a"),
        ({"completion_id": "c"}, None, None, "completion_id", "c"),
        (
            {"call": CallRef("i", "d", 1, 2)},
            None,
            None,
            "call",
            '{"id":"i","dialect":"d","start":1,"end":2}',
        ),
        (
            {"error": ERROR},
            None,
            None,
            "error",
            '{"code":"x","message":"y","retryable":false}',
        ),
        (
            {},
            Outcome("failed", error=ERROR),
            None,
            "error",
            '{"code":"x","message":"y","retryable":false}',
        ),
        ({}, None, Idempotency("s", "k", b"d"), "idem_digest", b"d"),
    ],
    ids=["cause", "agent", "completion", "call", "error", "outcome's error", "key"],
)
def test_all_else_is_in_the_long_row(
    new_event: Callable[..., Event],
    fields: dict[str, Any],
    outcome: Outcome | None,
    key: Idempotency | None,
    column: str,
    value: object,
) -> None:
    row = dict(zip(EVENT_COLUMNS, event_row(1, new_event(**fields), outcome, key), strict=True))
    assert row[column] == value


def test_columns_are_those_of_the_tables(path: Path) -> None:
    with closing(open_writer(path, "process")) as connection:
        assert {*EVENT_COLUMNS, "hash"} == _columns(connection, "events")
        assert {*OUTCOME_COLUMNS, "at"} == _columns(connection, "outcomes")
    assert EVENT_COLUMNS[: len(PLAIN_COLUMNS)] == PLAIN_COLUMNS


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("handled"),
        Outcome("failed", error=ErrorInfo("a", "b", "c", True, {"d": [1]}), duration_ms=0.001),
        Outcome("lost", duration_ms=86_400_000.5),
    ],
    ids=lambda outcome: outcome.status,
)
def test_outcomes_come_back(outcome: Outcome) -> None:
    row = outcome_row(7, 9, outcome)
    assert row[:2] == (7, 9)
    assert outcome_from_row(row[2:]) == outcome


def test_what_has_not_ended_has_no_outcome() -> None:
    assert outcome_from_row(("received", None, None, None)) is None
