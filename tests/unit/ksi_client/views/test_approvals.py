from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ksi_client.text import Paint
from ksi_client.views.approvals import listed, shown

PLAIN = Paint(False)
CALL = {
    "approval_id": "ap_1",
    "agent_id": "ada",
    "event": "state:set",
    "data": {"key": "k", "value": "a\u202eb\x1b[2J"},
    "expires": "2026-01-01T00:10:00.5Z",
}


@pytest.mark.parametrize(
    ("minute", "second", "left"),
    [
        pytest.param(0, 0, "10 min", id="minutes"),
        pytest.param(9, 30, "30 s", id="seconds"),
        pytest.param(11, 0, "0 s", id="over"),
    ],
)
def test_how_long_a_call_waits(minute: int, second: int, left: str) -> None:
    now = datetime(2026, 1, 1, 0, minute, second, tzinfo=UTC)
    _, row = listed([CALL], now, PLAIN, 80)
    assert row.startswith(f"ap_1      ada    state:set  {left}  ")


def test_nothing_waits() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert list(listed([], now, PLAIN, 80)) == ["nothing waits for a person"]


def test_the_whole_call_is_shown_and_nothing_of_it_moves_the_cursor() -> None:
    assert "\n".join(shown(CALL, PLAIN)).split("\n") == [
        "ada asks for state:set with",
        "{",
        '  "key": "k",',
        r'  "value": "a\u202eb\u001b[2J"',
        "}",
    ]
