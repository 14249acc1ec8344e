"""The examples of several agents, as the README runs them: on their scripts, to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_client import connect
from ksi_daemon.extraction import PRESETS
from ksi_daemon.testing import running_daemon, short_directory

COMPONENTS = Path(__file__).parents[2] / "components"
# Long enough for a machine that does much else; a run takes a tenth of a second.
PATIENCE_S = 60


async def played(component: str) -> list[dict[str, Any]]:
    """Return all events up to the one in which the agent *component* tells its result."""
    agent_id = component.rpartition("/")[2]
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", components=str(COMPONENTS)) as socket,
            connect(str(socket)) as ksi,
        ):
            asked = {"component": component, "agent_id": agent_id, "prompt": "Begin."}
            await ksi.request("agent:spawn", asked)
            with anyio.fail_after(PATIENCE_S):
                async for push in ksi.subscribe("agent:result", after_seq=0):
                    if push.event and push.event.agent_id == agent_id:
                        break
            found = await ksi.request("monitor:get_events", {"limit": 1000})
            events: list[dict[str, Any]] = found["events"]
            return events


@pytest.mark.parametrize(
    ("component", "agents", "said"),
    [
        pytest.param(
            "agents/supervisor", {"supervisor", "researcher", "worker"}, "answer", id="supervisor"
        ),
        pytest.param(
            "examples/pipeline/conductor",
            {"conductor", "sorter", "editor", "checker"},
            "verdict",
            id="pipeline",
        ),
        pytest.param(
            "examples/debate/moderator",
            {"moderator", "advocate", "sceptic"},
            "verdict",
            id="debate",
        ),
    ],
)
async def test_an_example_comes_to_its_result(component: str, agents: set[str], said: str) -> None:
    events = await played(component)
    results = [each for each in events if each["event"] == "agent:result"]
    assert said in results[-1]["data"]["result"]
    assert {each["agent_id"] for each in events if each["event"] == "completion:result"} == agents
    bad = {"failed", "denied", "rejected", "unknown", "timeout", "lost"}
    assert [each for each in events if each["status"] in bad] == []
    calls = [each["call"]["dialect"] for each in events if each.get("call")]
    assert len(calls) >= len(agents)


CALLS = {
    "ksi": '{"event": "state:get", "data": {"key": "draft"}}',
    "json_action": '{"action": {"tool": "state:get", "args": {"key": "draft"}}}',
    "prompt_tools": 'So: {"tool": "state:get", "arguments": {"key": "draft"}}',
    "text_tagged": '~~~tool_call\n{"name": "state:get", "arguments": {"key": "draft"}}\n~~~',
    "native_auto": '~~~tool_call\n{"name": "state:get", "arguments": {"key": "draft"}}\n~~~',
    "command": '@tool state:get {"key": "draft"}',
    "any": "[state:get(key='draft')]",
}


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_behaviour_makes_an_agent_speak_its_protocol(preset: str, tmp_path: Path) -> None:
    (tmp_path / "reader.md").write_text(
        f"---\nmixins: [behaviors/protocols/{preset}]\ntools: [state:get]\n---\nYou look things up."
    )
    end = '{"final": {"content": "Done."}}' if preset == "json_action" else "Done."
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", components=str(COMPONENTS)) as socket,
            connect(str(socket)) as ksi,
        ):
            provider = {"type": "scripted", "replies": [CALLS[preset], end]}
            asked = {"component": str(tmp_path / "reader.md"), "provider": provider}
            await ksi.request("agent:spawn", asked | {"agent_id": "reader"})
            message = {"agent_id": "reader", "message": "What is in the draft?", "wait": True}
            answer = await ksi.request("agent:send", message)
    assert [(call["name"], call["status"]) for call in answer["calls"]] == [
        ("state:get", "handled")
    ]
    assert answer["text"] == "Done."
