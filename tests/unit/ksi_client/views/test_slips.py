from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from ksi_client.text import Paint
from ksi_client.views.slips import slips
from ksi_daemon.events import CallRef, ErrorInfo, Event

PLAIN = Paint(False)


def event(seq: int, name: str, **fields: Any) -> Event:
    return Event(
        seq=seq,
        id=f"e{seq}",
        ts=datetime(2026, 1, 31, tzinfo=UTC),
        name=name,
        data=msgspec.Raw(b"{}"),
        correlation_id="story",
        **{"source": "system", "status": "handled", "agent_id": "ada", **fields},
    )


def rejected(seq: int, code: str) -> Event:
    error = ErrorInfo(code, "it ends\nin a string")
    return event(seq, "extraction:rejected", status="rejected", error=error)


def test_what_was_mended_and_what_went_back() -> None:
    events = [
        event(1, "agent:send"),
        event(2, "state:set", call=CallRef("a", "event", 0, 9, ("trailing_comma", "comment"))),
        rejected(3, "unterminated_block"),
        rejected(4, "echo"),
        rejected(5, "quoted"),
        event(6, "state:set", call=CallRef("b", "event", 0, 9)),
        event(7, "a:b", status="denied", call=CallRef("c", "event", 0, 9, ("smart_quotes",))),
    ]
    assert list(slips(events, PLAIN, 80)) == [
        "event  agent  what came of it  what was wrong",
        "#2     ada    mended, handled  trailing_comma, comment in state:set",
        r"#3     ada    sent back        unterminated_block: it ends\nin a string",
        "#7     ada    mended, denied   smart_quotes in a:b",
    ]


def test_nothing_went_wrong() -> None:
    assert list(slips([event(1, "agent:send")], PLAIN, 80)) == ["none that it took notice of"]
