"""The roll-up: counts by hour, kept in the transaction that writes what is counted.

Theory. A report groups by a few keys. For each set of them that is asked for often there is a
*cube*: one row for each hour and each value of its keys, with the sums of ``counts``. Model and
provider are keys of all cubes. A completion that holds blocks of two dialects counts once in both
rows of the cube by dialect and once in the row of the cube without it, so a report is made of the
cube that has its very keys and never of a finer one.

Days that are over are summed up once more, in rows of their own: a report of all time reads few
rows. What comes late for such a day (an outcome, a correction) is added to both. After HOURS_KEPT a
day's hours are forgotten, so that the roll-up grows by little.

Everything that is counted is counted once, when it is committed: a completion with its blocks,
the end of each call's event, a correction, a reply that never came. A unit that is undone takes its
counts along.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.events import Outcome
from ksi_daemon.log import counts
from ksi_daemon.log.counts import Block, Counts, Reply
from ksi_daemon.log.statements import ATTEMPT_CORRECTED, COMPLETION, COMPLETION_DONE, FAILURE

__all__ = [
    "CUBES",
    "DAY",
    "HOUR",
    "HOURS_KEPT",
    "KEYS",
    "SIZES",
    "Row",
    "Tally",
    "add_counts",
    "add_rows",
    "cube_name",
    "cube_of",
    "hours_from",
    "size_class",
]

HOUR: Final = 3_600
DAY: Final = 86_400
# Longer than events are kept by default.
HOURS_KEPT: Final = 35 * DAY
KEYS: Final = ("agent", "model", "provider", "dialect", "tool", "size")
# The sets of keys, beside model and provider, for which counts are kept.
CUBES: Final = (
    frozenset[str](),
    frozenset({"dialect"}),
    frozenset({"agent"}),
    frozenset({"agent", "dialect"}),
    frozenset({"tool"}),
    frozenset({"dialect", "tool"}),
    frozenset({"size"}),
    frozenset({"dialect", "size"}),
)
# The upper ends of the classes of a block's length, in characters.
SIZES: Final = (
    (256, "<256"),
    (1_024, "256-1k"),
    (4_096, "1k-4k"),
    (16_384, "4k-16k"),
    (2**62, ">16k"),
)
_MICROSECONDS: Final = 1_000_000

_REPLY: Final = """
SELECT ts, agent_id, model, provider, latency_us, input_tokens, output_tokens, cost_nusd,
       stop_reason
  FROM completions WHERE id = ?
"""
_BLOCKS: Final = """
SELECT dialect, tool, size, verdict, code, repairs, tries, suspect
  FROM attempts WHERE completion_id = ?
"""
_ATTEMPT: Final = """
SELECT c.ts, c.agent_id, c.model, c.provider, a.dialect, a.tool, a.size, a.tries
  FROM attempts a JOIN completions c ON c.id = a.completion_id
"""
_OF_EVENT: Final = f"""{_ATTEMPT}
  JOIN events e ON e.completion_id = a.completion_id AND e.id = a.event_id
 WHERE e.seq = ? AND a.verdict IN ('strict', 'repaired')
"""
_BY_ORDINAL: Final = f"{_ATTEMPT} WHERE a.completion_id = ? AND a.ordinal = ?"
_MISSED: Final = f"""{_ATTEMPT}
  LEFT JOIN events e ON e.id = a.event_id
 WHERE a.completion_id = ? AND a.verdict IN ('strict', 'repaired') AND e.id IS NULL
"""
_ADD: Final = """
INSERT INTO rollup (cube, span, start, agent, model, provider, dialect, tool, size, counts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET counts = add_counts(counts, excluded.counts)
"""
_FORGET: Final = "DELETE FROM rollup WHERE cube = ? AND span = 3600 AND start < ?"
_HOURS: Final = """
SELECT start, agent, model, provider, dialect, tool, size, counts FROM rollup
 WHERE cube = ? AND span = 3600 AND start >= ? AND start < ?
"""

_decode: Final = msgspec.json.Decoder(Counts).decode
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_encode: Final = msgspec.json.Encoder().encode


class Subject(NamedTuple):
    """Whose a count is, in the order of KEYS; empty where there is none or any."""

    agent: str
    model: str
    provider: str
    dialect: str = ""
    tool: str = ""
    size: str = ""


# A row of a cube: of the hour that begins at so many seconds since 1970.
Group = tuple[str, int, tuple[str, ...]]
# A row of the roll-up: cube, span, start, subject, counts.
Row = tuple[str, int, int, tuple[str, ...], Counts]


def cube_name(keys: Iterable[str]) -> str:
    """Return the name by which the log knows the cube of *keys*."""
    return ",".join(key for key in KEYS if key in keys)


_NAMES: Final = MappingProxyType({cube_name(cube): cube for cube in CUBES})
_SHAPES: Final = tuple(
    (name, tuple(key in cube or key in ("model", "provider") for key in KEYS))
    for name, cube in _NAMES.items()
)


def cube_of(group_by: Iterable[str]) -> str | None:
    """Return the name of the cube that a report by *group_by* is made of, None if there is none."""
    name = cube_name(set(group_by) - {"model", "provider"})
    return name if name in _NAMES else None


def size_class(length: int) -> str:
    """Return the class of a block of *length* characters."""
    return next(name for end, name in SIZES if length < end)


def add_counts(one: str, other: str) -> str:
    """Return the sum of two counts, as JSON; the SQL function of that name."""
    summed = _decode(one)
    _add_to(summed, _decode(other))
    return _encode(summed).decode()


class Tally:
    """What of one batch is to be counted. It is ``note``d as it comes and written at the end."""

    def __init__(self) -> None:
        self._replies: list[str] = []
        self._ends: list[tuple[int, Outcome]] = []
        self._corrections: list[tuple[int, str, int]] = []
        self._done: list[str] = []
        self._failures: list[tuple[Any, ...]] = []
        self._groups: dict[Group, Counts] = {}

    def __bool__(self) -> bool:
        return any((self._replies, self._ends, self._corrections, self._done, self._failures))

    def note(self, sql: str, values: Sequence[Any], changed: int) -> None:
        """Take note of a statement of a unit that has changed *changed* rows."""
        if changed != 1:
            return
        if sql == COMPLETION:
            self._replies.append(values[0])
        elif sql == COMPLETION_DONE:
            self._done.append(values[0])
        elif sql == ATTEMPT_CORRECTED:
            turns, completion_id, ordinal = values
            self._corrections.append((turns, completion_id, ordinal))
        elif sql == FAILURE:
            self._failures.append(tuple(values))

    def ended(self, seq: int, outcome: Outcome) -> None:
        """Take note of how an event ended that may be a call's, if it has."""
        if outcome.status != "received":
            self._ends.append((seq, outcome))

    def write(self, connection: sqlite3.Connection) -> None:
        """Add what was noted to the roll-up; all rows of the batch are in their tables by now."""
        if not self:
            return
        for completion_id in self._replies:
            self._count_reply(connection, completion_id)
        for seq, outcome in self._ends:
            code = outcome.error.code if outcome.error else None
            for row in connection.execute(_OF_EVENT, (seq,)):
                self._credit(row, counts.of_end(outcome.status, code, row[-1]))
        for turns, *key in self._corrections:
            for row in connection.execute(_BY_ORDINAL, key):
                self._credit(row, counts.of_correction(turns, row[-1]))
        for completion_id in self._done:
            for row in connection.execute(_MISSED, (completion_id,)):
                self._credit(row, {"missed": 1})
        for _, ts, agent_id, provider, model, code in self._failures:
            subject = Subject(agent_id or "", model, provider)
            self._add([subject], ts, {"errors": 1, f"error:{code}": 1})
        _store(connection, self._groups)

    def _count_reply(self, connection: sqlite3.Connection, completion_id: str) -> None:
        ts, agent_id, model, provider, *facts = connection.execute(
            _REPLY, (completion_id,)
        ).fetchone()
        reply = Reply(*facts)
        about = (agent_id or "", model, provider)
        blocks = [
            (
                Subject(*about, dialect, tool or "", size_class(size)),
                counts.of_block(
                    Block(verdict, code, _decode_names(repairs), tries, bool(suspect)),
                    reply.stop_reason,
                ),
            )
            for dialect, tool, size, verdict, code, repairs, tries, suspect in connection.execute(
                _BLOCKS, (completion_id,)
            )
        ]
        if len(blocks) == 1:
            [(subject, found)] = blocks
            self._add([subject], ts, counts.total((counts.of_reply(reply), found)))
            return
        self._add([each for each, _ in blocks] or [Subject(*about)], ts, counts.of_reply(reply))
        for subject, found in blocks:
            self._add([subject], ts, found)

    def _credit(self, row: tuple[Any, ...], found: Counts) -> None:
        """Add to the counts of an attempt, by a row of ``_ATTEMPT``."""
        ts, agent_id, model, provider, dialect, tool, size, _ = row
        subject = Subject(agent_id or "", model, provider, dialect, tool or "", size_class(size))
        self._add([subject], ts, found)

    def _add(self, subjects: Sequence[Subject], ts: int, found: Counts) -> None:
        """Add *found* once to each row of each cube that one of *subjects* belongs to."""
        start = ts // _MICROSECONDS // HOUR * HOUR
        for name, shape in _SHAPES:
            # A text times False is empty.
            for key in {tuple(map(mul, subject, shape)) for subject in subjects}:
                held = self._groups.get((name, start, key))
                # Most rows are of one fact, and share its counts.
                added = found if held is None else counts.total((held, found))
                self._groups[name, start, key] = added


def _add_to(summed: Counts, found: Mapping[str, int]) -> None:
    for name, number in found.items():
        summed[name] = summed.get(name, 0) + number


def _store(connection: sqlite3.Connection, groups: Mapping[Group, Counts]) -> None:
    add_rows(
        connection,
        ((cube, HOUR, start, subject, found) for (cube, start, subject), found in groups.items()),
    )


def add_rows(connection: sqlite3.Connection, given: Iterable[Row]) -> None:
    """Add counts of hours to the roll-up, and to the days that are over."""
    given = list(given)
    newest = max((start for _, _, start, _, _ in given), default=0)
    before = _close_days(connection, newest // DAY * DAY)
    hours = [row for row in given if row[2] >= hours_from(before)]
    days = [
        (cube, DAY, start // DAY * DAY, subject, found)
        for cube, _, start, subject, found in given
        if start < before
    ]
    rows = [*hours, *days]
    encoded: dict[int, str] = {}
    for *_, found in rows:
        if id(found) not in encoded:
            encoded[id(found)] = _encode(found).decode()
    connection.executemany(
        _ADD,
        [
            (cube, span, start, *subject, encoded[id(found)])
            for cube, span, start, subject, found in rows
        ],
    )


def hours_from(before: int) -> int:
    """Return from when on there are rows of hours, if *before* is the first day without its own."""
    return max(0, before - HOURS_KEPT)


def _close_days(connection: sqlite3.Connection, today: int) -> int:
    """Sum up the days before *today* that are not yet, and forget the hours of those long over.

    Return the first day that is still open.
    """
    before: int = connection.execute("SELECT before FROM rollup_days").fetchone()[0]
    if today <= before:
        return before
    for cube in _NAMES:
        days: dict[tuple[Any, ...], Counts] = {}
        for start, *subject, found in connection.execute(_HOURS, (cube, before, today)):
            key = (cube, DAY, start // DAY * DAY, *subject)
            _add_to(days.setdefault(key, {}), _decode(found))
        connection.executemany(_ADD, ((*key, _encode(sums).decode()) for key, sums in days.items()))
        connection.execute(_FORGET, (cube, hours_from(today)))
    connection.execute("UPDATE rollup_days SET before = ?", (today,))
    return today
