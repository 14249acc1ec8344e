from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon
from ksi_daemon.errors import Conflict


@pytest.fixture(autouse=True)
def _log(stub: StubDaemon) -> None:
    for name in ("a:one", "b:two", "a:three"):
        stub.emit(name)

    def page(data: Any) -> dict[str, Any]:
        found = stub.log[::-1] if data["reverse"] else stub.log
        return {"events": found[: data["limit"]], "next_after_seq": 3, "last_seq": 3}

    stub.answers["monitor:get_events"] = page


def asked(stub: StubDaemon) -> list[dict[str, Any]]:
    return [msgspec.json.decode(wire.data) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "data", "seqs"),
    [
        pytest.param(
            [],
            {"patterns": [], "limit": 50, "reverse": True},
            [1, 2, 3],
            id="the last ones in their order",
        ),
        pytest.param(
            ["--reverse", "-n", "2"],
            {"patterns": [], "limit": 2, "reverse": True},
            [3, 2],
            id="the newest first",
        ),
        pytest.param(
            ["--after", "0", "-n", "2"],
            {"patterns": [], "limit": 2, "reverse": False, "after_seq": 0},
            [1, 2],
            id="those that follow",
        ),
        pytest.param(
            ["a:*", "-p", "b:*", "--agent", "ada", "--status", "failed", "--before", "9"],
            {
                "patterns": ["a:*", "b:*"],
                "limit": 50,
                "reverse": True,
                "agent_id": "ada",
                "status": "failed",
                "before_seq": 9,
            },
            [1, 2, 3],
            id="conditions",
        ),
        pytest.param(
            ["--correlation", "c", "--completion", "d"],
            {
                "patterns": [],
                "limit": 50,
                "reverse": True,
                "correlation_id": "c",
                "completion_id": "d",
            },
            [1, 2, 3],
            id="of a story, of a reply",
        ),
    ],
)
def test_events(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    data: dict[str, Any],
    seqs: list[int],
) -> None:
    lines = ksi("events", *words, text=False).stdout.splitlines()
    assert [msgspec.json.decode(line)["seq"] for line in lines] == seqs
    assert asked(stub) == [data]


def test_events_for_people(ksi: Callable[..., Result]) -> None:
    line = ksi("events", "-n", "1").stdout
    assert line == f"     #3  00:00:00.000  ✓ {'a:three':22}  system\n"


def test_no_events(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.log.clear()
    assert ksi("events").stdout == "no such events\n"
    assert ksi("events", text=False).stdout == ""


@pytest.mark.parametrize(
    ("words", "after", "patterns"),
    [
        pytest.param(["--after", "1"], 1, ["*"], id="after an event"),
        pytest.param(["-n", "2", "a:*"], 1, ["a:*"], id="the last two"),
        pytest.param(["-n", "9"], 0, ["*"], id="more than there are"),
        pytest.param(["-n", "0"], 3, ["*"], id="none of the past"),
        pytest.param([], None, ["*"], id="from now on"),
    ],
)
def test_where_tail_begins(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    after: int | None,
    patterns: list[str],
) -> None:
    def refuse(data: Any) -> None:
        raise Conflict("enough")

    stub.answers["monitor:subscribe"] = refuse
    assert ksi("tail", *words).exit_code == 1
    data = asked(stub)[-1]
    assert (data.get("after_seq"), data["patterns"]) == (after, patterns)


def test_events_with_words(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    match = {"seq": 3, "part": "data", "text": "a \x1b draft b", "start": 4, "end": 9}
    stub.answers["monitor:get_events"] = {
        "events": stub.log[-1:],
        "last_seq": 3,
        "matches": [match],
    }
    assert ksi("events", "--grep", "draft").stdout.splitlines()[1:] == [
        r"         data: a \e draft b"
    ]
    assert asked(stub)[-1]["grep"] == "draft"
    line = msgspec.json.decode(ksi("events", "--grep", "draft", text=False).stdout)
    assert (line["seq"], line["match"]) == (3, match)
