"""The blocking client: what ``ksi`` itself uses. A plain socket, one request at a time.

It keeps the promises of the async client (``ksi_client.client``): requests are sent again after
a broken connection and taken once, streams resume without gap or duplicate.

An answer may take as long as a model does, so a wait has no limit of its own. But whoever waits for
an answer and hears nothing asks the daemon on a second connection how it is: one that does not say
so is stopped or stuck, and the wait ends with NotAnswering.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Final, TypeVar, Unpack

from ksi_client.errors import LinkLost, NoDaemon, NotAnswering
from ksi_client.following import Cursor, pauses
from ksi_client.liveness import QUIET_S, silent
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

T = TypeVar("T")

_CHUNK: Final = 64 * 1024


class BlockingClient:
    """A daemon as seen from a script. It connects with the first request.

    Methods raise DaemonError when the daemon refuses, NoDaemon when there is none, or when
    one that was there is gone for longer than *patience_s*, and NotAnswering when there is one
    that says nothing, not even how it is: after twice *quiet_s* seconds.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        patience_s: float = PATIENCE_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self.socket = os.fspath(socket if socket is not None else socket_path())
        self._patience_s = patience_s
        self._quiet_s = quiet_s
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
        idle_s: float | None = None,
    ) -> Iterator[Push]:
        """Follow the events that match; see ``Client.subscribe``.

        *on_lost* is told each time a daemon that was there is gone. One that never was there
        raises NoDaemon at once. With *idle_s* the stream ends when nothing came for so long.
        """
        cursor = Cursor(patterns, after_seq=after_seq, include=include)
        waits: Iterator[float] = iter(())
        while True:
            try:
                with closing(self._pushed(cursor, idle_s)) as frames:
                    for frame in frames:
                        if frame.subscription is None:
                            cursor.begun(frame.answer())
                            waits = pauses(self._patience_s)
                        elif (push := cursor.take(frame)) is not None:
                            yield push
            except TimeoutError:
                return
            except NoDaemon as lost:
                pause = next(waits, None)
                if pause is None:
                    raise
                if isinstance(lost, LinkLost):
                    on_lost(lost)
                time.sleep(pause)

    def _pushed(self, cursor: Cursor, idle_s: float | None) -> Generator[Frame, None, None]:
        """Yield the frames of one connection that is subscribed at *cursor*, until it ends.

        Raise TimeoutError when none comes for *idle_s* seconds.
        """
        request = Request.of(next(self._ids), "monitor:subscribe", cursor.data())
        with closing(self._linked()) as link:
            yield link.exchange(request, None)
            for frame in link.pushes(idle_s):
                if frame.lagged:
                    return
                yield frame

    def _linked(self) -> _Link:
        return _Link(self.socket, self._quiet_s, self._ask_how_it_is)

    def _ask_how_it_is(self) -> None:
        """Return if the daemon says anything, be it a refusal or that it goes."""
        request = Request.of(next(self._ids), "system:health")
        with closing(self._linked()) as link:
            try:
                link.exchange(request, time.monotonic() + self._quiet_s)
            except TimeoutError as exc:
                raise link.silent() from exc

    def _exchange(self, request: Request, deadline: float | None) -> Frame:
        """Send *request* until it is answered; its idempotency key makes that safe."""
        waits: Iterator[float] | None = None
        while True:
            try:
                if self._link is None:
                    self._link = self._linked()
                waits = waits or pauses(self._patience_s)
                return self._link.exchange(request, deadline)
            except NoDaemon:
                self.close()
                pause = next(waits, None) if waits else None
                if pause is None:
                    raise
                time.sleep(pause)


class _Link:
    """One connection. Deadlines are in ``time.monotonic`` seconds, None for no limit.

    Whoever sends or awaits an answer for longer than *quiet_s* calls *ask* for a sign of life.
    """

    def __init__(self, path: str, quiet_s: float, ask: Callable[[], None]) -> None:
        self._path = path
        self._quiet_s = quiet_s
        self._ask = ask
        self._frames = Frames()
        self._ready: deque[Frame] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(quiet_s)
        try:
            self._socket.connect(path)
        except (TimeoutError, BlockingIOError) as exc:
            self._socket.close()  # it takes no connections: those before us wait still
            raise NotAnswering(path) from exc
        except OSError as exc:
            self._socket.close()
            raise NoDaemon.because(path, exc) from exc

    def silent(self) -> NotAnswering:
        """Return the error for a daemon that says nothing."""
        return silent(self._path, self._socket)

    def close(self) -> None:
        self._socket.close()

    def exchange(self, request: Request, deadline: float | None) -> Frame:
        """Send *request* and return the frame that answers it.

        Raise LinkLost, TimeoutError at the deadline, and what asking for a sign of life raises.
        """
        self._send(request.line, deadline)
        while True:
            frame = self._next(lambda: self._patiently(self._receive, deadline))
            if frame.id == request.id or (frame.id is None and frame.error is not None):
                return frame

    def pushes(self, idle_s: float | None) -> Iterator[Frame]:
        """Yield the frames that arrive; raise LinkLost at the end, TimeoutError when idle."""
        self._socket.settimeout(idle_s)
        while True:
            yield self._next(self._receive)

    def _send(self, line: bytes, deadline: float | None) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._patiently(partial(self._socket.send, rest), deadline) :]
        except TimeoutError:
            raise
        except OSError:
            # The daemon may have said why before it closed: the answer is still read.
            return

    def _next(self, receive: Callable[[], bytes]) -> Frame:
        """Return the next frame, of those that came already or of what *receive* brings."""
        while not self._ready:
            chunk = receive()
            if not chunk:
                raise LinkLost(self._path)
            self._ready.extend(self._frames.feed(chunk))
        return self._ready.popleft()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK)
        except ConnectionError:
            return b""

    def _patiently(self, act: Callable[[], T], deadline: float | None) -> T:
        """Return what *act* does on the socket; while it cannot, see that the daemon lives."""
        while True:
            left = _left(deadline)
            self._socket.settimeout(self._quiet_s if left is None else min(left, self._quiet_s))
            try:
                return act()
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                self._ask()


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.001, deadline - time.monotonic())
