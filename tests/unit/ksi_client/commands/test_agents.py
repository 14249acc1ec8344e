from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

ANSWER = {"request_id": "e1", "text": "Hello.", "finish_reason": "stop", "turns": 1, "calls": []}


@pytest.fixture(autouse=True)
def _agents(stub: StubDaemon) -> None:
    stub.answers |= {
        "agent:spawn": {"agent_id": "ada", "state": "idle"},
        "agent:send": lambda data: ANSWER if data["wait"] else {"request_id": "e1"},
        "agent:list": {"agents": [{"agent_id": "ada", "state": "idle"}]},
        "agent:terminate": lambda data: {
            "terminated": data.get("agent_ids") or ["w-1", "w-2"],
            "dry_run": data["dry_run"],
        },
    }


def asked(stub: StubDaemon) -> list[tuple[str, Any]]:
    return [(wire.event, msgspec.json.decode(wire.data)) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param(["agents/greeter"], {"component": "agents/greeter"}, id="by name"),
        pytest.param(["-"], {"system": "Be brief."}, id="a prompt from stdin"),
        pytest.param(
            ["x", "--id", "ada", "--model", "m", "--profile", "team"],
            {"component": "x", "agent_id": "ada", "model": "m", "profile": "team"},
            id="named",
        ),
        pytest.param(
            ["x", "--provider", '{"type": "scripted"}', "--protocol", "any"],
            {"component": "x", "provider": {"type": "scripted"}, "protocol": "any"},
            id="an object or a name",
        ),
        pytest.param(
            ["x", "--allow", "a:*", "--allow", "b:c", "--var-set", "n=1", "--var-set", "m=a=b"],
            {"component": "x", "allow": ["a:*", "b:c"], "variables": {"n": "1", "m": "a=b"}},
            id="rights and variables",
        ),
        pytest.param(
            ["x", "--prompt", "hi", "--no-wait"],
            {"component": "x", "prompt": "hi"},
            id="a prompt that is not waited for",
        ),
    ],
)
def test_spawn_says_only_what_was_given(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], data: dict[str, Any]
) -> None:
    result = ksi("spawn", *words, stdin="Be brief.")
    assert (result.exit_code, result.stdout) == (0, "ada lives\n")
    assert asked(stub) == [("agent:spawn", data)]


def test_spawn_of_a_file_says_where_it_is(
    stub: StubDaemon, ksi: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greeter.md").write_text("Be brief.")
    monkeypatch.chdir(tmp_path)
    ksi("spawn", "greeter.md")
    assert asked(stub) == [("agent:spawn", {"component": f"{tmp_path}/greeter.md"})]


def test_spawn_shows_the_answer_to_its_prompt(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    assert ksi("spawn", "x", "--prompt", "hi").stdout == "ada lives\nHello.\n1 turn, stop\n"
    assert asked(stub) == [
        ("agent:spawn", {"component": "x"}),
        ("agent:send", {"agent_id": "ada", "message": "hi", "wait": True}),
    ]


def test_spawn_tells_why_a_protocol_was_chosen(
    stub: StubDaemon, ksi: Callable[..., Result]
) -> None:
    note = "native fits m best, by 400 calls"
    stub.answers["agent:spawn"] = {"agent_id": "ada", "protocol": "native_auto", "note": note}
    assert ksi("spawn", "x", "--protocol", "best").stdout == f"ada lives\n{note}\n"


def test_spawn_as_json_is_one_line(ksi: Callable[..., Result]) -> None:
    [line] = ksi("spawn", "x", "--prompt", "hi", text=False).stdout.splitlines()
    assert msgspec.json.decode(line) == {"agent_id": "ada", "state": "idle", "answer": ANSWER}


@pytest.mark.parametrize(
    ("words", "data", "stdout"),
    [
        pytest.param(
            ["ada", "hi"],
            {"message": "hi", "wait": True, "untrusted": False},
            "Hello.\n1 turn, stop\n",
            id="waits",
        ),
        pytest.param(
            ["ada", "-", "--no-wait", "--untrusted"],
            {"message": "from stdin", "wait": False, "untrusted": True},
            "sent as e1\n",
            id="from stdin",
        ),
    ],
)
def test_send(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    data: dict[str, Any],
    stdout: str,
) -> None:
    assert ksi("send", *words, stdin="from stdin").stdout == stdout
    assert asked(stub) == [("agent:send", {"agent_id": "ada", **data})]


def test_all_about_one(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    info = {"agent_id": "ada", "model": None, "usage": {"replies": 2, "usd": 0.5}}
    stub.answers["agent:info"] = info
    assert ksi("agents", "ada").stdout == (
        "agent_id  ada\nmodel     -\nusage\n  replies  2\n  usd      0.5\n"
    )
    assert msgspec.json.decode(ksi("agents", "ada", text=False).stdout) == info
    assert msgspec.json.decode(stub.requests[0].data) == {"agent_id": "ada"}


def test_agents(ksi: Callable[..., Result]) -> None:
    assert ksi("agents").stdout.splitlines()[1].split() == ["ada", "idle", "-", "-", "-", "-"]
    assert ksi("agents", text=False).stdout == '{"agent_id":"ada","state":"idle"}\n'


@pytest.mark.parametrize(
    ("words", "requests", "stdout"),
    [
        pytest.param(
            ["ada", "bob"],
            [{"agent_ids": ["ada", "bob"], "dry_run": False}],
            "ended ada\nended bob\n",
            id="by id",
        ),
        pytest.param(
            ["w-*", "w-1", "--dry-run"],
            [{"agent_ids": ["w-1"], "dry_run": True}, {"pattern": "w-*", "dry_run": True}],
            "would end w-1\nwould end w-2\n",
            id="by pattern, each named once",
        ),
    ],
)
def test_terminate(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    requests: list[dict[str, Any]],
    stdout: str,
) -> None:
    assert ksi("terminate", *words).stdout == stdout
    assert [data for _, data in asked(stub)] == requests


def test_terminate_of_none(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["agent:terminate"] = {"terminated": [], "dry_run": False}
    assert ksi("terminate", "w-*").stdout == "no agent matches\n"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["send", "ada", "hi"], id="send"),
        pytest.param(["spawn", "x", "--prompt", "hi"], id="spawn with a prompt"),
    ],
)
def test_an_exchange_that_broke_off_is_no_success(
    ksi: Callable[..., Result], stub: StubDaemon, words: list[str]
) -> None:
    error = {"code": "provider_auth", "message": "no key", "retryable": False}
    broken = {**ANSWER, "turns": 0, "finish_reason": "provider_auth", "error": error}
    stub.answers["agent:send"] = broken
    result = ksi(*words)
    assert result.exit_code == 1
    assert "no key" in result.output
