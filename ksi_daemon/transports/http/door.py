"""The HTTP door: a listening socket on loopback and what serves it.

The server is a library's (uvicorn). It is loaded only if the door is opened, since it would cost a
start that needs none of it a fifth more. What it leaves open is closed here: a request whose head
does not arrive, and a client that takes nothing of its answer.

A route is a path and an application of ASGI; who adds one adds it to the mapping that the daemon
hands in. The guard stands before all of them.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from ksi_daemon.config import CONFIG_EXIT
from ksi_daemon.errors import UsageError
from ksi_daemon.transports.http.asgi import App
from ksi_daemon.transports.http.guard import Guard
from ksi_daemon.transports.http.library import Served, load
from ksi_daemon.transports.lock import CANNOT_CREATE_EXIT

__all__ = ["HttpDoor"]

# How long answers that are under way may take when the door closes; streams do not end by
# themselves.
CLOSE_S: Final = 1.0

log = structlog.get_logger()


class HttpDoor:
    """The door at *host* and *port*; port 0 is any that is free."""

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, App],
        *,
        token: str,
        max_body_bytes: int,
        frame_timeout_s: float,
        stall_timeout_s: float,
        max_connections: int,
    ) -> None:
        self._address = (host, port)
        self._guard = Guard(
            routes, token, max_body_bytes=max_body_bytes, body_timeout_s=frame_timeout_s
        )
        self._frame_timeout_s = frame_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._max_connections = max_connections
        self._served: Served | None = None
        self.port = port

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Listen; serve in *tasks*. Raise UsageError for an address that cannot be listened at."""
        listener = _bound(*self._address, stall_timeout_s=self._stall_timeout_s)
        try:
            serve = await anyio.to_thread.run_sync(load)
        except BaseException:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        self._served = serve(
            self._guard,
            head_timeout_s=self._frame_timeout_s,
            max_connections=self._max_connections,
            close_s=math.ceil(CLOSE_S),
        )
        tasks.start_soon(self._served.run, listener)
        log.info("http_opened", host=self._address[0], port=self.port)

    def stop_listening(self) -> None:
        """Take no new connections."""
        if self._served is not None:
            self._served.stop_listening()

    async def stop(self) -> None:
        """Take no more requests; return when those under way have ended or were cut off."""
        if self._served is not None:
            await self._served.stop()


def _bound(host: str, port: int, *, stall_timeout_s: float) -> socket.socket:
    address = _loopback(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The kernel cuts off who takes nothing for so long; accepted sockets inherit it.
        stall_ms = int(stall_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stall_ms)
        listener.bind((str(address), port))
        listener.listen()
        listener.setblocking(False)
    except OSError as exc:
        listener.close()
        raise UsageError(
            f"cannot listen at {host}:{port}: {exc.strerror}",
            exit_code=CANNOT_CREATE_EXIT,
            hint="another http_port may be free",
        ) from exc
    return listener


def _loopback(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address of *host*; raise UsageError unless it is this machine's own."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise UsageError(
            f"http_host is {host!r}, and the door opens on loopback only",
            exit_code=CONFIG_EXIT,
            hint="127.0.0.1, ::1 or localhost; a tunnel brings others here",
        )
    return address
