from __future__ import annotations

import pytest

from ksi_client.text import Paint, width
from ksi_client.views.matches import Match, matched


def shown(text: str, start: int, end: int, cells: int = 60) -> str:
    [line] = matched(Match(1, "error", text, start, end), Paint(False), cells)
    return line


def test_a_match_in_its_surroundings() -> None:
    assert shown("one two three", 4, 7) == "         error: one two three"


def test_nothing_was_looked_for() -> None:
    assert list(matched(None, Paint(False), 60)) == []


@pytest.mark.parametrize("cells", [40, 60, 100])
def test_a_line_is_as_wide_as_the_terminal(cells: int) -> None:
    line = shown("x" * 60 + "needle" + "y" * 60, 60, 66, cells)
    assert "needle" in line
    assert width(line) <= cells


def test_what_a_stranger_wrote_moves_nothing() -> None:
    assert "\x1b" not in shown("a\x1b[31m needle\r", 7, 13)
