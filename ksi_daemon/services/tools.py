"""tool:*: what can be called, and the call of one by its name.

A tool is a handler that a JSON Schema describes: a function of a plugin, or a tool of an MCP
server. Events of the daemon's own are told with them to whoever asks for all, since an agent may
be given these as tools too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.events import matches
from ksi_daemon.plugins import Plugins
from ksi_daemon.registry import Handler
from ksi_daemon.router import Context, Router, handles

__all__ = ["Tools"]

# The tool has a limit of its own; a message that is waited for may take as long as a model does.
CALL_S: Final = 86_400.0


class List(msgspec.Struct, forbid_unknown_fields=True):
    """Tools that match *pattern*. *agent_id*: those that this agent is told of, events too.
    *events*: also the daemon's own events."""

    agent_id: str | None = None
    pattern: str = "*"
    events: bool = False


class Call(msgspec.Struct, forbid_unknown_fields=True):
    """Which tool, and the object that it takes."""

    name: str
    arguments: dict[str, Any] = {}


class Tools:
    """The tools that the registry holds, those of *plugins* as their files are now."""

    def __init__(self, router: Router, plugins: Plugins) -> None:
        self._router = router
        self._plugins = plugins

    @handles("tool:list", effect="observe", example={"pattern": "*"})
    async def list_tools(self, data: List, ctx: Context) -> dict[str, Any]:
        """List the tools that may be called, with what each takes, and files that are broken."""
        await self._plugins.refresh()
        names = await self._names(data, ctx)
        tools = [self._described(self._router.registry.handlers(name)[0]) for name in names]
        broken = self._plugins.broken if ctx.principal.operator else []
        return {"tools": tools, "broken": [each._asdict() for each in broken]}

    @handles(
        "tool:call", timeout_s=CALL_S, example={"name": "state:get", "arguments": {"key": "k"}}
    )
    async def call(self, data: Call, ctx: Context) -> Any:
        """Call a tool by its name, with the rights of whoever asks."""
        if not self._router.registry.handlers(data.name):
            await self._plugins.refresh()
        return await ctx.emit(data.name, data.arguments)

    async def _names(self, data: List, ctx: Context) -> list[str]:
        if data.agent_id is not None and data.agent_id != ctx.agent_id:
            info = await ctx.emit("agent:info", {"agent_id": data.agent_id, "told": True})
            wanted = [each["name"] for each in info["told"]]
        else:
            every = data.events or data.agent_id is not None
            known = self._router.known_to(ctx.principal)
            wanted = [name for name in known if every or self._is_tool(name)]
        return [name for name in wanted if matches(data.pattern, name)]

    def _is_tool(self, name: str) -> bool:
        return isinstance(self._router.registry.handlers(name)[0].payload, Mapping)

    def _described(self, handler: Handler) -> dict[str, Any]:
        is_tool = isinstance(handler.payload, Mapping)
        source = self._plugins.source(handler.event) or ("mcp" if is_tool else "daemon")
        return {
            "name": handler.event,
            "description": handler.summary,
            "class": handler.effect,
            "source": source,
            "schema": handler.schema(),
            "example": handler.example,
        }
