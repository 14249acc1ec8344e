from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

KSI = Callable[..., Result]
COUNT = {"name": "count", "class": "observe", "source": "text.py", "description": "Count."}
BROKEN = {"plugin": "bad.py", "error": "SyntaxError"}


@pytest.fixture(autouse=True)
def _tools(stub: StubDaemon) -> None:
    stub.answers |= {"tool:list": {"tools": [COUNT], "broken": [BROKEN]}, "tool:call": {"n": 2}}


def asked(stub: StubDaemon) -> list[tuple[str, Any]]:
    return [(wire.event, msgspec.json.decode(wire.data)) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param([], {"pattern": "*", "events": False}, id="without a word"),
        pytest.param(["list", "c*"], {"pattern": "c*", "events": False}, id="a pattern"),
        pytest.param(["list", "--events"], {"pattern": "*", "events": True}, id="events too"),
        pytest.param(
            ["list", "--agent", "ada"],
            {"pattern": "*", "events": False, "agent_id": "ada"},
            id="of an agent",
        ),
    ],
)
def test_the_list(stub: StubDaemon, ksi: KSI, words: list[str], data: dict[str, Any]) -> None:
    result = ksi("tools", *words)
    assert (result.exit_code, result.stdout) == (
        0,
        "tool    class    from     what it does\n"
        "count   observe  text.py  Count.\n"
        "bad.py  broken   bad.py   SyntaxError\n",
    )
    assert asked(stub) == [("tool:list", data)]


def test_the_list_as_json(ksi: KSI) -> None:
    lines = ksi("tools", text=False).stdout.splitlines()
    assert [msgspec.json.decode(line) for line in lines] == [COUNT, BROKEN]


@pytest.mark.parametrize(
    ("words", "stdin", "arguments"),
    [
        pytest.param([], None, {}, id="nothing"),
        pytest.param(["text=a b", "n=2"], None, {"text": "a b", "n": 2}, id="fields"),
        pytest.param(["-", "n=2"], '{"text": "a"}', {"text": "a", "n": 2}, id="stdin"),
    ],
)
def test_a_call(
    stub: StubDaemon, ksi: KSI, words: list[str], stdin: str | None, arguments: dict[str, Any]
) -> None:
    result = ksi("tools", "call", "count", *words, stdin=stdin)
    assert (result.exit_code, result.stdout.splitlines()[:3]) == (0, ["{", '  "n": 2', "}"])
    assert asked(stub) == [("tool:call", {"name": "count", "arguments": arguments})]


def test_arguments_that_are_none(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("tools", "call", "count", "two")
    assert result.exit_code == 2
    assert "'two' is neither a JSON object nor KEY=VALUE" in result.stderr
    assert asked(stub) == []
