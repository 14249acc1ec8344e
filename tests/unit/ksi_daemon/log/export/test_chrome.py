from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ksi_daemon.log.export import chrome
from ksi_daemon.log.export.chrome import trace
from ksi_daemon.log.export.record import Record

NewRecord = Callable[..., Record]


def traced(*records: Record) -> list[dict[str, Any]]:
    found = json.loads(b"".join(trace(records)))
    assert found["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


def test_an_event_is_a_slice(new_record: NewRecord) -> None:
    process, thread, slice_ = traced(new_record(cause_id=None))
    assert (process["ph"], process["args"]) == ("M", {"name": "ksi"})
    assert (thread["name"], thread["args"]) == ("thread_name", {"name": "ann"})
    assert slice_ == {
        "pid": 1, "tid": 1, "name": "state:set", "cat": "state", "ph": "X",
        "ts": 1_769_860_800_000_042, "dur": 250,
        "args": {
            "seq": 7, "status": "handled", "story": "01a200ac-3ee7-70ea-b669-3e56edc4cc8f",
            "data": {"key": "k"},
        },
    }  # fmt: skip


def test_a_reply_began_its_latency_ago(new_record: NewRecord) -> None:
    *_, slice_ = traced(new_record(reply={"latency_us": 500}, duration_us=None, cause_id=None))
    assert (slice_["name"], slice_["ts"], slice_["dur"]) == ("chat m1", 1_769_860_799_999_542, 500)


def test_an_arrow_leads_from_cause_to_effect(new_record: NewRecord) -> None:
    cause = new_record(id="e6", cause_id=None, agent_id=None, source="client:0/1", ts=1_000)
    effect = new_record(ts=1_100)
    arrows = [event for event in traced(cause, effect) if event["ph"] in "sf"]
    assert [(each["ph"], each["tid"], each["ts"], each["id"]) for each in arrows] == [
        ("s", 1, 1_100, "e7"),
        ("f", 2, 1_100, "e7"),
    ]


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        pytest.param(
            [{"agent_id": None, "source": f"client:0/{n}"} for n in range(3)],
            ["client:0"],
            id="the clients of a user are one",
        ),
        pytest.param([{"agent_id": "a"}, {"agent_id": "b"}], ["a", "b"], id="agents"),
        pytest.param(
            [{"name": "extraction:call", "id": "x.call"}], [], id="what only announces is left out"
        ),
    ],
)
def test_threads(new_record: NewRecord, given: list[dict[str, Any]], threads: list[str]) -> None:
    events = traced(*(new_record(**each) for each in given))
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == threads


def test_memory_does_not_grow_with_the_log(
    new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chrome, "CAUSES", 1)
    records = [new_record(id="e6"), new_record(id="between", cause_id=None), new_record()]
    assert not [event for event in traced(*records) if event["ph"] == "s"]
