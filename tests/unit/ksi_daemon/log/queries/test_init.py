from __future__ import annotations

import re
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from ksi_daemon.events import matches
from ksi_daemon.log import queries
from ksi_daemon.log.database import open_writer

LOADED = queries.load()


def test_queries_are_there() -> None:
    assert {"events", "outcome", "unfinished", "rolled"} <= LOADED.keys()


@pytest.mark.parametrize("name", LOADED)
def test_query_fits_the_schema(name: str, tmp_path: Path) -> None:
    sql = LOADED[name].format(keys="model", facts="c.model AS model", seqs="SELECT 1 AS seq")
    with closing(open_writer(tmp_path / "events.db", "process")) as connection:
        connection.execute("PRAGMA trusted_schema = 1")
        connection.create_function("matches", 2, matches, deterministic=True)
        unnamed = [None] * sql.count("?")
        connection.execute(f"EXPLAIN {sql}", unnamed or dict.fromkeys(re.findall(r":(\w+)", sql)))


def test_each_says_what_it_answers() -> None:
    found = [each for each in files(queries.__name__).iterdir() if each.name.endswith(".sql")]
    lines = "\n".join(each.read_text(encoding="utf-8") for each in found).splitlines()
    said = [lines[n + 1] for n, line in enumerate(lines) if line.startswith("-- name: ")]
    assert len(said) == len(LOADED)
    assert [line for line in said if not line.startswith("-- ")] == []


def test_statements_without_their_end(tmp_path: Path) -> None:
    assert [name for name, sql in LOADED.items() if ";" in sql or "--" in sql] == []
