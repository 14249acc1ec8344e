from __future__ import annotations

import click
import pytest

from ksi_client.durations import duration, spoken


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("0", 0), ("90s", 90), ("4m", 240), ("2h", 7_200), ("1.5d", 129_600)],
)
def test_what_is_written(written: str, seconds: float) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize("written", ["", "s", "4x", "-1", "nan", "inf", "1e999d", "4 min"])
def test_what_is_no_length_of_time(written: str) -> None:
    with pytest.raises(click.BadParameter, match="is no length of time; want 90, 90s, 4m"):
        duration(written)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        pytest.param(-3, "0 s", id="over"),
        pytest.param(0.25, "0.25 s", id="part of a second"),
        pytest.param(59.4, "59.4 s", id="seconds"),
        pytest.param(239.9, "4 min", id="minutes"),
        pytest.param(3_599.9, "1 h", id="nearly an hour"),
        pytest.param(129_600, "1.5 d", id="days"),
    ],
)
def test_what_is_said(seconds: float, said: str) -> None:
    assert spoken(seconds) == said
