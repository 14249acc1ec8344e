"""Approval gates (FAULTS section 4): bound to one call, for one use, given by a person only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ksi_daemon import errors, security
from ksi_daemon.services import approvals
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

pytestmark = pytest.mark.faults

SETTING = '{"event": "state:set", "data": {"key": "k", "value": 1}}'
OTHER = SETTING.replace("1", "2")
ASKS = {"allow": ["state:get"], "ask": ["state:set"]}


@asynccontextmanager
async def daemon(var: Path) -> AsyncIterator[Peer]:
    async with running_daemon(var) as socket, connected(socket) as ksi:
        yield ksi


async def spawn(ksi: Peer, *replies: str, agent_id: str = "a", **fields: Any) -> None:
    provider = {"type": "scripted", "replies": list(replies)}
    asked = {"agent_id": agent_id, "system": "Go.", "provider": provider, **ASKS, **fields}
    await ksi.ask("agent:spawn", asked)


async def send(ksi: Peer, agent_id: str = "a") -> dict[str, Any]:
    asked = {"agent_id": agent_id, "message": "Go.", "wait": True}
    answer: dict[str, Any] = await ksi.ask("agent:send", asked)
    return answer


async def pending(ksi: Peer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await ksi.ask("approval:list"))["approvals"]
    return found


async def value(ksi: Peer) -> Any:
    return (await ksi.ask("state:get", {"key": "k"}))["value"]


async def refused(ksi: Peer, event: str, approval_id: str, **fields: Any) -> str:
    with pytest.raises(errors.KsiError) as caught:
        await ksi.ask(event, {"approval_id": approval_id}, **fields)
    return caught.value.code


async def test_a_call_waits_for_a_person_and_runs_once() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING, "I wait.", "Thank you.")
            answer = await send(ksi)
            [call] = answer["calls"]
            [asked] = await pending(ksi)
            approval_id = asked["approval_id"]
            assert (call["status"], call["error"]["code"]) == ("denied", "approval_required")
            assert call["error"]["details"] == {"approval_id": approval_id}
            assert (asked["agent_id"], asked["event"]) == ("a", "state:set")
            assert asked["data"] == {"key": "k", "value": 1}
            assert await value(ksi) is None
            granted = await ksi.ask("approval:grant", {"approval_id": approval_id}, human=True)
            assert (granted["status"], granted["result"]) == ("handled", {"version": 1})
            assert await refused(ksi, "approval:grant", approval_id, human=True) == "not_found"
            assert await pending(ksi) == []
            assert (await ksi.ask("state:get", {"key": "k"}))["version"] == 1
            with anyio.fail_after(20):
                while (await ksi.ask("completion:status"))["running"]:
                    await anyio.lowlevel.checkpoint()
            told = await ksi.ask("monitor:get_events", {"patterns": ["agent:send"]})
            message = told["events"][-1]["data"]["message"]
            assert message == (
                f'Your state:set call ({approval_id}) was approved. It is handled:\n{{"version":1}}'
            )
            ran = (await ksi.ask("monitor:get_events", {"patterns": ["state:set"]}))["events"]
            assert [(each["source"], each["status"]) for each in ran] == [
                ("agent:a", "denied"),
                ("agent:a", "handled"),
            ]
            assert ran[1]["correlation_id"] == ran[0]["correlation_id"]


@pytest.mark.parametrize("event", ["approval:grant", "approval:deny"])
async def test_only_a_person_decides(event: str) -> None:
    approving = '{"event": "%s", "data": {"approval_id": "%s"}}'
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            [asked] = await pending(ksi)
            approval_id = asked["approval_id"]
            assert await refused(ksi, event, approval_id) == "denied"
            # Not even an agent that was granted the event itself.
            text = approving % (event, approval_id)
            await spawn(ksi, text, "Oh.", agent_id="b", allow=[event, "approval:*"], ask=[])
            [call] = (await send(ksi, "b"))["calls"]
            assert (call["status"], call["error"]["code"]) == ("failed", "denied")
            assert "is no person" in call["error"]["message"]
            assert len(await pending(ksi)) == 1
            assert await value(ksi) is None


async def test_a_refusal_is_told_and_final() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            [asked] = await pending(ksi)
            data = {"approval_id": asked["approval_id"], "reason": "not today"}
            await ksi.ask("approval:deny", data, human=True)
            assert await refused(ksi, "approval:grant", asked["approval_id"], human=True) == (
                "not_found"
            )
            told = await ksi.ask("monitor:get_events", {"patterns": ["agent:send"]})
            assert told["events"][-1]["data"]["message"].endswith("was refused: not today")
        async with daemon(var) as ksi:
            assert await pending(ksi) == []
            assert await value(ksi) is None


async def test_the_same_call_asks_once_and_any_other_anew() -> None:
    turned = '{"data": {"value": 1, "key": "k"}, "event": "state:set"}'
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING, turned, OTHER, "I wait.")
            await send(ksi)
            assert [each["data"]["value"] for each in await pending(ksi)] == [1, 2]


async def test_what_waits_survives_a_restart() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            before = await pending(ksi)
        async with daemon(var) as ksi:
            assert await pending(ksi) == before
            data = {"approval_id": before[0]["approval_id"]}
            assert (await ksi.ask("approval:grant", data, human=True))["status"] == "handled"
        async with daemon(var) as ksi:
            assert await pending(ksi) == []
            assert await value(ksi) == 1


async def test_an_approval_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            [asked] = await pending(ksi)
            later = approvals.now() + timedelta(seconds=approvals.EXPIRES_S + 1)
            monkeypatch.setattr(approvals, "now", lambda: later)
            assert await refused(ksi, "approval:grant", asked["approval_id"], human=True) == (
                "not_found"
            )
            assert await pending(ksi) == []
            assert await value(ksi) is None


async def test_an_approval_ends_with_its_agent_and_with_its_rights() -> None:
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            assert len(await pending(ksi)) == 1
            await ksi.ask("agent:terminate", {"agent_id": "a"})
            assert await pending(ksi) == []
            await spawn(ksi, "Hello.")
        async with daemon(var) as ksi:
            # Another agent took the id; what the first one asked for is not its.
            assert await pending(ksi) == []


async def test_what_waits_of_one_agent_is_bounded() -> None:
    many = "\n".join(SETTING.replace("1", str(n)) for n in range(approvals.MAX_PENDING + 2))
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, many)
            codes = [call["error"]["code"] for call in (await send(ksi))["calls"]]
            assert codes.count("too_many_approvals") == 2
            assert len(await pending(ksi)) == approvals.MAX_PENDING


async def test_deny_goes_before_ask_and_ask_before_allow() -> None:
    calls = "\n".join([SETTING, '{"event": "state:delete", "data": {"key": "k"}}'])
    with short_directory() as var:
        async with daemon(var) as ksi:
            rights = {"allow": ["state:*"], "ask": ["state:set", "state:delete"]}
            await spawn(ksi, calls, **rights, deny=["state:delete"])
            codes = [call["error"]["code"] for call in (await send(ksi))["calls"]]
            assert codes == ["approval_required", "denied"]


async def test_a_child_is_bound_by_what_its_parent_must_ask_for() -> None:
    spawning = (
        '{"event": "agent:spawn", "data": '
        '{"agent_id": "kid", "component": "agents/greeter", "allow": ["state:*"]}}'
    )
    with short_directory() as var:
        async with daemon(var) as ksi:
            rights = {"ask": ["state:set"], "deny": ["state:delete"]}
            await spawn(ksi, spawning, allow=["agent:spawn", "state:*"], **rights)
            [call] = (await send(ksi))["calls"]
            assert call["status"] == "handled", call
            kid = await ksi.ask("agent:info", {"agent_id": "kid"})
            assert (kid["ask"], kid["deny"]) == (["state:set"], ["state:delete"])


@pytest.mark.parametrize(
    ("name", "broken", "fired"),
    [
        pytest.param("must_ask", lambda principal, event: False, 1, id="nobody must ask"),
        pytest.param("binding", lambda principal, event, data: None, 1, id="nothing is bound"),
        pytest.param("must_ask", security.must_ask, None, id="as it is"),
    ],
)
async def test_a_gate_that_is_gone_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, fired: int | None
) -> None:
    monkeypatch.setattr(security, name, broken)
    with short_directory() as var:
        async with daemon(var) as ksi:
            await spawn(ksi, SETTING)
            await send(ksi)
            assert await value(ksi) == fired
