"""Reading the attempts that went wrong, and what was done about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ksi_daemon.events import ErrorInfo
from ksi_daemon.log import queries
from ksi_daemon.log.attempts import AttemptFilter, BadAttempt, Fix
from ksi_daemon.log.rows import microseconds, moment

__all__ = ["Counts", "Inbox"]

Condition = tuple[str, Any]


class Counts(NamedTuple):
    """How many attempts there are by state and kind, and what came of all that were fixed."""

    states: dict[str, int]
    kinds: dict[str, int]
    fixes: dict[str, int]


class Rows(Protocol):
    """What runs a query on the log: ``LogReader``."""

    async def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]: ...


class Inbox:
    """The attempts that went wrong."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._queries = queries.load()

    async def attempts(self, wanted: AttemptFilter) -> list[BadAttempt]:
        """Return the attempts that *wanted* describes, the newest first."""
        where, values = _where(_conditions(wanted))
        sql = f"SELECT * FROM ({self._bad}) {where} ORDER BY seq DESC LIMIT ?"
        return [_attempt(row) for row in await self._rows.query(sql, (*values, wanted.limit))]

    async def attempt(self, seq: int) -> BadAttempt | None:
        """Return the attempt whose event has this seq, None if that is none that went wrong."""
        # The one event is looked at alone: to find all that went wrong takes longer.
        one = self._queries["bad_attempts"].format(seqs="SELECT ? AS seq")
        rows = await self._rows.query(one, (seq,))
        return _attempt(rows[0]) if rows else None

    async def fixes(self, attempt: BadAttempt) -> list[Fix]:
        """Return what was done about *attempt*, in order."""
        rows = await self._rows.query(
            self._queries["fixes"], (attempt.completion_id, attempt.ordinal)
        )
        return [_fix(row) for row in rows]

    async def fixed_by(self, event_id: str) -> int | None:
        """Return the seq of the attempt that this event was submitted to fix, None if of none."""
        rows = await self._rows.query(self._queries["fixed_by"], (event_id,))
        return rows[0][0] if rows else None

    async def counts(self, wanted: AttemptFilter) -> Counts:
        """Count the attempts that *wanted* describes, however many it limits to."""
        where, values = _where(_conditions(msgspec.structs.replace(wanted, before_seq=None)))
        sql = f"SELECT state, kind, count(*) FROM ({self._bad}) {where} GROUP BY state, kind"
        states: dict[str, int] = {"open": 0, "resolved": 0, "dismissed": 0}
        kinds: dict[str, int] = {}
        for state, kind, count in await self._rows.query(sql, values):
            states[state] += count
            kinds[kind] = kinds.get(kind, 0) + count
        fixes = dict(await self._rows.query(self._queries["fix_outcomes"]))
        return Counts(states, kinds, fixes)

    @property
    def _bad(self) -> str:
        return self._queries["bad_attempts"].format(seqs=self._queries["bad_seqs"])


def _conditions(wanted: AttemptFilter) -> Iterator[Condition]:
    for name in ("agent_id", "model", "code", "kind", "state"):
        value = getattr(wanted, name)
        if value is not None:
            yield f"{name} = ?", value
    if wanted.kind is None and wanted.code is None:
        yield "kind <> ?", "held"
    if wanted.since is not None:
        yield "ts >= ?", microseconds(wanted.since)
    if wanted.until is not None:
        yield "ts < ?", microseconds(wanted.until)
    if wanted.before_seq is not None:
        yield "seq < ?", wanted.before_seq


def _where(conditions: Iterator[Condition]) -> tuple[str, tuple[Any, ...]]:
    found = list(conditions)
    if not found:
        return "", ()
    return f"WHERE {' AND '.join(sql for sql, _ in found)}", tuple(value for _, value in found)


# In the order of the query.
_COLUMNS: Final = (
    "seq",
    "event_id",
    "event",
    "ts",
    "state",
    "kind",
    "code",
    "error",
    "agent_id",
    "provider",
    "model",
    "dialect",
    "tool",
    "repairs",
    "completion_id",
    "ordinal",
    "start",
    "end",
    "corrected",
    "correction",
)


def _attempt(row: tuple[Any, ...]) -> BadAttempt:
    given = dict(zip(_COLUMNS, row, strict=True))
    return BadAttempt(
        **given
        | {
            "ts": moment(given["ts"]),
            "error": _error(given["error"]),
            "repairs": msgspec.json.decode(given["repairs"], type=tuple[str, ...]),
        }
    )


def _fix(row: tuple[Any, ...]) -> Fix:
    number, kind, source, ts, reason, event_id, seq, status, error = row
    return Fix(
        number=number,
        kind=kind,
        source=source,
        ts=moment(ts),
        reason=reason,
        event_id=event_id,
        seq=seq,
        status=status,
        error=_error(error),
    )


def _error(text: str | None) -> ErrorInfo | None:
    return None if text is None else msgspec.json.decode(text, type=ErrorInfo)
