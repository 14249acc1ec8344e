from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.log.metrics import (
    LATENCY_ERROR,
    latency_bin,
    latency_ms,
    percentiles_ms,
    trials_to_tell,
    wilson,
)


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


@given(st.lists(st.integers(2, 10**11), min_size=1), st.floats(0.001, 1))
def test_a_percentile_is_as_near_as_is_promised(times_us: list[int], part: float) -> None:
    histogram: dict[int, int] = {}
    for time_us in times_us:
        histogram[latency_bin(time_us)] = histogram.get(latency_bin(time_us), 0) + 1
    true_ms = sorted(times_us)[max(0, math.ceil(part * len(times_us)) - 1)] / 1000
    told_ms = percentiles_ms(histogram, [part])[0]
    assert told_ms is not None
    # Half a thousandth of a millisecond is lost to rounding.
    assert abs(told_ms - true_ms) <= true_ms * LATENCY_ERROR * 1.0001 + 0.0005


@pytest.mark.parametrize(
    ("histogram", "part", "number"),
    [
        pytest.param({7: 1}, 0.5, 7, id="one"),
        pytest.param({1: 1, 2: 1}, 0.5, 1, id="the lower of two"),
        pytest.param({9: 1, 1: 18, 5: 1}, 0.95, 5, id="19 of 20"),
        pytest.param({1: 99, 3: 1}, 0.99, 1, id="99 of 100"),
        pytest.param({1: 1, 3: 1}, 0.0, 1, id="the least"),
        pytest.param({1: 1, 3: 1}, 1.0, 3, id="the greatest"),
    ],
)
def test_percentiles(histogram: dict[int, int], part: float, number: int) -> None:
    assert percentiles_ms(histogram, [part]) == [latency_ms(number)]


def test_percentile_of_nothing() -> None:
    assert percentiles_ms({}, [0.5, 0.9]) == [None, None]


@pytest.mark.parametrize("latency_us", [-1, 0, 1])
def test_no_time_at_all_has_a_bin(latency_us: int) -> None:
    assert latency_bin(latency_us) == 0
    assert latency_ms(0) == 0.001


@pytest.mark.parametrize(
    ("one", "other", "trials"),
    [
        # Fleiss, Statistical Methods for Rates and Proportions: n for 5 % and power 80 %, without
        # correction for continuity, is z^2 (p1 q1 + p2 q2) / (p1 - p2)^2.
        pytest.param(0.9, 0.8, 197, id="0.9 against 0.8"),
        pytest.param(0.5, 0.4, 385, id="0.5 against 0.4"),
        pytest.param(0.8, 0.9, 197, id="either way"),
        pytest.param(1.0, 0.0, 1, id="all against none"),
    ],
)
def test_trials_to_tell_two_rates_apart(one: float, other: float, trials: int) -> None:
    assert trials_to_tell(one, other) == trials


def test_the_same_rate_is_never_told_apart() -> None:
    assert trials_to_tell(0.5, 0.5) is None
