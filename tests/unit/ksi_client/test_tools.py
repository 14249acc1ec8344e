from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_client.tools import read_tools, schemas_of
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Tool

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOLD = {"name": "read_file", "description": "Read a file."}
READ = Tool("read_file", "Read a file.", SCHEMA)


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({**TOLD, "schema": SCHEMA}, id="our own"),
        pytest.param(
            {"type": "function", "function": {**TOLD, "parameters": SCHEMA}}, id="OpenAI, chat"
        ),
        pytest.param({"type": "function", **TOLD, "parameters": SCHEMA}, id="OpenAI, responses"),
        pytest.param({**TOLD, "input_schema": SCHEMA}, id="Anthropic"),
        pytest.param({"tools": [{**TOLD, "inputSchema": SCHEMA}]}, id="MCP, tools/list"),
        pytest.param([{**TOLD, "schema": SCHEMA}], id="an array"),
    ],
)
def test_each_form_is_read(value: Any) -> None:
    assert read_tools(written(value)) == [READ]


def test_what_is_left_out() -> None:
    assert read_tools(b'[{"name": "ping"}, {"name": "a", "example": {"x": 1}}]') == [
        Tool("ping", "", {"type": "object"}),
        Tool("a", "", {"type": "object"}, {"x": 1}),
    ]


def test_schemas_by_name() -> None:
    assert schemas_of([READ]) == {"read_file": SCHEMA}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"{", "they are no JSON: ", id="no JSON"),
        pytest.param(b"\xff", "they are no JSON: ", id="no UTF-8"),
        pytest.param(b"[" * 5000, "they are no JSON: ", id="too deep"),
        pytest.param(b'["a"]', "tool 1 is no object", id="no object"),
        pytest.param(b'[{"name": "a"}, {}]', "tool 2 has no 'name'", id="no name"),
        pytest.param(b'{"name": "a", "description": 5}', "the description of 'a'", id="no text"),
        pytest.param(b'{"name": "a", "example": []}', "the example of 'a' is no object", id="list"),
        pytest.param(b'{"name": "a", "schema": []}', "the schema of 'a': a schema is", id="schema"),
        pytest.param(
            b'{"name": "a", "schema": {"properties": {"b": {"anyOf": {}}}}}',
            "the schema of 'a': /properties/b/anyOf: not of the right type",
            id="flaw in a schema",
        ),
    ],
)
def test_what_describes_no_tools(data: bytes, message: str) -> None:
    with pytest.raises(KsiError) as caught:
        read_tools(data)
    assert caught.value.code == "bad_tools"
    assert caught.value.message.startswith(f"the tools cannot be read: {message}")
