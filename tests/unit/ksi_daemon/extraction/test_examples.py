"""Examples fit their schemas. The judge is another implementation of JSON Schema."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import event, given, settings

from ksi_daemon.extraction.examples import example_args, fits
from tests.schemas import schemas


def args(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def judged(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(value))


@pytest.mark.conformance
@given(schemas())
@settings(max_examples=150, deadline=None)
def test_S003_8_an_example_fits_its_schema(schema: dict[str, Any]) -> None:
    found = example_args(schema)
    event("made up" if found is not None else "nothing")
    if found is not None:
        assert judged(found, schema)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param({}, "text", id="anything"),
        pytest.param({"type": "integer"}, 1, id="integer"),
        pytest.param({"type": "integer", "minimum": 5, "multipleOf": 7}, 7, id="multiple"),
        pytest.param(
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5, id="between"
        ),
        pytest.param({"type": "string", "minLength": 6, "maxLength": 6}, "text t", id="length"),
        pytest.param({"type": "string", "pattern": r"^\d{4}-[a-f]{2}$"}, "1111-aa", id="pattern"),
        pytest.param({"type": "string", "format": "date"}, "2026-01-31", id="format"),
        pytest.param({"enum": [None, "b"]}, None, id="enumeration"),
        pytest.param({"const": {"a": [1]}}, {"a": [1]}, id="constant"),
        pytest.param({"type": "string", "default": "py"}, "py", id="default"),
        pytest.param({"type": "string", "default": 5}, "text", id="default that does not fit"),
        pytest.param({"type": "string", "examples": ["x.py"], "default": "y"}, "x.py", id="own"),
        pytest.param({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1, id="rather than null"),
        pytest.param({"type": ["null", "boolean"]}, True, id="one of several types"),
        pytest.param({"type": "array", "items": {"type": "integer"}}, [1], id="one item"),
        pytest.param({"type": "array", "items": False}, [], id="no item"),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            ["text", "some text"],
            id="different items",
        ),
        pytest.param(
            {"allOf": [args(a={"type": "integer"}), args(b={"type": "boolean"})]},
            {"b": True, "a": 1},
            id="all of them",
        ),
        pytest.param({"type": "object", "minProperties": 1}, {"text": "text"}, id="any member"),
        pytest.param({"properties": {"a": {}}, "required": ["z"]}, {"z": "text"}, id="untold"),
        pytest.param({"not": {"type": "string"}}, 1, id="not text"),
        pytest.param({"$ref": "#/$defs/A"}, {"x": 1}, id="reference"),
    ],
)
def test_makes_up(field: dict[str, Any], value: Any) -> None:
    schema = {**args(it=field), "$defs": {"A": args(x={"type": "integer"})}}
    assert example_args(schema) == {"it": value}
    assert judged({"it": value}, schema)


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(False, id="nothing fits"),
        pytest.param({"type": "string", "pattern": "(?=a)"}, id="a pattern that is not read"),
        pytest.param({"type": "array", "minItems": 100}, id="too many items"),
        pytest.param({"$ref": "#/properties/it"}, id="a reference to itself"),
        pytest.param(args(it={"$ref": "#/properties/it"}), id="without end"),
        pytest.param({"enum": [1], "type": "string"}, id="a contradiction"),
    ],
)
def test_says_nothing_rather_than_something_wrong(field: Any) -> None:
    assert example_args(args(it=field)) is None


def test_what_may_end_ends() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    assert example_args({**tree, "required": ["n"]}) == {"n": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"properties": {"a": 5}, "required": ["a"]},
        {"required": 5},
        {"enum": 3},
        {"type": {}},
        {"minProperties": "x"},
        {"properties": {"a": {"anyOf": {}}}, "required": ["a"]},
    ],
    ids=repr,
)
def test_what_is_no_schema_raises_nothing(schema: dict[str, Any]) -> None:
    example_args(schema)
    assert fits({"a": 1}, schema) in (True, False)


def test_hostile_schemas_are_given_up_soon() -> None:
    doubling = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {**args(it={"$ref": "#/$defs/d0"}), "$defs": {**doubling, "d40": False}}
    assert example_args(schema) is None
