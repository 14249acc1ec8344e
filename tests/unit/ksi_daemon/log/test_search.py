from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.log.search import Match, holds, locate, readable, search_condition, words_of
from tests.growth import LINEAR, doubling


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("one Two", ("one", "two"), id="words"),
        pytest.param('"not  found" db', ("not  found", "db"), id="quoted"),
        pytest.param("a A a", ("a",), id="one twice"),
        pytest.param('  "" " " ', (), id="nothing"),
        pytest.param('5" disk', ('5"', "disk"), id="a lone quote"),
        pytest.param("ÉTÉ", ("été",), id="not ASCII"),
    ],
)
def test_words(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a":"b"}', '{"a":"b"}', id="no escapes"),
        pytest.param(r'"a\nb\t\"c\" \\n \/"', '"a\nb\t"c" \\n /"', id="short ones"),
        pytest.param(r'"\u00e9 \ud83d\ude00"', '"é 😀"', id="by number"),
        pytest.param(r'"\ud83d alone"', '"\ufffd alone"', id="half a character"),
    ],
)
def test_escapes_are_undone(text: str, expected: str) -> None:
    assert readable(text) == expected


TEXTS = (
    '{"message":"The DRAFT is saved"}',
    '{"value":7}',
    '{"code":"not_found"}',
    "notes:keep",
)


@pytest.mark.parametrize(
    ("grep", "expected"),
    [
        pytest.param("draft", True, id="in another case"),
        pytest.param("raf", True, id="a part of a word"),
        pytest.param("draft not_found", True, id="in different parts"),
        pytest.param('"draft is"', True, id="together"),
        pytest.param('"draft saved"', False, id="not together"),
        pytest.param("draft gone", False, id="one of two"),
        pytest.param("keep", True, id="in its name"),
    ],
)
def test_events_that_hold_words(grep: str, expected: bool) -> None:
    assert holds(json.dumps(words_of(grep)), *TEXTS) is expected
    assert found_by_sql(words_of(grep), *TEXTS) is expected


def found_by_sql(
    words: tuple[str, ...], data: str, result: str | None, error: str | None, name: str = ""
) -> bool:
    which, values = search_condition(words)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("holds", -1, holds, deterministic=True)
        connection.execute("CREATE TABLE events (data, result, error, name)")
        connection.execute("CREATE TABLE outcomes (result, error)")
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (data, result, error, name))
        sql = f"SELECT count(*) FROM events e LEFT JOIN outcomes o WHERE {which}"
        return bool(connection.execute(sql, values).fetchone()[0])


@given(
    text=st.text(max_size=40),
    start=st.integers(0, 40),
    size=st.integers(1, 8),
    ascii_only=st.booleans(),
)
def test_what_is_there_is_found(text: str, start: int, size: int, ascii_only: bool) -> None:
    """However a client wrote the JSON; the first sieve lets through what the second one holds."""
    word = text[start : start + size].lower()
    data = json.dumps({"text": text}, ensure_ascii=ascii_only)
    if not word.strip() or any("\ud800" <= c <= "\udfff" for c in text):
        return
    expected = word in readable(data).lower()
    assert found_by_sql((word,), data, None, None) is expected


@pytest.mark.parametrize(
    ("words", "match"),
    [
        pytest.param(
            ("draft",), Match(7, "data", '{"message":"The DRAFT is saved"}', 16, 21), id="data"
        ),
        pytest.param(("not_",), Match(7, "error", '{"code":"not_found"}', 9, 13), id="error"),
        pytest.param(("7",), Match(7, "result", '{"value":7}', 9, 10), id="result"),
        pytest.param(("keep",), Match(7, "event", "notes:keep", 6, 10), id="name"),
        pytest.param(("gone",), None, id="nowhere"),
    ],
)
def test_where_it_is(words: tuple[str, ...], match: Match | None) -> None:
    assert locate(7, words, *TEXTS) == match


def test_an_excerpt_is_short() -> None:
    data = json.dumps("x" * 500 + "needle" + "y" * 500)
    found = locate(1, ("needle",), data, None, None, "a:b")
    assert found is not None
    assert (len(found.text), found.text[found.start : found.end]) == (126, "needle")


def test_hostile_texts_cost_what_their_length_does() -> None:
    def cost(length: int) -> None:
        holds('["zzz"]', "\\u0041\\\\\\" * length)

    assert doubling(cost, 4_000) < LINEAR
