"""Deleting the oldest events, a few at a time, with the chain kept.

Only the beginning of the log is ever deleted: the last event that goes becomes the anchor, on
which the rest of the chain is checked. What belongs to an event goes with it; agents, their
conversations, rules, timers and the counts of reliability stay, and so do those few events that
one of these still names.

Each step is short and runs in the writer's thread like any other work, so emits wait for one step
at most. Steps also give pages back to the file system; the file is never rewritten as a whole.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ksi_daemon.log import queries
from ksi_daemon.log.texts import restore_texts

__all__ = ["STEP_EVENTS", "Pruned", "Pruner", "used_bytes"]

# The first step is of so many events; what it took says how many the next one may be of.
STEP_EVENTS: Final = 500
MAX_STEP_EVENTS: Final = 5_000
STEP_S: Final = 0.01
# Pages of 4 KiB that one step returns.
STEP_PAGES: Final = 500


class Pruned(msgspec.Struct, frozen=True):
    """What is gone: *events*, the last of them *through_seq* with *hash*, *bytes* of the file."""

    events: int = 0
    through_seq: int = 0
    hash: str = ""
    bytes: int = 0

    def __add__(self, later: Pruned) -> Pruned:
        last = later if later.events else self
        return Pruned(
            self.events + later.events, last.through_seq, last.hash, self.bytes + later.bytes
        )


class Pruner:
    """The steps of one run. They are called in the writer's thread with its connection."""

    def __init__(self) -> None:
        self._queries: Mapping[str, str] = queries.load()
        self._events = STEP_EVENTS

    def step(
        self,
        connection: sqlite3.Connection,
        before_us: int,
        now_us: int,
        limit_bytes: int | None = None,
    ) -> Pruned:
        """Delete some of the oldest events if they are from before *before_us*.

        With *limit_bytes*, only while the file holds more. Return what is gone: nothing when
        there is nothing left to do.
        """
        started = time.perf_counter()
        count = self._events
        if limit_bytes is not None:
            count = min(count, self._too_many(connection, limit_bytes))
        oldest = connection.execute(self._queries["prune_oldest"], (count,)).fetchall()
        through = self._through(connection, oldest, before_us, now_us)
        if not oldest or through < oldest[0][0]:
            return Pruned(bytes=_return_pages(connection))
        hash_ = _anchored(connection, through)
        restore_texts(connection, through)
        for name in ("keep", "completions", "failures", "approvals"):
            connection.execute(self._queries[f"prune_{name}"], (through,))
        connection.execute(self._queries["prune_outcomes"], (through, through))
        deleted = connection.execute(self._queries["prune_events"], (through,)).rowcount
        self._events = _next_size(len(oldest), time.perf_counter() - started)
        return Pruned(deleted, through, hash_.hex(), _return_pages(connection))

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Forget what only events that were pruned spoke of."""
        for name in ("agents", "kept", "manners"):
            connection.execute(self._queries[f"prune_{name}"])

    def _too_many(self, connection: sqlite3.Connection, limit_bytes: int) -> int:
        """Return how many events must go, as far as all are of one size, for *limit_bytes*."""
        used = used_bytes(connection)
        [events] = connection.execute(self._queries["prune_span"]).fetchone()
        return -int(-events * max(0, used - limit_bytes) // used)

    def _through(
        self,
        connection: sqlite3.Connection,
        oldest: Sequence[tuple[int, int]],
        before_us: int,
        now_us: int,
    ) -> int:
        """Return the last seq that may go, 0 if none may."""
        through = _last_old(oldest, before_us, now_us)
        if not through and oldest and oldest[0][1] > now_us:
            # All these times are still to come: the clock was wrong then. They are as old as the
            # next event whose time is not.
            last = oldest[-1][0]
            known = connection.execute(
                self._queries["prune_next_known_time"], (last, now_us)
            ).fetchone()
            through = last if known and known[0] < before_us else 0
        unfinished = connection.execute(self._queries["prune_unfinished"], (through,)).fetchone()
        return unfinished[0] - 1 if unfinished else through


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that hold something."""
    return (_number(connection, "page_count") - _number(connection, "freelist_count")) * _number(
        connection, "page_size"
    )


def _last_old(oldest: Sequence[tuple[int, int]], before_us: int, now_us: int) -> int:
    """Return the last seq of *oldest* from before *before_us* with no young event before it."""
    through = 0
    for seq, ts in oldest:
        if before_us <= ts <= now_us:
            break
        if ts < before_us:
            through = seq
    return through


def _anchored(connection: sqlite3.Connection, through: int) -> bytes:
    """Move the anchor to *through*; return its hash."""
    seq, hash_ = connection.execute("SELECT seq, hash FROM anchor").fetchone()
    if through > seq:
        [hash_] = connection.execute("SELECT hash FROM events WHERE seq = ?", (through,)).fetchone()
        connection.execute("UPDATE anchor SET seq = ?, hash = ?", (through, hash_))
    return bytes(hash_)


def _return_pages(connection: sqlite3.Connection) -> int:
    """Give free pages back to the file system; return their bytes."""
    pages = min(STEP_PAGES, _number(connection, "freelist_count"))
    for _ in range(pages):
        # Python takes one step of a statement without columns, and one step is one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return pages * _number(connection, "page_size")


def _next_size(events: int, took_s: float) -> int:
    """Return how many events fit in STEP_S if *events* took *took_s*."""
    return max(1, min(MAX_STEP_EVENTS, 2 * events, int(events * STEP_S / took_s)))


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
