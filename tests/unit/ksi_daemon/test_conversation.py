from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ksi_daemon.conversation import Answer, CallReport, Inbound
from ksi_daemon.events import EMPTY, ErrorInfo, Event


def test_the_event_that_brought_a_message_names_its_exchange() -> None:
    cause = Event(
        id="e1",
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        name="agent:send",
        data=EMPTY,
        source="client:0/1",
        correlation_id="e0",
        status="received",
    )
    assert Inbound(cause=cause, content="hello").request_id == "e1"


def test_an_answer_as_the_client_reads_it() -> None:
    reports = (
        CallReport("ksiu_1", "state:set", "handled", {"version": 1}),
        CallReport("ksiu_2", "state:sat", "unknown", error=ErrorInfo("unknown_event", "no")),
    )
    assert msgspec.to_builtins(Answer("e1", "Done.", "stop", 2, reports)) == {
        "request_id": "e1",
        "text": "Done.",
        "finish_reason": "stop",
        "turns": 2,
        "calls": (
            {
                "id": "ksiu_1",
                "name": "state:set",
                "status": "handled",
                "result": {"version": 1},
            },
            {
                "id": "ksiu_2",
                "name": "state:sat",
                "status": "unknown",
                "error": {"code": "unknown_event", "message": "no", "retryable": False},
            },
        ),
        "error": None,
        "rejected": 0,
    }
