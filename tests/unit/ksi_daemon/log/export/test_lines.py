from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from ksi_daemon.log.export.lines import ACTING, RECORDS, Column, Table, decoder

COLUMNS = (
    Column("seq", "INTEGER", True),
    Column("ts", "INTEGER", True),
    Column("data", "TEXT", True),
    Column("agent_id", "TEXT", False),
    Column("call", "TEXT", False),
    Column("hash", "BLOB", False),
)
ROWS = [
    pytest.param((1, 1_769_860_800_000_042, "{}", None, None, None), id="what must be"),
    pytest.param((2, 0, '{"a": [1.0, "\\u00e9"]}', "ann", None, b"\0\xff"), id="all but a call"),
    pytest.param(
        (3, 7, "{}", "", '{"id":"i","dialect":"d","start":1,"end":2}', b""), id="empty, and a call"
    ),
]


def test_every_table_is_told_of_or_left_out(night: Path) -> None:
    """Who adds a table decides whether it is of what happened or of what acts."""
    with closing(sqlite3.connect(night)) as connection:
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        tables = {row[0] for row in connection.execute(sql)}
    assert tables - {*RECORDS, *ACTING} == set()
    assert set(RECORDS) - tables == set()
    assert not set(RECORDS) & ACTING


@pytest.mark.parametrize("row", ROWS)
def test_reads_what_it_writes(row: tuple[object, ...]) -> None:
    table = Table("events", COLUMNS)
    given = dict(zip((column.name for column in COLUMNS), row, strict=True))
    line = table.line([given[name] for name in table.columns])
    assert b"\n" not in line
    found = table.row(decoder([table])(line))
    assert dict(zip(table.columns, found, strict=True)) == given


def test_a_line_is_for_people() -> None:
    table = Table("events", COLUMNS)
    line = table.line((2, 42, '{"a":1}', "ann", None, None))
    assert line == (
        b'{"table":"events","seq":2,"ts":"1970-01-01T00:00:00.000042Z","data":{"a":1},'
        b'"agent_id":"ann"}'
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        pytest.param('{"table":"events","seq":"x"}', "Expected `int`", id="a text for a number"),
        pytest.param('{"table":"rules"}', "Invalid value 'rules'", id="a table that acts"),
        pytest.param('{"seq":1}', "missing required field `table`", id="no table"),
        pytest.param(
            '{"table":"events","seq":9223372036854775808,"ts":"2026-01-01T00:00:00Z","data":{}}',
            "Expected `int`",
            id="a number that SQLite has not",
        ),
        pytest.param(
            '{"table":"events","seq":1,"ts":"2026-01-01T00:00:00","data":{}}',
            "timezone",
            id="a time without a zone",
        ),
        pytest.param(
            '{"table":"events","seq":1,"ts":"2026-01-01T00:00:00Z","data":{},"call":{"id":1}}',
            "Expected `str`",
            id="a call that is none",
        ),
        pytest.param(
            '{"table":"events","seq":1,"ts":"2026-01-01T00:00:00Z","data":{},"more":1}',
            "unknown field `more`",
            id="a column that is not there",
        ),
        pytest.param("{", "truncated", id="half an object"),
    ],
)
def test_what_is_no_row(line: str, why: str) -> None:
    table = Table("events", COLUMNS)
    with pytest.raises(msgspec.DecodeError, match=why):
        table.row(decoder([table])(line.encode()))
