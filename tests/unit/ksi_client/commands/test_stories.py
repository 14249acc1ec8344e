from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon
from ksi_daemon.errors import NotFound


@pytest.fixture(autouse=True)
def _story(stub: StubDaemon) -> None:
    stub.emit("a:one")
    stub.emit("a:two").cause_id = "e1"
    stub.emit("a:three").cause_id = "e2"

    def tree(data: dict[str, Any]) -> dict[str, Any]:
        [(kind, key)] = data.items()
        known = {"seq": (1, 2, 3), "event_id": ("e1", "e2", "e3"), "correlation_id": ("e0",)}
        if key not in known[kind]:
            raise NotFound(kind, str(key))
        return {"correlation_id": "e0", "events": stub.log}

    def why(data: dict[str, Any]) -> dict[str, Any]:
        [key] = data.values()
        found = [event for event in stub.log if key in (event.seq, event.id)]
        if not found:
            raise NotFound("event", str(key))
        at = stub.log.index(found[0])
        return {
            "event": found[0],
            "checks": [{"check": "story", "passed": True}, {"check": "known", "passed": False}],
            "handler": {"kind": "task", "effect": "write", "summary": "Do it.", "handlers": 1},
            "result": {"n": 1},
            "causes": stub.log[:at],
            "effects": stub.log[at + 1 :],
            "lost_cause": "e0",
            "state": "open" if key == 3 else None,
            "correction": "Not run.\n" * 6 if key == 3 else None,
            "fixes": 7 if key == 3 else None,
        }

    stub.answers["monitor:tree"] = tree
    stub.answers["monitor:why"] = why
    stub.answers["monitor:get_events"] = lambda data: {"events": stub.log[-1:]}


def asked(stub: StubDaemon) -> list[dict[str, Any]]:
    return [msgspec.json.decode(wire.data) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param(["3"], [{"seq": 3}], id="by seq"),
        pytest.param(["#3"], [{"seq": 3}], id="as the log shows it"),
        pytest.param(["e2"], [{"event_id": "e2"}], id="by id"),
        pytest.param(["e0"], [{"event_id": "e0"}, {"correlation_id": "e0"}], id="by story"),
        pytest.param([], [{"limit": 1, "reverse": True}, {"seq": 3}], id="the latest"),
    ],
)
def test_tree(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], data: list[dict[str, Any]]
) -> None:
    assert ksi("tree", *words).stdout.splitlines()[1:] == [
        "✓ #1  a:one  system",
        "└─ ✓ #2  a:two  system",
        "   └─ ✓ #3  a:three  system",
    ]
    assert asked(stub) == data


def test_why(ksi: Callable[..., Result]) -> None:
    assert ksi("why", "2").stdout.splitlines() == [
        "what led to this, event e0, is no longer in the log",
        "✓ #1  a:one  system",
        "└─ ✓ #2  a:two  system",
        "   │   checks    ✓ story  ✗ known",
        "   │   handler   write, task: Do it.",
        '   │   result    {"n":1}',
        "   └─ ✓ #3  a:three  system",
    ]


def test_why_a_call_went_wrong_and_what_was_said_of_it(ksi: Callable[..., Result]) -> None:
    assert ksi("why", "3").stdout.splitlines()[-8:] == [
        '          result    {"n":1}',
        "          fixes     attempt #7: ksi attempts show 7",
        "          told      Not run.",
        *["                    Not run."] * 3,
        "                    ⋮ 3 lines",
        "          attempt   open: ksi attempts show 3",
    ]


def test_why_as_json_is_all_that_the_daemon_tells(ksi: Callable[..., Result]) -> None:
    [line] = ksi("why", "#2", text=False).stdout.splitlines()
    told = msgspec.json.decode(line)
    assert [told["event"]["id"], *(each["id"] for each in told["causes"])] == ["e2", "e1"]
    assert told["handler"]["summary"] == "Do it."


@pytest.mark.parametrize("command", ["why", "tree"])
def test_a_trace_is_written(ksi: Callable[..., Result], run_dir: Path, command: str) -> None:
    file = run_dir / "trace.json"
    result = ksi(command, "2", "--chrome", str(file))
    assert result.stdout == f"{file}: open it in chrome://tracing or ui.perfetto.dev\n"
    names = [each["name"] for each in msgspec.json.decode(file.read_bytes())["traceEvents"]]
    assert [name for name in names if name.startswith("a:")] == ["a:one", "a:two", "a:three"]
    shown = ksi(command, "2", "--chrome", "-").stdout
    assert msgspec.json.decode(shown) == msgspec.json.decode(file.read_bytes())


def test_a_trace_that_cannot_be_written(ksi: Callable[..., Result], run_dir: Path) -> None:
    result = ksi("tree", "2", "--chrome", str(run_dir / "no" / "t.json"))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        pytest.param(["why", "9"], "error not_found: no event '9'\n", id="no such seq"),
        pytest.param(
            ["tree", "odd"], "error not_found: no correlation_id 'odd'\n", id="no such id"
        ),
        pytest.param(["why", "e0"], "error not_found: no event 'e0'\n", id="a story is no event"),
    ],
)
def test_what_is_not_there(ksi: Callable[..., Result], words: list[str], stderr: str) -> None:
    result = ksi(*words)
    assert (result.exit_code, result.stderr) == (1, stderr)


def test_the_latest_of_an_empty_log(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.log.clear()
    assert ksi("tree").stderr == "error not_found: no event 'latest'\n"
