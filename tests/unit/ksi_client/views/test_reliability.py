from __future__ import annotations

import re
from typing import Any

import pytest

from ksi_client.text import Paint, width
from ksi_client.views import reliability

PLAIN = Paint(False)

ROW: dict[str, Any] = {
    "model": "m-1",
    "dialect": "event",
    "completions": 120,
    "seen": 130,
    "strict": 110,
    "repaired": 14,
    "rejected": 6,
    "invalid": 0,
    "unknown": 0,
    "denied": 0,
    "handled": 122,
    "failed": 0,
    "corrected": 5,
    "quoted": 0,
    "rate": 0.938,
    "low": 0.88,
    "high": 0.97,
    "p50_ms": 240.4,
    "p95_ms": 910.0,
    "p99_ms": 1204.0,
    "tokens": 48120,
    "usd": None,
    "unpriced": 120,
}
TRIES = [
    {"corrections": number, "n": 124, "rate": rate}
    for number, rate in enumerate((0.95, 0.98, 0.99, 0.99))
]


def cells(line: str) -> list[str]:
    return re.split(" {2,}", line)


def test_a_table() -> None:
    [head, row] = reliability.rates(["model", "dialect"], [ROW], PLAIN, 200)
    assert cells(head) == [
        *("model", "dialect", "completions", "seen", "strict", "repaired", "rejected", "handled"),
        *("corrected", "rate", "95 %", "p50", "p95", "p99", "tokens"),
    ]
    assert cells(row) == [
        *("m-1", "event", "120", "130", "110", "14", "6", "122"),
        *("5", "93.8", "88.0-97.0", "240 ms", "910 ms", "1204 ms", "48120"),
    ]


@pytest.mark.parametrize(
    ("usd", "unpriced", "told"),
    [
        pytest.param(0.01234567, 0, "0.01235", id="all of it"),
        pytest.param(1.5, 3, "1.5+", id="at least"),
    ],
)
def test_money(usd: float, unpriced: int, told: str) -> None:
    rows = [ROW | {"usd": usd, "unpriced": unpriced}, ROW]
    [head, row, other] = reliability.rates(["model"], rows, PLAIN, 200)
    assert (cells(head)[-1], cells(row)[-1], cells(other)[-1]) == ("usd", told, "-")


@pytest.mark.parametrize("width_of_terminal", [60, 80, 100])
def test_on_a_narrow_terminal_the_rate_stays(width_of_terminal: int) -> None:
    row = ROW | {"usd": 1.5, "errors": 3, "suspects": 2, "interrupted": 1}
    [head, line] = reliability.rates(["model", "dialect"], [row], PLAIN, width_of_terminal)
    assert width(head) <= width_of_terminal
    assert "93.8" in line
    assert "88.0-97.0" in line


def test_what_must_not_be_overlooked_stays() -> None:
    [head, _] = reliability.rates(["model"], [ROW | {"lost": 1, "errors": 2}], PLAIN, 60)
    assert {"lost", "errors"} <= set(cells(head))


def test_nothing() -> None:
    row = {"model": None, "seen": 0, "rate": None}
    [_, line] = reliability.rates(["model"], [row], PLAIN, 100)
    assert line.split() == ["-", "0", "0", "0", "0", "-", "---", "-", "-", "-", "0"]
    assert list(reliability.rates(["model"], [], PLAIN, 100)) == [
        "no completions yet; ksi send gives an agent something to answer"
    ]


def test_details() -> None:
    row = ROW | {
        "tries": TRIES,
        "repairs": {"trailing_comma": 12, "comment": 2},
        "rejections": {"malformed_block": 6},
        "failures": {},
        "provider_errors": {"provider_timeout": 1},
        "faults": {"model": 6, "parser": 0, "schema": 0, "tool": 0, "provider": 1},
    }
    lines = list(reliability.details(["model", "dialect"], [row], PLAIN, 100))
    assert lines[2:] == [
        "",
        "m-1  event",
        "  came good  95.0 at once; 98.0, 99.0, 99.0 after 1, 2, 3 corrections (of 124)",
        "  repaired   trailing_comma 12, comment 2",
        "  rejected   malformed_block 6",
        "  no reply   provider_timeout 1",
        "  fault of   model 6, provider 1",
    ]


def test_corrections_that_made_no_difference_are_not_told() -> None:
    tries = [{"corrections": number, "n": 40, "rate": 1.0} for number in range(4)]
    lines = list(reliability.details(["model"], [ROW | {"tries": tries}], PLAIN, 100))
    assert lines[-1] == "  came good  100.0 at once (of 40)"


def test_details_of_what_is_well_are_none() -> None:
    assert len(list(reliability.details(["model"], [ROW], PLAIN, 100))) == 2
