from __future__ import annotations

from collections.abc import Callable

import pytest

from ksi_daemon.log.export.record import Record, is_announcement, iso

NewRecord = Callable[..., Record]


def test_time_is_told_to_the_microsecond() -> None:
    assert iso(1_769_860_800_000_042) == "2026-01-31T12:00:00.000042Z"


def test_an_error_has_a_code(new_record: NewRecord) -> None:
    error = '{"code":"denied","message":"no","retryable":false}'
    assert (new_record().error_code, new_record(error=error).error_code) == (None, "denied")


@pytest.mark.parametrize(
    ("name", "event_id", "expected"),
    [
        pytest.param("extraction:call", "c.1.call", True, id="the notice of a call"),
        pytest.param("extraction:call", "c.1", False, id="the call itself"),
        pytest.param("state:set", "c.1.call", False, id="another event"),
    ],
)
def test_announcements(new_record: NewRecord, name: str, event_id: str, expected: bool) -> None:
    assert is_announcement(new_record(name=name, id=event_id)) is expected
