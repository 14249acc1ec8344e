from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_client import tracing
from ksi_client.tracing import chrome_trace
from ksi_daemon.events import CallRef, ErrorInfo, Event

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
AT = round(BEGIN.timestamp() * 1_000_000)


def event(seq: int, at_ms: float, name: str = "a:b", data: Any = None, **fields: Any) -> Event:
    given = {"source": "client:0", "status": "handled", "correlation_id": "story"}
    return Event(
        seq=seq,
        id=f"e{seq}",
        ts=BEGIN + timedelta(milliseconds=at_ms),
        name=name,
        data=msgspec.Raw(msgspec.json.encode(data or {})),
        **{**given, **fields},
    )


def drawn(events: Iterable[Event], phase: str) -> list[dict[str, Any]]:
    return [each for each in chrome_trace(events)["traceEvents"] if each["ph"] == phase]


def test_an_event_is_a_slice_of_its_source() -> None:
    failed = event(
        7,
        2,
        "state:set",
        {"key": "k"},
        duration_ms=1.5,
        status="failed",
        error=ErrorInfo("odd", "no"),
        call=CallRef("k1", "event", 3, 9),
    )
    assert drawn([failed], "X") == [
        {
            "name": "state:set",
            "cat": "state",
            "ph": "X",
            "ts": AT + 2000,
            "dur": 1500,
            "pid": 1,
            "tid": 1,
            "args": {
                "seq": 7,
                "id": "e7",
                "status": "failed",
                "error": "odd: no",
                "call": {"id": "k1", "dialect": "event", "start": 3, "end": 9},
                "source": "client:0",
                "data": '{"key":"k"}',
            },
        }
    ]


def test_the_threads_are_named_by_who_did_it() -> None:
    names = drawn([event(1, 0), event(2, 1, agent_id="ada")], "M")
    assert [(each["name"], each["tid"], each["args"]["name"]) for each in names] == [
        ("process_name", 0, "ksi"),
        ("thread_name", 1, "client:0"),
        ("thread_name", 2, "ada"),
    ]


def test_a_reply_ends_when_it_was_there() -> None:
    [reply] = drawn([event(1, 10, "completion:result", {"latency_ms": 4})], "X")
    assert (reply["ts"], reply["dur"]) == (AT + 6000, 4000)


def test_an_arrow_leads_from_the_cause_to_the_effect() -> None:
    sent = event(1, 0, duration_ms=2)
    heard = event(2, 5, agent_id="ada", cause_id="e1")
    [start], [end] = drawn([sent, heard], "s"), drawn([sent, heard], "f")
    assert (start["id"], start["tid"], start["ts"]) == (2, 1, AT + 1999)
    assert (end["id"], end["tid"], end["ts"], end["bp"]) == (2, 2, AT + 5000, "e")


def test_a_cause_that_is_not_there_has_no_arrow() -> None:
    assert drawn([event(2, 5, cause_id="e1")], "s") == []


@pytest.mark.parametrize(
    ("spans", "lanes"),
    [
        pytest.param([(0, 5), (5, 9)], ["client:0"], id="one after the other"),
        pytest.param([(0, 9), (2, 5), (6, 7)], ["client:0"], id="one inside the other"),
        pytest.param([(0, 5), (3, 9)], ["client:0", "client:0 (2)"], id="they overlap"),
    ],
)
def test_what_overlaps_has_a_lane_of_its_own(
    spans: list[tuple[int, int]], lanes: list[str]
) -> None:
    events = [event(n, a, duration_ms=b - a) for n, (a, b) in enumerate(spans, start=1)]
    assert [each["args"]["name"] for each in drawn(events, "M")][1:] == lanes


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20))
def test_no_two_slices_of_a_thread_overlap_in_part(spans: list[tuple[int, int]]) -> None:
    events = [event(n, a, duration_ms=d) for n, (a, d) in enumerate(spans, start=1)]
    slices = [(each["tid"], each["ts"], each["ts"] + each["dur"]) for each in drawn(events, "X")]
    assert len(slices) == len(spans)
    for lane, start, end in slices:
        for other, begin, stop in slices:
            assert (
                lane != other
                or end <= begin
                or stop <= start
                or _within((start, end), (begin, stop))
            )


def _within(one: tuple[int, int], other: tuple[int, int]) -> bool:
    outer, inner = sorted((one, other), key=lambda span: span[0] - span[1])
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def test_a_log_is_traced_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in mind is bounded: an arrow over more than that is left out."""
    monkeypatch.setattr(tracing, "WINDOW", 3)
    causes = {2: "e1", 9: "e1"}
    events = (event(seq, seq, cause_id=causes.get(seq)) for seq in range(1, 10))
    entries = list(tracing.trace_events(events))
    assert [each["ts"] for each in entries if each["ph"] == "X"] == [
        AT + 1000 * seq for seq in range(1, 10)
    ]
    assert [each["id"] for each in entries if each["ph"] == "s"] == [2]


def test_a_slice_that_comes_too_late_goes_to_another_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "WINDOW", 1)
    reply = event(4, 3, "completion:result", {"latency_ms": 3})
    lanes = drawn([event(1, 1), event(2, 2), event(3, 2.5), reply], "X")
    assert [each["tid"] for each in lanes] == [1, 1, 2, 1]


def test_the_connections_of_a_client_are_one_thread() -> None:
    given = [event(1, 0, source="client:0/1"), event(2, 1, source="client:0/2")]
    assert {each["tid"] for each in drawn(given, "X")} == {1}
