"""Events in Chrome's trace event format, for Perfetto, chrome://tracing and their like. Pure.

A thread is an agent or another source of events, the clients of one user together. An arrow leads
from each event to what it caused, if both are in the export and not too far apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.log.export.record import Record, is_announcement

__all__ = ["trace"]

# Viewers leave out slices of no length, and arrows end only in slices.
LEAST_US: Final = 1
# So many events are remembered as causes; memory must not grow with the log.
CAUSES: Final = 100_000
_PID: Final = 1

_encode: Final = msgspec.json.Encoder().encode


class _Slice(NamedTuple):
    thread: int
    begun: int
    us: int


def trace(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the pieces of one JSON object, a line for each trace event."""
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    yield _encode({"name": "process_name", "ph": "M", "pid": _PID, "args": {"name": "ksi"}})
    threads: dict[str, int] = {}
    slices: OrderedDict[str, _Slice] = OrderedDict()
    for record in records:
        if not is_announcement(record):
            for event in _events(record, threads, slices):
                yield b",\n" + _encode(event)
    yield b"\n]}\n"


def _events(
    record: Record, threads: dict[str, int], slices: OrderedDict[str, _Slice]
) -> Iterator[dict[str, Any]]:
    who = record.agent_id or record.source.partition("/")[0]
    if who not in threads:
        threads[who] = len(threads) + 1
        yield _at(threads[who]) | {"name": "thread_name", "ph": "M", "args": {"name": who}}
    begun = record.ts - (record.reply.latency_us if record.reply else 0)
    own = _Slice(threads[who], begun, max(record.end - begun, LEAST_US))
    yield _at(own.thread) | {
        "name": f"chat {record.reply.model}" if record.reply else record.name,
        "cat": record.name.partition(":")[0],
        "ph": "X",
        "ts": own.begun,
        "dur": own.us,
        "args": _told(record),
    }
    cause = slices.get(record.cause_id or "")
    if cause is not None:
        arrow = {"name": "caused", "cat": "cause", "id": record.id}
        yield _at(cause.thread) | arrow | {"ph": "s", "ts": min(cause.begun + cause.us, own.begun)}
        yield _at(own.thread) | arrow | {"ph": "f", "bp": "e", "ts": own.begun}
    slices[record.id] = own
    if len(slices) > CAUSES:
        slices.popitem(last=False)


def _told(record: Record) -> dict[str, Any]:
    told = {
        "seq": record.seq,
        "status": record.status,
        "error": record.error_code,
        "story": record.correlation_id,
        "data": msgspec.Raw(record.data.encode()),
        "call": None if record.call is None else msgspec.Raw(record.call.encode()),
    }
    return {name: value for name, value in told.items() if value is not None}


def _at(thread: int) -> dict[str, Any]:
    return {"pid": _PID, "tid": thread}
