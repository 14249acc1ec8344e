"""A daemon that does as it is told, for testing what speaks to one.

``StubDaemon`` serves a real Unix socket in threads, so that async clients, blocking ones and
whole processes can be tested with it. It speaks the protocol of ``ksi_daemon.protocol``, keeps a
log in memory that can be subscribed to, and misbehaves on request: in ways in which a real
daemon does only when it dies at the right moment.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.errors import KsiError, UnknownEvent
from ksi_daemon.events import Event, Outcome, Status, matches_any
from ksi_daemon.protocol import FrameReader, Push, Reply, Wire, decode_request, encode

__all__ = ["Answerer", "Fault", "StubDaemon"]

Answerer = Callable[[Any], Any]
# What goes wrong with one reply: the connection is closed before it, within it; another
# request's reply comes first; what comes is no JSON; it never comes.
Fault = Literal["close", "half", "stranger", "garbage", "silence"]

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LIMIT: Final = 1 << 26


class StubDaemon:
    """A daemon at *path*; *answers* holds for each event a result, or a function of its data.

    *faults* befall the replies in their order, None being none; *pushes* are how many pushes each
    subscription is sent before its connection is cut, in the order in which they are opened.
    *requests* is what was asked, in order.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        answers: Mapping[str, Any] | None = None,
        *,
        faults: Iterable[Fault | None] = (),
        pushes: Iterable[int] = (),
    ) -> None:
        self.path = os.fspath(path)
        self.answers = dict(answers or {})
        self.faults = deque(faults)
        self.pushes = deque(pushes)
        self.requests: list[Wire] = []
        self.log: list[Event] = []
        self._taken: dict[str, Any] = {}
        self._lock = Lock()
        self._connections: set[_Connection] = set()
        self._threads: list[Thread] = []
        self._listener: socket.socket | None = None

    def __enter__(self) -> StubDaemon:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; after ``stop`` this is a restart, with the log kept."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._run(self._accept, self._listener)

    def stop(self) -> None:
        """Close the socket and all connections without a word, and wait for the threads."""
        if self._listener is None:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        # The first thread accepts: what it has just accepted is to be cut too.
        self._threads[0].join(5)
        for connection in tuple(self._connections):
            connection.cut()
        for thread in self._threads:
            thread.join(5)
        self._threads.clear()

    def emit(self, name: str, data: object = None, *, status: Status = "handled") -> Event:
        """Log an event and push it to the subscribers."""
        with self._lock:
            seq = len(self.log) + 1
            event = Event(
                seq=seq,
                id=f"e{seq}",
                ts=_EPOCH,
                name=name,
                data=msgspec.Raw(msgspec.json.encode(data or {})),
                source="system",
                correlation_id="e1",
                status=status,
            )
            self.log.append(event)
            for connection in tuple(self._connections):
                connection.push(event)
        return event

    def end(self, seq: int, status: Status = "handled") -> None:
        """Let the event *seq* end, and push its outcome."""
        with self._lock:
            self.log[seq - 1].status = status
            for connection in tuple(self._connections):
                connection.push_outcome(seq, Outcome(status))

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            connection = _Connection(connected)
            self._connections.add(connection)
            self._run(self._serve, connection)

    def _serve(self, connection: _Connection) -> None:
        for line in connection.lines():
            wire = decode_request(line)
            self.requests.append(wire)
            if wire.event == "monitor:subscribe" and wire.event not in self.answers:
                self._subscribe(connection, wire)
            else:
                self._answer(connection, wire)
        self._connections.discard(connection)
        connection.close()

    def _subscribe(self, connection: _Connection, wire: Wire) -> None:
        wanted = msgspec.json.decode(wire.data)
        with self._lock:
            result = {"subscription": "s1", "last_seq": len(self.log)}
            connection.send(encode(Reply(wire.id, True, result)))
            connection.follow(wanted, self.pushes.popleft() if self.pushes else None)
            for event in self.log[wanted.get("after_seq", len(self.log)) :]:
                connection.push(event)

    def _answer(self, connection: _Connection, wire: Wire) -> None:
        fault = self.faults.popleft() if self.faults else None
        line = encode(self._reply(wire))
        match fault:
            case "close":
                connection.cut()
            case "half":
                connection.send(line[: len(line) // 2])
                connection.cut()
            case "stranger":
                connection.send(encode(Reply(10**9, True, "for another")) + line)
            case "garbage":
                connection.send(b"]not a frame[\n")
            case None:
                connection.send(line)

    def _reply(self, wire: Wire) -> Reply:
        """Take the event, once per idempotency key, and return the answer."""
        key = wire.idempotency_key
        if key is not None and key in self._taken:
            return Reply(wire.id, True, self._taken[key], duplicate=True)
        try:
            if wire.event not in self.answers:
                raise UnknownEvent(wire.event, self.answers)
            answer = self.answers[wire.event]
            result = answer(msgspec.json.decode(wire.data)) if callable(answer) else answer
        except KsiError as exc:
            return Reply(wire.id, False, error=exc.info())
        if key is not None:
            self._taken[key] = result
        return Reply(wire.id, True, result)


class _Connection:
    """One client of the stub, and what it subscribed to."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._patterns: tuple[str, ...] = ()
        self._outcomes = False
        self._left: int | None = None

    def lines(self) -> Iterable[bytes]:
        reader = FrameReader(_LIMIT)
        while chunk := self._receive():
            yield from reader.feed(chunk)

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # the client is gone, and that is its right

    def cut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()

    def follow(self, wanted: dict[str, Any], pushes: int | None) -> None:
        """Push what is *wanted* from now on; cut the connection after so many *pushes*."""
        self._patterns = tuple(wanted["patterns"])
        self._outcomes = "outcomes" in wanted["include"]
        self._left = pushes

    def push(self, event: Event) -> None:
        if matches_any(self._patterns, event.name) and self._counted():
            self.send(encode(Push("s1", event.seq, event=event)))

    def push_outcome(self, seq: int, outcome: Outcome) -> None:
        if self._outcomes and self._counted():
            self.send(encode(Push("s1", seq, outcome=outcome)))

    def _counted(self) -> bool:
        if self._left is None:
            return True
        self._left -= 1
        if self._left < 0:
            self.cut()
        return self._left >= 0

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""
