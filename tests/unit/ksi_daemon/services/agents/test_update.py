"""agent:update of ``service``: what a living agent hears."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon


async def until(true: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(20):
        while not await true():
            pass


async def spawn(peer: Peer, *replies: str, **rest: Any) -> None:
    provider = {"type": "scripted", "replies": list(replies)}
    given = {"agent_id": "ada", "system": "Work.", "provider": provider}
    await peer.ask("agent:spawn", given | rest)


async def update(peer: Peer, *patterns: str) -> Any:
    return await peer.ask("agent:update", {"agent_id": "ada", "subscriptions": list(patterns)})


async def heard(peer: Peer, count: int) -> list[str]:
    """Return the names of the events that the agent has answered when there are *count*."""
    answered: list[str] = []

    async def enough() -> bool:
        asked = {"patterns": ["*"], "limit": 1000}
        found = (await peer.ask("monitor:get_events", asked))["events"]
        names = {event["id"]: event["event"] for event in found}
        results = [event for event in found if event["event"] == "completion:result"]
        answered[:] = [names[each["cause_id"]] for each in results]
        return len(answered) >= count

    await until(enough)
    return answered


async def test_an_agent_hears_what_it_is_told_to_from_then_on(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "One.", "Two.", "Three.", subscriptions=["state:set"])
        assert await update(peer, "system:mark") == {
            "agent_id": "ada",
            "subscriptions": ["system:mark"],
        }
        await peer.ask("state:set", {"key": "k", "value": 1})
        await peer.ask("system:mark", {"label": "x"})
        assert await heard(peer, 1) == ["system:mark"]
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("state:set", {"key": "k", "value": 1})
        await peer.ask("system:mark", {"label": "x"})
        assert await heard(peer, 2) == ["system:mark", "system:mark"]
        await update(peer)
        assert (await peer.ask("system:health"))["subscriptions"] == 0


async def test_who_is_not_there(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="no agent 'ada'"):
            await update(peer, "*")


@pytest.mark.parametrize(
    ("allow", "agent_id", "code"),
    [
        pytest.param(["agent:update", "monitor:subscribe"], "ada", None, id="itself"),
        pytest.param(["agent:update", "monitor:subscribe"], "bob", "denied", id="another"),
        pytest.param(["agent:update"], "ada", "denied", id="without the right to listen"),
        pytest.param(["monitor:subscribe"], "ada", "denied", id="without the right to change"),
    ],
)
async def test_an_agent_changes_what_it_hears_within_its_rights(
    var: Path, allow: list[str], agent_id: str, code: str | None
) -> None:
    data = {"agent_id": agent_id, "subscriptions": ["system:mark"]}
    call = msgspec.json.encode({"event": "agent:update", "data": data}).decode()
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, agent_id="bob")
        await spawn(peer, call, "Done.", allow=allow)
        sent = {"agent_id": "ada", "message": "Go.", "wait": True}
        [report] = (await peer.ask("agent:send", sent))["calls"]
        assert (report["error"]["code"] if code else report["status"]) == (code or "handled")
        info = await peer.ask("agent:info", {"agent_id": "ada"})
        assert info["subscriptions"] == ([] if code else ["system:mark"])
