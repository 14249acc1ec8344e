"""Spans in the JSON encoding of the OpenTelemetry protocol. Pure.

Ids are hexadecimal, integers of 64 bits are texts, kinds and codes are numbers. One object is one
request of OTLP/HTTP; a file has one a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ksi_daemon.log.export.spans import Span

__all__ = ["BATCH", "request", "requests"]

# Spans in one request; collectors take 4 MiB at a time.
BATCH: Final = 512

_encode: Final = msgspec.json.Encoder().encode


def requests(spans: Iterable[Span], version: str) -> Iterator[bytes]:
    """Yield requests of at most BATCH spans each; *version* is that of the program they are of."""
    batch: list[Span] = []
    for each in spans:
        batch.append(each)
        if len(batch) == BATCH:
            yield request(batch, version)
            batch = []
    if batch:
        yield request(batch, version)


def request(spans: Iterable[Span], version: str) -> bytes:
    """Return one ExportTraceServiceRequest."""
    scope = {"scope": {"name": "ksi", "version": version}, "spans": [_encoded(s) for s in spans]}
    resource = {"attributes": _attributes({"service.name": "ksi", "service.version": version})}
    return _encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _encoded(span: Span) -> dict[str, Any]:
    given = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": f"{span.start}000",
        "endTimeUnixNano": f"{span.end}000",
        "attributes": _attributes(span.attributes),
        "status": {"code": span.status} | ({"message": span.message} if span.message else {}),
    }
    return {name: value for name, value in given.items() if value is not None}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case _:
            return {"stringValue": str(value)}
