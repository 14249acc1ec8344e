from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import Event, now
from ksi_daemon.services.routing.fields import ROOTS, fields_of, found, path


def event(data: bytes) -> Event:
    return Event(
        id="e1",
        ts=now(),
        name="a:b",
        data=msgspec.Raw(data),
        source="agent:ada",
        correlation_id="e0",
        cause_id="e0",
        agent_id="ada",
        status="handled",
    )


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("event", "a:b"),
        ("source", "agent:ada"),
        ("agent_id", "ada"),
        ("id", "e1"),
        ("correlation_id", "e0"),
        ("cause_id", "e0"),
        ("completion_id", None),
        ("data.task.owner", "bob"),
        ("data.items.1", {"n": 2}),
        ("data.items.1.n", 2),
        ("data.items.2", msgspec.UNSET),
        ("data.items.-1", msgspec.UNSET),
        ("data.items.x", msgspec.UNSET),
        ("data.items.\N{SUPERSCRIPT ONE}", msgspec.UNSET),
        ("data.task.owner.name", msgspec.UNSET),
        ("data.nothing", msgspec.UNSET),
        ("data.null", None),
        ("data.null.more", msgspec.UNSET),
    ],
)
def test_what_stands_at_a_path(where: str, value: Any) -> None:
    fields = fields_of(
        event(b'{"task": {"owner": "bob"}, "items": [{"n": 1}, {"n": 2}], "null": null}')
    )
    assert found(fields, path(where)) == value


@pytest.mark.parametrize(
    "text", ["", "task.owner", "status", "data..x", "data.", ".data", "data." + "x" * 256]
)
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(InvalidData, match="is no path of an event") as caught:
        path(text)
    assert caught.value.hint is not None
    assert "begin with one of event, data, source" in caught.value.hint


def test_every_beginning_of_a_path_is_a_field() -> None:
    assert set(fields_of(event(b"{}"))) == set(ROOTS)
