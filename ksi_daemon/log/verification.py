"""Whether the chain holds: every hash of the log computed anew. Reads only.

The log is gone through in windows, each one short read of its own, so the check of a large log
keeps neither the writer nor its checkpoints waiting. What is written meanwhile is checked too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from ksi_daemon.errors import StorageError
from ksi_daemon.log.chain import Head, Link, link, linked
from ksi_daemon.log.rows import EVENT_COLUMNS, OUTCOME_COLUMNS, PLAIN_COLUMNS

__all__ = ["TAIL", "WINDOW", "Verdict", "check_tail", "compared", "verify"]

# How many events a start checks: a tenth of what it takes to open a database.
TAIL: Final = 1_000
WINDOW: Final = 20_000

_PLAIN: Final = len(PLAIN_COLUMNS)
_ALL: Final = len(EVENT_COLUMNS)
_MORE: Final = (None,) * (_ALL - _PLAIN)
_EVENTS: Final = (
    f"SELECT {', '.join(EVENT_COLUMNS)}, hash FROM events WHERE seq > ? AND seq <= ? ORDER BY seq"
)
_OUTCOMES: Final = (
    f"SELECT at, {', '.join(OUTCOME_COLUMNS)} FROM outcomes"
    " WHERE at >= ? AND at < ? ORDER BY at, seq"
)
_NEWEST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"


class Verdict(msgspec.Struct, frozen=True):
    """What a check found: *events* after the anchor *after_seq* are sound up to *seq*.

    *bad_seq* is the first event that is not as it was written, or whose outcomes or neighbour
    are not, and *why*; None if there is none.
    """

    events: int
    outcomes: int
    after_seq: int
    seq: int
    hash: str
    bad_seq: int | None = None
    why: str | None = None


class _Broken(Exception):
    def __init__(self, seq: int, why: str) -> None:
        super().__init__(why)
        self.seq = seq
        self.why = why


def verify(
    connection: sqlite3.Connection,
    after: Head | None = None,
    on_progress: Callable[[int, int], None] = lambda seq, newest: None,
) -> Verdict:
    """Check the chain after the anchor, or after *after*, which is believed.

    *on_progress* is told the seq that was reached and the newest.
    """
    head = after or _anchor(connection)
    began, events, outcomes = head.seq, 0, 0
    while True:
        newest = _newest(connection)
        if head.seq >= newest:
            return Verdict(events, outcomes, began, head.seq, head.hash.hex())
        window = _window(connection, head, min(newest, head.seq + WINDOW))
        try:
            for reached, covered in window:
                head = reached
                events += 1
                outcomes += covered
        except _Broken as exc:
            pruned = _anchor(connection)
            if pruned.seq > head.seq:
                head = pruned  # the rows that we were about to read are gone, as they may
                continue
            return Verdict(events, outcomes, began, head.seq, head.hash.hex(), exc.seq, exc.why)
        on_progress(head.seq, newest)


def compared(
    connection: sqlite3.Connection, found: Verdict, heads: Iterable[tuple[int, str]]
) -> Verdict:
    """Return *found*, or that the event of one of *heads* has not the hash which was kept of it."""
    for seq, hash_ in sorted(heads):
        if found.bad_seq is not None and found.bad_seq <= seq:
            break
        row = connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
        row = row or connection.execute("SELECT hash FROM anchor WHERE seq = ?", (seq,)).fetchone()
        if row is None and seq <= found.after_seq:
            continue  # it was pruned
        if row is None or row[0] is None or row[0].hex() != hash_:
            why = "it is missing" if row is None else "it has another hash than was kept of it"
            return msgspec.structs.replace(found, bad_seq=seq, why=why)
    return found


def check_tail(connection: sqlite3.Connection) -> None:
    """Raise StorageError if the newest events are not as they were written."""
    start = _newest(connection) - TAIL
    row = connection.execute("SELECT seq, hash FROM events WHERE seq = ?", (start,)).fetchone()
    anchor = _anchor(connection)
    after = Head(*row) if row and row[1] is not None and start > anchor.seq else anchor
    found = verify(connection, after)
    if found.bad_seq is not None:
        raise StorageError(
            f"the log is damaged at event {found.bad_seq}: {found.why}",
            hint="`ksi log verify` checks all of it, `ksi log repair` saves what can be saved",
        )


def _window(connection: sqlite3.Connection, head: Head, last: int) -> Iterator[tuple[Head, int]]:
    """Yield the chain's head after each event up to *last*, and the outcomes that it covers."""
    seq, known, _ = head
    ends = _Ends(connection, seq, last)
    for row in connection.execute(_EVENTS, (seq, last)):
        if row[0] != seq + 1:
            raise _Broken(seq + 1, "it is missing")
        loose = ends.at(seq)
        seq = row[0]
        known = linked(known, loose, _canonical(row[:_ALL]))
        if known != row[_ALL]:
            raise _Broken(seq, _why(row[_ALL], loose))
        yield Head(seq, known), len(loose)
    if seq != last:
        raise _Broken(seq + 1, "it is missing")


class _Ends:
    """Outcomes in the order in which the chain covers them."""

    def __init__(self, connection: sqlite3.Connection, first: int, last: int) -> None:
        self._rows = iter(connection.execute(_OUTCOMES, (first, last)))
        self._next: tuple[Any, ...] | None = next(self._rows, None)

    def at(self, seq: int) -> list[Link]:
        """Return the outcomes that were written when *seq* was the newest event."""
        found = []
        while self._next is not None and self._next[0] <= seq:
            found.append(link(self._next[1:]))
            self._next = next(self._rows, None)
        return found


def _canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:_PLAIN] if row[_PLAIN:] == _MORE else row


def _why(hash_: bytes | None, loose: list[Link]) -> str:
    if hash_ is None:
        return "it has no hash"
    if not loose:
        return "it is not what was written"
    ends = ", ".join(str(seq) for seq, _ in loose[:10])
    return f"it, or the outcome of event {ends}, is not what was written"


def _anchor(connection: sqlite3.Connection) -> Head:
    return Head(*connection.execute("SELECT seq, hash FROM anchor").fetchone())


def _newest(connection: sqlite3.Connection) -> int:
    row = connection.execute(_NEWEST).fetchone()
    return int(row[0]) if row else 0
