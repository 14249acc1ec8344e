from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon import __version__
from ksi_daemon.errors import KsiError
from ksi_daemon.registry import Registry
from ksi_daemon.services.agents import Agents
from ksi_daemon.services.completions import Completions
from ksi_daemon.services.components import Components
from ksi_daemon.services.extraction import Extraction
from ksi_daemon.services.monitor import Monitor
from ksi_daemon.services.state import State
from ksi_daemon.services.subscriptions import Subscriptions
from ksi_daemon.services.system import System
from ksi_daemon.testing import connected, running_daemon

SERVICES = (
    Agents,
    Completions,
    Components,
    Extraction,
    Monitor,
    State,
    Subscriptions,
    System,
)


def handled() -> list[Any]:
    """Return the answering handler of every event of the built-in services."""
    registry = Registry()
    for service in SERVICES:
        registry.include(service)
    return list(registry.first())


@pytest.mark.faults
async def test_A9_health_says_who_answers_and_how_full_the_queues_are(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        health = await peer.ask("system:health")
    assert health.pop("uptime_s") >= 0
    assert health.pop("writer").keys() >= {"depth", "bytes", "batches"}
    assert health == {
        "status": "ok",
        "version": __version__,
        "pid": os.getpid(),
        "durability": "process",
        "log": str(var / "events.db"),
        "last_seq": 1,
        "handlers_running": 0,
        "subscriptions": 0,
        "connections": 1,
        "agents": 0,
        "http_port": None,
        "mailbox_messages": 0,
        "subscriber_queue_events": 0,
    }


async def test_stats_count_the_events_by_name(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("system:health")
        await peer.ask("system:mark", {"label": "a"})
        await peer.request("no:such")
        await peer.request("no:other")
        stats = await peer.ask("system:stats")
    assert stats["events"] == {
        "unknown": 2,
        "system:started": 1,
        "system:health": 1,
        "system:mark": 1,
        "system:stats": 1,
    }
    assert stats["cpu_s"] > 0
    assert stats["max_rss_bytes"] > 10_000_000
    assert stats["uptime_s"] >= 0


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        pytest.param("system:h*", ["system:health", "system:help"], id="pattern"),
        pytest.param("state:get", ["state:get"], id="name"),
        pytest.param("zzz:*", [], id="nothing"),
    ],
)
async def test_discover_lists_what_matches(var: Path, pattern: str, names: list[str]) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = await peer.ask("system:discover", {"pattern": pattern})
    assert [event["name"] for event in found["events"]] == names


async def test_discover_tells_class_and_summary_and_the_notices(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = await peer.ask("system:discover", {"pattern": "system:*"})
    assert {
        "name": "system:health",
        "class": "observe",
        "summary": "Say that the daemon answers, and how full its queues are.",
    } in found["events"]
    assert found["notices"] == [
        {
            "name": "system:not_reloaded",
            "summary": "The settings make no sense; the old ones stay in force.",
        },
        {
            "name": "system:recovered",
            "summary": "The daemon had died: what it left was found and brought on.",
        },
        {
            "name": "system:reloaded",
            "summary": "The settings were read again; what changed is in the data.",
        },
        {
            "name": "system:started",
            "summary": "The daemon serves; what recovery found is in the data.",
        },
        {
            "name": "system:stopping",
            "summary": "The daemon takes no more requests and ends what is under way.",
        },
    ]


async def test_help_describes_one_event(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("system:help", {"event": "system:help"}) == {
            "name": "system:help",
            "class": "observe",
            "summary": "Describe one event: what it does, the schema of its data, an example.",
            "schema": {
                "title": "Help",
                "type": "object",
                "properties": {"event": {"type": "string"}},
                "required": ["event"],
                "additionalProperties": False,
            },
            "example": {"event": "system:help", "data": {"event": "agent:spawn"}},
        }
        assert await peer.ask("system:help", {"event": "agent:spawned"}) == {
            "name": "agent:spawned",
            "class": "notice",
            "summary": "An agent began to live.",
        }
        with pytest.raises(KsiError, match="no handler for event 'agent:spwan'") as caught:
            await peer.ask("system:help", {"event": "agent:spwan"})
    assert caught.value.hint == "did you mean 'agent:spawn'?"


@pytest.mark.parametrize("handler", handled(), ids=lambda handler: handler.event)
def test_every_event_has_a_summary_a_schema_and_an_example_that_fits(handler: Any) -> None:
    assert handler.summary.endswith(".")
    assert handler.schema()["type"] == "object"
    handler.decode(msgspec.Raw(msgspec.json.encode(handler.example or {})))


@pytest.mark.parametrize("notice", [n for s in SERVICES for n in getattr(s, "NOTICES", ())])
def test_every_notice_has_a_summary(notice: Any) -> None:
    assert notice.summary.endswith(".")


async def test_mark_writes_its_own_event_and_nothing_else(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        reply = await peer.request("system:mark", {"label": "here", "data": {"n": 1}})
        assert (reply["ok"], reply["result"]) == (True, {})
        events = (await peer.ask("monitor:get_events", {"after_seq": 1}))["events"]
    assert [(e["seq"], e["event"], e["data"], e["status"]) for e in events] == [
        (reply["seq"], "system:mark", {"label": "here", "data": {"n": 1}}, "handled")
    ]


async def test_shutdown_answers_then_stops(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("system:shutdown") == {"stopping": True}
        with pytest.raises(ConnectionResetError):
            await peer.pushed()
    assert not socket.exists()
