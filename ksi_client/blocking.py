"""The blocking client: what ``ksi`` itself uses. A plain socket, one request at a time.

It keeps the promises of the async client (``ksi_client.client``): requests are sent again after
a broken connection and taken once, streams resume without gap or duplicate.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import count
from types import TracebackType
from typing import Any, Final, Unpack

from ksi_client.errors import LinkLost, NoDaemon
from ksi_client.following import Cursor, pauses
from ksi_client.paths import socket_path
from ksi_client.wire import (
    GRACE_S,
    PATIENCE_S,
    Answer,
    Frame,
    Frames,
    Options,
    Push,
    Request,
    too_late,
)

__all__ = ["BlockingClient"]

_CHUNK: Final = 64 * 1024


class BlockingClient:
    """A daemon as seen from a script. It connects with the first request.

    Methods raise DaemonError when the daemon refuses and NoDaemon when there is none, or when
    one that was there is gone for longer than *patience_s*.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.socket = os.fspath(socket if socket is not None else socket_path())
        self._patience_s = patience_s
        self._ids = count(1)
        self._link: _Link | None = None

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def request(self, event: str, data: object = None, **options: Unpack[Options]) -> Any:
        """Emit *event* and return the result of its handler, decoded."""
        return self.ask(event, data, **options).read()

    def ask(self, event: str, data: object = None, **options: Unpack[Options]) -> Answer:
        """Emit *event* and return the whole answer: result, seq, whether it was a duplicate."""
        request = Request.of(next(self._ids), event, data, **options)
        timeout = options.get("timeout")
        deadline = None if timeout is None else time.monotonic() + timeout + GRACE_S
        try:
            return self._exchange(request, deadline).answer()
        except TimeoutError as exc:
            self.close()  # a part of the request may have been sent
            raise too_late(event, timeout) from exc

    def stream(
        self,
        patterns: str | Iterable[str] = "*",
        *,
        after_seq: int | None = None,
        include: Iterable[str] = (),
        on_lost: Callable[[NoDaemon], None] = lambda lost: None,
    ) -> Iterator[Push]:
        """Follow the events that match; see ``Client.subscribe``.

        *on_lost* is told each time a daemon that was there is gone. One that never was there
        raises NoDaemon at once.
        """
        cursor = Cursor(patterns, after_seq=after_seq, include=include)
        waits: Iterator[float] = iter(())
        while True:
            try:
                with closing(self._pushed(cursor)) as frames:
                    for frame in frames:
                        if frame.subscription is None:
                            cursor.begun(frame.answer())
                            waits = pauses(self._patience_s)
                        elif (push := cursor.take(frame)) is not None:
                            yield push
            except NoDaemon as lost:
                pause = next(waits, None)
                if pause is None:
                    raise
                if isinstance(lost, LinkLost):
                    on_lost(lost)
                time.sleep(pause)

    def _pushed(self, cursor: Cursor) -> Generator[Frame, None, None]:
        """Yield the frames of one connection that is subscribed at *cursor*, until it ends."""
        request = Request.of(next(self._ids), "monitor:subscribe", cursor.data())
        with closing(_Link(self.socket)) as link:
            link.send(request.line, None)
            for frame in link.frames(None):
                if frame.lagged:
                    return
                yield frame

    def _exchange(self, request: Request, deadline: float | None) -> Frame:
        """Send *request* until it is answered; its idempotency key makes that safe."""
        waits: Iterator[float] | None = None
        while True:
            try:
                if self._link is None:
                    self._link = _Link(self.socket)
                waits = waits or pauses(self._patience_s)
                return self._link.exchange(request, deadline)
            except NoDaemon:
                self.close()
                pause = next(waits, None) if waits else None
                if pause is None:
                    raise
                time.sleep(pause)


class _Link:
    """One connection. Deadlines are in ``time.monotonic`` seconds, None for no limit."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._frames = Frames()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as exc:
            self._socket.close()
            raise NoDaemon.because(path, exc) from exc

    def close(self) -> None:
        self._socket.close()

    def exchange(self, request: Request, deadline: float | None) -> Frame:
        """Send *request* and return the frame that answers it; raise LinkLost, TimeoutError."""
        self.send(request.line, deadline)
        for frame in self.frames(deadline):
            if frame.id == request.id or (frame.id is None and frame.error is not None):
                return frame
        raise LinkLost(self._path)

    def send(self, line: bytes, deadline: float | None) -> None:
        self._socket.settimeout(_left(deadline))
        try:
            self._socket.sendall(line)
        except TimeoutError:
            raise
        except OSError:
            # The daemon may have said why before it closed: the answer is still read.
            return

    def frames(self, deadline: float | None) -> Iterator[Frame]:
        """Yield the frames that arrive; raise LinkLost when the connection ends."""
        while chunk := self._receive(deadline):
            yield from self._frames.feed(chunk)
        raise LinkLost(self._path)

    def _receive(self, deadline: float | None) -> bytes:
        self._socket.settimeout(_left(deadline))
        try:
            return self._socket.recv(_CHUNK)
        except ConnectionError:
            return b""


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.001, deadline - time.monotonic())
