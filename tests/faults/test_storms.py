"""Storms, fork bombs and runaways end by themselves (FAULTS 3.3, H6, H8, H9)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

pytestmark = pytest.mark.faults


def call(event: str, **data: Any) -> str:
    return json.dumps({"event": event, "data": data})


async def spawn(ksi: Peer, agent_id: str, allow: list[Any], *replies: str, **more: Any) -> None:
    provider = {"type": "scripted", "replies": list(replies), "on_empty": "repeat"}
    asked = {"agent_id": agent_id, "system": "Go.", "provider": provider, "allow": allow}
    await ksi.ask("agent:spawn", {**asked, **more})


async def quiet(ksi: Peer) -> None:
    """Return once nobody does anything any more."""
    with anyio.fail_after(20):
        while (await ksi.ask("completion:status"))["running"]:
            await anyio.lowlevel.checkpoint()


async def refused(ksi: Peer) -> Counter[str]:
    denied = await ksi.ask("monitor:get_events", {"status": "denied", "limit": 10_000})
    return Counter(each["error"]["code"] for each in denied["events"])


async def test_H6_one_agent_submits_no_more_than_its_rate_and_others_go_on() -> None:
    with short_directory() as var:
        settings = {"agent_events_burst": 20, "agent_events_per_s": 0.01}
        async with running_daemon(var, **settings) as socket, connected(socket) as ksi:
            setting = [call("state:set", key="k", value=n) for n in range(40)]
            await spawn(ksi, "a", ["state:*"], "\n".join(setting), "Done.")
            await spawn(ksi, "b", ["state:*"], call("state:set", key="j", value=1), "Done.")
            asked = {"agent_id": "a", "message": "Go.", "wait": True}
            answer = await ksi.ask("agent:send", asked)
            assert (await ksi.ask("state:get", {"key": "k"}))["version"] == 20
            assert {each["error"]["code"] for each in answer["calls"] if "error" in each} == {
                "rate_limit"
            }
            [error, *_] = [each["error"] for each in answer["calls"] if "error" in each]
            assert error["retryable"]
            assert error["hint"].startswith("it may again in ")
            other = await ksi.ask("agent:send", {**asked, "agent_id": "b"})
            assert [each["status"] for each in other["calls"]] == ["handled"]


async def test_H6_two_agents_that_send_to_each_other_come_to_an_end() -> None:
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as ksi:
            for one, other in (("a", "b"), ("b", "a")):
                sending = call("agent:send", agent_id=other, message="x")
                await spawn(ksi, one, ["agent:send"], sending)
            await ksi.ask("agent:send", {"agent_id": "a", "message": "Go."})
            with anyio.fail_after(20):
                while not await refused(ksi):
                    await anyio.lowlevel.checkpoint()
            await quiet(ksi)
            assert {*await refused(ksi)} == {"hop_limit"}
            before = (await ksi.ask("system:health"))["last_seq"]
            await quiet(ksi)
            assert (await ksi.ask("system:health"))["last_seq"] == before


async def test_H6_a_story_has_one_budget_over_a_restart() -> None:
    settings = {"max_events_per_root": 8, "drain_timeout_s": 0.01, "max_same_calls": 100}
    with short_directory() as var:
        async with running_daemon(var, **settings) as socket, connected(socket) as ksi:
            setting = [f"{n} " + call("state:set", key="k", value=n) for n in range(12)]
            talk = [*setting[:6], {"text": setting[6], "delay_s": 1.0}, *setting[7:], "Done."]
            provider = {"type": "scripted", "replies": talk, "on_empty": "stop"}
            asked = {"agent_id": "a", "system": "Go.", "provider": provider, "allow": ["state:*"]}
            await ksi.ask("agent:spawn", asked)
            await ksi.ask("agent:send", {"agent_id": "a", "message": "Go."})
            with anyio.fail_after(20):
                while (await ksi.ask("state:get", {"key": "k"}))["version"] < 6:
                    await anyio.lowlevel.checkpoint()
        async with running_daemon(var, **settings) as socket, connected(socket) as ksi:
            # An agent that has just been brought back may not have begun.
            with anyio.fail_after(60):
                while (await ksi.ask("state:get", {"key": "k"}))["version"] < 7:
                    await anyio.lowlevel.checkpoint()
            await quiet(ksi)
            # A call that the crash has run again counts twice, so it may be one less.
            assert (await ksi.ask("state:get", {"key": "k"}))["version"] in (7, 8)
            assert {*await refused(ksi)} == {"root_budget"}


async def test_H8_an_agent_spawns_no_faster_than_its_rate() -> None:
    settings = {"max_children": 20, "agent_spawns_burst": 3, "agent_spawns_per_s": 0.01}
    spawning = [call("agent:spawn", component="agents/greeter", allow=[]) for _ in range(6)]
    with short_directory() as var:
        async with running_daemon(var, **settings) as socket, connected(socket) as ksi:
            await spawn(ksi, "a", ["agent:spawn"], "\n".join(spawning), "Done.")
            answer = await ksi.ask("agent:send", {"agent_id": "a", "message": "Go.", "wait": True})
            codes = [each.get("error", {}).get("code") for each in answer["calls"]]
            assert codes == [None] * 3 + ["rate_limit"] * 3
            assert len((await ksi.ask("agent:list"))["agents"]) == 4


async def test_H9_the_same_call_in_vain_is_told_and_then_ends_the_exchange() -> None:
    replies = [f"Try {n}. " + call("state:get", key="k") for n in range(9)]
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as ksi:
            await spawn(ksi, "a", ["state:*"], *replies)
            answer = await ksi.ask("agent:send", {"agent_id": "a", "message": "Go.", "wait": True})
            assert (answer["finish_reason"], answer["turns"]) == ("no_progress", 5)


async def test_H9_a_call_that_comes_to_something_else_each_time_is_not_in_vain() -> None:
    replies = [f"Try {n}. " + call("state:set", key="k", value=1) for n in range(9)]
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as ksi:
            await spawn(ksi, "a", ["state:*"], *replies, "Done.")
            answer = await ksi.ask("agent:send", {"agent_id": "a", "message": "Go.", "wait": True})
            assert (answer["finish_reason"], answer["turns"]) == ("stop", 10)
