from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

KSI = Callable[..., Result]
TIMER = {
    "name": "tea",
    "target": {"agent": "writer"},
    "data": {"message": "Tea!"},
    "every_s": 3600.0,
    "max_fires": 3,
    "agent_id": "ada",
    "due": "2026-01-01T00:04:00Z",
    "fires": 1,
}


@pytest.fixture(autouse=True)
def _timers(stub: StubDaemon) -> None:
    stub.answers |= {
        "timer:list": {"timers": [TIMER]},
        "timer:set": {"name": "tea", "due": "2026-01-01T00:04:00Z"},
        "timer:cancel": {"cancelled": "tea"},
    }


def asked(stub: StubDaemon) -> list[Any]:
    return [msgspec.json.decode(wire.data) for wire in stub.requests]


def test_what_there_is(ksi: KSI) -> None:
    assert ksi("timers").stdout == (
        "timer  made by  in   every  does          fired  with\n"
        'tea    ada      0 s  1 h    tell writer  1 of 3  {"message":"Tea!"}\n'
    )
    assert msgspec.json.decode(ksi("timers", text=False).stdout) == TIMER


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param(
            ["writer", "message=Tea!", "--after", "4m", "--name", "tea"],
            {
                "target": {"agent": "writer"},
                "data": {"message": "Tea!"},
                "after_s": 240.0,
                "name": "tea",
            },
            id="a message",
        ),
        pytest.param(
            ["state:set", '{"key": "k"}', "value=1", "--every", "1h", "--max-fires", "3"],
            {
                "target": "state:set",
                "data": {"key": "k", "value": 1},
                "every_s": 3600.0,
                "max_fires": 3,
            },
            id="an event again and again",
        ),
        pytest.param(
            ["system:mark", "label=x", "--at", "2026-01-31T12:00:00Z"],
            {"target": "system:mark", "data": {"label": "x"}, "at": "2026-01-31T12:00:00Z"},
            id="at a time",
        ),
    ],
)
def test_set(stub: StubDaemon, ksi: KSI, words: list[str], data: dict[str, Any]) -> None:
    result = ksi("timers", "set", *words)
    assert (result.exit_code, result.stdout) == (0, "set tea, due 2026-01-01 00:04:00\n")
    assert asked(stub) == [data]


def test_a_time_that_is_none_is_not_sent(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("timers", "set", "writer", "--after", "soon")
    assert result.exit_code == 2
    assert "'soon' is no length of time" in result.stderr
    assert asked(stub) == []


def test_each_is_cancelled_and_told_of(stub: StubDaemon, ksi: KSI) -> None:
    assert ksi("timers", "cancel", "tea", "nap").stdout == "cancelled tea\ncancelled nap\n"
    assert asked(stub) == [{"name": "tea"}, {"name": "nap"}]
