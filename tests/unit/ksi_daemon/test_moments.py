from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.moments import Moment, moment_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(NOON.timestamp(), NOON, id="seconds"),
        pytest.param("2026-01-31T12:00:00Z", NOON, id="text"),
        pytest.param("2026-01-31T14:00:00+02:00", NOON, id="of another zone"),
    ],
)
def test_moments(value: Moment | None, moment: datetime | None) -> None:
    assert moment_of(value, "since") == moment


@pytest.mark.parametrize("value", ["soon", "2026-01-31T12:00:00", 1e300, float("nan")])
def test_what_is_no_moment(value: Moment) -> None:
    with pytest.raises(InvalidData, match="is no time") as caught:
        moment_of(value, "since")
    assert caught.value.details == {"path": "since"}
