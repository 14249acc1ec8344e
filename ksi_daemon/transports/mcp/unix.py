"""MCP on a Unix socket of its own, for ``ksi mcp`` and whoever else speaks it by lines.

A client first says which profile it wants, in one line, ``{"profile": "auditor"}`` or ``{}``, and
is told in one line, a reply of the wire protocol, whether it has it. From there on both sides
write MCP, one message a line. The socket is for the daemon's own uid, like the other one; the
profile is not there to keep that out, but for the model that the client speaks for.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import msgspec
import structlog
from anyio.abc import SocketAttribute

from ksi_daemon.errors import Conflict, Denied, KsiError, ProtocolError
from ksi_daemon.protocol import FrameReader, FrameTooLarge, Reply, encode
from ksi_daemon.transports.binding import bind
from ksi_daemon.transports.mcp.callers import Callers
from ksi_daemon.transports.mcp.library import Library, Serving, Who
from ksi_daemon.transports.unix import peer

__all__ = ["McpSocket"]

_TOO_LARGE: Final = "frame_too_large"
_RETRY_S: Final = 1.0
# How long answers may take to be written when all handlers have ended.
CLOSE_S: Final = 1.0

log = structlog.get_logger()


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """The first line: as what the client wants to be seen."""

    profile: str | None = None


class McpSocket:
    """The listening socket at *path* and its connections."""

    def __init__(
        self,
        path: Path,
        library: Library,
        callers: Callers,
        *,
        max_frame_bytes: int,
        frame_timeout_s: float,
        stall_timeout_s: float,
        max_connections: int,
    ) -> None:
        self._path = path
        self._library = library
        self._callers = callers
        self._max_frame_bytes = max_frame_bytes
        self._frame_timeout_s = frame_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._max_connections = max_connections
        self._numbers = count(1)
        self._open = 0
        self._scope = anyio.CancelScope()
        self._accepting = anyio.CancelScope()

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Listen, and serve in *tasks*. The directory is private, and the caller holds the lock.

        Raise UsageError if the path is too long or holds something that is not a socket.
        """
        bound = bind(self._path)
        bound.listen()
        listener = await anyio.abc.SocketListener.from_socket(bound)
        tasks.start_soon(self._serve, listener)

    def stop_listening(self) -> None:
        """Take no new connections and remove the socket."""
        self._accepting.cancel()
        self._path.unlink(missing_ok=True)

    async def stop(self) -> None:
        """End all connections, once the last answers are written."""
        with anyio.move_on_after(CLOSE_S):
            await self._library.idle()
        self._scope.cancel()

    async def _serve(self, listener: anyio.abc.SocketListener) -> None:
        with self._scope:
            async with anyio.create_task_group() as connections, listener:
                with self._accepting:
                    await self._accept(listener, connections)

    async def _accept(
        self, listener: anyio.abc.SocketListener, connections: anyio.abc.TaskGroup
    ) -> None:
        while True:
            try:
                await listener.serve(self._connected, connections)
            # No descriptors are left: others must have the time to give some back.
            except OSError as exc:
                log.warning("accept_failed", error=exc.strerror)
                await anyio.sleep(_RETRY_S)

    async def _connected(self, stream: anyio.abc.SocketStream) -> None:
        self._open += 1
        async with stream:
            try:
                with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._greet(stream)
            # One connection that fails in a way not thought of must not end the others.
            except Exception:
                log.exception("mcp_client_failed")
            finally:
                self._open -= 1

    async def _greet(self, stream: anyio.abc.SocketStream) -> None:
        send = partial(self._send, stream)
        lines = self._lines(stream)
        try:
            who, serving = await self._admitted(stream, lines)
        except KsiError as exc:
            await send(encode(Reply(None, False, error=exc.info())))
            return
        limits = {"max_frame_bytes": self._max_frame_bytes}
        await send(encode(Reply(None, True, limits)))
        try:
            await serving.stream(who, lines, send)
        except KsiError as exc:
            log.warning("mcp_client_refused", code=exc.code, error=exc.message)

    async def _admitted(
        self, stream: anyio.abc.SocketStream, lines: AsyncIterator[bytes]
    ) -> tuple[Who, Serving]:
        """Return who is there, and what serves it; raise KsiError for whom is not served."""
        uid, _ = peer(stream.extra(SocketAttribute.raw_socket))
        if uid != os.geteuid():
            raise Denied(f"uid {uid} may not use this daemon", code="not_authorized")
        if self._open > self._max_connections:
            raise Conflict(
                f"{self._max_connections} connections are open",
                code="too_many_connections",
                retryable=True,
            )
        with anyio.move_on_after(self._frame_timeout_s) as waiting:
            line = await anext(lines, b"")
        if waiting.cancelled_caught:
            raise ProtocolError("the first line did not come in time", code="frame_timeout")
        asked = _hello(line)
        who = partial(self._callers.principal, f"stdio/{next(self._numbers)}", asked.profile)
        await who()
        return who, await self._library.serving()

    async def _lines(self, stream: anyio.abc.SocketStream) -> AsyncIterator[bytes]:
        """Yield the lines of a client; raise ProtocolError for one too long or too slow."""
        frames = FrameReader(self._max_frame_bytes)
        while True:
            limit = self._frame_timeout_s if frames.pending else None
            with anyio.move_on_after(limit) as waiting:
                try:
                    chunk = await stream.receive()
                except anyio.EndOfStream:
                    return
            if waiting.cancelled_caught:
                raise ProtocolError("a line was begun and not ended in time", code="frame_timeout")
            try:
                for line in frames.feed(chunk):
                    yield line
            except FrameTooLarge as exc:
                raise ProtocolError(str(exc), code=_TOO_LARGE) from exc

    async def _send(self, stream: anyio.abc.SocketStream, line: bytes) -> None:
        """Write *line*; a client that takes nothing for too long is cut off."""
        with anyio.move_on_after(self._stall_timeout_s) as stalled:
            await stream.send(line)
        if stalled.cancelled_caught:
            raise ProtocolError("the client takes nothing", code="stalled")


def _hello(line: bytes) -> Hello:
    try:
        return msgspec.json.decode(line, type=Hello)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(
            f"the first line is no greeting: {exc}", hint='say {"profile": "auditor"}, or {}'
        ) from exc
