from __future__ import annotations

import json
from collections.abc import Callable

from ksi_daemon.log.export.otlp import BATCH, request, requests
from ksi_daemon.log.export.record import Record
from ksi_daemon.log.export.spans import span

NewRecord = Callable[..., Record]


def test_a_request(new_record: NewRecord) -> None:
    given = span(new_record(status="unknown"))._replace(
        attributes={"text": "t", "number": 2**53 + 1, "list": ["a"]}
    )
    [resource] = json.loads(request([given], "9.9"))["resourceSpans"]
    assert resource["resource"] == {
        "attributes": [
            {"key": "service.name", "value": {"stringValue": "ksi"}},
            {"key": "service.version", "value": {"stringValue": "9.9"}},
        ]
    }
    [scope] = resource["scopeSpans"]
    assert scope["scope"] == {"name": "ksi", "version": "9.9"}
    assert scope["spans"] == [
        {
            "traceId": "01a200ac3ee770eab6693e56edc4cc8f",
            "spanId": given.span_id,
            "parentSpanId": given.parent_id,
            "name": "state:set",
            "kind": 1,
            "startTimeUnixNano": "1769860800000042000",
            "endTimeUnixNano": "1769860800000292000",
            "attributes": [
                {"key": "text", "value": {"stringValue": "t"}},
                {"key": "number", "value": {"intValue": "9007199254740993"}},
                {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}]}}},
            ],
            "status": {"code": 2},
        }
    ]


def test_requests_are_of_a_bounded_size(new_record: NewRecord) -> None:
    given = [span(new_record())] * (BATCH + 1)
    sizes = [
        len(json.loads(each)["resourceSpans"][0]["scopeSpans"][0]["spans"])
        for each in requests(given, "1")
    ]
    assert sizes == [BATCH, 1]
    assert list(requests([], "1")) == []
