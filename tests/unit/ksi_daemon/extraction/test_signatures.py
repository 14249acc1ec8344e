"""What is said of a tool's parameters."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ksi_daemon.extraction.signatures import closed, parameters, signature

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
