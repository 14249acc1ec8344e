from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ksi_client.text import Paint
from ksi_client.views import standing

PLAIN = Paint(False)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULE = {"name": "r", "pattern": "a:*", "target": "c:d", "agent_id": None, "fires": 0}
TIMER = {"name": "t", "target": "c:d", "agent_id": None, "fires": 0, "due": "2026-01-01T02:00:00Z"}


@pytest.mark.parametrize(
    ("more", "row"),
    [
        pytest.param({}, "r     -        a:*  c:d       0  -     -", id="plain"),
        pytest.param(
            {"expires": "2026-01-01T00:30:00Z", "max_fires": 9, "mapping": {"x": "{{data.y}}"}},
            'r     -        a:*  c:d   0 of 9  30 min  {"x":"{{data.y}}"}',
            id="bounds and data",
        ),
        pytest.param(
            {"condition": {"data.y": 1}, "mapping": {"x": 1}},
            'r     -        a:*  c:d       0  -     {"data.y":1} → {"x":1}',
            id="a condition and data",
        ),
        pytest.param(
            {"agent_id": "ada", "target": {"agent": "b\u202eo"}},
            r"r     ada      a:*  tell b\u202eo      0  -     -",
            id="nothing of it moves the cursor",
        ),
    ],
)
def test_a_rule(more: dict[str, Any], row: str) -> None:
    assert list(standing.rules([RULE | more], NOW, PLAIN, 100))[1] == row


@pytest.mark.parametrize(
    ("more", "row"),
    [
        pytest.param({}, "t      -        2 h  -      c:d       0  {}", id="once"),
        pytest.param(
            {"every_s": 90.0, "max_fires": 2, "data": {"x": 1}, "fires": 1},
            't      -        2 h  1.5 min  c:d   1 of 2  {"x":1}',
            id="again and again",
        ),
    ],
)
def test_a_timer(more: dict[str, Any], row: str) -> None:
    assert list(standing.timers([TIMER | more], NOW, PLAIN, 100))[1] == row


def test_nothing_stands() -> None:
    assert list(standing.rules([], NOW, PLAIN, 80)) == ["no rules; ksi rules add makes one"]
    assert list(standing.timers([], NOW, PLAIN, 80)) == ["no timers; ksi timers set makes one"]


def test_when_a_timer_is_due_that_was_set(utc: None) -> None:
    assert standing.due(TIMER) == "set t, due 2026-01-01 02:00:00"
