from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ksi_client.times import moment
from ksi_daemon.events import now


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC), id="UTC"),
        pytest.param("2026-01-31T13:00+01:00", datetime(2026, 1, 31, 12, tzinfo=UTC), id="zone"),
        pytest.param("1769860800", datetime(2026, 1, 31, 12, tzinfo=UTC), id="seconds since 1970"),
    ],
)
def test_moments(text: str, expected: datetime) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        pytest.param("90s", timedelta(seconds=90), id="seconds"),
        pytest.param("5m", timedelta(minutes=5), id="minutes"),
        pytest.param("2h", timedelta(hours=2), id="hours"),
        pytest.param("7d", timedelta(days=7), id="days"),
    ],
)
def test_how_long_ago(text: str, ago: timedelta) -> None:
    before = now()
    assert before - ago <= moment(text) <= now() - ago


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("yesterday", id="a word"),
        pytest.param("2026-01-31T12:00:00", id="no zone"),
        pytest.param("2026-13-31T12:00:00Z", id="no such month"),
        pytest.param("9999999h", id="too long"),
        pytest.param("-5m", id="in the future"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        moment(text)
