"""What is said of a tool's parameters."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ksi_daemon.extraction.signatures import closed, fields, parameters, signature

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "language": {"type": "string", "default": "python"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["a", "b"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "value": {},
        "inner": {"type": "object", "properties": {}},
    },
    "required": ["code", "value"],
}


@pytest.mark.conformance
def test_S003_6_parameters_have_types_of_python() -> None:
    assert list(parameters(SCHEMA)) == [
        "  - code (str) (required)",
        "  - language (str) (optional, default: python)",
        "  - tags (list[str]) (optional)",
        "  - mode (Literal['a', 'b']) (optional)",
        "  - limit (int | None) (optional, default: null)",
        "  - value (Any) (required)",
        "  - inner (dict) (optional)",
    ]


@pytest.mark.conformance
@pytest.mark.parametrize("schema", [{}, {"type": "object", "properties": {}}])
def test_S003_9_no_parameters(schema: dict[str, Any]) -> None:
    assert list(parameters(schema)) == ["  (no parameters)"]


@pytest.mark.conformance
def test_S004_25_a_signature_is_short() -> None:
    assert signature("run", SCHEMA) == (
        'run(code: string, language?: string, tags?: string[], mode?: "a" | "b", '
        "limit?: integer | null, value: any, inner?: object)"
    )


@pytest.mark.conformance
def test_S000_42_every_object_is_closed() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "object"}]}}}
    shut = {"additionalProperties": False, "required": []}
    assert closed(schema) == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "object", **shut}]}},
        **shut,
    }
    assert closed(SCHEMA)["required"] == ["code", "value"]


def test_a_map_stays_open() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert closed(schema) == schema


def test_an_object_whose_members_are_told_in_several_places_stays_open() -> None:
    part = {"type": "object", "properties": {"b": {}}}
    schema = {"type": "object", "properties": {"a": {}}, "anyOf": [part]}
    assert closed(schema) == schema


def test_what_is_data_in_a_schema_is_no_schema() -> None:
    schema = {"const": {"type": "object"}, "default": {"type": "object"}}
    assert closed(schema) == schema


def test_fields_tell_what_they_are_for_and_what_is_in_them() -> None:
    schema = {
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "description": "How\nfast."},
            "points": {"type": "array", "items": {"properties": {"x": {"type": "integer"}}}},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 5},
            "again": {"$ref": "#"},
        },
        "required": ["mode"],
        "$defs": {"Mode": {"enum": ["slow", "fast"]}},
    }
    lines = list(fields(schema))
    assert lines[:5] == [
        '- mode ("slow" or "fast", required): How fast.',
        "- points (list of object)",
        "  - x (integer)",
        "- limit (integer, default 5)",
        "- again (object)",
    ]
    assert max(len(line) - len(line.lstrip()) for line in lines) <= 10
