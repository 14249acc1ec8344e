"""One MCP server while the daemon runs: it is kept up, and its tools are what was approved.

A tool is offered when its server lists it just as a person approved it: name, description, schema
and annotations. Anything else (it changed, it is new, it is gone) takes it away until a person
approves what is listed now, for a description is a text that models obey.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import anyio
import anyio.to_thread
import structlog

from ksi_daemon import registry
from ksi_daemon.errors import KsiError, McpError, NotFound
from ksi_daemon.files import FileStore
from ksi_daemon.registry import Handler
from ksi_daemon.router import Context, Router
from ksi_daemon.services.mcp.model import Connect, Connection, KeptServer, Tool, pin
from ksi_daemon.services.mcp.results import content_of, value_of

__all__ = ["Server"]

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0
# A server that ends sooner is waited for longer and longer.
STEADY_S: Final = 30.0
# A server that says all the time that its tools have changed is asked so often, not more.
RELIST_S: Final = 0.5
MAX_ERROR: Final = 2_000

ToolState = Literal["offered", "changed", "new", "gone", "refused"]

log = structlog.get_logger()


class _Offer(NamedTuple):
    """What became of one tool of the last listing; *why* it was refused."""

    state: ToolState
    why: str | None = None


class Server:
    """The server of *spec*; *approved* are its tools as a person knows them, None: all are."""

    def __init__(
        self,
        router: Router,
        spec: KeptServer,
        approved: Iterable[Tool] | None,
        *,
        load: Callable[[], Awaitable[Connect]],
        files: FileStore,
    ) -> None:
        self.spec = spec
        self._scope = anyio.CancelScope()
        self.settled = anyio.Event()
        # Set once it is known what a person approves of: at the first listing, if not before.
        self.pinned = anyio.Event()
        self.error: KsiError | None = None
        self._router = router
        self._load = load
        self._files = files
        self._approved = None if approved is None else {tool.name: tool for tool in approved}
        self._listed: dict[str, Tool] = {}
        self._offers: dict[str, _Offer] = {}
        self._handlers: dict[str, Handler] = {}
        self._connection: Connection | None = None
        if self._approved is not None:
            self.pinned.set()
            self._offer(self._approved)

    @property
    def approved(self) -> list[Tool]:
        """The tools that a person approved, in the server's order."""
        return list((self._approved or {}).values())

    def described(self, *, in_full: bool) -> dict[str, Any]:
        """Return how the server is; *in_full* for a person, since arguments may be secrets."""
        tools = [
            {"tool": name, "event": self.spec.event(name), "state": state, "why": why}
            for name, (state, why) in self._offers.items()
        ]
        state = "ready" if self._connection else "down" if self.error else "starting"
        told = {"name": self.spec.name, "state": state, "tools": tools}
        if not in_full:
            return told
        error = self.error.message if self.error else None
        server = self.spec.url or list(self.spec.argv)
        return {**told, "server": server, "configured": self.spec.configured, "error": error}

    async def run(self) -> None:
        """Keep the server up until ``stop``."""
        wait = FIRST_WAIT_S
        with self._scope:
            while True:
                begun = anyio.current_time()
                await self._live()
                if anyio.current_time() - begun > STEADY_S:
                    wait = FIRST_WAIT_S
                await anyio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT_S)

    def stop(self) -> None:
        """Take its tools away and end the connection."""
        self._scope.cancel()
        self._connection = None
        self._router.registry.exclude(self._handlers.values())
        self._handlers.clear()
        self.settled.set()
        self.pinned.set()

    def approve(self, names: Iterable[str] | None) -> list[str]:
        """Approve *names*, or all that wait, as they are listed now; return which.

        Raise NotFound for one that does not wait.
        """
        waiting = [name for name, offer in self._offers.items() if offer.state in _WAITING]
        chosen = waiting if names is None else list(names)
        for name in chosen:
            if name not in waiting:
                raise NotFound("tool that waits for approval", name, waiting)
        known = dict(self._approved or {})
        for name in chosen:
            if name in self._listed:
                known[name] = self._listed[name]
            else:
                known.pop(name, None)
        self._approved = known
        self._offer(self._listed)
        return chosen

    async def _live(self) -> None:
        """Connect and stay until the server is gone."""
        answered = False
        try:
            connect = await self._load()
            async with connect(self.spec) as connection:
                await self._take(connection)
                answered, self.error = True, None
                self._connection = connection
                self.settled.set()
                self._tell("mcp:connected", {"tools": len(self._handlers)})
                while True:
                    await connection.changed()
                    await self._take(connection)
                    await anyio.sleep(RELIST_S)
        except KsiError as exc:
            self.error = exc
        self._connection = None
        self.settled.set()
        log.info("mcp_server_down", server=self.spec.name, error=str(self.error))
        if answered:
            self._tell("mcp:disconnected", {"error": self.error.message if self.error else ""})

    async def _take(self, connection: Connection) -> None:
        """Ask for the tools and offer those that are as they were approved."""
        with anyio.move_on_after(self.spec.start_timeout_s) as scope:
            tools = await connection.tools()
        if scope.cancelled_caught:
            raise McpError("it does not list its tools in time", code="mcp_timeout")
        # The first of a name counts: a second could hide behind what was approved.
        self._listed = {tool.name: tool for tool in reversed(tools) if self.spec.allows(tool.name)}
        self._listed = dict(reversed(self._listed.items()))
        if self._approved is None:
            self._approved = dict(self._listed)
            self.pinned.set()
        before = self._offers
        self._offer(self._listed)
        drift = {
            name: offer.state
            for name, offer in self._offers.items()
            if offer.state in _WAITING and before.get(name) != offer
        }
        if drift:
            self._tell("mcp:drifted", {"tools": drift})

    def _offer(self, listed: dict[str, Tool]) -> None:
        """Register the tools of *listed* that are approved, and no others."""
        if self._scope.cancel_called:
            return
        known = self._approved or {}
        offers = {}
        for name in dict.fromkeys((*listed, *known)):
            offers[name] = self._judged(listed.get(name), known.get(name))
        for name in [each for each in self._handlers if offers[each].state != "offered"]:
            self._router.registry.exclude([self._handlers.pop(name)])
        for name, offer in offers.items():
            if offer.state == "offered" and name not in self._handlers:
                offers[name] = self._registered(known[name])
        self._offers = offers

    def _judged(self, listed: Tool | None, known: Tool | None) -> _Offer:
        if listed is None:
            return _Offer("gone")
        if known is None:
            return _Offer("new")
        return _Offer("offered" if pin(listed) == pin(known) else "changed")

    def _registered(self, tool: Tool) -> _Offer:
        try:
            handler = registry.tool(
                self.spec.event(tool.name),
                partial(self._run_tool, tool.name),
                schema=tool.schema,
                summary=tool.description or tool.name,
                effect=self.spec.effect(tool),
                timeout_s=self.spec.timeout_s + 1,
            )
            self._router.registry.add(handler)
        except ValueError as exc:
            return _Offer("refused", str(exc)[:MAX_ERROR])
        self._handlers[tool.name] = handler
        return _Offer("offered")

    async def _run_tool(self, name: str, arguments: dict[str, Any], ctx: Context) -> Any:
        connection, server = self._connection, self.spec.name
        if connection is None:
            why = self.error.message if self.error else "it has not answered yet"
            raise McpError(
                f"MCP server {server!r} is not there: {why}", code="mcp_unavailable", retryable=True
            )
        try:
            result = await connection.run_tool(name, arguments, self.spec.timeout_s)
        except KsiError as exc:
            if exc.code == "mcp_unavailable" and self._connection is connection:
                self._connection = None
            raise McpError(
                f"MCP server {server!r}: {exc.message}", code=exc.code, retryable=exc.retryable
            ) from exc
        content = content_of(result)
        if result.is_error:
            raise McpError(content.text[:MAX_ERROR] or "the tool failed", code="mcp_tool_error")
        kept = [await anyio.to_thread.run_sync(self._files.keep, each) for each in content.files]
        return value_of(result, content, kept)

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        self._router.notify(event, {"server": self.spec.name, **data})


_WAITING: Final = ("changed", "new", "gone")
