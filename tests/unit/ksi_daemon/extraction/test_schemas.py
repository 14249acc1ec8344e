"""What fits a schema: judged as another implementation of JSON Schema judges it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction.schemas import Document, flaw, same
from tests.schemas import NAMES, VALUES, schemas


@given(schemas(), st.dictionaries(NAMES, VALUES, max_size=3))
@settings(max_examples=100, deadline=None)
def test_judges_as_others_do(schema: dict[str, Any], value: dict[str, Any]) -> None:
    expected = jsonschema_rs.Draft202012Validator(schema).is_valid(value)
    assert Document(schema).fits(value, schema, unsure=expected) == expected


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "integer"}, id="integer"),
        pytest.param({"type": ["string", "null"]}, id="types"),
        pytest.param({"const": 1}, id="constant"),
        pytest.param({"enum": [[1], {"a": True}]}, id="enumeration"),
        pytest.param({"multipleOf": 0.5, "exclusiveMaximum": 2}, id="number"),
        pytest.param({"maxLength": 1, "pattern": "^[a-z]"}, id="text"),
        pytest.param({"prefixItems": [{"type": "integer"}], "items": False}, id="tuple"),
        pytest.param({"contains": {"const": 1}, "maxContains": 1}, id="contains"),
        pytest.param({"uniqueItems": True, "minItems": 2}, id="unique"),
        pytest.param({"patternProperties": {"^a": False}, "additionalProperties": {}}, id="names"),
        pytest.param({"propertyNames": {"maxLength": 0}}, id="names fit too"),
        pytest.param({"dependentRequired": {"a": ["b"]}, "maxProperties": 1}, id="dependent"),
        pytest.param({"not": {"type": "object"}}, id="not"),
        pytest.param({"if": {"type": "integer"}, "then": {"minimum": 2}, "else": True}, id="if"),
        pytest.param({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, id="just one"),
        pytest.param({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, id="pointer"),
        pytest.param({"$ref": "#/$defs/%C3%A9%25", "$defs": {"é%": False}}, id="percent"),
        pytest.param({"allOf": [{"type": "string"}, {"$ref": "#/allOf/0"}]}, id="index"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 1, 1.0, 1.5, 2, "", "a", "Ab", [], [1], [1, 1.0], [1, "a"]),
        *({}, {"a": True}, {"a": 1, "b": 2}, {"b": None}),
    ],
    ids=repr,
)
def test_each_keyword(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema_rs.Draft202012Validator(schema).is_valid(value)
    assert Document(schema).fits(value, schema) == expected


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        ([True], [1], False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, False, False),
    ],
)
def test_equal_as_json(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal


@pytest.mark.parametrize("reference", ["other.json", "#name", "#/none", "#/$defs/x/0"])
def test_a_reference_to_nowhere_says_nothing(reference: str) -> None:
    document = Document({"$defs": {"x": {}}})
    assert document.resolve(reference) is None
    assert document.fits(5, {"$ref": reference})


def test_what_is_too_much_to_tell_is_unsure() -> None:
    schema = {"$ref": "#"}
    assert Document(schema).fits(1, schema)
    assert not Document(schema).fits(1, schema, unsure=False)


@given(schemas())
@settings(max_examples=50, deadline=None)
def test_what_is_a_schema_has_no_flaw(schema: dict[str, Any]) -> None:
    assert flaw(schema) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (5, "/: a schema is an object"),
        ({"properties": []}, "/properties: not of the right type"),
        ({"properties": {"a": 5}}, "/properties/a: a schema is an object"),
        ({"anyOf": [{}, {"enum": 5}]}, "/anyOf/1/enum: not of the right type"),
        ({"items": {"required": [5]}}, "/items/required: names are text"),
        ({"minLength": "5"}, "/minLength: not of the right type"),
    ],
    ids=repr,
)
def test_a_flaw_is_named_with_its_place(schema: Any, reason: str) -> None:
    assert flaw(schema) == reason
