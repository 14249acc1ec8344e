"""Causes among many clients at once: what one asked for never leads to what another did."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from ksi_daemon.testing import Peer, connected, running_daemon, short_directory

CLIENTS = 50
ROUNDS = 2


def replies(who: str) -> list[str]:
    """Return what an agent of *who* writes: calls that are read, mended, refused, and passed on."""
    status = f'{{"event": "agent:status", "data": {{"status": "{who}"}}}}'
    slip = f'{{"event": "state:set", "data": {{"key": "{who}", "value": "{who}",}}}}'
    broken = f'{{"event": "state:set", "data": {{"key": "{who}" "value": 1}}}}'
    unknown = '{"event": "no:such", "data": {}}'
    ask = f'{{"event": "agent:send", "data": {{"agent_id": "{who}-b", "message": "from {who}"}}}}'
    return [f"{status}\n{slip}\n{broken}\n{unknown}", f"Again.\n{slip}\n{ask}"] * ROUNDS


async def lead(socket: Path, number: int) -> list[dict[str, Any]]:
    """Be one client: two agents and some messages; return what it sent."""
    who = f"c{number}"
    sent = []
    async with connected(socket) as peer:
        for agent_id, said in ((f"{who}-a", replies(who)), (f"{who}-b", [f"Done, {who}."])):
            provider = {"type": "scripted", "replies": said, "on_empty": "repeat"}
            asked = {"agent_id": agent_id, "system": who, "provider": provider}
            await peer.ask("agent:spawn", {**asked, "allow": ["state:*", "agent:send"]})
        for turn in range(ROUNDS):
            request = {"agent_id": f"{who}-a", "message": f"{who} {turn}", "wait": True}
            sent.append(await peer.request("agent:send", request))
    return sent


async def test_causes_of_fifty_clients_at_once_are_never_mixed_up() -> None:
    with short_directory() as var:
        async with running_daemon(var, max_connections=CLIENTS + 8) as socket:
            every = await asyncio.gather(*(lead(socket, n) for n in range(CLIENTS)))
        # By now all that was under way has ended.
        async with running_daemon(var) as socket, connected(socket) as peer:
            for number, sent in enumerate(every):
                for turn, reply in enumerate(sent):
                    story = await peer.ask("monitor:tree", {"seq": reply["seq"]})
                    check_the_story(story["events"], number, turn)
            found = await whys(peer, every[:5])
        async with running_daemon(var) as socket, connected(socket) as peer:
            assert await whys(peer, every[:5]) == found
        check_the_log(var / "events.db")


async def whys(peer: Peer, every: list[list[dict[str, Any]]]) -> list[Any]:
    """Return why the last event of each client's first story fired."""
    found = []
    for sent in every:
        story = (await peer.ask("monitor:tree", {"seq": sent[0]["seq"]}))["events"]
        found.append(await peer.ask("monitor:why", {"seq": story[-1]["seq"]}))
    return found


def check_the_story(events: list[dict[str, Any]], number: int, turn: int) -> None:
    """A story is of one message of one client: its agents, its words, and causes within it."""
    ids = {event["id"] for event in events}
    root, *rest = events
    assert root["data"]["message"] == f"c{number} {turn}"
    assert root["cause_id"] is None
    assert {event["correlation_id"] for event in events} == {root["id"]}
    assert all(event["cause_id"] in ids for event in rest)
    assert {event["agent_id"].split("-")[0] for event in rest} == {f"c{number}"}
    names = {event["event"] for event in rest}
    assert names >= {"completion:result", "agent:status", "extraction:rejected", "agent:send"}


def check_the_log(path: Path) -> None:
    """An effect comes after its cause, in its story, a hop further at most; calls are their own."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as log:
        wrong = log.execute(
            "SELECT e.seq FROM events e JOIN events c ON c.id = e.cause_id"
            " WHERE e.seq <= c.seq OR e.correlation_id <> c.correlation_id OR e.hop > c.hop + 1"
        ).fetchall()
        orphans = log.execute(
            "SELECT e.seq FROM events e LEFT JOIN events c ON c.id = e.cause_id"
            " WHERE e.cause_id IS NOT NULL AND c.id IS NULL"
        ).fetchall()
        calls = log.execute(
            "SELECT count(*), count(DISTINCT completion_id) FROM events WHERE call IS NOT NULL"
        ).fetchone()
        others = log.execute(
            "SELECT e.seq FROM events e JOIN events r ON r.id = e.completion_id"
            " WHERE e.agent_id <> r.agent_id"
        ).fetchall()
    assert (wrong, orphans, others) == ([], [], [])
    assert calls[0] > CLIENTS * ROUNDS
    assert calls[1] > CLIENTS
