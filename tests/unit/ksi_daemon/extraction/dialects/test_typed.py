"""What a plain text stands for as an argument."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction.dialects.base import Fault, Reading
from ksi_daemon.extraction.dialects.typed import (
    STRING,
    Kinds,
    Meant,
    kinds_of,
    read_json,
    read_text,
    write_text,
)

LENIENT = Reading(strict=False, repairs=True, max_depth=64)
STRICT = Reading(strict=True, repairs=False, max_depth=64)
NUMBER = frozenset({"integer", "number"})
ARRAY = frozenset({"array"})
OBJECT = frozenset({"object"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("plain text", "plain text", id="text"),
        pytest.param("", "", id="nothing"),
        pytest.param(" 5\n", 5, id="number between blanks"),
        pytest.param("-1.5e3", -1500.0, id="float"),
        pytest.param("007", "007", id="leading zeros are no number"),
        pytest.param("1.2.3", "1.2.3", id="version"),
        pytest.param("1e999", "1e999", id="beyond a float"),
        pytest.param("9" * 5000, "9" * 5000, id="beyond an integer"),
        pytest.param("NaN", "NaN", id="NaN is no JSON"),
        pytest.param("true", True, id="true"),
        pytest.param("False", False, id="False of Python"),
        pytest.param("None", None, id="None of Python"),
        pytest.param("nil", "nil", id="a literal of another language"),
        pytest.param('{"a": [1, {}]}', {"a": [1, {}]}, id="object"),
        pytest.param("[1, 2]", [1, 2], id="array"),
        pytest.param('{"a": 1,}', '{"a": 1,}', id="almost JSON"),
        pytest.param("[1], [2]", "[1], [2]", id="two arrays"),
        pytest.param('1, "b": 2', '1, "b": 2', id="members of an object"),
        pytest.param('[1], "": [2]', '[1], "": [2]', id="members with an empty key"),
        pytest.param(
            '[{"a": 1, "a": 2}], "b": [3]', '[{"a": 1, "a": 2}], "b": [3]', id="odd members"
        ),
        pytest.param(
            '[{"a": 1, "a": 2}], "": [3]', '[{"a": 1, "a": 2}], "": [3]', id="odd empty keys"
        ),
        pytest.param('[\\\\"a"]', '[\\\\"a"]', id="an escaped backslash before a quote"),
        pytest.param("{ f(x) }", "{ f(x) }", id="code"),
        pytest.param('"quoted"', '"quoted"', id="quotes belong to a text"),
        pytest.param('"5"', "5", id="quotes keep a number a text"),
        pytest.param('"\\"5\\""', '"5"', id="quotes keep quotes"),
        pytest.param("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000, id="too deep to be read"),
    ],
)
def test_without_a_schema_json_that_is_no_string_is_a_value(text: str, value: Any) -> None:
    for reading in (LENIENT, STRICT):
        found = read_text(text, None, reading)
        assert isinstance(found, Meant)
        assert (found.value, type(found.value), found.repairs) == (value, type(value), ())


@pytest.mark.parametrize(
    ("text", "kinds", "value"),
    [
        pytest.param("5", STRING, "5", id="a string is never JSON"),
        pytest.param('"5"', STRING, '"5"', id="nor are its quotes taken off"),
        pytest.param(" null\n", STRING, " null\n", id="nor its blanks"),
        pytest.param("5", NUMBER, 5, id="integer"),
        pytest.param("5.0", frozenset({"integer"}), 5.0, id="JSON Schema's integer"),
        pytest.param("5.5", frozenset({"integer"}), "5.5", id="no integer"),
        pytest.param("many", NUMBER, "many", id="what fits no type stays a text"),
        pytest.param("True", frozenset({"boolean"}), True, id="boolean of Python"),
        pytest.param("1", frozenset({"boolean"}), "1", id="1 is no boolean"),
        pytest.param("null", STRING | {"null"}, None, id="null or string"),
        pytest.param("5", STRING | {"null"}, "5", id="no null, so string"),
        pytest.param("5", STRING | {"integer"}, 5, id="a string is tried last"),
        pytest.param("[1", STRING | {"array"}, "[1", id="broken, but may be a string"),
        pytest.param('{"a": 1}', OBJECT, {"a": 1}, id="object"),
        pytest.param("[1, [2]]\n", ARRAY, [1, [2]], id="array"),
        pytest.param("a, b", ARRAY, "a, b", id="a list of another kind"),
    ],
)
def test_with_a_schema_the_type_decides(text: str, kinds: Kinds, value: Any) -> None:
    found = read_text(text, kinds, LENIENT)
    assert isinstance(found, Meant)
    assert (found.value, type(found.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kinds", "value", "repairs"),
    [
        pytest.param("[1, 2,]", ARRAY, [1, 2], ("trailing_comma",), id="comma"),
        pytest.param(
            "['a', True]", ARRAY, ["a", True], ("single_quotes", "python_literal"), id="py"
        ),
        pytest.param('{"a": "x\ny"}', OBJECT, {"a": "x\ny"}, ("control_character",), id="line"),
        pytest.param('{"a": {"b": 1}', OBJECT, {"a": {"b": 1}}, ("missing_closer",), id="brace"),
        pytest.param('[{\\"a\\": 1}]', ARRAY, [{"a": 1}], ("escaped_quotes",), id="escaped"),
    ],
)
def test_arrays_and_objects_are_mended_or_refused(
    text: str, kinds: Kinds, value: Any, repairs: tuple[str, ...]
) -> None:
    assert read_text(text, kinds, LENIENT) == Meant(value, repairs)
    found = read_text(text, kinds, STRICT)
    assert isinstance(found, Fault)
    assert found.code == "args_json"


def test_what_is_escaped_once_too_often_is_mended_without_a_schema_too() -> None:
    text = '[{\\"path\\": \\"C:\\\\\\\\x\\"}]'
    assert read_text(text, None, LENIENT) == Meant([{"path": "C:\\x"}], ("escaped_quotes",))
    assert isinstance(read_text(text, None, STRICT), Fault)


def test_a_fault_says_where_json_stops() -> None:
    assert read_text("[1, 2", ARRAY, STRICT) == Fault(
        "args_json", "expected JSON, but expected ',' or ']', got '}' at line 1, column 10"
    )


def test_repeated_keys_are_told() -> None:
    assert read_text('{"a": 1, "a": 2}', None, LENIENT) == Meant({"a": 2}, (), ("a",))


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ('"a"', "a"), ("[1]", [1]), ("True", True), ("null", None)]
)
def test_what_is_said_to_be_json_is_json(text: str, value: Any) -> None:
    assert read_json(f" {text}\n", LENIENT) == Meant(value)


@pytest.mark.parametrize("text", ["", "word", '"open', "1 2"])
def test_what_is_said_to_be_json_and_is_not_is_refused(text: str) -> None:
    found = read_json(text, LENIENT)
    assert isinstance(found, Fault)
    assert found.code == "args_json"


NULLABLE = frozenset({"string", "null"})
SCHEMA = {
    "properties": {
        "plain": {"type": "string"},
        "number": {"type": "number"},
        "either": {"type": ["string", "null"]},
        "any of": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "any of all": {"anyOf": [{"type": "string"}, {}]},
        "choice": {"enum": ["a", "b"]},
        "constant": {"const": None},
        "reference": {"$ref": "#/$defs/name"},
        "both": {"allOf": [{"type": ["string", "null"]}, {"$ref": "#/$defs/name"}]},
        "endless": {"$ref": "#/properties/endless"},
        "free": {},
        "fields": {"properties": {}},
        "wrong": "string",
    },
    "additionalProperties": {"type": "boolean"},
    "$defs": {"name": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("parameter", "kinds"),
    [
        ("plain", STRING),
        ("number", NUMBER),
        ("either", NULLABLE),
        ("any of", NULLABLE),
        ("any of all", None),
        ("choice", STRING),
        ("constant", {"null"}),
        ("reference", STRING),
        ("both", STRING),
        ("endless", None),
        ("free", None),
        ("fields", OBJECT),
        ("wrong", None),
        ("of any other name", {"boolean"}),
    ],
)
def test_kinds_of_a_parameter(parameter: str, kinds: Kinds) -> None:
    assert kinds_of({"f": SCHEMA}, "f", parameter) == kinds


@pytest.mark.parametrize(
    "tools", [None, {}, {"f": True}, {"f": {"properties": []}}, {"f": {"properties": {"a": None}}}]
)
def test_nothing_is_known_of_a_tool_without_a_schema(tools: Any) -> None:
    assert kinds_of(tools, "f", "a") is None


def test_a_schema_that_multiplies_is_given_up() -> None:
    steps = {str(n): {"anyOf": [{"$ref": f"#/properties/{n + 1}"}] * 10} for n in range(10)}
    schema = {"properties": {**steps, "10": {"type": "string"}}}
    assert kinds_of({"f": schema}, "f", "0") is None
    assert kinds_of({"f": schema}, "f", "8") == STRING


texts = st.text() | st.text(st.sampled_from('"\\[]{},:1aN \n')) | st.sampled_from(["null", '"1"'])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner | texts) | st.dictionaries(texts, inner | texts),
)


@given(texts | values)
def test_reads_what_it_writes(value: Any) -> None:
    found = read_text(write_text(value, None), None, LENIENT)
    assert isinstance(found, Meant)
    assert (found.value, found.repairs) == (value, ())


@given(texts)
def test_writes_a_text_for_a_string_as_it_is(text: str) -> None:
    assert write_text(text, STRING) == text


def test_writes_no_number_without_a_text() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_text(float("nan"), None)
