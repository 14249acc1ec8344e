"""The direct form."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction.dialects import Draft, Fault
from ksi_daemon.extraction.dialects.event import EventDialect

EVENT = EventDialect()


@pytest.mark.parametrize(
    ("block", "lenient", "strict"),
    [
        pytest.param(
            {"event": "a:b", "data": {"x": 1}},
            Draft("a:b", {"x": 1}, None),
            Draft("a:b", {"x": 1}, None),
            id="object",
        ),
        pytest.param(
            {"event": "a:b", "data": None},
            Draft("a:b", {}, None),
            Fault("args_type", "'data' must be an object, got nothing"),
            id="null",
        ),
        pytest.param(
            {"event": "a:b"},
            Draft("a:b", {}, None),
            Fault("args_type", "'data' must be an object, got nothing"),
            id="no data",
        ),
        pytest.param(
            {"event": "a:b", "data": ' {"x": 1} '},
            Draft("a:b", {"x": 1}, None),
            Fault("args_type", "'data' must be an object, got text"),
            id="JSON in a string",
        ),
        pytest.param(
            {"event": "a:b", "data": " "},
            Draft("a:b", {}, None),
            Fault("args_type", "'data' must be an object, got text"),
            id="blank string",
        ),
    ],
)
def test_reads(block: dict[str, Any], lenient: Draft | Fault, strict: Draft | Fault) -> None:
    assert EVENT.read(block, strict=False) == lenient
    assert EVENT.read(block, strict=True) == strict


@pytest.mark.parametrize(
    ("block", "draft"),
    [
        pytest.param(
            {"event": "a:b", "data": {}, "id": "ksiu_7", "_k": "abcdefgh"},
            Draft("a:b", {}, "ksiu_7", "abcdefgh"),
            id="id and nonce",
        ),
        pytest.param(
            {"event": "a:b", "data": {}, "id": "evt_7", "_k": 1},
            Draft("a:b", {}, None),
            id="id and nonce of others",
        ),
        pytest.param(
            {"event": "a:b", "data": {}, "at": 1, "_x": 2},
            Draft("a:b", {}, None, None, (("unknown_field", "ignored 'at'"),)),
            id="other keys",
        ),
    ],
)
def test_reads_what_stands_beside(block: dict[str, Any], draft: Draft) -> None:
    assert EVENT.read(block, strict=False) == draft


@pytest.mark.parametrize(
    ("data", "kind"), [("s", "text"), ([1], "a list"), (5, "a number"), (True, "a boolean")]
)
def test_data_must_be_an_object(data: Any, kind: str) -> None:
    fault = Fault("args_type", f"'data' must be an object, got {kind}")
    assert EVENT.read({"event": "a:b", "data": data}, strict=False) == fault


def test_names_the_keys_that_belong_in_data() -> None:
    fault = Fault("args_type", "'data' is missing; 'x', 'y' belong in it")
    assert EVENT.read({"event": "a:b", "x": 1, "y": 2}, strict=False) == fault


@pytest.mark.parametrize("name", ["a:b:c", "a:", "a::b", "k.m:x_y:"])
def test_a_name_with_colons_that_is_none_is_refused(name: str) -> None:
    fault = Fault("missing_name", f"'event' must be 'namespace:action', got {name!r}")
    assert EVENT.read({"event": name, "data": {}}, strict=False) == fault


@pytest.mark.parametrize(
    "block",
    [
        {"event": "a:b:c"},
        {"event": "a:b:c", "data": 1},
        {"event": "12:30:00", "data": {}},
        {"event": "a:b: c", "data": {}},
        {"event": "Birthday party", "data": {}},
        {"event": "birthday", "data": {}},
        {"event": "а:b", "data": {}},
        {"event": 1, "data": {}},
        {"data": {}},
    ],
)
def test_is_not_for_every_event(block: dict[str, Any]) -> None:
    assert EVENT.read(block, strict=False) is None


def test_writes() -> None:
    assert EVENT.write("a:b", {"x": "é"}, "ksiu_1") == '{"event": "a:b", "data": {"x": "é"}}'
