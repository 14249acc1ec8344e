"""A supervisor with workers: spawning, results, questions, a rule and a timer in one story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.testing import FakeClock, Peer, connected, running_daemon, short_directory


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        yield path / "v"


def says(event: str, **data: Any) -> str:
    return msgspec.json.encode({"event": event, "data": data}).decode()


WORKER = """---
allow: [state:get]
script:
  replies:
    - '{"event": "agent:result", "data": {"result": "{{part}} is done"}}'
    - 'Nine pages.'
---
Do {{part}}.
"""


@pytest.fixture
def components() -> Iterator[str]:
    with short_directory() as path:
        for folder in ("agents", "profiles"):
            (path / folder).mkdir()
        (path / "profiles" / "agent.md").write_text(
            "---\ncomponent_type: profile\nallow: [state:get]\n---\n"
        )
        for part in ("text", "index"):
            text = WORKER.replace("{{part}}", part)
            (path / "agents" / f"{part}.md").write_text(text)
        yield str(path)


async def logged(peer: Peer, pattern: str, count: int, **wanted: Any) -> list[dict[str, Any]]:
    """Return the events of *pattern* when there are *count*."""
    asked = {"patterns": [pattern], **wanted}
    with anyio.fail_after(30):
        while True:
            found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", asked))["events"]
            if len(found) >= count:
                return found


async def test_a_supervisor_and_its_workers(var: Path, components: str) -> None:
    script = [
        "".join(
            says("agent:spawn", component=f"agents/{part}", prompt="Begin.", report=True)
            for part in ("text", "index")
        ),
        "Both are at work.",
        "One is done." + says("agent:send", agent_id="text", message="How long?", reply=True),
        "It is asked.",
        says("agent:result", result="nine pages with an index"),
    ]
    clock = FakeClock()
    async with (
        running_daemon(var, components=components, clock=clock) as socket,
        connected(socket) as peer,
    ):
        rule = {
            "name": "keep",
            "pattern": "agent:result",
            "condition": {"agent_id": "boss"},
            "target": "state:set",
            "mapping": {"key": "book", "value": "{{data.result}}"},
        }
        await peer.ask("routing:add_rule", rule)
        boss = {
            "agent_id": "boss",
            "system": "Make a book.",
            "provider": {"type": "scripted", "replies": script},
            "allow": ["agent:spawn", "agent:send", "state:get"],
        }
        await peer.ask("agent:spawn", boss)
        timer = {"after_s": 60, "target": {"agent": "boss"}, "data": {"message": "Begin."}}
        await peer.ask("timer:set", timer)
        clock.advance(60)
        [kept] = await logged(peer, "state:set", 1)
        value = await peer.ask("state:get", {"key": "book"})
        story = await peer.ask(
            "monitor:get_events", {"correlation_id": kept["correlation_id"], "limit": 500}
        )
    names = [event["event"] for event in story["events"]]
    assert value["value"] == "nine pages with an index"
    assert names[0] == "agent:send"  # the timer's
    assert story["events"][0]["source"].startswith("timer:")
    assert (names.count("agent:spawn"), names.count("agent:result")) == (2, 3)
    [answer] = [each["data"] for each in story["events"] if each["event"] == "agent:answered"]
    assert (answer["from"], answer["text"]) == ("text", "Nine pages.")
    assert {each["status"] for each in story["events"]} == {"handled"}
