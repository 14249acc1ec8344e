"""A daemon with agents on the scripted provider, and what was really sent to it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from ksi_client import Client, connect
from ksi_daemon.providers.model import Message, Request
from ksi_daemon.providers.scripted import ScriptedProvider
from ksi_daemon.testing import running_daemon, short_directory

__all__ = ["House", "action", "fence", "house", "native_call", "prompted"]


class House:
    """A daemon: its client, the requests that its providers were sent, its log."""

    def __init__(self, ksi: Client, log: Path, requests: list[Request]) -> None:
        self.ksi = ksi
        self.requests = requests
        self._log = log

    async def spawn(self, *replies: Any, **fields: Any) -> None:
        """Bring agent ``a`` to life; *capabilities* are those of its provider."""
        provider = {"type": "scripted", "replies": list(replies)}
        if capabilities := fields.pop("capabilities", None):
            provider["capabilities"] = capabilities
        asked = {"agent_id": "a", "system": "You are a test.", "provider": provider}
        await self.ksi.request("agent:spawn", {**asked, **fields})

    async def send(self, message: str = "go", **fields: Any) -> dict[str, Any]:
        asked = {"agent_id": "a", "message": message, "wait": True}
        answer: dict[str, Any] = await self.ksi.request("agent:send", {**asked, **fields})
        return answer

    async def logged(self, *patterns: str) -> list[dict[str, Any]]:
        wanted = {"patterns": list(patterns), "limit": 10_000}
        found: list[dict[str, Any]] = (await self.ksi.request("monitor:get_events", wanted))[
            "events"
        ]
        return found

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self._log}?mode=ro", uri=True)) as database:
            return database.execute(sql).fetchall()

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation of the log, what is empty left out."""
        keys = ("role", "content", "name", "call_id", "is_error")
        rows = self.query(f"SELECT {', '.join(keys)} FROM messages ORDER BY position")
        return [
            {key: value for key, value in zip(keys, row, strict=True) if value not in (None, 0)}
            for row in rows
        ]

    def sent(self, number: int = -1) -> Sequence[Message]:
        """Return the messages of a request, without the system prompt."""
        return [each for each in self.requests[number].messages if each.role != "system"]

    def prompt(self, number: int = -1) -> str:
        """Return the system prompt of a request."""
        return "".join(m.content for m in self.requests[number].messages if m.role == "system")


@asynccontextmanager
async def house(**settings: Any) -> AsyncIterator[House]:
    """Run a daemon."""
    requests: list[Request] = []
    complete = ScriptedProvider.complete

    async def recorded(self: ScriptedProvider, request: Request, on_text: Any = None) -> Any:
        requests.append(request)
        return await complete(self, request, on_text)

    with pytest.MonkeyPatch.context() as patch, short_directory() as directory:
        patch.setattr(ScriptedProvider, "complete", recorded)
        async with (
            running_daemon(directory / "v", **settings) as socket,
            connect(str(socket)) as ksi,
        ):
            yield House(ksi, directory / "v" / "events.db", requests)


def action(tool: str, **args: Any) -> str:
    return json.dumps({"action": {"tool": tool, "args": args}})


def prompted(tool: str, **arguments: Any) -> str:
    return json.dumps({"tool": tool, "arguments": arguments})


def fence(tool: str, **arguments: Any) -> str:
    return f"~~~tool_call\n{json.dumps({'name': tool, 'arguments': arguments})}\n~~~"


def native_call(tool: str, id: str | None = "c1", **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"id": id, "type": "function", "function": function}
