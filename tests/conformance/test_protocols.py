"""Rows of sources 000 and 003 that need an agent: what comes of calls, and what is told of them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ksi_client import connect
from ksi_daemon.testing import running_daemon, short_directory

pytestmark = pytest.mark.conformance

FINAL = '{"final": {"content": "done"}}'


def action(tool: str, **args: Any) -> str:
    return json.dumps({"action": {"tool": tool, "args": args}})


def prompted(tool: str, **arguments: Any) -> str:
    return json.dumps({"tool": tool, "arguments": arguments})


class Told:
    """What an agent answered, and what stands in its conversation."""

    def __init__(self, answer: dict[str, Any], log: Path) -> None:
        self.answer = answer
        database = sqlite3.connect(f"file:{log}?mode=ro", uri=True)
        try:
            self.messages: list[tuple[str, str, str]] = database.execute(
                "SELECT role, kind, content FROM messages ORDER BY position"
            ).fetchall()
        finally:
            database.close()

    @property
    def statuses(self) -> list[str]:
        return [call["status"] for call in self.answer["calls"]]

    @property
    def feedback(self) -> list[str]:
        turns: list[list[str]] = []
        for role, kind, content in self.messages:
            if role == "assistant":
                turns.append([])
            elif kind == "feedback":
                turns[-1].append(content)
        return ["\n\n".join(turn) for turn in turns if turn]


async def told(protocol: str, *replies: str, **fields: Any) -> Told:
    """Send a message to an agent that gives *replies* under *protocol*; the state holds ``k``."""
    provider = {"type": "scripted", "replies": list(replies)}
    spawn = {"agent_id": "a", "system": "You are a test.", "protocol": protocol}
    send = {"agent_id": "a", "message": "go", "wait": True}
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connect(str(socket)) as ksi:
            await ksi.request("state:set", {"key": "k", "value": "hello"})
            await ksi.request("agent:spawn", {**spawn, "provider": provider, **fields})
            answer = await ksi.request("agent:send", send)
            return Told(answer, directory / "v" / "events.db")


async def test_S000_7_the_reply_is_kept_as_it_is() -> None:
    reply = action("state:get", key="k") + "\n"
    found = await told("json_action", reply, FINAL, allow=["state:get"])
    replies = [content for role, _, content in found.messages if role == "assistant"]
    assert replies == [reply, FINAL]


async def test_S000_8_28_each_result_is_fed_to_the_next_turn() -> None:
    first, second = action("state:get", key="k"), action("state:set", key="k", value="bye")
    found = await told("json_action", first, second, FINAL, allow=["state:*"])
    assert (found.statuses, found.answer["turns"]) == (["handled", "handled"], 3)
    assert [call["name"] for call in found.answer["calls"]] == ["state:get", "state:set"]
    assert "hello" in found.feedback[0]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        pytest.param({"key": 5}, "key", id="S000-25 wrong type"),
        pytest.param({}, "key", id="S000-26 missing"),
        pytest.param({"key": "k", "zzz": 1}, "zzz", id="S000-27 surplus"),
    ],
)
async def test_S000_25_26_27_args_that_do_not_fit(args: dict[str, Any], word: str) -> None:
    found = await told("json_action", action("state:get", **args), FINAL, allow=["state:get"])
    assert "handled" not in found.statuses
    assert "args_schema" in found.feedback[0]
    assert word in found.feedback[0]


async def test_S003_43_a_bad_call_beside_a_good_one_is_told_in_one_message() -> None:
    reply = f'{prompted("state:get", key="k")}\n{{"tool": "state:get", "arguments": {{"key": }}}}'
    found = await told("prompt_tools", reply, "ok", allow=["state:get"])
    assert found.statuses == ["handled"]
    [content] = found.feedback
    assert "hello" in content
    assert "malformed_block" in content


async def test_S003_44_an_unknown_tool_is_told_with_the_closest() -> None:
    found = await told("prompt_tools", prompted("state:gte"), "ok", allow=["state:*"])
    assert "handled" not in found.statuses
    assert "unknown_tool" in found.feedback[0]
    assert "state:get" in found.feedback[0]


async def test_S003_45_a_tool_of_others_is_denied() -> None:
    reply = prompted("state:set", key="k", value=1)
    found = await told("prompt_tools", reply, "ok", allow=["state:get"])
    assert found.statuses == ["denied"]
