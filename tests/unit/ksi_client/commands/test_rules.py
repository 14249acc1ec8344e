from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

KSI = Callable[..., Result]
RULE = {
    "name": "low",
    "pattern": "agent:result",
    "target": {"agent": "writer"},
    "condition": {"data.score": {"lt": 8}},
    "agent_id": None,
    "fires": 2,
    "expires": None,
}


@pytest.fixture(autouse=True)
def _rules(stub: StubDaemon) -> None:
    stub.answers |= {
        "routing:list_rules": {"rules": [RULE]},
        "routing:add_rule": {"name": "low", "after_seq": 7},
        "routing:delete_rule": {"deleted": "low"},
    }


def asked(stub: StubDaemon) -> list[Any]:
    return [msgspec.json.decode(wire.data) for wire in stub.requests]


def test_what_there_is(ksi: KSI) -> None:
    assert ksi("rules").stdout == (
        "rule  made by  on            does         fired  left  if, and with\n"
        'low   -        agent:result  tell writer      2  -     {"data.score":{"lt":8}}\n'
    )
    assert msgspec.json.decode(ksi("rules", text=False).stdout) == RULE


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param(
            ["low", "agent:result", "writer"],
            {"name": "low", "pattern": "agent:result", "target": {"agent": "writer"}},
            id="an agent is told",
        ),
        pytest.param(
            ["low", "agent:*", "state:set", "key=k", "value={{data.score}}"],
            {
                "name": "low",
                "pattern": "agent:*",
                "target": "state:set",
                "mapping": {"key": "k", "value": "{{data.score}}"},
            },
            id="an event with data",
        ),
        pytest.param(
            ["low", "a:b", "c:d", "--if", '{"data.x": 1}', "--for", "2h", "--max-fires", "3",
             "--priority", "-1"],
            {
                "name": "low",
                "pattern": "a:b",
                "target": "c:d",
                "condition": {"data.x": 1},
                "ttl_s": 7200.0,
                "max_fires": 3,
                "priority": -1,
            },
            id="all that there is",
        ),
    ],
)  # fmt: skip
def test_add(stub: StubDaemon, ksi: KSI, words: list[str], data: dict[str, Any]) -> None:
    result = ksi("rules", "add", *words)
    assert (result.exit_code, result.stdout) == (0, "added low\n")
    assert asked(stub) == [data]


def test_a_condition_that_is_none_is_not_sent(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("rules", "add", "low", "a:b", "c:d", "--if", "5")
    assert result.exit_code == 2
    assert "the condition: no JSON object" in result.stderr
    assert asked(stub) == []


def test_each_is_deleted_and_told_of(stub: StubDaemon, ksi: KSI) -> None:
    assert ksi("rules", "rm", "low", "high").stdout == "deleted low\ndeleted high\n"
    assert asked(stub) == [{"name": "low"}, {"name": "high"}]


def test_what_the_daemon_refuses_is_not_said_to_be_deleted(stub: StubDaemon, ksi: KSI) -> None:
    del stub.answers["routing:delete_rule"]
    result = ksi("rules", "rm", "low")
    assert (result.exit_code, result.stdout) == (1, "")
