from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.log.metrics import COUNTS, percentile, reliability_rows, wilson


@pytest.mark.parametrize(
    ("good", "trials", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        pytest.param(81, 263, 0.2553, 0.3662, id="81 of 263"),
        pytest.param(15, 148, 0.0624, 0.1605, id="15 of 148"),
        pytest.param(0, 20, 0.0, 0.1611, id="none of 20"),
        pytest.param(1, 29, 0.0061, 0.1718, id="1 of 29"),
        pytest.param(29, 29, 0.8830, 1.0, id="all of 29"),
    ],
)
def test_wilson(good: int, trials: int, low: float, high: float) -> None:
    assert wilson(good, trials) == pytest.approx((low, high), abs=0.00005)


def test_wilson_of_nothing() -> None:
    assert wilson(0, 0) is None


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate(sample: tuple[int, int]) -> None:
    good, trials = sample
    interval = wilson(good, trials)
    assert interval is not None
    assert 0 <= interval[0] <= good / trials + 1e-12
    assert good / trials - 1e-12 <= interval[1] <= 1


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        pytest.param([], 0.5, None, id="nothing"),
        pytest.param([7], 0.5, 7, id="one"),
        pytest.param([7], 0.95, 7, id="one, high"),
        pytest.param([1, 2], 0.5, 1, id="the lower of two"),
        pytest.param([1, 2, 3], 0.5, 2, id="the middle"),
        pytest.param(range(1, 21), 0.95, 19, id="19 of 20"),
        pytest.param(range(1, 101), 0.95, 95, id="95 of 100"),
        pytest.param([1, 2, 3], 0.0, 1, id="the least"),
        pytest.param([1, 2, 3], 1.0, 3, id="the greatest"),
    ],
)
def test_percentile(values: list[float], part: float, expected: float | None) -> None:
    assert percentile(values, part) == expected


def test_rows_are_sorted_with_none_first() -> None:
    completions = [("b", None, "c1", 1000, 1), ("a", "x", "c2", 2000, 2), ("a", None, "c3", 1, 3)]
    rows = reliability_rows(["model", "dialect"], [], completions)
    assert [(row["model"], row["dialect"], row["tokens"]) for row in rows] == [
        ("a", None, 3),
        ("a", "x", 2),
        ("b", None, 1),
    ]


def test_a_row_has_its_keys_in_order() -> None:
    [row] = reliability_rows(
        ["model"],
        [("m", *range(1, len(COUNTS) + 1))],
        [("m", "c1", 3500, 30), ("m", "c2", 1500, 12)],
    )
    assert list(row) == [
        "model", "completions", "seen", "strict", "repaired", "rejected", "invalid", "unknown",
        "denied", "handled", "failed", "corrected", "quoted", "rate", "low", "high", "p50_ms",
        "p95_ms", "tokens",
    ]  # fmt: skip
    assert [row[name] for name in COUNTS] == list(range(1, len(COUNTS) + 1))
    assert (row["completions"], row["p50_ms"], row["p95_ms"], row["tokens"]) == (2, 1.5, 3.5, 42)


@pytest.mark.parametrize(
    ("seen", "handled", "quoted", "rate"),
    [
        pytest.param(10, 8, 0, 0.8, id="handled of seen"),
        pytest.param(10, 8, 2, 1.0, id="what was quoted does not count"),
        pytest.param(2, 0, 2, None, id="nothing but quotes"),
        pytest.param(0, 0, 0, None, id="nothing"),
    ],
)
def test_rate(seen: int, handled: int, quoted: int, rate: float | None) -> None:
    counts = dict.fromkeys(COUNTS, 0) | {"seen": seen, "handled": handled, "quoted": quoted}
    [row] = reliability_rows(["model"], [("m", *counts.values())], [])
    assert (row["rate"], (row["low"] is None), (row["high"] is None)) == (
        rate,
        rate is None,
        rate is None,
    )
