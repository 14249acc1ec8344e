from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ksi_daemon.log.export.record import Record, Reply

NewRecord = Callable[..., Record]


@pytest.fixture
def new_record() -> NewRecord:
    """Make a record of which anything can be given, *reply* as a dict."""

    def make(**given: Any) -> Record:
        reply = given.pop("reply", None)
        plain: dict[str, Any] = {
            "seq": 7, "id": "e7", "ts": 1_769_860_800_000_042, "name": "state:set",
            "data": '{"key":"k"}', "source": "agent:ann",
            "correlation_id": "01a200ac-3ee7-70ea-b669-3e56edc4cc8f", "cause_id": "e6", "hop": 1,
            "agent_id": "ann", "completion_id": None, "call": None, "status": "handled",
            "result": None, "error": None, "duration_us": 250, "ended": None,
        }  # fmt: skip
        of = {
            "provider": "openai", "model": "m1", "preset": "ksi", "request_id": "r", "turn": 1,
            "stop_reason": "stop", "latency_us": 1_000, "input_tokens": 11, "output_tokens": 5,
        }  # fmt: skip
        made = None if reply is None else Reply(**of | reply)
        return Record(**plain | given, reply=made)

    return make
