from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.events import MAX_NAME, Event, is_event_name, matches, matches_any, now


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        pytest.param("agent:status", True, id="plain"),
        pytest.param("a:b", True, id="shortest"),
        pytest.param("kom.memory.v1:search-all_2", True, id="dots, dashes, digits"),
        pytest.param("Birthday party", False, id="prose"),
        pytest.param("agent", False, id="no action"),
        pytest.param("agent:", False, id="empty action"),
        pytest.param(":status", False, id="empty namespace"),
        pytest.param("a:b:c", False, id="two colons"),
        pytest.param("agent:stаtus", False, id="a Cyrillic letter"),
        pytest.param("agent:\u200bstatus", False, id="a zero-width space"),
        pytest.param("agent:status\n", False, id="a newline at the end"),
        pytest.param("a:" + "b" * (MAX_NAME - 2), True, id="longest"),
        pytest.param("a:" + "b" * (MAX_NAME - 1), False, id="one too long"),
    ],
)
def test_event_names(name: str, valid: bool) -> None:
    assert is_event_name(name) is valid


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        pytest.param("agent:*", "agent:spawn", True, id="prefix"),
        pytest.param("agent:*", "agents:spawn", False, id="another namespace"),
        pytest.param("*", "state:set", True, id="all"),
        pytest.param("*:set", "state:set", True, id="suffix"),
        pytest.param("a*:*t", "agent:list", True, id="several stars"),
        pytest.param("a*a", "a", False, id="star does not let ends overlap"),
        pytest.param("agent:spawn", "agent:spawn", True, id="exact"),
        pytest.param("agent:spaw?", "agent:spawn", False, id="question mark is itself"),
        pytest.param("agent:[s]pawn", "agent:spawn", False, id="brackets are themselves"),
    ],
)
def test_patterns(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns_agree_with_regular_expressions(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert matches(pattern, name) is (re.fullmatch(expression, name) is not None)


def test_a_hostile_pattern_is_linear() -> None:
    assert not matches("*a" * 5_000 + "b", "a" * 10_000)


def test_one_of_several_patterns() -> None:
    assert matches_any(("x:*", "state:*"), "state:get")
    assert not matches_any((), "state:get")


def test_an_event_goes_over_the_wire_without_empty_fields() -> None:
    event = Event(
        seq=3,
        id="e1",
        ts=now().replace(2026, 1, 2, 3, 4, 5, 6),
        name="a:b",
        data=msgspec.Raw(b'{"x":1}'),
        source="system",
        correlation_id="e1",
        status="handled",
    )
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "seq": 3,
        "id": "e1",
        "ts": "2026-01-02T03:04:05.000006Z",
        "event": "a:b",
        "data": {"x": 1},
        "source": "system",
        "correlation_id": "e1",
        "cause_id": None,
        "status": "handled",
    }
