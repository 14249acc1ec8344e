"""What the README says of the views: their columns, and the queries, asked as a stranger would."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ksi_daemon.log import queries

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
COLUMNS = {
    name: re.findall(r"`(\w+)`", cells)
    for name, cells in re.findall(r"^\| `(v_\w+)` \| .* \| (.*) \|$", README, re.MULTILINE)
}
QUERIES = re.findall(r"^-- (.+)\n((?:(?!--).+\n?)+)", "".join(
    re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
), re.MULTILINE)  # fmt: skip

needs_shell = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell")


def shell(path: Path, sql: str) -> str:
    done = subprocess.run(
        ["sqlite3", "-readonly", path, sql], capture_output=True, text=True, timeout=10
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("view", COLUMNS)
def test_the_columns_of_a_view_are_told(night: Path, view: str) -> None:
    with closing(sqlite3.connect(night)) as connection:
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (view,))
        assert COLUMNS[view] == [name for (name,) in rows]


def test_each_view_is_told_of(night: Path) -> None:
    with closing(sqlite3.connect(night)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")
        assert {name for (name,) in rows} == set(COLUMNS)
    assert len(COLUMNS) >= 5


@needs_shell
@pytest.mark.parametrize(("title", "sql"), QUERIES, ids=[title for title, _ in QUERIES])
def test_each_query_answers(night: Path, title: str, sql: str) -> None:
    assert shell(night, sql)


def test_there_are_queries() -> None:
    assert len(QUERIES) >= 5


@needs_shell
def test_a_query_shows_what_was_written(night: Path) -> None:
    [sql] = [sql for title, sql in QUERIES if "denied" in title]
    assert shell(night, sql) == (
        '13|agent:terminate|{"event": "agent:terminate", "data": {"agent_id": "bob"}}\n'
    )


@needs_shell
@pytest.mark.parametrize("query", queries.ready(), ids=lambda query: query.name)
def test_each_ready_query_answers(night: Path, query: queries.Ready) -> None:
    assert query.title.endswith(".")
    assert shell(night, query.sql)
