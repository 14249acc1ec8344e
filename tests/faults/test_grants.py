"""Rights with conditions and budgets, down to children and over restarts (FAULTS section 4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

pytestmark = pytest.mark.faults

WORKER = """---
component_type: agent
profile: able
script: {replies: ["Done."], on_empty: repeat}
---
Work.
"""
ABLE = """---
component_type: profile
allow: ["state:*"]
---
"""


def call(event: str, **data: Any) -> str:
    return json.dumps({"event": event, "data": data})


@asynccontextmanager
async def daemon(var: Path) -> AsyncIterator[Peer]:
    for path, text in (
        ("agents/worker", WORKER),
        ("profiles/able", ABLE),
        ("profiles/agent", ABLE),
    ):
        file = var / "components" / f"{path}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    async with (
        running_daemon(var, components=str(var / "components")) as socket,
        connected(socket) as ksi,
    ):
        yield ksi


async def spawn(ksi: Peer, agent_id: str, allow: list[Any], *replies: str, **more: Any) -> None:
    """Bring an agent to life that says one of *replies* to each message."""
    talk = [text for reply in replies for text in (reply, "Done.")]
    provider = {"type": "scripted", "replies": talk, "on_empty": "stop"}
    asked = {"agent_id": agent_id, "system": "Go.", "provider": provider, "allow": allow}
    await ksi.ask("agent:spawn", {**asked, **more})


async def said(ksi: Peer, agent_id: str) -> list[tuple[str, str | None]]:
    """Have an agent speak; return the status of each of its calls, and the error's code."""
    asked = {"agent_id": agent_id, "message": "Go.", "wait": True}
    answer = await ksi.ask("agent:send", asked)
    return [(each["status"], each.get("error", {}).get("code")) for each in answer["calls"]]


OK, DENIED = ("handled", None), ("denied", "denied")


@pytest.mark.parametrize(
    ("grant", "calls"),
    [
        pytest.param(
            {"event": "state:set", "where": {"key": {"prefix": "notes/{self}/"}}},
            [
                (call("state:set", key="notes/a/x", value=1), OK),
                (call("state:set", key="notes/b/x", value=1), DENIED),
                (call("state:set", key="notes/a/../b", value=1), DENIED),
                (call("state:set", value=1), DENIED),
            ],
            id="a key below its own name",
        ),
        pytest.param(
            {"event": "agent:send", "where": {"agent_id": ["children", "parent"]}},
            [
                (call("agent:send", agent_id="other", message="x"), DENIED),
                (call("agent:send", agent_id="a", message="x"), DENIED),
            ],
            id="messages to its family",
        ),
        pytest.param(
            {"event": "agent:info", "where": {"agent_id": "self"}},
            [
                (call("agent:info", agent_id="a"), OK),
                (call("agent:info"), OK),
                (call("agent:info", agent_id="other"), DENIED),
            ],
            id="what it is itself",
        ),
        pytest.param(
            {"event": "monitor:tree", "where": {"correlation_id": "story"}},
            [
                (call("monitor:tree", seq=1), OK),
                (call("monitor:tree", correlation_id="another"), DENIED),
            ],
            id="the story that it is in",
        ),
    ],
)
async def test_a_right_reaches_no_further_than_its_conditions(
    grant: dict[str, Any], calls: list[tuple[str, tuple[str, str | None]]]
) -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, "other", [])
            await spawn(ksi, "a", [grant], *(text for text, _ in calls))
            found = [each for _ in calls for each in await said(ksi, "a")]
    assert found == [expected for _, expected in calls]


async def test_an_agent_that_reads_the_log_reads_its_own_story() -> None:
    grant = {"event": "monitor:get_events", "where": {"correlation_id": "story"}}
    with short_directory() as var:
        async with daemon(var) as ksi:
            await ksi.ask("system:mark", {"label": "secret"})
            await spawn(ksi, "a", [grant], call("monitor:get_events"))
            answer = await ksi.ask("agent:send", {"agent_id": "a", "message": "Go.", "wait": True})
    events = answer["calls"][0]["result"]["events"]
    assert {each["correlation_id"] for each in events} == {answer["request_id"]}
    assert "agent:send" in {each["event"] for each in events}


async def test_a_denial_says_what_would_be_right() -> None:
    grant = {"event": "agent:send", "where": {"agent_id": "children"}}
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, "a", [grant], call("agent:send", agent_id="boss", message="x"))
            answer = await ksi.ask("agent:send", {"agent_id": "a", "message": "Go.", "wait": True})
    assert answer["calls"][0]["error"] == {
        "code": "denied",
        "message": "agent:a may not emit 'agent:send' with these data",
        "hint": "it may where agent_id is the id of a child of its own",
        "retryable": False,
    }


async def test_a_supervisor_speaks_for_its_children_where_a_right_says_so() -> None:
    right = {"event": "agent:status", "where": {"agent_id": "children"}}
    calls = [
        (call("agent:spawn", component="agents/worker", agent_id="kid", allow=[]), OK),
        (call("agent:status", agent_id="kid", status="stuck"), OK),
        (call("agent:status", agent_id="other", status="stuck"), DENIED),
        (call("agent:status", status="fine"), OK),
        (call("agent:result", agent_id="kid", result=1), DENIED),
    ]
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, "other", [])
            await spawn(ksi, "a", [right, "agent:spawn"], *(text for text, _ in calls))
            # What is said of oneself needs no answer.
            found = []
            for _ in calls:
                found += await said(ksi, "a")
            while len(found) < len(calls):
                found += await said(ksi, "a")
            assert (await ksi.ask("agent:info", {"agent_id": "kid"}))["status"] == "stuck"
            log = await ksi.ask("monitor:get_events", {"patterns": ["agent:status"]})
            assert {each["source"] for each in log["events"]} == {"agent:a"}
    assert found == [expected for _, expected in calls]


async def test_an_agent_is_told_when_it_may() -> None:
    grants: list[Any] = [{"event": "agent:send", "where": {"agent_id": "children"}}, "state:get"]
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, "a", grants)
            told = (await ksi.ask("agent:info", {"agent_id": "a", "told": True}))["told"]
    said = {each["name"]: each["description"] for each in told}
    assert said["agent:send"] == (
        "Give an agent a message; with wait, reply with its answer,"
        " only where agent_id is the id of a child of its own."
    )
    assert "only" not in said["state:get"]


async def test_a_budget_is_used_up_over_a_restart_and_by_children_too() -> None:
    setting = call("state:set", key="k", value=1)
    grants = [{"event": "state:set", "budget": 3}, "agent:spawn"]
    with short_directory() as var:
        async with daemon(var) as ksi:
            worker = {"component": "agents/worker", "allow": ["state:set"]}
            spawning = call("agent:spawn", agent_id="kid", **worker)
            await spawn(ksi, "a", grants, setting, spawning, setting, setting, setting)
            assert await said(ksi, "a") == [OK]
            shown = (await ksi.ask("permission:get_agent", {"agent_id": "a"}))["allow"]
            assert shown == [{"event": "state:set", "budget": 3, "left": 2}, "agent:spawn"]
        async with daemon(var) as ksi:
            shown = (await ksi.ask("permission:get_agent", {"agent_id": "a"}))["allow"]
            assert shown[0]["left"] == 2
            await said(ksi, "a")
            kid = (await ksi.ask("permission:get_agent", {"agent_id": "kid"}))["allow"]
            assert kid == [{"event": "state:set", "within": [shown[0]]}]
            assert [*await said(ksi, "a"), *await said(ksi, "a")] == [OK, OK]
            assert await said(ksi, "a") == [("denied", "budget_spent")]
            kid = (await ksi.ask("permission:get_agent", {"agent_id": "kid"}))["allow"]
            assert kid[0]["within"][0]["left"] == 0


async def test_the_purses_of_a_family_end_with_it() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            grants = [{"event": "state:set", "budget": 3}]
            for _ in range(2):
                await spawn(ksi, "a", grants, call("state:set", key="k", value=1))
                assert await said(ksi, "a") == [OK]
                shown = (await ksi.ask("permission:get_agent", {"agent_id": "a"}))["allow"]
                assert shown[0]["left"] == 2
                await ksi.ask("agent:terminate", {"agent_id": "a"})


SPAWN_WORKER = {"event": "agent:spawn", "where": {"component": "agents/worker"}, "budget": 2}


async def test_by_a_template_a_narrow_agent_starts_an_able_one_and_nothing_else() -> None:
    calls = [
        (call("agent:spawn", component="agents/worker", agent_id="w"), OK),
        (call("agent:spawn", component="agents/worker", allow=["*"]), DENIED),
        (call("agent:spawn", component="agents/worker", system="Obey."), DENIED),
        (call("agent:spawn", system="x", allow=["state:get"]), DENIED),
        (call("state:set", key="k", value=1), DENIED),
        (call("agent:spawn"), OK),
        (call("agent:spawn"), ("denied", "budget_spent")),
    ]
    with short_directory() as var:
        async with daemon(var) as ksi:
            template = {**SPAWN_WORKER, "template": True, "delegable": False}
            await spawn(ksi, "a", [template], *(text for text, _ in calls))
            found = [each for _ in calls for each in await said(ksi, "a")]
            assert found == [expected for _, expected in calls]
            able = await ksi.ask("permission:get_agent", {"agent_id": "w"})
            assert able["allow"] == ["state:*"]
            assert (await ksi.ask("agent:info", {"agent_id": "w"}))["depth"] == 1
        async with daemon(var) as ksi:  # what a person has laid down stands after a restart
            able = await ksi.ask("permission:get_agent", {"agent_id": "w"})
            assert able["allow"] == ["state:*"]


async def test_without_a_template_a_child_has_what_its_parent_can_give() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            spawning = call("agent:spawn", component="agents/worker", agent_id="w")
            await spawn(ksi, "a", [SPAWN_WORKER], spawning)
            assert await said(ksi, "a") == [("failed", "denied")]
            reading = {"event": "state:*", "where": {"key": {"prefix": "{self}/"}}}
            await spawn(ksi, "b", [SPAWN_WORKER, reading], spawning)
            assert await said(ksi, "b") == [OK]
            able = await ksi.ask("permission:get_agent", {"agent_id": "w"})
    bound = {"event": "state:*", "where": {"key": {"prefix": "b/"}}}
    assert able["allow"] == [{"event": "state:*", "within": [bound]}]


@pytest.mark.parametrize(
    ("allow", "message"),
    [
        ([{"event": "a:b", "where": {"x": []}}], "nothing fits an empty list"),
        ([{"event": "agent:spawn", "template": True}], "component is named"),
        ([{"event": "a:b", "purse": "x"}], "purse"),
    ],
)
async def test_a_grant_that_means_nothing_is_refused(allow: list[Any], message: str) -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            with pytest.raises(KsiError, match=message):
                await spawn(ksi, "a", allow)
