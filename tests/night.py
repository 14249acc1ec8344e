"""The log of a night on which things went wrong, made by a real daemon."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from ksi_daemon.testing import connected, running_daemon, short_directory

__all__ = ["make_night"]

_REPLIES = (
    # As it should be, one that is mended, and two that are refused.
    '{"event": "state:set", "data": {"key": "draft", "value": "Été\\n\\"quoted\\""}}\n'
    '{"event": "agent:status", "data": {"status": "ready",}}\n'
    '{"event": "agent:terminate", "data": {"agent_id": "bob"}}\n'
    '{"event": "no:such", "data": {}}',
    # What cannot be read, then put right.
    '{"event": "state:get", "data": {"key": draft}}',
    '{"event": "state:get", "data": {"key": "draft"}}',
    "That is all.",
)


def make_night(path: Path) -> None:
    """Write the log to *path*: stories of two agents with calls that came to every kind of end."""
    asyncio.run(_lived(path))


async def _lived(path: Path) -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            for agent_id, replies in (("ann", _REPLIES), ("bob", ("Nothing to say.",))):
                provider = {"type": "scripted", "replies": list(replies), "on_empty": "stop"}
                spawn = {"agent_id": agent_id, "system": "Work.", "provider": provider}
                await peer.ask("agent:spawn", {**spawn, "allow": ["state:*"]})
            await peer.ask("agent:send", {"agent_id": "ann", "message": "begin", "wait": True})
            await peer.ask("agent:send", {"agent_id": "bob", "message": "begin", "wait": True})
            await peer.request("state:get", {"wrong": 1})
            await peer.ask("system:mark", {"label": "the end"}, idempotency_key="k1")
        shutil.copy(directory / "v" / "events.db", path)
