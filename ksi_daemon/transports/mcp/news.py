"""What hosts are told unasked: that other tools are there, and that the log has grown.

Hosts of the newest revision hear it on a stream that they ask for; older ones hear of tools when
they came by lines, and of the log if they subscribed to a resource. What callers over MCP do
themselves is no news: a host that reads the log when it grows would never come to an end.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import mcp_types as mcp
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError

from ksi_daemon.errors import KsiError
from ksi_daemon.feed import Committed
from ksi_daemon.router import Router, Subscription
from ksi_daemon.transports.mcp.asking import told
from ksi_daemon.transports.mcp.resources import RESOURCES, asked_for

__all__ = ["Host", "News"]

# Tools and events come in bundles; a host is told of one once.
SETTLE_S: Final = 0.5
MAX_WATCHED: Final = 256


class Host:
    """The host of one connection by lines: its session once it is open, and what it watches."""

    def __init__(self) -> None:
        self.session: ServerSession | None = None
        self.watched: dict[str, None] = {}

    async def initialized(self, ctx: Any, params: mcp.NotificationParams) -> None:
        """Take note that the session is open."""
        self.session = ctx.session

    async def subscribe(self, ctx: Any, params: mcp.SubscribeRequestParams) -> mcp.EmptyResult:
        """Watch a resource."""
        try:
            asked_for(params.uri)
        except KsiError as exc:
            raise MCPError(mcp.INVALID_PARAMS, exc.message, told(exc.info())) from exc
        if len(self.watched) >= MAX_WATCHED and params.uri not in self.watched:
            raise MCPError(mcp.INVALID_REQUEST, f"{MAX_WATCHED} resources are watched already")
        self.watched[params.uri] = None
        return mcp.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: mcp.UnsubscribeRequestParams) -> mcp.EmptyResult:
        """Watch a resource no more."""
        self.watched.pop(params.uri, None)
        return mcp.EmptyResult()


class News:
    """What has changed in *router* so far, for all who want to know."""

    def __init__(self, router: Router) -> None:
        self._tools = 0
        self._log = 0
        self._event = anyio.Event()
        router.registry.watch(self._tools_changed)
        router.subscribe(Subscription(("*",), self._committed, inner=True))

    async def tell(self, bus: SubscriptionBus, host: Host | None = None) -> None:
        """Tell the listeners of *bus*, and *host*, of what changes from now on; never return."""
        tools, log = self._tools, self._log
        while True:
            while (tools, log) == (self._tools, self._log):
                await self._event.wait()
            await anyio.sleep(SETTLE_S)
            new_tools, new_events = tools != self._tools, log != self._log
            tools, log = self._tools, self._log
            if new_tools:
                await bus.publish(ToolsListChanged())
                if host is not None and host.session is not None:
                    await host.session.send_tool_list_changed()
            if new_events:
                for resource in RESOURCES:
                    await bus.publish(ResourceUpdated(resource.address))
                if host is not None and host.session is not None:
                    for address in tuple(host.watched):
                        await host.session.send_resource_updated(address)

    def _tools_changed(self) -> None:
        self._tools += 1
        self._wake()

    def _committed(self, committed: Committed) -> None:
        if not committed.event.source.startswith("mcp:"):
            self._log += 1
            self._wake()

    def _wake(self) -> None:
        self._event.set()
        self._event = anyio.Event()
