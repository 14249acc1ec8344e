"""Whether reports of reliability can be believed: what was lost, and whether the counts are right.

Three things are looked at in a log that is opened to be read. A call that an agent wrote has an
event: none is without one whose reply was worked through. What extraction finds in a reply it found
then: a reply that is read again holds no more blocks than were counted. And the roll-up is what a
scan of all rows gives; hours that retention has begun to prune are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ksi_daemon.extraction import read_reply
from ksi_daemon.log.counts import Counts, total
from ksi_daemon.log.metrics import latency_bin
from ksi_daemon.log.replies import LoggedReply, ReplyFilter, replies
from ksi_daemon.log.rollup import CUBES, DAY, HOUR, cube_name, hours_from
from ksi_daemon.log.scan import scanned_hours
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["Audit", "audit"]

_MISSED: Final = """
SELECT a.completion_id, a.ordinal
  FROM attempts a
  JOIN completions c ON c.id = a.completion_id
  JOIN events r ON r.id = c.id
  LEFT JOIN events e ON e.id = a.event_id
 WHERE a.verdict IN ('strict', 'repaired') AND c.state = 'done' AND e.id IS NULL
"""
_ROLLED: Final = """
SELECT start, agent, model, provider, dialect, tool, size, counts FROM rollup
 WHERE cube = ? AND span = ? AND start >= ?
"""
_HOUR_US: Final = HOUR * 1_000_000

_decode: Final = msgspec.json.Decoder(Counts).decode

Rows = dict[tuple[Any, ...], Counts]


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. *replies* were read again; *unread* are the ids of those that hold more
    blocks than were counted, *unknown* counts those of which it is not known how they were read.

    *without_event* names the calls that no event came of, as completion and ordinal. *miscounted*
    names the cubes of *cubes* whose rows are not what a scan gives.
    """

    replies: int
    unread: tuple[str, ...]
    unknown: int
    without_event: tuple[tuple[str, int], ...]
    cubes: int
    miscounted: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost and all counts are right."""
        return not (self.unread or self.without_event or self.miscounted)


def audit(snapshot: Snapshot, on_reply: Callable[[int], None] = lambda number: None) -> Audit:
    """Look through a log; *on_reply* is told how many replies were read again."""
    number = unknown = 0
    unread = []
    for number, reply in enumerate(replies(snapshot, ReplyFilter()), start=1):
        on_reply(number)
        found = _blocks(reply)
        unknown += found is None
        if found is not None and found > len(reply.blocks):
            unread.append(reply.id)
    return Audit(
        replies=number,
        unread=tuple(unread),
        unknown=unknown,
        without_event=tuple(snapshot.connection.execute(_MISSED).fetchall()),
        cubes=len(CUBES),
        miscounted=tuple(_miscounted(snapshot)),
    )


def _blocks(reply: LoggedReply) -> int | None:
    """Return how many blocks a reply holds, None if it is not known how to read it."""
    if reply.manner is None:
        return None
    found = read_reply(
        reply.text,
        reply.message,
        reply_id=reply.id,
        protocol=reply.manner.protocol,
        tools=reply.manner.tools,
        native=reply.manner.native,
        stop_reason=reply.stop_reason,
    ).chosen
    return len(found.calls) + len(found.rejected)


def _miscounted(snapshot: Snapshot) -> Iterator[str]:
    connection = snapshot.connection
    connection.create_function("latency_bin", 1, latency_bin, deterministic=True)
    first = _first_whole_hour(snapshot)
    [before] = connection.execute("SELECT before FROM rollup_days").fetchone()
    kept = max(first, hours_from(before))
    for cube in CUBES:
        hours: Rows = {
            (start, *subject): found
            for _, _, start, subject, found in scanned_hours(connection, cube)
            if start >= first
        }
        days = _by_day({key: found for key, found in hours.items() if key[0] < before})
        whole = -(-first // DAY) * DAY
        told = (
            _rolled(snapshot, cube_name(cube), HOUR, kept),
            _rolled(snapshot, cube_name(cube), DAY, whole),
        )
        if told != (_since(hours, kept), _since(days, whole)):
            yield cube_name(cube) or "all"


def _since(rows: Rows, first: int) -> Rows:
    return {key: found for key, found in rows.items() if key[0] >= first}


def _first_whole_hour(snapshot: Snapshot) -> int:
    """Return the first hour of which no event was pruned, in seconds."""
    pruned = snapshot.connection.execute("SELECT seq FROM anchor").fetchone()[0]
    if not pruned:
        return 0
    row = snapshot.connection.execute("SELECT min(ts) FROM completions").fetchone()
    return -(-(row[0] or 0) // _HOUR_US) * HOUR


def _rolled(snapshot: Snapshot, cube: str, span: int, first: int) -> Rows:
    rows = snapshot.connection.execute(_ROLLED, (cube, span, first))
    return {tuple(key): _decode(found) for *key, found in rows}


def _by_day(hours: Rows) -> Rows:
    days: dict[tuple[Any, ...], list[Counts]] = {}
    for (start, *subject), found in hours.items():
        days.setdefault((start // DAY * DAY, *subject), []).append(found)
    return {key: total(parts) for key, parts in days.items()}
