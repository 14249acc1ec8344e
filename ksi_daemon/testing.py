"""Helpers for tests of ksi and of plugins: a log in memory, a router on it, a running daemon,
and a peer to speak to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

import anyio
import msgspec

from ksi_daemon.clock import Clock
from ksi_daemon.config import Settings
from ksi_daemon.daemon import Daemon
from ksi_daemon.errors import Conflict, KsiError
from ksi_daemon.events import ErrorInfo, Event, Outcome
from ksi_daemon.feed import Feed
from ksi_daemon.router import Limits, Router
from ksi_daemon.work import Work

__all__ = [
    "FakeClock",
    "MemoryLog",
    "Peer",
    "connected",
    "running_daemon",
    "running_router",
    "short_directory",
]

_LONGEST_LINE: Final = 64 * 1024 * 1024


class FakeClock:
    """A clock that stands still until it is set ahead; see ``clock.Clock``."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._moved = anyio.Event()

    def now(self) -> datetime:
        """Return the present of this clock."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Set the clock ahead, and wake who waits."""
        self._now += timedelta(seconds=seconds)
        self._moved.set()

    async def wait(self, wake: anyio.Event, until: datetime | None) -> None:
        """Return when *wake* is set or the clock was set ahead to *until*."""
        while not wake.is_set() and (until is None or self._now < until):
            self._moved = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for event in (wake, self._moved):
                    tasks.start_soon(_cancel_after, event, tasks.cancel_scope)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


class MemoryLog:
    """A journal that keeps its works in a list and commits at the next turn of the loop.

    *connection* is what transaction handlers are given. Set *error* to have all work refused.
    """

    durability = "process"

    def __init__(self, on_commit: Callable[[list[Event]], None] = lambda events: None) -> None:
        self.works: list[Work] = []
        self.outcomes: dict[int, Outcome] = {}
        self.connection = sqlite3.connect(":memory:")
        self.error: KsiError | None = None
        self.on_commit = on_commit
        self._keys: dict[tuple[str, str], Work] = {}

    @property
    def events(self) -> list[Event]:
        """The events in the order of seq, each with its status."""
        return [work.event for work in self.works if work.event is not None]

    def submit(self, work: Work) -> asyncio.Future[Work]:
        """Take *work* in; see ``work.Journal``."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Work] = loop.create_future()
        loop.call_soon(self._commit, work, future)
        return future

    def together(self) -> AbstractContextManager[None]:
        """Change nothing: each unit is a commit of its own; see ``work.Journal``."""
        return nullcontext()

    def close(self) -> None:
        """Release the connection."""
        self.connection.close()

    def _commit(self, work: Work, future: asyncio.Future[Work]) -> None:
        try:
            fresh = self._write(work)
        except KsiError as exc:
            future.set_exception(exc)
            return
        if fresh and work.event is not None:
            self.on_commit([work.event])
        future.set_result(work)

    def _write(self, work: Work) -> bool:
        if self.error is not None:
            raise self.error
        if self._repeats(work):
            return False
        if work.transaction is not None:
            work.outcome = self._transacted(work)
        if work.ended is not None:
            self.outcomes[work.ended.seq] = work.ended.outcome
        self.works.append(work)
        if work.event is not None:
            work.event.seq = len(self.events)
            if work.outcome is not None:
                work.event.status, work.event.error = work.outcome.status, work.outcome.error
        return True

    def _repeats(self, work: Work) -> bool:
        key = work.idempotency
        if key is None or work.event is None:
            return False
        earlier = self._keys.setdefault((key.scope, key.key), work)
        if earlier is work:
            return False
        if earlier.idempotency is None or earlier.idempotency.digest != key.digest:
            raise Conflict(f"idempotency key {key.key!r} was used before", code="idem_conflict")
        work.duplicate = True
        if earlier.event is not None:
            work.event.seq = earlier.event.seq
            work.outcome = earlier.outcome or self.outcomes.get(earlier.event.seq)
        return True

    def _transacted(self, work: Work) -> Outcome:
        if work.transaction is None:
            raise ValueError("no transaction")
        try:
            return Outcome("handled", work.transaction(self.connection))
        except KsiError as exc:
            return Outcome("failed", error=exc.info())


class Peer:
    """The other end of a daemon's socket: one request at a time, and what is pushed meanwhile."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._pushed: deque[dict[str, Any]] = deque()

    async def ask(self, event: str, data: object = None, **fields: Any) -> Any:
        """Send *event* and return its result; raise the KsiError that the daemon replies."""
        reply = await self.request(event, data, **fields)
        if not reply["ok"]:
            error = msgspec.convert(reply["error"], ErrorInfo)
            raise KsiError(
                error.message,
                code=error.code,
                hint=error.hint,
                details=error.details,
                retryable=error.retryable,
            )
        return reply["result"]

    async def request(self, event: str, data: object = None, **fields: Any) -> dict[str, Any]:
        """Send *event* and return the whole reply; *fields* are more of the request's."""
        number = next(self._numbers)
        self.write({"id": number, "event": event, "data": {} if data is None else data} | fields)
        while (line := await self._line()).get("id") != number:
            self._pushed.append(line)
        return line

    async def pushed(self) -> dict[str, Any]:
        """Return the next line that is pushed."""
        return self._pushed.popleft() if self._pushed else await self._line()

    def write(self, request: object) -> None:
        """Send *request* and wait for nothing."""
        self._writer.write(msgspec.json.encode(request) + b"\n")

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _line(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line:
            raise ConnectionResetError("the daemon closed the connection")
        return cast("dict[str, Any]", msgspec.json.decode(line))


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[Peer]:
    """Connect to the daemon at *socket*."""
    peer = Peer(*await asyncio.open_unix_connection(socket, limit=_LONGEST_LINE))
    try:
        yield peer
    finally:
        await peer.close()


@asynccontextmanager
async def running_router(
    *plugins: object, limits: Limits | None = None
) -> AsyncIterator[tuple[Router, MemoryLog]]:
    """Run a router with *plugins* on a log in memory."""
    feed = Feed()
    journal = MemoryLog(feed.publish)
    router = Router(journal, feed, limits)
    for plugin in plugins:
        router.include(plugin)
    try:
        async with router:
            yield router, journal
    finally:
        journal.close()


@contextmanager
def short_directory() -> Iterator[Path]:
    """Yield a new private directory whose path is short enough for a socket below it."""
    path = Path(tempfile.mkdtemp(prefix="ksi-", dir=os.environ.get("TMPDIR", "/tmp")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def running_daemon(
    var: Path, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Path]:
    """Run a daemon in this process on *var*; yield its socket."""
    given = msgspec.convert({"var": str(var), "durability": "process"} | settings, Settings)
    daemon = Daemon(given, clock)
    served = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(daemon.run, lambda _: served.set()))
        with anyio.fail_after(10):
            await served.wait()
        try:
            yield given.socket_path
        finally:
            daemon.stopping.set()
