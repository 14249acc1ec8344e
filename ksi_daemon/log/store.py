"""The log as a whole: opened, written, read, closed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

import anyio
import msgspec

from ksi_daemon.errors import StorageError
from ksi_daemon.events import Event
from ksi_daemon.log.database import open_writer, read_only
from ksi_daemon.log.model import Durability, Gauges
from ksi_daemon.log.pruning import Pruned, Pruner
from ksi_daemon.log.reader import LogReader
from ksi_daemon.log.rows import microseconds
from ksi_daemon.log.soundness import LateCheck
from ksi_daemon.log.verification import check_tail
from ksi_daemon.log.writer import LogWriter
from ksi_daemon.work import Transaction, Work

__all__ = ["EventLog"]


class EventLog:
    """The log; a ``work.Journal`` for the router, a reader for the services."""

    def __init__(self, durability: Durability, writer: LogWriter, reader: LogReader) -> None:
        self.durability: str = durability
        self.reader = reader
        self._writer = writer

    @staticmethod
    @asynccontextmanager
    async def open(
        path: Path,
        *,
        durability: Durability = "power",
        on_commit: Callable[[list[Event]], None] = lambda events: None,
        on_failure: Callable[[StorageError], None] = lambda error: None,
    ) -> AsyncIterator[EventLog]:
        """Open the log at *path* for the time of the block; see ``database.open_writer``.

        *on_commit* is called on the loop with the new events of each batch, in seq order and
        before their futures end; *on_failure* once, when the storage has failed for good.
        """
        path = Path(await asyncio.to_thread(os.path.abspath, path))
        connection, is_checked = await asyncio.to_thread(_checked, path, durability)
        writer = LogWriter(connection, path, on_commit=on_commit, on_failure=on_failure)
        late = None if is_checked else LateCheck(read_only(path), path, writer.fail)
        try:
            async with LogReader.open(path) as reader:
                yield EventLog(durability, writer, reader)
        finally:
            if late is not None:
                late.stop()
            # What was acknowledged must be in the file however the daemon is stopped.
            with anyio.CancelScope(shield=True):
                await writer.close()

    @property
    def last_seq(self) -> int:
        """The seq of the newest committed event."""
        return self._writer.last_seq

    def submit(self, work: Work) -> asyncio.Future[Work]:
        """Queue *work*; see ``work.Journal``."""
        return self._writer.submit(work)

    def together(self) -> AbstractContextManager[None]:
        """Have what is submitted within the block be one commit; see ``work.Journal``."""
        return self._writer.together()

    async def prune(
        self, before: datetime, now: datetime, limit_bytes: int | None = None
    ) -> Pruned:
        """Delete the oldest events, those from before *before*; return what is gone.

        With *limit_bytes*, only until the file holds no more. It is done in short steps with
        other work between them. Raise StorageError.
        """
        pruner, gone = Pruner(), Pruned()
        times = microseconds(before), microseconds(now)

        def step(connection: sqlite3.Connection) -> msgspec.Raw:
            return _json(pruner.step(connection, *times, limit_bytes))

        def tidy(connection: sqlite3.Connection) -> msgspec.Raw:
            pruner.tidy(connection)
            return _json(Pruned())

        while (more := await self._transacted(step)) != Pruned():
            gone += more
        if gone.events:
            await self._transacted(tidy)
        return gone

    async def newest(self) -> datetime | None:
        """Return the time of the newest event, None in an empty log."""
        return await self.reader.newest()

    async def _transacted(self, transaction: Transaction) -> Pruned:
        work = await self.submit(Work(transaction=transaction))
        if work.outcome is None or work.outcome.result is None:
            raise StorageError("the log could not be pruned; the daemon's text log says why")
        return msgspec.json.decode(work.outcome.result, type=Pruned)

    def gauges(self) -> Gauges:
        """Return how the writer fares."""
        return self._writer.gauges()


def _checked(path: Path, durability: Durability) -> tuple[sqlite3.Connection, bool]:
    """Return the writing connection of a log whose newest events are sound, and whether the
    whole file was checked."""
    too_large: list[bool] = []
    with ExitStack() as opened:
        connection = open_writer(path, durability, on_cut_short=lambda: too_large.append(True))
        opened.enter_context(closing(connection))
        check_tail(connection)
        opened.pop_all()
    return connection, not too_large


def _json(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
