"""The writer: one thread, one connection, group commit.

The thread takes whatever waits, up to MAX_UNITS or MAX_BYTES, commits it as one transaction and
tells the event loop once per batch. There is no linger: while a batch is being synced the next
one gathers by itself, so the batch grows with the load and a lone event waits for nobody.

The queue is bounded. Work that finds it full fails at once with ``storage_busy``: waiting would
only move the queue to where nobody counts it.

A full disk refuses work until there is room for the reserve again; a lock that another process
holds is waited for, then refused likewise. Any other failure of the storage is final: nothing more
is acknowledged, and whoever runs the writer is told. Above all a failed sync is never repeated: the
system drops what it could not write, and the second try succeeds without it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import anyio
import anyio.to_thread
import structlog

from ksi_daemon.errors import KsiError, StorageError
from ksi_daemon.events import Event
from ksi_daemon.log.batch import UNFIT, Done, apply, write, write_singly
from ksi_daemon.log.chain import HEAD_EVERY, Head
from ksi_daemon.log.database import WAL_BYTES, checkpoint, head_of
from ksi_daemon.log.failures import full, storage_failure
from ksi_daemon.log.model import Gauges
from ksi_daemon.log.reserve import Reserve
from ksi_daemon.log.watch import FileWatch, wal_path
from ksi_daemon.work import Work

__all__ = ["MAX_BYTES", "MAX_UNITS", "QUEUE_BYTES", "QUEUE_UNITS", "LogWriter"]

MAX_UNITS: Final = 256
MAX_BYTES: Final = 1024 * 1024
QUEUE_UNITS: Final = 50_000
QUEUE_BYTES: Final = 256 * 1024 * 1024

# How long the thread waits for work before it looks after the files.
IDLE_S: Final = 0.25
# How often the files are looked at under load.
WATCH_S: Final = 0.25
# Events that are written when the disk is full, besides the outcomes of those before.
LAST_WORDS: Final = frozenset({"system:shutdown", "system:stopping"})
# What a unit weighs besides its texts.
_OVERHEAD: Final = 512

# A plain tuple, since one is made for each event: work, its future, its weight in bytes.
_Queued = tuple[Work, asyncio.Future[Work], int]
_Result = Done | KsiError


class _Group:
    """Units that are submitted together: the *first*, and the *obstacle* that it met, if any."""

    def __init__(self) -> None:
        self.units: list[_Queued] = []
        self.first: Work | None = None
        self.obstacle: StorageError | None = None


class LogWriter:
    """The only writer of *connection*, which it owns. ``submit`` is for the event loop.

    *queue_units* and *queue_bytes* bound the work that is not committed yet.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        on_commit: Callable[[list[Event]], None],
        on_failure: Callable[[StorageError], None],
        queue_units: int = QUEUE_UNITS,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._connection = connection
        self._path = path
        self._watch = FileWatch(path)
        self._watched = time.monotonic()
        self._reserve = Reserve(path)
        self._full = self._wal_is_large = False
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._limits = (queue_units, queue_bytes)
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[_Queued] | None] = SimpleQueue()
        self._left: list[_Queued] = []  # what was taken and found no room in its batch
        self._failure: StorageError | None = None
        self._head = head_of(connection)
        self._checkpointed = True
        # Only the loop touches these, so they need no lock.
        self._closing = False
        self._group: _Group | None = None
        self._depth = self._bytes = 0
        self._batches = self._units = self._refused = self._last_batch = 0
        self._batch_sizes = [0] * (MAX_UNITS.bit_length())
        self._thread = threading.Thread(target=self._run, name="ksi-log-writer", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        """The seq of the newest committed event."""
        return self._head.seq

    def gauges(self) -> Gauges:
        """Return how the writer fares."""
        return Gauges(
            depth=self._depth,
            bytes=self._bytes,
            batches=self._batches,
            units=self._units,
            refused=self._refused,
            last_batch=self._last_batch,
            batch_sizes=tuple(self._batch_sizes),
            last_seq=self._head.seq,
            wal_bytes=self._wal_bytes(),
        )

    def submit(self, work: Work) -> asyncio.Future[Work]:
        """Queue *work*; the future ends after its commit, or with a KsiError."""
        future: asyncio.Future[Work] = self._loop.create_future()
        weight = _weight(work)
        group = self._group
        follows = group is not None and group.first is not None
        obstacle = group.obstacle if group and follows else self._obstacle(weight)
        if group is not None:
            work.after = group.first
            group.first, group.obstacle = group.first or work, copy(obstacle)
        if obstacle is not None:
            self._refused += 1
            future.set_exception(obstacle)
            return future
        self._depth += 1
        self._bytes += weight
        if group is not None:
            group.units.append((work, future, weight))
        else:
            self._queue.put([(work, future, weight)])
        return future

    @contextmanager
    def together(self) -> Iterator[None]:
        """Have what is submitted within the block be one commit; see ``work.Journal``."""
        group = self._group = _Group()
        try:
            yield
        finally:
            self._group = None
            if group.units:
                self._queue.put(group.units)

    def fail(self, failure: StorageError) -> None:
        """Acknowledge nothing more: the file was found to be damaged."""
        if self._failure is None:
            self._failure = failure
            self._on_failure(failure)

    async def close(self) -> None:
        """Commit what waits, shrink the WAL to nothing, close the connection."""
        self._closing = True
        self._queue.put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    # -- on the loop -------------------------------------------------------------------------

    def _obstacle(self, weight: int) -> StorageError | None:
        units, size = self._limits
        if self._failure is not None:
            return copy(self._failure)
        if self._closing:
            return StorageError("the log is closed")
        # A unit that is larger than the whole queue may pass when nothing else waits.
        if self._depth >= units or (self._depth and self._bytes + weight > size):
            return StorageError(
                f"{self._depth} units wait for the disk", code="storage_busy", retryable=True
            )
        return None

    def _tell(
        self, batch: Sequence[_Queued], results: Sequence[_Result], fresh: list[Event]
    ) -> None:
        """Tell the feed first, in seq order, then those who wait."""
        self._batches += 1
        self._last_batch = len(batch)
        self._batch_sizes[(len(batch) - 1).bit_length()] += 1
        self._depth -= len(batch)
        self._bytes -= sum(weight for _, _, weight in batch)
        try:
            if fresh:
                self._on_commit(fresh)
        finally:
            self._resolve(batch, results)

    def _resolve(self, batch: Sequence[_Queued], results: Sequence[_Result]) -> None:
        for (work, future, _), result in zip(batch, results, strict=True):
            refused = isinstance(result, KsiError)
            self._refused += refused
            self._units += not refused
            if future.done():  # the caller gave up waiting; the work is committed all the same
                continue
            if isinstance(result, KsiError):
                future.set_exception(result)
            else:
                future.set_result(work)

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        batch: list[_Queued] = []
        try:
            open_ = True
            while open_:
                batch, open_ = self._take()
                if batch:
                    self._commit(batch)
                elif open_:
                    self._tend()
        finally:
            self._close_connection()

    def _take(self) -> tuple[list[_Queued], bool]:
        """Return what waits, up to the limits of a batch, and whether more may come."""
        batch: list[_Queued] = []
        weight = 0
        with suppress(Empty):
            queued, self._left = self._left or self._queue.get(timeout=IDLE_S), []
            while queued is not None:
                if len(batch) + len(queued) > MAX_UNITS and batch:
                    self._left = queued  # they are one commit, so they begin the next batch
                    return batch, True
                batch += queued
                weight += sum(unit[2] for unit in queued)
                if len(batch) >= MAX_UNITS or weight >= MAX_BYTES:
                    return batch, True
                queued = self._queue.get_nowait()
            return batch, False
        return batch, True

    def _commit(self, batch: Sequence[_Queued]) -> None:
        works = [work for work, _, _ in batch]
        results = self._written(works)
        fresh = []
        for work, result in zip(works, results, strict=True):
            if isinstance(result, Done):
                event = apply(work, result)
                if event is not None:
                    fresh.append(event)
        self._loop.call_soon_threadsafe(self._tell, batch, results, fresh)

    def _written(self, works: Sequence[Work]) -> Sequence[_Result]:
        try:
            if self._failure is None:
                self._look()
                self._checkpointed = False
                return self._attempted(works) if self._has_room() else self._last_words(works)
            failure = self._failure
        except StorageError as exc:
            failure = self._failed(exc)
        except sqlite3.Error as exc:
            failure = self._failed(storage_failure(exc) or _unexpected(exc))
        except Exception as exc:  # noqa: BLE001 - whatever it is, those who wait are told
            structlog.get_logger().exception("log_writer_failed")
            failure = self._failed(_unexpected(exc))
        # One each: an exception that is raised in many tasks grows by each one's traceback.
        return [copy(failure) for _ in works]

    def _attempted(self, works: Sequence[Work]) -> Sequence[_Result]:
        try:
            done, head = write(self._connection, works, self._head)
        except KsiError:
            return self._singly(works)
        except UNFIT as exc:
            if storage_failure(exc) is not None:
                raise
            return self._singly(works)
        self._moved(head)
        return done

    def _singly(self, works: Sequence[Work]) -> Sequence[_Result]:
        done, head = write_singly(self._connection, works, self._head)
        self._moved(head)
        return done

    def _moved(self, head: Head) -> None:
        """Note the chain's new head, and tell the text log once in a while."""
        before, self._head = self._head, head
        if before.seq // HEAD_EVERY != head.seq // HEAD_EVERY:
            self._tell_head()

    def _tell_head(self) -> None:
        structlog.get_logger().info("log_head", seq=self._head.seq, hash=self._head.hash.hex())

    def _failed(self, failure: StorageError) -> StorageError:
        """Note a failure that is final, or that the disk is full; return it."""
        if failure.code == "storage_full" and not self._full:
            self._full = True
            self._reserve.give_up()
            structlog.get_logger().error("storage_full", path=str(self._path))
        if not failure.retryable and self._failure is None:
            self._failure = failure
            self._loop.call_soon_threadsafe(self._on_failure, failure)
        return failure

    def _has_room(self) -> bool:
        """Say whether the disk is not known to be full, or no longer is."""
        if self._full and self._reserve.possible and not self._reserve.take_back():
            return False
        if self._full:
            self._full = False
            structlog.get_logger().info("storage_has_room", path=str(self._path))
        return True

    def _last_words(self, works: Sequence[Work]) -> Sequence[_Result]:
        """Write how things ended into the space that was given up; refuse what is new."""
        ends = [work for work in works if _is_end(work)]
        written = iter(self._attempted(ends) if ends else ())
        return [next(written) if _is_end(work) else full() for work in works]

    def _look(self) -> None:
        """Look at the files once in a while; raise StorageError if they are gone."""
        if time.monotonic() - self._watched >= WATCH_S:
            self._watched = time.monotonic()
            self._watch.check()
            self._warn_of_wal()

    def _warn_of_wal(self) -> None:
        """Say once that something keeps the WAL from being brought into the database."""
        size = self._wal_bytes()
        if (size > WAL_BYTES) is not self._wal_is_large:
            self._wal_is_large = size > WAL_BYTES
            if self._wal_is_large:
                structlog.get_logger().warning("wal_large", path=str(self._path), bytes=size)

    def _wal_bytes(self) -> int:
        with suppress(OSError):
            return wal_path(self._path).stat().st_size
        return 0

    def _tend(self) -> None:
        """Use the quiet: look at the files, bring the WAL into the database."""
        if self._failure is not None:
            return
        try:
            self._watch.check()
            self._warn_of_wal()
            if not self._checkpointed:
                self._checkpointed = True
                checkpoint(self._connection, self._path)
        except StorageError as exc:
            self._failed(exc)
        except sqlite3.Error as exc:
            failure = storage_failure(exc) or _unexpected(exc)
            if not failure.retryable:
                self._failed(failure)

    def _close_connection(self) -> None:
        try:
            if self._failure is None:
                checkpoint(self._connection, self._path, truncate=True)
                self._tell_head()
        except sqlite3.Error as exc:
            structlog.get_logger().warning("checkpoint_failed", error=str(exc))
        self._connection.close()
        self._reserve.give_up()


def _is_end(work: Work) -> bool:
    return work.event is None or work.event.name in LAST_WORDS


def _weight(work: Work) -> int:
    weight = _OVERHEAD
    if work.event is not None:
        weight += len(work.event.data)
    if work.statements:
        weight += sum(
            len(value) for _, values in work.statements for value in values if type(value) is str
        )
    return weight


def _unexpected(exc: Exception) -> StorageError:
    return StorageError(f"the log cannot be written: {type(exc).__name__}: {exc}")
