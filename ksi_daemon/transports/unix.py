"""The Unix socket: newline-delimited JSON for the users of this machine.

The hot path of the daemon, so it is an ``asyncio.BufferedProtocol`` and not a pair of streams:
one read buffer serves all connections (bytes are taken out of it before the next read), replies
that are ready in the same turn of the loop leave in one write, and a request whose handler needs
no task gets none.

What fills up: a client that reads slower than it asks has its own requests read no further
(``pause_reading``), so memory per connection is bounded by the transport's high-water mark, one
frame and the replies under way. One that takes nothing at all for *stall_timeout_s* is cut off.

When *max_connections* are open, RESERVED more are let in for as long as a frame may take, to ask
for ``system:`` events: idle clients cannot keep an operator from seeing and stopping the daemon.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, cast

import msgspec
import structlog

from ksi_daemon import security
from ksi_daemon.errors import ProtocolError
from ksi_daemon.events import EMPTY, ErrorInfo
from ksi_daemon.protocol import FrameReader, FrameTooLarge, Reply, Wire, decode_request, encode
from ksi_daemon.router import Router, Submission, Submitted
from ksi_daemon.security import Principal
from ksi_daemon.transports.binding import bind

__all__ = ["Connection", "UnixServer", "peer"]

log = structlog.get_logger()

READ_BUFFER: Final = 256 * 1024
# Requests that are answered before their replies are written: a read holds thousands of small
# ones, and their replies may be large.
AT_ONCE: Final = 128
RESERVED: Final = 2
# How long nobody is let in after there were no descriptors for it.
RETRY_S: Final = 0.2
# Of clients that wait to be let in; with the default of 100 a burst of them is turned away.
BACKLOG: Final = 1024
_UCRED: Final = struct.Struct("3i")


class _Id(msgspec.Struct):
    id: str | int | None = None


class UnixServer:
    """The listening socket and its connections."""

    def __init__(
        self,
        router: Router,
        path: Path,
        *,
        durability: str,
        max_frame_bytes: int,
        frame_timeout_s: float,
        stall_timeout_s: float,
        max_connections: int,
    ) -> None:
        self.router = router
        self.durability = durability
        self.max_frame_bytes = max_frame_bytes
        self.frame_timeout_s = frame_timeout_s
        self.stall_timeout_s = stall_timeout_s
        self.max_connections = max_connections
        self.connections: set[Connection] = set()
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.numbers = count(1)
        self._path = path
        self._listener: socket.socket | None = None
        self._arrivals: set[asyncio.Task[object]] = set()
        # There was no descriptor for who came last.
        self._starved = False
        self._inode = 0

    async def start(self, given: socket.socket | None = None) -> None:
        """Bind and listen, or listen on the socket that a service manager has *given*.

        The caller holds the lock, so a socket that is there is stale. Raise UsageError if the path
        is too long or holds something that is not a socket.
        """
        # What is not ours stays: the service manager listens on.
        self._listener = given or bind(self._path)
        self._inode = 0 if given else self._path.stat().st_ino
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._accept)

    async def stop_listening(self) -> None:
        """Take no new connections and remove the socket, if it is still ours."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        try:
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        except FileNotFoundError:
            pass

    def close(self) -> None:
        """Close every connection after what is written has left."""
        for connection in tuple(self.connections):
            connection.close()

    def _accept(self) -> None:
        """Let in all who wait; asyncio's own server tells of a lack of descriptors a hundred times
        a second."""
        while self._listener is not None:
            try:
                connected, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                self._pause(self._listener, exc)
                return
            self._starved = False
            connected.setblocking(False)
            arrival = self._loop.create_task(
                self._loop.connect_accepted_socket(partial(Connection, self), connected)
            )
            self._arrivals.add(arrival)
            arrival.add_done_callback(self._arrivals.discard)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Let those who come wait in the kernel until there may be room for them."""
        if not self._starved:
            self._starved = True
            log.error("accept_failed", error=error.strerror, retry_s=RETRY_S)
        self._loop.remove_reader(listener)
        self._loop.call_later(RETRY_S, self._resume)

    def _resume(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)


class Connection(asyncio.BufferedProtocol):
    """One client: its requests run concurrently, its replies carry their ids."""

    def __init__(self, server: UnixServer) -> None:
        self._server = server
        self._frames = FrameReader(server.max_frame_bytes)
        self._lines: Iterator[bytes] = iter(())
        self._out: list[bytes] = []
        self._flushing = False
        self._paused = False
        self._pending = 0
        self._ending = False
        self._refused = False
        self._reserved: asyncio.TimerHandle | None = None
        self._drained: list[Callable[[], None]] = []
        self._closed: list[Callable[[], None]] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        server = self._server
        uid, pid = peer(transport.get_extra_info("socket"))
        if uid != os.geteuid():
            log.warning("peer_refused", uid=uid, pid=pid)
            self._refuse("not_authorized", f"uid {uid} may not use this daemon")
        elif len(server.connections) >= server.max_connections + RESERVED:
            full = self._full()
            self._refuse(full.code, full.message, retryable=full.retryable)
        else:
            if len(server.connections) >= server.max_connections:
                self._reserved = self._loop.call_later(server.frame_timeout_s, self.close)
            server.connections.add(self)
            number = next(server.numbers)
            self.principal: Principal = security.client(uid, number)
            self._human = security.client(uid, number, human=True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._refused:
            self._lines = self._frames.feed(bytes(self._server.buffer[:nbytes]))
            self._read_on()

    def eof_received(self) -> bool:
        # A client may close its side and still read: the last reply closes the other.
        self._ending = True
        self._flush()
        if self._refused or not self._pending:
            return False
        return not _is_gone(self._transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._forget_deadline()
        for timer in (self._stall, self._reserved):
            if timer is not None:
                timer.cancel()
        self._call(self._closed)

    def pause_writing(self) -> None:
        self._paused = True
        self._transport.pause_reading()
        # What we do not read cannot be late.
        self._forget_deadline()
        self._stall = self._loop.call_later(self._server.stall_timeout_s, self._cut_off)

    def resume_writing(self) -> None:
        self._paused = False
        if self._stall is not None:
            self._stall.cancel()
        if not self._transport.is_closing():
            self._read_on()
        if not self._paused:
            self._transport.resume_reading()
            self._call(self._drained)

    def push(self, line: bytes, *, always: bool = False) -> bool:
        """Send *line* with the next write; False when the client does not keep up or is gone."""
        if self._is_over() or (self._paused and not always):
            return False
        self._send(line)
        return True

    def on_drained(self, call: Callable[[], None]) -> None:
        """Have *call* called once when the client has caught up; never if it is gone."""
        if self._paused or self._is_over():
            self._drained.append(call)
        else:
            self._loop.call_soon(call)

    def on_closed(self, call: Callable[[], None]) -> None:
        """Have *call* called once when the client is gone."""
        self._closed.append(call)

    def close(self) -> None:
        """Send what is waiting, then close."""
        self._flush()
        self._transport.close()

    def _read_on(self) -> None:
        """Take the requests that were read, as long as the client keeps up with their replies."""
        try:
            for number, line in enumerate(self._lines, start=1):
                self._forget_deadline()
                self._request(line)
                if not number % AT_ONCE:
                    self._flush()
                    if self._paused:
                        return
        except FrameTooLarge as exc:
            hint = "raise max_frame_bytes, or send less"
            self._refuse("frame_too_large", str(exc), hint=hint)
            return
        self._watch_frame()
        self._flush()

    def _request(self, line: bytes) -> None:
        try:
            wire = decode_request(line)
        except ProtocolError as exc:
            self._out.append(encode(Reply(_id_of(line), False, error=exc.info())))
            return
        if self._reserved is not None and not wire.event.startswith("system:"):
            self._out.append(encode(Reply(wire.id, False, error=self._full())))
            self._ending = True
            return
        submitted = self._server.router.submit(
            Submission(
                event=wire.event,
                data=wire.data,
                principal=self._human if wire.human else self.principal,
                correlation_id=wire.correlation_id,
                idempotency_key=wire.idempotency_key,
                wait=wire.wait,
                channel=self,
            )
        )
        if submitted.done():
            self._out.append(self._reply(wire, submitted.result()))
        else:
            self._await(wire, submitted)

    def _full(self) -> ErrorInfo:
        message = f"{self._server.max_connections} connections are open"
        return ErrorInfo("too_many_connections", message, retryable=True)

    def _await(self, wire: Wire, submitted: asyncio.Future[Submitted]) -> None:
        self._pending += 1
        answer = partial(self._answer, wire)
        submitted.add_done_callback(answer)
        if wire.timeout is not None:
            limit = max(0.0, wire.timeout)
            timer = self._loop.call_later(limit, self._late, wire, submitted, answer)
            submitted.add_done_callback(lambda _: timer.cancel())

    def _answer(self, wire: Wire, submitted: asyncio.Future[Submitted]) -> None:
        self._pending -= 1
        if not self._is_over():
            self._send(self._reply(wire, submitted.result()))

    def _late(
        self,
        wire: Wire,
        submitted: asyncio.Future[Submitted],
        answer: Callable[[asyncio.Future[Submitted]], None],
    ) -> None:
        submitted.remove_done_callback(answer)
        self._pending -= 1
        error = ErrorInfo(
            "timeout",
            f"no result of {wire.event!r} within {wire.timeout} s",
            hint="the event goes on: its outcome will be in the log",
        )
        self._send(encode(Reply(wire.id, False, error=error)))

    def _reply(self, wire: Wire, submitted: Submitted) -> bytes:
        seq = submitted.event.seq
        outcome = submitted.outcome
        if outcome.error is not None:
            return encode(Reply(wire.id, False, error=outcome.error, seq=seq or msgspec.UNSET))
        return encode(
            Reply(
                wire.id,
                True,
                outcome.result or EMPTY,
                seq=seq or msgspec.UNSET,
                durable=self._server.durability if seq else msgspec.UNSET,
                duplicate=submitted.duplicate,
            )
        )

    def _refuse(
        self, code: str, message: str, *, hint: str | None = None, retryable: bool = False
    ) -> None:
        """Say what is wrong and take no more from this client.

        What it sends meanwhile is read and dropped until it closes, for as long as a frame may
        take: closing with bytes unread would reset the connection, and the reason would be lost.
        """
        self._forget_deadline()
        error = ErrorInfo(code, message, hint, retryable)
        self._out.append(encode(Reply(None, False, error=error)))
        self._flush()
        self._refused = True
        if not self._transport.is_closing():
            self._transport.write_eof()
            limit = self._server.frame_timeout_s
            self._deadline = self._loop.call_later(limit, self._transport.abort)

    def _send(self, line: bytes) -> None:
        """Write *line* with all else that is ready in this turn of the loop."""
        self._out.append(line)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            if not self._is_over():
                self._transport.write(data)
        if self._ending and not self._pending:
            self._transport.close()

    def _is_over(self) -> bool:
        """Say whether nothing more can be sent."""
        return self._refused or self._transport.is_closing()

    def _watch_frame(self) -> None:
        """Give a frame that has begun a deadline; silence between frames has none."""
        if not self._frames.pending:
            self._forget_deadline()
        elif self._deadline is None and not self._paused and not self._refused:
            limit = self._server.frame_timeout_s
            message = f"a frame was begun and not ended within {limit:g} s"
            self._deadline = self._loop.call_later(limit, self._refuse, "frame_timeout", message)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self) -> None:
        log.warning("client_stalled", source=self.principal.source)
        self._transport.abort()

    def _call(self, calls: list[Callable[[], None]]) -> None:
        waiting = calls.copy()
        calls.clear()
        for call in waiting:
            call()


def peer(connected: socket.socket) -> tuple[int, int]:
    """Return the uid and the pid of the process at the other end, as the kernel knows them."""
    pid, uid, _ = _UCRED.unpack(
        connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    )
    return uid, pid


def _is_gone(connected: socket.socket) -> bool:
    """Say whether the peer has closed altogether, and not its own side only."""
    poll = select.poll()
    poll.register(connected.fileno(), 0)  # a hang-up is told without being asked for
    return bool(poll.poll(0))


def _id_of(line: bytes) -> str | int | None:
    """Return the id of a request that cannot be read, if at least that can."""
    try:
        return msgspec.json.decode(line, type=_Id).id
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
