from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.security.buckets import MAX_BUCKETS, Buckets


def test_a_burst_passes_and_then_one_at_a_time() -> None:
    buckets = Buckets()

    def take(now: float) -> float:
        return buckets.take("a", now, per_s=2, burst=3)

    assert [take(10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert take(10.25) == 0.25
    assert [take(10.5), take(10.5)] == [0, 0.5]
    assert [take(100.0) for _ in range(4)] == [0, 0, 0, 0.5]


def test_each_has_a_bucket_of_its_own() -> None:
    buckets = Buckets()
    assert [buckets.take(name, 1.0, per_s=1, burst=1) for name in "aba"] == [0, 0, 1]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    buckets = Buckets()
    assert [buckets.take("a", now, per_s=1, burst=1) for now in (5.0, 1.0, 1.5)] == [0, 1, 0.5]


def test_memory_is_bounded() -> None:
    buckets = Buckets()
    for number in range(MAX_BUCKETS + 10):
        buckets.take(str(number), 0.0, per_s=1, burst=1)
    assert len(buckets._left) == MAX_BUCKETS


@given(
    moments=st.lists(st.floats(0, 30), min_size=1, max_size=60).map(sorted),
    per_s=st.floats(0.1, 10),
    burst=st.integers(1, 10),
)
def test_no_more_pass_than_the_burst_and_the_rate(
    moments: list[float], per_s: float, burst: int
) -> None:
    buckets = Buckets()
    passed = [t for t in moments if not buckets.take("a", t, per_s=per_s, burst=burst)]
    for at, start in enumerate(passed):
        for number, end in enumerate(passed[at:], start=1):
            assert number <= burst + (end - start) * per_s + 1e-6


def test_who_waits_as_long_as_told_passes() -> None:
    buckets = Buckets()
    buckets.take("a", 0.0, per_s=0.3, burst=1)
    wait = buckets.take("a", 0.0, per_s=0.3, burst=1)
    assert wait == pytest.approx(1 / 0.3)
    assert buckets.take("a", wait + 1e-9, per_s=0.3, burst=1) == 0
