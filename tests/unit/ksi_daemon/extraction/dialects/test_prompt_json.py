"""The prompted form."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import extract, protocol
from ksi_daemon.extraction.dialects import Draft, Fault
from ksi_daemon.extraction.dialects.prompt_json import PromptDialect

PROMPT = PromptDialect()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("block", "draft"),
    [
        pytest.param({"tool": "run_code", "arguments": {"x": 1}}, {"x": 1}, id="arguments"),
        pytest.param({"tool": "run_code"}, {}, id="none"),
        pytest.param({"tool": "run_code", "arguments": None}, {}, id="null"),
        pytest.param({"tool": "run_code", "arguments": " "}, {}, id="blank"),
        pytest.param({"tool": "run_code", "arguments": '{"x": 1}'}, {"x": 1}, id="text of JSON"),
    ],
)
def test_reads_arguments(block: dict[str, Any], draft: dict[str, Any], strict: bool) -> None:
    assert PROMPT.read(block, strict=strict) == Draft("run_code", draft, None)


@pytest.mark.parametrize(
    "name", ["ping", "kom.memory.v1.search_memory", "agent:status", "get-weather", "_x1"]
)
def test_reads_any_name_of_a_tool(name: str) -> None:
    assert PROMPT.read({"tool": name}, strict=False) == Draft(name, {}, None)


def test_keeps_id_nonce_and_thought_and_tells_of_the_rest() -> None:
    block = {"tool": "t", "arguments": {}, "id": "c1", "_k": "n1", "thought": "hm", "note": 1}
    notes = (("unknown_field", "ignored 'note'"),)
    assert PROMPT.read(block, strict=False) == Draft("t", {}, "c1", "n1", notes, "hm")


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        pytest.param(
            {"tool": "t", "arguments": "print(1)"},
            Fault("args_json", "'arguments' must be an object, got string that is not JSON"),
            id="code",
        ),
        pytest.param(
            {"tool": "t", "arguments": "[1]"},
            Fault("args_type", "'arguments' must be an object, got text"),
            id="text of a list",
        ),
        pytest.param(
            {"tool": "t", "arguments": [1]},
            Fault("args_type", "'arguments' must be an object, got a list"),
            id="list",
        ),
        pytest.param(
            {"tool": "t", "args": {"x": 1}},
            Fault("args_type", "'arguments' is missing; what 'args' holds belongs in it"),
            id="another word for arguments",
        ),
        pytest.param(
            {"tool": "not a name", "arguments": {}},
            Fault("missing_name", "'tool' must name a tool, got 'not a name'"),
            id="no name",
        ),
    ],
)
def test_says_what_is_wrong(block: dict[str, Any], fault: Fault) -> None:
    assert PROMPT.read(block, strict=False) == fault


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"tool": 1}, id="number"),
        pytest.param({"tool": "hammer and nails"}, id="prose"),
        pytest.param({"tool": "drill", "price": 20}, id="data about a tool"),
        pytest.param({"name": "t", "arguments": {}}, id="name in place of tool"),
        pytest.param({"status": "ok"}, id="data"),
    ],
)
def test_leaves_data_alone(block: dict[str, Any]) -> None:
    assert PROMPT.read(block, strict=False) is None


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param('{"tool":"b","arguments":{x}}', ["malformed_block"], id="arguments begun"),
        pytest.param('{"tool":"b","arguments" {"x":1}}', ["malformed_block"], id="no colon"),
        pytest.param('{"tool":"b, "arguments":{}}', ["malformed_block"], id="name not closed"),
        pytest.param('{"tool":"b","arguments":{"x":', ["unterminated_block"], id="cut off"),
        pytest.param("{tool: 'b', arguments: }", ["malformed_block"], id="no JSON at all"),
        pytest.param('{"tool": "drill", price: 5}', [], id="broken data"),
        pytest.param('{"result": 42,}}', [], id="other data"),
    ],
)
def test_knows_a_broken_call(text: str, codes: list[str]) -> None:
    found = extract(text, protocol("prompt_tools"))
    assert [block.code for block in found.rejected] == codes


def test_writes() -> None:
    assert PROMPT.write("t", {"x": "é"}, "i") == '{"tool": "t", "arguments": {"x": "é"}}'
