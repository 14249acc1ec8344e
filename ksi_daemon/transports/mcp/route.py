"""MCP over HTTP: what is behind one path of the HTTP door, loaded when it is first asked."""

from __future__ import annotations

from functools import partial

import anyio

from ksi_daemon.errors import Conflict, KsiError
from ksi_daemon.transports.http.asgi import App, Receive, Scope, Send, refuse
from ksi_daemon.transports.mcp.callers import Callers
from ksi_daemon.transports.mcp.library import Library

__all__ = ["McpRoute"]


class McpRoute:
    """An application of ASGI for the default profile of *callers*; ``run`` is its life."""

    def __init__(self, library: Library, callers: Callers, *, max_body_bytes: int) -> None:
        self._library = library
        self._who = partial(callers.principal, "http")
        self._max_body_bytes = max_body_bytes
        self._scope = anyio.CancelScope()
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._app: App | None = None
        self._error: KsiError = Conflict("the daemon stops", code="stopping")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        await self._settled.wait()
        if self._app is None:
            await refuse(send, 503, self._error)
        else:
            await self._app(scope, receive, send)

    async def run(self) -> None:
        """Keep the sessions of all clients until ``stop``."""
        try:
            with self._scope:
                await self._wanted.wait()
                serving = await self._library.serving()
                async with serving.http(self._who, max_body_bytes=self._max_body_bytes) as app:
                    self._app = app
                    self._settled.set()
                    await anyio.sleep_forever()
        except KsiError as exc:
            self._error = exc
        finally:
            self._app = None
            self._settled.set()

    def stop(self) -> None:
        """End the sessions."""
        self._scope.cancel()
