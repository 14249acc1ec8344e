"""The examples of several agents, as the README runs them: on their scripts, to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_client import connect
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
