from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_client.text import Paint, width
from ksi_client.views.spans import excerpt


def shown(text: str, start: int, end: int, cells: int = 60) -> list[str]:
    return list(excerpt(text, start, end, paint=Paint(False), cells=cells))


@pytest.mark.parametrize(
    ("text", "block", "lines"),
    [
        pytest.param("{call}", "{call}", ["> {call}"], id="all of the text"),
        pytest.param(
            "so: {call} yes", "{call}", ["> so: {call} yes", "      ^^^^^^"], id="a part of a line"
        ),
        pytest.param(
            "one\ntwo\nthree\n{call}\nfour\nfive\nsix",
            "{call}",
            ["  two", "  three", "> {call}", "  four", "  five"],
            id="two lines around",
        ),
        pytest.param(
            "a\n{\n  1\n}\nb",
            "{\n  1\n}",
            ["  a", "> {", ">   1", "> }", "  b"],
            id="of several lines",
        ),
        pytest.param("\n\n{call}\n\n", "{call}", ["> {call}"], id="no blank lines at the ends"),
        pytest.param(
            "\t\x1b{call}\u202e",
            "{call}",
            [r">     \e{call}\u202e", "        ^^^^^^"],
            id="made visible",
        ),
    ],
)
def test_excerpt(text: str, block: str, lines: list[str]) -> None:
    start = text.index(block)
    assert shown(text, start, start + len(block)) == lines


def test_a_long_span_is_shortened() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    assert shown(text, 0, len(text)) == [
        *(f"> line {n}" for n in range(8)),
        "  ⋮ 89 lines",
        *(f"> line {n}" for n in range(97, 100)),
    ]


def test_a_span_far_inside_a_long_line_is_brought_into_view() -> None:
    text = "word " * 200 + "{call}" + " word" * 200
    start = text.index("{")
    line, marks = shown(text, start, start + 6)
    assert "{call}" in line
    assert marks.index("^") == line.index("{")
    assert width(line) <= 60


@given(st.text(), st.integers(0, 50), st.integers(0, 50), st.integers(20, 80))
def test_it_never_writes_a_control_character_nor_beyond_the_edge(
    text: str, start: int, length: int, cells: int
) -> None:
    start = min(start, len(text))
    for line in shown(text, start, min(start + length, len(text)), cells):
        assert line.replace("\u200c", "").replace("\u200d", "").isprintable()
        assert width(line) <= cells
