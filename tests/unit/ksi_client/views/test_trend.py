from __future__ import annotations

from typing import Any

import pytest

from ksi_client.text import Paint, width
from ksi_client.views.trend import MAX_CHARTS, charts

PLAIN = Paint(False)


def row(day: str, rate: float | None, n: int = 10, **keys: Any) -> dict[str, Any]:
    return {
        "model": "m", **keys, "day": day, "seen": n + 1, "quoted": 1, "rate": rate,
        "low": None if rate is None else max(0.0, rate - 0.06),
        "high": None if rate is None else min(1.0, rate + 0.03),
    }  # fmt: skip


def test_a_chart() -> None:
    rows = [
        row("2026-01-30", 0.98, 100),
        row("2026-01-31", 0.92, 50),
        row("2026-02-02", 1.0, 5),
        row("2026-02-03", None, 0),
    ]
    assert list(charts(["model", "day"], rows, PLAIN, 80)) == [
        "m",
        "100.0 ┤│  ●",
        " 98.0 ┤●  │",
        " 96.0 ┤││ │",
        " 94.0 ┤││ │",
        " 92.0 ┤│●",
        " 90.0 ┤ │",
        "calls │█▄ ▁",
        "       2026-01-30 to 2026-02-02",
    ]


def test_the_scale_begins_at_what_is_needed() -> None:
    lines = list(charts(["day"], [row("2026-01-30", 0.43)], PLAIN, 80))
    assert [line[:7] for line in lines[1:7]] == [
        "100.0 ┤", " 88.0 ┤", " 76.0 ┤", " 64.0 ┤", " 52.0 ┤", " 40.0 ┤",
    ]  # fmt: skip
    assert lines[0] == "all"


@pytest.mark.parametrize("cells", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(cells: int) -> None:
    days = [f"2026-0{month}-{day:02}" for month in (1, 3, 5, 7) for day in range(1, 31)]
    rows = [row(day, 0.9, model="m" * 200) for day in days]
    lines = list(charts(["model", "day"], rows, PLAIN, cells))
    assert max(map(width, lines[:-1])) <= cells
    assert lines[-1] == f"{211 - (cells - 7)} earlier days are left out; --json has all"
    assert lines[-2].endswith("2026-07-30")


def test_hours() -> None:
    rows = [
        {**row("", 1.0), "hour": f"2026-01-{30 + n // 24}T{n % 24:02}:00:00Z"} for n in range(26)
    ]
    lines = list(charts(["model", "hour"], rows, PLAIN, 80))
    assert lines[-1] == "       01-30 00:00    01-31 01:00"
    assert lines[1] == "100.0 ┤" + "●" * 26


def test_the_groups_with_the_most_calls_come_first() -> None:
    rows = [row("2026-01-30", 0.9, n, model=f"m{n}") for n in range(1, MAX_CHARTS + 3)]
    lines = list(charts(["model", "day"], rows, PLAIN, 80))
    assert [line for line in lines if line.startswith("m")] == [f"m{n}" for n in range(10, 2, -1)]
    assert lines[-1] == "2 groups with fewer calls are left out; --json has all"


def test_what_a_stranger_named_moves_nothing() -> None:
    lines = list(charts(["model", "day"], [row("2026-01-30", 1.0, model="\x1b[2J")], PLAIN, 80))
    assert lines[0] == r"\e[2J"


def test_colours_say_how_good_it_is() -> None:
    rows = [row(f"2026-01-0{n}", rate) for n, rate in enumerate((0.5, 0.8, 0.95), start=1)]
    text = "\n".join(charts(["model", "day"], rows, Paint(True), 80))
    assert [text.count(f"\x1b[{code}m●") for code in (31, 33, 32)] == [1, 1, 1]


def test_nothing() -> None:
    assert list(charts(["model", "day"], [row("2026-01-30", None, 0)], PLAIN, 80)) == [
        "no calls in this time"
    ]
