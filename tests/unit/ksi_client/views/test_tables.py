from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_client.text import Paint, width
from ksi_client.views.tables import Cell, Column, pairs, plain, table

COLUMNS = [Column("name"), Column("n", right=True), Column("what it is")]


def lines(rows: list[tuple[Cell | str, ...]], cells: int = 80, color: bool = False) -> list[str]:
    return list(table(COLUMNS, rows, paint=Paint(color), cells=cells))


def test_columns_are_as_wide_as_what_they_hold() -> None:
    assert lines([("a", "1", "x"), ("bcdef", "20", "a longer text")]) == [
        "name    n  what it is",
        "a       1  x",
        "bcdef  20  a longer text",
    ]


def test_the_last_column_gives_way_first() -> None:
    assert lines([("abcdefghijkl", "1", "a text that is far too long")], 30) == [
        "name          n  what it is",
        "abcdefghijkl  1  a text that …",
    ]


def test_what_stands_in_a_cell_is_made_visible() -> None:
    assert lines([("\x1b[2J", "1", "a\nb")])[1] == r"\e[2J  1  a\nb"


def test_colors_do_not_move_columns() -> None:
    [_, row] = lines([(Cell("ab", "cyan"), "1", Cell("x", "dim"))], color=True)
    assert row == "\x1b[36mab  \x1b[0m  1  \x1b[2mx\x1b[0m"


def test_without_rows_there_is_a_head() -> None:
    assert lines([]) == ["name  n  what it is"]


@given(
    st.lists(st.tuples(st.text(), st.text(max_size=3), st.text()), max_size=4), st.integers(30, 90)
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, str]], cells: int) -> None:
    assert all(width(line) <= cells for line in lines(list(rows), cells))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0.25, "0.25"),
        (1234567, "1234567"),
        (["a", 1], "a, 1"),
        ([], "-"),
        ({"a": 1, "b": None}, "a=1, b=-"),
        ("text", "text"),
    ],
)
def test_plain(value: object, text: str) -> None:
    assert plain(value) == text


def test_pairs() -> None:
    values = {"status": "ok", "log": {"rows": 3, "by\x1b": {}, "a:b": {"failed": 1}}, "n": 1.5}
    assert list(pairs(values, paint=Paint(False))) == [
        "status  ok",
        "log",
        "  rows  3",
        r"  by\e  -",
        "  a:b   failed=1",
        "n       1.5",
    ]
