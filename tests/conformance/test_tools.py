"""Cases of tools that need the whole daemon: a plugin file, an agent that calls, the log."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

pytestmark = pytest.mark.conformance

TOOLS = '''
from ksi_daemon.tools import File, tool


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@tool
def secret() -> str:
    """Tell the secret."""
    return "xyzzy"


@tool
def broken() -> None:
    """Fail."""
    raise RuntimeError("the disk is full")


@tool
def nothing() -> None:
    """Return nothing."""


@tool
def table() -> dict[str, int]:
    """Return an object."""
    return {"a": 1}


@tool
def large() -> str:
    """Return a megabyte."""
    return "x" * 1_000_000


@tool
def picture() -> File:
    """Return a picture."""
    return File(b"P" * 100_000, "image/png")
'''


@pytest.fixture(autouse=True)
def _forget_plugins() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("ksi_plugins.")]:
        del sys.modules[name]


@asynccontextmanager
async def house() -> AsyncIterator[tuple[Peer, Path]]:
    with short_directory() as directory:
        plugins = directory / "plugins"
        plugins.mkdir()
        (plugins / "tools.py").write_text(TOOLS)
        async with (
            running_daemon(directory / "v", plugins=str(plugins)) as socket,
            connected(socket) as peer,
        ):
            yield peer, plugins


def call(name: str, /, **arguments: Any) -> str:
    return json.dumps({"tool": name, "arguments": arguments})


async def answers(peer: Peer, *replies: str, **rest: Any) -> dict[str, Any]:
    """Return how an agent's exchange ended whose model says *replies*."""
    provider = {"type": "scripted", "replies": [*replies, "done"]}
    agent = {"agent_id": "a", "system": "Test.", "protocol": "prompt_tools", "tools": ["*"]}
    await peer.ask("agent:spawn", {**agent, "provider": provider, **rest})
    answer: dict[str, Any] = await peer.ask(
        "agent:send", {"agent_id": "a", "message": "go", "wait": True}
    )
    return answer


async def test_S003_44_an_unknown_tool_is_told_with_the_nearest() -> None:
    async with house() as (peer, _):
        answer = await answers(peer, call("shoud", text="a"), tools=["shout"])
    [unknown] = answer["calls"]
    assert (unknown["status"], unknown["error"]["code"]) == ("unknown", "unknown_event")
    assert unknown["error"]["hint"] == "did you mean 'shout'?"


async def test_S003_45_a_tool_that_is_not_in_the_agents_list_is_denied() -> None:
    async with house() as (peer, _):
        answer = await answers(
            peer,
            call("secret"),
            call("tool:call", name="secret"),
            call("shout", text="a"),
            tools=["shout", "tool:call"],
        )
        found = await peer.ask("monitor:get_events", {"patterns": ["secret"]})
    statuses = [(each["name"], each["status"]) for each in answer["calls"]]
    assert statuses == [("secret", "denied"), ("tool:call", "failed"), ("shout", "handled")]
    assert answer["calls"][1]["error"]["code"] == "denied"
    assert {each["status"] for each in found["events"]} == {"denied"}
    assert "xyzzy" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("name", "status", "result"),
    [
        pytest.param("nothing", "handled", None, id="None"),
        pytest.param("table", "handled", {"a": 1}, id="dict"),
        pytest.param("large", "handled", "x" * 1_000_000, id="1 MB"),
        pytest.param("broken", "failed", None, id="raises"),
    ],
)
async def test_S003_46_what_a_tool_returns_is_in_the_answer_and_the_log(
    name: str, status: str, result: object
) -> None:
    async with house() as (peer, _):
        answer = await answers(peer, call(name))
    [report] = answer["calls"]
    assert (report["status"], report.get("result")) == (status, result)
    if name == "broken":
        assert report["error"]["message"].endswith("RuntimeError: the disk is full")


async def test_S003_47_a_picture_is_no_part_of_what_the_model_reads() -> None:
    async with house() as (peer, _):
        answer = await answers(peer, call("picture"))
    [report] = answer["calls"]
    assert report["result"]["bytes"] == 100_000
    assert len(json.dumps(report)) < 1_000


async def test_S003_49_what_an_agent_is_told_it_can_call_and_nothing_else() -> None:
    async with house() as (peer, _):
        every = [each["name"] for each in (await peer.ask("tool:list"))["tools"]]
        chosen = ["shout", "table", "nothing"]
        replies = [call(name, **({"text": "a"} if name == "shout" else {})) for name in every]
        answer = await answers(peer, *replies, tools=chosen, limits={"mistakes": 20})
        listed = (await peer.ask("tool:list", {"agent_id": "a"}))["tools"]
    reached = [each["name"] for each in answer["calls"] if each["status"] == "handled"]
    assert sorted(reached) == sorted(each["name"] for each in listed) == sorted(chosen)


async def test_a_tool_that_is_dropped_in_is_told_to_the_next_agent() -> None:
    async with house() as (peer, plugins):
        late = TOOLS.replace("shout", "whisper").partition("@tool\ndef secret")[0]
        (plugins / "late.py").write_text(late)
        assert "whisper" in json.dumps(await peer.ask("tool:list"))
        answer = await answers(peer, call("whisper", text="a"), tools=["whisp*"])
    assert [(each["name"], each["result"]) for each in answer["calls"]] == [("whisper", "A")]
