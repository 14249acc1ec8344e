"""HTTP by uvicorn, with what it leaves open closed.

It handles no signals, which are the daemon's; it logs nothing of its own; and it gives a request
so long to send its head, for which uvicorn has no limit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import anyio
import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ksi_daemon.errors import KsiError
from ksi_daemon.transports.http.asgi import App, Message, Receive, Scope, Send, refuse

__all__ = ["Server", "serve"]

log = structlog.get_logger()


def serve(app: App, *, head_timeout_s: float, max_connections: int, close_s: int) -> Server:
    """Return the server of *app*: at most *max_connections*, each head within *head_timeout_s*.

    At the end what is under way may take *close_s* more.
    """
    config = uvicorn.Config(
        cast(Any, _sound(app)),
        http=cast(Any, partial(_Connection, head_timeout_s=head_timeout_s)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=close_s,
    )
    return Server(config)


class Server(uvicorn.Server):
    """See ``library.Served``."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = anyio.Event()

    async def run(self, listener: socket.socket) -> None:  # type: ignore[override]
        """Serve *listener* until ``stop``."""
        try:
            await self.serve([listener])
        finally:
            listener.close()
            self._ended.set()

    def stop_listening(self) -> None:
        """Take no new connections."""
        for each in self.servers if self.started else ():
            each.close()

    async def stop(self) -> None:
        """Have ``run`` end, and wait for it."""
        self.should_exit = True
        await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection that gives the head of each request *head_timeout_s* to arrive."""

    def __init__(self, *args: Any, head_timeout_s: float, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_timeout_s = head_timeout_s
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head is None:
            self._await_head()

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self._head_timeout_s, self.transport.abort)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def _sound(app: App) -> App:
    """Return *app* with what it raises logged by us, and told to the client if it can be."""

    async def sound(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await app(scope, receive, watched)
        # The boundary to applications of all kinds; one that fails must not end the door.
        except Exception:
            log.exception("http_failed", path=scope.get("path"))
            if not begun:
                await refuse(send, 500, KsiError("the daemon failed at this; its log says why"))

    return sound
