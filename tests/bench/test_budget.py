from __future__ import annotations

import pytest

from tests.bench.budget import BUDGET, Line, Verdict, judged, told

LEAST = Line("rate", "at least", 2, "x echo")
MOST = Line("size", "at most", 2, "MB")


@pytest.mark.parametrize(
    ("line", "measured", "verdict"),
    [
        pytest.param(LEAST, 2.0, "met", id="just enough"),
        pytest.param(LEAST, 1.9, "not met", id="too little"),
        pytest.param(MOST, 2.0, "met", id="just small enough"),
        pytest.param(MOST, 2.1, "not met", id="too much"),
        pytest.param(MOST, None, "not measured", id="unknown"),
        pytest.param(MOST, 0.0, "met", id="nothing is a figure"),
    ],
)
def test_a_verdict(line: Line, measured: float | None, verdict: Verdict) -> None:
    assert line.verdict(measured) == verdict


def test_each_line_is_told_whether_measured_or_not() -> None:
    rows = list(judged({"start": 201.0}))
    assert [line for line, _, _ in rows] == list(BUDGET)
    assert {verdict for _, _, verdict in rows} == {"not met", "not measured"}
    assert told(rows).count("\n") == len(BUDGET) + 1


def test_figures_have_names_of_their_own() -> None:
    assert len({line.figure for line in BUDGET}) == len(BUDGET)
