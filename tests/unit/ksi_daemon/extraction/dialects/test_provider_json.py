"""The forms of providers, in text."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import extract, protocol
from ksi_daemon.extraction.dialects import Draft, Fault
from ksi_daemon.extraction.dialects.provider_json import ProviderDialect

PROVIDER = ProviderDialect()


@pytest.mark.parametrize(
    ("block", "draft"),
    [
        pytest.param({"name": "t", "arguments": {"x": 1}}, Draft("t", {"x": 1}, None), id="bare"),
        pytest.param({"name": "t", "parameters": {}}, Draft("t", {}, None), id="Llama"),
        pytest.param(
            {"id": "c1", "type": "function", "name": "t", "arguments": '{"x": 1}'},
            Draft("t", {"x": 1}, "c1"),
            id="text",
        ),
        pytest.param(
            {"type": "tool_use", "id": "t1", "name": "t", "input": {"x": 1}},
            Draft("t", {"x": 1}, "t1"),
            id="Anthropic",
        ),
        pytest.param(
            {"functionCall": {"name": "t", "args": {"x": 1}}},
            Draft("t", {"x": 1}, None),
            id="Gemini",
        ),
        pytest.param(
            {"type": "tool_use", "input": {}},
            Fault("missing_name", "'name' must name a tool, got None"),
            id="no name",
        ),
        pytest.param(
            {"functionCall": {"name": "t", "args": {}, "id": "g1"}, "thoughtSignature": "x"},
            Draft("t", {}, "g1"),
            id="Gemini with a signature",
        ),
        pytest.param(
            {"function_call": {"name": "t", "arguments": '{"x": 1}'}},
            Draft("t", {"x": 1}, None),
            id="OpenAI of old",
        ),
        pytest.param(
            {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"x": 1}'}},
            Draft("t", {"x": 1}, "c1"),
            id="OpenAI",
        ),
        pytest.param(
            {"type": "function", "function": {"name": "t", "parameters": {}}},
            None,
            id="description of a tool",
        ),
        pytest.param(
            {"name": "t", "parameters": {"type": "object", "properties": {}}},
            None,
            id="schema of a tool",
        ),
        pytest.param({"functionCall": {"name": "t"}, "text": "x"}, None, id="more than Gemini's"),
        pytest.param({"functionCall": {"name": "t"}}, Draft("t", {}, None), id="no arguments"),
        pytest.param(
            {"functionCall": {"name": "t", "parameters": {"x": 1}}},
            Fault("args_type", "'args' is missing; 'parameters' belong in it"),
            id="arguments under another name",
        ),
        pytest.param(
            {"function_call": {"name": "t", "args": {"x": 1}, "arguments": {"y": 2}}},
            Fault("args_type", "the arguments are given twice, as 'arguments' and 'args'"),
            id="arguments under two names",
        ),
        pytest.param({"name": "Ada", "age": 36}, None, id="data"),
        pytest.param({"name": "x", "version": "1", "arguments": {}}, None, id="more than a call"),
        pytest.param({"name": "two words", "arguments": {}}, None, id="no name of a tool"),
        pytest.param({"name": "t", "arguments": [1]}, None, id="list"),
        pytest.param({"name": "t"}, None, id="name alone"),
    ],
)
def test_reads(block: dict[str, Any], draft: Draft | Fault | None) -> None:
    assert PROVIDER.read(block, strict=False) == draft


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param('{"name":"t","arguments":{x}}', ["malformed_block"], id="arguments begun"),
        pytest.param('{"type":"tool_use","name":"t","input":{x}}', ["malformed_block"], id="type"),
        pytest.param('{"name":"Ada",age:36}', [], id="data"),
    ],
)
def test_knows_a_broken_call(text: str, codes: list[str]) -> None:
    assert [block.code for block in extract(text, protocol("any")).rejected] == codes


def test_fires_only_where_it_is_asked_for() -> None:
    text = '{"name":"t","arguments":{}}'
    names = {
        name: len(extract(text, protocol(name)).calls) for name in ("any", "ksi", "prompt_tools")
    }
    assert names == {"any": 1, "ksi": 0, "prompt_tools": 0}


def test_writes() -> None:
    assert PROVIDER.write("t", {"x": 1}, "") == '{"name": "t", "arguments": {"x": 1}}'
