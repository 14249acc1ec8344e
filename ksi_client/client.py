"""The async client: requests that run concurrently, and subscriptions that survive a restart.

Theory. Requests share one connection and are told apart by id; every one carries an idempotency
key, so when the connection breaks it is sent again on the next one and the daemon takes it once.
A subscription has a connection of its own: a consumer that is slow is slowed by the socket and
not by a queue here, and what it awaits meanwhile on the shared connection still arrives.

There are no tasks: the shared connection is a ``asyncio.Protocol``, a subscription is read by
whoever iterates over it.

An answer may take as long as a model does. But when nothing at all came for a while, one of those
who wait asks on a connection of its own how the daemon is: one that does not say so is stopped or
stuck, and all waits end with NotAnswering.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from typing import Any, Final, Unpack, cast

from ksi_client.errors import DaemonError, LinkLost, NoDaemon, NotAnswering
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
from ksi_daemon.errors import KsiError

__all__ = ["Client", "connect"]

_CHUNK: Final = 64 * 1024


@asynccontextmanager
async def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    patience_s: float = PATIENCE_S,
    quiet_s: float = QUIET_S,
) -> AsyncIterator[Client]:
    """Connect to the daemon at *socket*, by default where ``ksi`` looks for it.

    Raise NoDaemon at once if none is there. One that goes away later is waited for *patience_s*
    seconds; one that is there and says nothing, not even how it is, for twice *quiet_s*.
    """
    path = socket if socket is not None else socket_path()
    client = Client(path, patience_s=patience_s, quiet_s=quiet_s)
    await client.open()
    try:
        yield client
    finally:
        await client.aclose()


class Client:
    """A daemon as seen from a program. Use ``connect`` to get one.

    Methods raise DaemonError when the daemon refuses, NoDaemon when it is gone for longer than
    the client's patience, and NotAnswering when it does not even say how it is.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str],
        *,
        patience_s: float = PATIENCE_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self.socket = os.fspath(socket)
        self._patience_s = patience_s
        self._quiet_s = quiet_s
        self._ids = count(1)
        self._opening = asyncio.Lock()
        self._link: _Link | None = None
        self._asking = asyncio.Lock()
        self._asked = 0
        self._silent: NotAnswering | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        self._closed = False

    async def open(self) -> None:
        """Connect now, so that a daemon that is not there is noticed."""
        await self._linked()

    async def aclose(self) -> None:
        """Close all connections; requests under way end with LinkLost, subscriptions end."""
        self._closed = True
        for stream in tuple(self._streams):
            stream.close()
        if self._link is not None:
            await self._link.aclose()

    async def request(self, event: str, data: object = None, **options: Unpack[Options]) -> Any:
        """Emit *event* and return the result of its handler, decoded."""
        return (await self.ask(event, data, **options)).read()

    async def ask(self, event: str, data: object = None, **options: Unpack[Options]) -> Answer:
        """Emit *event* and return the whole answer: result, seq, whether it was a duplicate."""
        request = Request.of(next(self._ids), event, data, **options)
        timeout = options.get("timeout")
        try:
            async with asyncio.timeout(None if timeout is None else timeout + GRACE_S):
                return (await self._exchange(request)).answer()
        except TimeoutError as exc:
            raise too_late(event, timeout) from exc

    async def spawn(
        self,
        component: str | None = None,
        *,
        agent_id: str | None = None,
        system: str | None = None,
        prompt: str | None = None,
        provider: str | dict[str, Any] | None = None,
        model: str | None = None,
        variables: dict[str, Any] | None = None,
        allow: Iterable[str] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Start an agent from *component* or from the inline prompt *system*.

        *prompt* is its first message; without one no model is called. *more* are further fields
        of ``agent:spawn``. Return what the daemon says of the agent, with its ``agent_id``.
        """
        fields = {
            "component": component,
            "agent_id": agent_id,
            "system": system,
            "prompt": prompt,
            "provider": provider,
            "model": model,
            "variables": variables,
            "allow": None if allow is None else list(allow),
            **more,
        }
        data = {name: value for name, value in fields.items() if value is not None}
        return cast(dict[str, Any], await self.request("agent:spawn", data))

    async def send(
        self,
        agent_id: str,
        message: str,
        *,
        wait: bool = True,
        untrusted: bool = False,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send *message* to an agent and return its reply: text, finish_reason, turns, calls.

        Without *wait* return the ``request_id`` at once. *untrusted* says that the message
        quotes a document or a stranger.
        """
        data = {"agent_id": agent_id, "message": message, "wait": wait, "untrusted": untrusted}
        answer = await self.request("agent:send", data, timeout=timeout)
        return cast(dict[str, Any], answer)

    async def subscribe(
        self,
        patterns: str | Iterable[str] = "*",
        *,
        after_seq: int | None = None,
        include: Iterable[str] = (),
        on_begun: Callable[[], object] = lambda: None,
    ) -> AsyncIterator[Push]:
        """Follow the events that match: those after *after_seq* first, then live.

        No event is left out and none comes twice, over lost connections, restarts of the daemon
        and falling behind. Without *after_seq* it begins with what comes next. *include*
        "outcomes" also brings how events ended that had not ended when they came, "text" what
        models write while they do. *on_begun* is called each time the daemon has subscribed us.
        """
        cursor = Cursor(patterns, after_seq=after_seq, include=include)
        waits = pauses(self._patience_s)
        while not self._closed:
            try:
                async with aclosing(self._pushed(cursor)) as frames:
                    async for frame in frames:
                        if frame.subscription is None:
                            cursor.begun(frame.answer())
                            on_begun()
                            waits = pauses(self._patience_s)
                        elif (push := cursor.take(frame)) is not None:
                            yield push
            except NoDaemon:
                pause = next(waits, None)
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def _pushed(self, cursor: Cursor) -> AsyncGenerator[Frame, None]:
        """Yield the frames of one connection that is subscribed at *cursor*, until it ends."""
        reader, writer = await _streams(self.socket)
        self._streams.add(writer)
        request = Request.of(next(self._ids), "monitor:subscribe", cursor.data())
        try:
            writer.write(request.line)
            async for frame in self._frames(reader):
                if frame.lagged:
                    return
                yield frame
            if not self._closed:
                raise LinkLost(self.socket)
        finally:
            self._streams.discard(writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _frames(self, reader: asyncio.StreamReader) -> AsyncIterator[Frame]:
        """Yield the frames that arrive until the other side closes or breaks off.

        Only the first is asked after: silence later on is nothing to wonder at.
        """
        frames = Frames()
        with suppress(ConnectionError):
            chunk = await self._first(reader)
            while chunk:
                for frame in frames.feed(chunk):
                    yield frame
                chunk = await reader.read(_CHUNK)

    async def _first(self, reader: asyncio.StreamReader) -> bytes:
        while True:
            try:
                async with asyncio.timeout(self._quiet_s):
                    return await reader.read(_CHUNK)
            except TimeoutError:
                await self._see_that_it_lives()

    async def _see_that_it_lives(self) -> None:
        """Ask the daemon how it is; raise NotAnswering. Those who ask at the same time ask once."""
        asked = self._asked
        async with self._asking:
            if self._asked == asked:
                self._silent = await self._how_it_is()
                self._asked += 1
            if self._silent is not None:
                raise NotAnswering(self._silent.path, self._silent.pid)

    async def _how_it_is(self) -> NotAnswering | None:
        """Return None if the daemon says anything, be it a refusal or that it goes."""
        link = await _open(self.socket)
        try:
            async with asyncio.timeout(self._quiet_s):
                await link.exchange(Request.of(next(self._ids), "system:health"))
        except TimeoutError:
            return link.silent()
        except (DaemonError, NoDaemon):
            return None
        finally:
            link.abort()
        return None

    async def _exchange(self, request: Request) -> Frame:
        """Send *request* until it is answered; its idempotency key makes that safe."""
        waits = pauses(self._patience_s)
        while True:
            try:
                link = await self._linked()
                return await link.exchange(request, self._see_that_it_lives)
            except NoDaemon:
                pause = next(waits, None)
                if pause is None or self._closed:
                    raise
                await asyncio.sleep(pause)

    async def _linked(self) -> _Link:
        """Return the shared connection, a new one if the last was lost."""
        async with self._opening:
            if self._closed:
                raise LinkLost(self.socket)
            if self._link is None or self._link.error is not None:
                self._link = await _open(self.socket, self._quiet_s)
            return self._link


class _Link(asyncio.Protocol):
    """One connection with requests under way; *error* is why it can take no more.

    When nothing came for *quiet_s* seconds, None being for ever, those who wait are told.
    """

    def __init__(self, path: str, quiet_s: float | None) -> None:
        self.error: KsiError | None = None
        self._path = path
        self._quiet_s = quiet_s
        self._frames = Frames()
        # None instead of a frame says that it is quiet.
        self._waiting: dict[int, asyncio.Future[Frame | None]] = {}
        self._loop = asyncio.get_running_loop()
        self._gone = self._loop.create_future()
        self._heard = 0.0
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except DaemonError as exc:
            self._end(exc)
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LinkLost(self._path))
        if self._watch is not None:
            self._watch.cancel()
        self._gone.set_result(None)

    async def exchange(
        self, request: Request, on_quiet: Callable[[], Awaitable[None]] | None = None
    ) -> Frame:
        """Send *request* and return the frame that answers it; *on_quiet* is called meanwhile."""
        if self.error is not None:
            raise self.error
        answer = self._expected(request.id)
        self._transport.write(request.line)
        try:
            while (frame := await answer) is None:
                answer = self._expected(request.id)
                if on_quiet is not None:
                    await on_quiet()
            return frame
        finally:
            self._waiting.pop(request.id, None)

    async def aclose(self) -> None:
        self._transport.close()
        await self._gone

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def silent(self) -> NotAnswering:
        """Return the error for a daemon that says nothing."""
        return silent(self._path, self._transport.get_extra_info("socket"))

    def _expected(self, number: int) -> asyncio.Future[Frame | None]:
        answer: asyncio.Future[Frame | None] = self._loop.create_future()
        self._waiting[number] = answer
        if self._watch is None and self._quiet_s is not None:
            self._heard = self._loop.time()
            self._watch = self._loop.call_later(self._quiet_s, self._listen, self._quiet_s)
        return answer

    def _listen(self, quiet_s: float) -> None:
        """Tell those who wait if nothing came for so long; look again when that may be so."""
        self._watch = None
        if not self._waiting:
            return
        due = self._heard + quiet_s
        if due > self._loop.time():
            self._watch = self._loop.call_at(due, self._listen, quiet_s)
            return
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(None)

    def _take(self, frame: Frame) -> None:
        if frame.id is None and frame.error is not None:
            # The daemon could not tell which request it refuses; it closes after this.
            self._end(DaemonError(frame.error))
        elif isinstance(frame.id, int):
            answer = self._waiting.get(frame.id)
            if answer is not None and not answer.done():
                answer.set_result(frame)

    def _end(self, error: KsiError) -> None:
        if self.error is None:
            self.error = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.error)


async def _open(path: str, quiet_s: float | None = None) -> _Link:
    loop = asyncio.get_running_loop()
    try:
        transport, link = await loop.create_unix_connection(lambda: _Link(path, quiet_s), path)
    except OSError as exc:
        raise NoDaemon.because(path, exc) from exc
    _check(path, transport)
    return link


async def _streams(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError as exc:
        raise NoDaemon.because(path, exc) from exc
    _check(path, writer.transport)
    return reader, writer


def _check(path: str, transport: asyncio.WriteTransport) -> None:
    """Raise NotAnswering if nobody takes the connection: those before us wait still.

    asyncio takes it for one all the same, but at the other end there is no one.
    """
    if transport.get_extra_info("peername") is None:
        transport.abort()
        raise NotAnswering(path)
