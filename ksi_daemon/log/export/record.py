"""What an export is made of: one event as the log has it, with all that became of it. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from ksi_daemon.events import CallRef, ErrorInfo, Event, Status
from ksi_daemon.log.rows import moment, raw

__all__ = ["Record", "Reply", "is_announcement", "iso", "record_from_row"]


class Reply(NamedTuple):
    """The completion that a ``completion:result`` tells of. *latency_us* is in microseconds."""

    provider: str
    model: str
    preset: str
    request_id: str | None
    turn: int
    stop_reason: str | None
    latency_us: int
    input_tokens: int
    output_tokens: int


class Record(NamedTuple):
    """One event. Times are in microseconds, *data*, *call*, *result* and *error* are JSON texts.

    *ended* is when its outcome was written, None if that was known when the event was.
    """

    seq: int
    id: str
    ts: int
    name: str
    data: str
    source: str
    correlation_id: str
    cause_id: str | None
    hop: int
    agent_id: str | None
    completion_id: str | None
    call: str | None
    status: str
    result: str | None
    error: str | None
    duration_us: int | None
    ended: int | None
    reply: Reply | None = None

    @property
    def error_code(self) -> str | None:
        """The code of the error, None without one."""
        return None if self.error is None else str(msgspec.json.decode(self.error)["code"])

    @property
    def end(self) -> int:
        """When it was over, as far as that is known."""
        return self.ts + (self.duration_us or 0)


_WIDTH = len(Record._fields) - 1


def record_from_row(row: tuple[Any, ...]) -> Record:
    """Return the record of a row of the query ``records``."""
    reply = None if row[_WIDTH] is None else Reply(*row[_WIDTH:])
    return Record._make((*row[:_WIDTH], reply))


def event_of(record: Record) -> Event:
    """Return the event as the wire has it, without its result."""
    return Event(
        seq=record.seq,
        id=record.id,
        ts=moment(record.ts),
        name=record.name,
        data=raw(record.data),
        source=record.source,
        correlation_id=record.correlation_id,
        cause_id=record.cause_id,
        hop=record.hop,
        agent_id=record.agent_id,
        completion_id=record.completion_id,
        call=None if record.call is None else msgspec.json.decode(record.call, type=CallRef),
        status=cast(Status, record.status),
        error=None if record.error is None else msgspec.json.decode(record.error, type=ErrorInfo),
        duration_ms=None if record.duration_us is None else record.duration_us / 1000,
    )


def iso(us: int) -> str:
    """Return a time of the log as RFC 3339 text, to the microsecond and in UTC."""
    return f"{moment(us):%Y-%m-%dT%H:%M:%S.%fZ}"


def is_announcement(record: Record) -> bool:
    """Say whether *record* only announces a call whose own event is in the log."""
    return record.name == "extraction:call" and record.id.endswith(".call")
