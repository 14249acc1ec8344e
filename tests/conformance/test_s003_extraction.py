"""Source 003 where it needs no daemon: calls as JSON in prose, for described tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, new_call_id, protocol, teach
from ksi_daemon.extraction.prompt import Tool

pytestmark = pytest.mark.conformance

FENCE = "```"
RUN_CODE = Tool(
    "run_code",
    "Run a program.",
    {
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "language": {"type": "string", "default": "python"},
        },
        "required": ["code"],
    },
)
SET_STATE = Tool(
    "set_state",
    "Remember a value.",
    {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {}},
        "required": ["key", "value"],
    },
)


def call(name: str = "run_code", **arguments: Any) -> str:
    return json.dumps({"tool": name, "arguments": arguments})


def read(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("prompt_tools", **overrides), stop_reason=stop_reason)


def calls(text: str, **overrides: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(found.name, found.args) for found in read(text, **overrides).calls]


def codes(text: str, **overrides: Any) -> list[str]:
    return [block.code for block in read(text, **overrides).rejected]


@pytest.mark.parametrize("compact", [False, True])
def test_S003_8_an_example_is_a_call_of_its_tool(compact: bool) -> None:
    for tool in (RUN_CODE, SET_STATE):
        found = read(teach(protocol("prompt_tools"), [tool], compact=compact), dedupe=False)
        assert found.rejected == ()
        assert {each.name for each in found.calls} == {tool.name}
        for each in found.calls:
            assert set(tool.schema["required"]) <= set(each.args) <= set(tool.schema["properties"])


def test_S003_11_the_tools_stand_under_their_heading() -> None:
    prompt = teach(protocol("prompt_tools"), [RUN_CODE, SET_STATE])
    assert prompt.startswith("## Available Tools\n\n**run_code**\n")
    assert "\n\n**set_state**\n" in prompt
    rest = prompt.partition("**Important:** To call a tool, output valid JSON")[2]
    assert len(calls(rest)) == 1


def test_S003_13_json_in_prose() -> None:
    code = "print('hello world')"
    result = read(f"Let me run it.\n\n{call(code=code)}\n\nThat is all.")
    assert [(each.name, each.args) for each in result.calls] == [("run_code", {"code": code})]
    assert result.residual == "Let me run it.\n\n\n\nThat is all."


def test_S003_14_nested_arguments() -> None:
    arguments = {"key": "k", "value": {"a": {"b": {"c": 1}}}}
    assert calls(call("set_state", **arguments)) == [("set_state", arguments)]


@pytest.mark.parametrize("code", ["d = {1: 2}", "}", "{", 'f"{x!r:>{w}}"', "if a:\n    {}", "{{}}"])
def test_S003_15_brackets_in_code(code: str) -> None:
    assert calls(f"So:\n{call(code=code)}\nok") == [("run_code", {"code": code})]


@pytest.mark.parametrize(
    "text",
    [
        '{"status":"ok"}',
        '{"name":"Ada","age":36}',
        f'{FENCE}json\n{{"name":"pkg","version":"1.0.0","scripts":{{"test":"x"}}}}\n{FENCE}',
    ],
    ids=["status", "person", "package.json"],
)
def test_S003_16_other_json(text: str) -> None:
    assert (calls(text), codes(text)) == ([], [])


def test_S003_17_code_of_a_language() -> None:
    code = 'x = {"tool": "run_code", "arguments": {"code": f"{y}"}}\ntransform(data=[1, 2])'
    text = f"{FENCE}python\n{code}\n{FENCE}"
    assert (calls(text), codes(text)) == ([], [])


def test_S003_18_no_arguments() -> None:
    assert calls('{"tool": "ping"}') == [("ping", {})]


def test_S003_19_the_standard_form() -> None:
    [prompted] = read(call("read_file", path="a")).calls
    text = '~~~tool_call\n{"name": "read_file", "arguments": {"path": "a"}}\n~~~'
    [tagged] = extract(text, protocol("text_tagged")).calls
    assert (prompted.name, prompted.args) == (tagged.name, tagged.args)
    assert (prompted.id_generated, tagged.id_generated) == (True, True)


def test_S003_23_several_calls_in_order() -> None:
    text = f"First\n{call(code='1')}\nthen\n{call('set_state', key='k', value=1)}\nend"
    assert [name for name, _ in calls(text)] == ["run_code", "set_state"]


@pytest.mark.parametrize(
    "text",
    [
        f"{FENCE}json\n{call(code='x')}\n{FENCE}",
        f"{FENCE}\n{call(code='x')}\n{FENCE}",
        call(code=f"a `b` {FENCE}c{FENCE}"),
        f"{FENCE}json\n" + call(code=f"{FENCE}\nx\n{FENCE}") + f"\n{FENCE}",
        f'{FENCE}json\n{{"tool":"run_code","arguments":{{"code":"{FENCE}\n{FENCE}"}}}}\n{FENCE}',
    ],
    ids=["json", "no label", "backticks", "a fence in a string", "a raw fence in a string"],
)
def test_S003_38_fences(text: str) -> None:
    assert (len(calls(text)), codes(text)) == (1, [])


def test_S003_41_what_is_wrong_is_named() -> None:
    [block] = read('{"tool": "run_code", "arguments": "print(1)"}').rejected
    assert block.message.startswith("'arguments' must be an object, got ")
    [block] = read('{"tool": "run_code", "arguments": {"code": "say "hi""}}').rejected
    assert "line 1, column 50" in block.message
    assert block.message.endswith(r"a quote within a string is written \"")


def test_S003_42_broken_json_that_is_no_call() -> None:
    text = f'{FENCE}json\n{{"result": 42,}}\n{FENCE}'
    assert (calls(text), codes(text)) == ([], [])


def test_S003_43_a_good_call_and_a_bad_one() -> None:
    text = call(code="1") + '\n\n{"tool": "run_code", "arguments": {"code": }}\n\n' + call(code="2")
    assert calls(text) == [("run_code", {"code": "1"}), ("run_code", {"code": "2"})]
    assert codes(text) == ["malformed_block"]


def test_S003_50_ids_are_unique_across_replies() -> None:
    ids = {each.id for _ in range(50) for each in read(call(code="1")).calls}
    assert len(ids | {new_call_id()}) == 51
