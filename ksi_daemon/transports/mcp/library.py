"""Where the package ``mcp`` is imported: when the first client asks, for it takes 40 MB."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
import anyio.to_thread

from ksi_daemon.errors import KsiError
from ksi_daemon.files import FileStore
from ksi_daemon.router import Router
from ksi_daemon.security import Principal
from ksi_daemon.transports.http import App

__all__ = ["Library", "Serving", "Who"]

# Who asks, by now: a profile may change while a connection lasts.
Who = Callable[[], Awaitable[Principal]]


class Serving(Protocol):
    """MCP, spoken for clients whose rights *who* tells."""

    async def stream(
        self, who: Who, lines: AsyncIterable[bytes], send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Answer the messages in *lines* until they end."""
        ...

    async def idle(self) -> None:
        """Return once all that was asked by lines is answered."""
        ...

    def http(self, who: Who, *, max_body_bytes: int) -> AbstractAsyncContextManager[App]:
        """Return the application that answers over HTTP, while it is entered."""
        ...


class Library:
    """The package, loaded once; raises KsiError ``extra_missing`` without it."""

    def __init__(self, router: Router, files: FileStore) -> None:
        self._router = router
        self._files = files
        self._serving: Serving | None = None
        self._turn = anyio.Lock()

    async def serving(self) -> Serving:
        """Return what speaks MCP; the first time it takes half a second."""
        async with self._turn:
            if self._serving is None:
                self._serving = await anyio.to_thread.run_sync(self._load)
            return self._serving

    async def idle(self) -> None:
        """Return once all that was asked by lines is answered."""
        if self._serving is not None:
            await self._serving.idle()

    def _load(self) -> Serving:
        try:
            from ksi_daemon.transports.mcp.serving import McpServing
        # Another version of the package may break in any way; it must not cost the daemon.
        except Exception as exc:
            raise KsiError(
                f"to serve MCP needs the package mcp: {exc}",
                code="extra_missing",
                hint="pip install 'mcp>=2.3,<3'",
            ) from exc
        return McpServing(self._router, self._files)
