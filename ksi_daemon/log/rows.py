"""Events and outcomes as rows of the log and back. Pure.

Times are integers, microseconds since 1970: floats of seconds lose the last digit and text costs
three times the space.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec

from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome, Status
from ksi_daemon.work import Idempotency

__all__ = [
    "EVENT_COLUMNS",
    "OUTCOME_COLUMNS",
    "PLAIN_COLUMNS",
    "event_from_row",
    "event_row",
    "json_text",
    "microseconds",
    "moment",
    "outcome_from_row",
    "outcome_row",
    "raw",
]

# What every event has, and what only some have: a column costs even when it is NULL, and most of
# a busy log are events that nothing led to.
PLAIN_COLUMNS: Final = (
    "seq",
    "id",
    "ts",
    "name",
    "data",
    "source",
    "correlation_id",
    "hop",
    "status",
    "result",
    "duration_us",
)
EVENT_COLUMNS: Final = (
    *PLAIN_COLUMNS,
    "cause_id",
    "agent_id",
    "completion_id",
    "call",
    "error",
    "idem_scope",
    "idem_key",
    "idem_digest",
)
OUTCOME_COLUMNS: Final = ("seq", "ts", "status", "result", "error", "duration_us")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOTHING: Final = (None, None, None)
_encode: Final = msgspec.json.Encoder().encode
_decode_call: Final = msgspec.json.Decoder(CallRef).decode
_decode_error: Final = msgspec.json.Decoder(ErrorInfo).decode


def microseconds(ts: datetime) -> int:
    """Return *ts* as the log keeps it."""
    return (ts - _EPOCH) // _MICROSECOND


def moment(us: int) -> datetime:
    """Return the time that the log keeps as *us*, in UTC."""
    return _EPOCH + timedelta(microseconds=us)


def json_text(value: object) -> str:
    """Return *value* as JSON text."""
    return _encode(value).decode()


def raw(text: str) -> msgspec.Raw:
    """Return JSON text of the log as it goes over the wire."""
    return msgspec.Raw(text.encode())


def event_row(
    seq: int, event: Event, outcome: Outcome | None, idempotency: Idempotency | None
) -> tuple[Any, ...]:
    """Return the values of EVENT_COLUMNS, or of PLAIN_COLUMNS if that is all there is.

    Raise ValueError if a text is not UTF-8.
    """
    status, result, error, duration_us = _end(
        outcome or Outcome(event.status, None, event.error, event.duration_ms)
    )
    plain = (
        seq,
        event.id,
        (event.ts - _EPOCH) // _MICROSECOND,
        event.name,
        str(event.data, "utf-8"),
        event.source,
        event.correlation_id,
        event.hop,
        status,
        result,
        duration_us,
    )
    led_to = (event.cause_id, event.agent_id, event.completion_id)
    if led_to == _NOTHING and event.call is None and error is None and idempotency is None:
        return plain
    call = None if event.call is None else json_text(event.call)
    return (*plain, *led_to, call, error, *(_NOTHING if idempotency is None else _key(idempotency)))


def outcome_row(seq: int, ts: int, outcome: Outcome) -> tuple[Any, ...]:
    """Return the values of OUTCOME_COLUMNS."""
    return (seq, ts, *_end(outcome))


def event_from_row(row: tuple[Any, ...]) -> Event:
    """Return the event of a row of the query ``events``."""
    return Event(
        seq=row[0],
        id=row[1],
        ts=moment(row[2]),
        name=row[3],
        data=raw(row[4]),
        source=row[5],
        correlation_id=row[6],
        cause_id=row[7],
        hop=row[8],
        agent_id=row[9],
        completion_id=row[10],
        call=None if row[11] is None else _decode_call(row[11]),
        status=row[12],
        error=None if row[13] is None else _decode_error(row[13]),
        duration_ms=_duration_ms(row[14]),
    )


def outcome_from_row(row: tuple[Any, ...]) -> Outcome | None:
    """Return the outcome of a row of status, result, error, duration_us; None if there is none."""
    status, result, error, duration_us = row
    if status == "received":
        return None
    return Outcome(
        cast(Status, status),
        None if result is None else raw(result),
        None if error is None else _decode_error(error),
        _duration_ms(duration_us),
    )


def _end(outcome: Outcome) -> tuple[str, str | None, str | None, int | None]:
    result, error, duration_ms = outcome.result, outcome.error, outcome.duration_ms
    return (
        outcome.status,
        None if result is None else str(result, "utf-8"),
        None if error is None else json_text(error),
        None if duration_ms is None else round(duration_ms * 1000),
    )


def _key(idempotency: Idempotency) -> tuple[str, str, bytes]:
    return idempotency.scope, idempotency.key, idempotency.digest


def _duration_ms(us: int | None) -> float | None:
    return None if us is None else us / 1000
