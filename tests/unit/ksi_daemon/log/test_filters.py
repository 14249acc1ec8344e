from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.events import matches
from ksi_daemon.log.filters import condition, is_narrow, name_condition
from ksi_daemon.log.model import EventFilter
from tests.growth import LINEAR, doubling

ALPHABET = "ab:*?[]^-A\0é%_"


@pytest.mark.parametrize(
    ("pattern", "sql", "values"),
    [
        pytest.param("a:b", "e.name = ?", ("a:b",), id="exact"),
        pytest.param("*", "TRUE", (), id="any"),
        pytest.param("**", "TRUE", (), id="any, twice"),
        pytest.param("agent:*", "e.name GLOB ?", ("agent:*",), id="prefix"),
        pytest.param("*:a*", "e.name GLOB ?", ("*:a*",), id="two"),
        pytest.param("a[?]*", "e.name GLOB ?", ("a[[][?]]*",), id="GLOB's own wildcards"),
        pytest.param("a*b*c*", "matches(?, e.name)", ("a*b*c*",), id="three"),
        pytest.param("a\0*", "matches(?, e.name)", ("a\0*",), id="NUL"),
        pytest.param("a" * 1000 + "*", "matches(?, e.name)", ("a" * 1000 + "*",), id="long"),
    ],
)
def test_name_condition(pattern: str, sql: str, values: tuple[str, ...]) -> None:
    assert name_condition("e.name", pattern) == (sql, values)


@given(
    pattern=st.text(ALPHABET, max_size=8),
    # The log holds no name with a NUL.
    name=st.text(ALPHABET.replace("\0", ""), max_size=8),
)
def test_sql_agrees_with_the_pattern_language(pattern: str, name: str) -> None:
    sql, values = name_condition("?", pattern)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("matches", 2, matches, deterministic=True)
        given_values = (name,) if sql != "TRUE" else ()
        row = connection.execute(f"SELECT {sql}", _in_order(sql, given_values, values)).fetchone()
    assert bool(row[0]) is matches(pattern, name)


def _in_order(sql: str, name: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values + name if sql.startswith("matches") else name + values


def test_hostile_patterns_cost_little() -> None:
    sql, values = name_condition("?", "*a" * 60 + "b")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("matches", 2, matches, deterministic=True)

        def cost(length: int) -> None:
            connection.execute(f"SELECT {sql}", _in_order(sql, ("a" * length,), values)).fetchone()

        assert doubling(cost, 4_000) < LINEAR


@pytest.mark.parametrize(
    ("wanted", "expected", "narrow"),
    [
        pytest.param(EventFilter(), ("TRUE", ()), False, id="all"),
        pytest.param(
            EventFilter(patterns=("a:b", "c:*"), status="handled"),
            (
                "TRUE AND coalesce(o.status, e.status) = ? AND (e.name = ? OR e.name GLOB ?)",
                ("handled", "a:b", "c:*"),
            ),
            False,
            id="patterns and status",
        ),
        pytest.param(
            EventFilter(agent_id="a", correlation_id="b", completion_id="c"),
            (
                "TRUE AND e.agent_id = ? AND e.correlation_id = ? AND e.completion_id = ?",
                ("a", "b", "c"),
            ),
            True,
            id="ids",
        ),
    ],
)
def test_condition(wanted: EventFilter, expected: tuple[str, Any], narrow: bool) -> None:
    assert condition(wanted) == expected
    assert is_narrow(wanted) is narrow


def test_times_and_words() -> None:
    wanted = EventFilter(
        since=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        until=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        words=("é",),
    )
    sql, values = condition(wanted)
    assert sql == (
        "TRUE AND e.ts >= ? AND e.ts < ? AND holds(?, e.data, coalesce(o.result, e.result),"
        " coalesce(o.error, e.error), e.name)"
    )
    assert values == (1_000_000, 2_000_000, '["é"]')
