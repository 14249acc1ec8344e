from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from ksi_daemon.log.export.cloudevents import cloud_event
from ksi_daemon.log.export.record import Record
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot

NewRecord = Callable[..., Record]


def test_all_of_an_event(new_record: NewRecord) -> None:
    error = '{"code":"denied","message":"no","retryable":false}'
    record = new_record(status="denied", error=error, completion_id="c1")
    assert json.loads(cloud_event(record)) == {
        "specversion": "1.0",
        "id": "e7",
        "source": "ksi:agent:ann",
        "type": "ksi.state:set",
        "subject": "ann",
        "time": "2026-01-31T12:00:00.000042Z",
        "datacontenttype": "application/json",
        "data": {"key": "k"},
        "correlationid": "01a200ac-3ee7-70ea-b669-3e56edc4cc8f",
        "causationid": "e6",
        "sequence": "0000000000000000007",
        "ksistatus": "denied",
        "ksierror": "denied",
        "ksicompletion": "c1",
    }


def test_what_has_no_value_is_left_out(new_record: NewRecord) -> None:
    found = json.loads(cloud_event(new_record(agent_id=None, cause_id=None)))
    assert not {"subject", "causationid", "ksierror", "ksicompletion"} & set(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("client:1000/3", "ksi:client:1000/3", id="a client"),
        pytest.param("agent:an n%", "ksi:agent:an%20n%25", id="what no URI holds"),
    ],
)
def test_the_source_is_a_uri(new_record: NewRecord, source: str, expected: str) -> None:
    assert json.loads(cloud_event(new_record(source=source)))["source"] == expected


def test_each_event_of_a_log_keeps_the_specification(night: Path) -> None:
    with Snapshot.open(night) as snapshot:
        events = [json.loads(cloud_event(each)) for each in snapshot.records(EventFilter())]
    assert len(events) > 20
    for event in events:
        # 1.0.2, "Context Attributes": names, the four required ones, types.
        assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in event)
        assert event["specversion"] == "1.0"
        assert all(event[name] for name in ("id", "source", "type"))
        assert all(isinstance(event[name], str) for name in set(event) - {"data"})
        assert datetime.fromisoformat(event["time"]).tzinfo is not None
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)
