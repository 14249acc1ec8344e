"""JSON behind a mark."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects.headed import HEADS, HeadedDialect

A = '{"name":"a","arguments":{"x":1}}'
B = '{"name":"b","parameters":{}}'


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides), stop_reason=stop_reason)


def outcome(text: str, **overrides: Any) -> tuple[list[str], list[str], str]:
    read = found(text, **overrides)
    names = [call.name for call in read.calls]
    return names, [block.code for block in read.rejected], read.residual


@pytest.mark.parametrize("head", sorted(HEADS))
def test_reads_an_object_or_an_array_behind_each_mark(head: str) -> None:
    closer = HEADS[head]
    assert outcome(f"So: {head}{A}{closer} ok") == (["a"], [], "So:  ok")
    assert outcome(f"So: {head} [{A}, {B}]{closer} ok") == (["a", "b"], [], "So:  ok")


@pytest.mark.parametrize(
    ("block", "name", "args", "id"),
    [
        pytest.param('{"tool_name":"t","parameters":{"x":1}}', "t", {"x": 1}, None, id="Command R"),
        pytest.param('{"name":"t","arguments":"{\\"x\\":1}"}', "t", {"x": 1}, None, id="text"),
        pytest.param('{"function":{"name":"t"},"id":"c1"}', "t", {}, "c1", id="function"),
    ],
)
def test_reads_names_and_arguments(
    block: str, name: str, args: dict[str, Any], id: str | None
) -> None:
    [call] = found(f"<tool_call>{block}</tool_call>").calls
    assert (call.name, call.args, None if call.id_generated else call.id) == (name, args, id)


@pytest.mark.parametrize(
    ("text", "names", "codes", "residual"),
    [
        pytest.param(f"<tool_call>{A}", ["a"], [], "", id="closing tag missing"),
        pytest.param(
            f"<|message_sep|>\n\nfunction call<|role_sep|>\n{A}</s>", ["a"], [], "", id="GigaChat 3"
        ),
        pytest.param(
            f"<|message_model|>a<|content_invoke_tool_json|>{A}<|end_message|>",
            ["a"],
            [],
            "",
            id="Inkling",
        ),
        pytest.param(
            '<|tools_prefix|>[{"a": {"x": 1}}, {"b": {}}]<|tools_suffix|>',
            ["a", "b"],
            [],
            "",
            id="named by their key",
        ),
        pytest.param('<tool_call>{"a": 1}</tool_call>', [], ["missing_name"], "", id="no object"),
        pytest.param(
            f'<tool_call>{A}\n{{"status": {{"ok": true}}}}</tool_call>',
            ["a"],
            ["missing_name"],
            "",
            id="data behind a call",
        ),
        pytest.param(
            '<tool_call>{"arguments": {"x": 1}}</tool_call>', [], ["missing_name"], "", id="no key"
        ),
        pytest.param(f"<tool_call>{A}}}</tool_call>", ["a"], [], "", id="a brace too many"),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":1,"x":2}}}</tool_call>',
            [],
            ["malformed_block"],
            "",
            id="a brace too many behind a key that comes twice",
        ),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":""</tool_call>"}}</tool_call>',
            [],
            ["malformed_block"],
            '"}}</tool_call>',
            id="a quote written twice before the closer in a string",
        ),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":""}}</tool_call>"}}</tool_call>',
            [],
            ["malformed_block"],
            '"}}</tool_call>',
            id="the same, and all brackets closed",
        ),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":1}},"z":2}}</tool_call>.',
            [],
            ["malformed_block"],
            ".",
            id="a member behind",
        ),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":{"y":1},"z":2}}}</tool_call>.',
            [],
            ["malformed_block"],
            ".",
            id="a brace too many, and two places for it",
        ),
        pytest.param(f"<tool_call>{A}\n{B}</tool_call>", ["a", "b"], [], "", id="two objects"),
        pytest.param(f"[TOOL_CALLS]{A}; {B}", ["a", "b"], [], "", id="semicolon"),
        pytest.param(f"[TOOL_CALLS][{A}", ["a"], [], "", id="bracket missing"),
        pytest.param("<tool_call>{}</tool_call>", [], ["missing_name"], "", id="no name"),
        pytest.param(
            '<tool_call>{"name":"a","arguments":[1]}</tool_call>', [], ["args_type"], "", id="list"
        ),
        pytest.param(
            '<tool_call>{"name":"a","input":{"x":1}}</tool_call>', [], ["args_type"], "", id="input"
        ),
        pytest.param(
            '<tool_call>{"name":"a","arguments":{"x":1},"parameters":{"y":2}}</tool_call>',
            [],
            ["args_type"],
            "",
            id="arguments under two names",
        ),
        pytest.param(
            '<tool_call>{"function":{"name":"a"},"arguments":{"x":1}}</tool_call>',
            [],
            ["args_type"],
            "",
            id="arguments beside the function",
        ),
        pytest.param('<tool_call>{"name":"a', [], ["unterminated_block"], "", id="cut off"),
        pytest.param(
            '<tool_call>{"name":"a",bad {"event":"a:b","data":{}}}</tool_call>x',
            [],
            ["malformed_block"],
            "x",
            id="nothing in a broken block fires",
        ),
        pytest.param(
            f"<tool_call>{{bad<tool_call>{B}</tool_call>",
            ["b"],
            ["malformed_block"],
            "",
            id="again",
        ),
        pytest.param(
            "A `<tool_call>` tag opens it.",
            [],
            [],
            "A `<tool_call>` tag opens it.",
            id="talked about",
        ),
        pytest.param(
            f"```python\n<tool_call>{A}\n```", [], [], f"```python\n<tool_call>{A}\n```", id="shown"
        ),
    ],
)
def test_blocks_that_are_not_right(
    text: str, names: list[str], codes: list[str], residual: str
) -> None:
    assert outcome(text) == (names, codes, residual)


def test_the_marks_around_one_call_are_in_its_span() -> None:
    text = f"So: <tool_call>{A}</tool_call> [TOOL_CALLS] [{A}] [TOOL_CALLS] [{A}, {B}]"
    assert [text[call.start : call.end] for call in found(text).calls] == [
        f"<tool_call>{A}</tool_call>",
        f"[TOOL_CALLS] [{A}]",
        A,
        B,
    ]


def test_is_mended_within_its_marks() -> None:
    text = '<tool_call>{"name":"a","arguments":{"c":"x"</tool_call>'
    [call] = found(text).calls
    assert (call.args, call.repairs) == ({"c": "x"}, ("missing_closer",))
    assert found(text, repair="off").calls == ()


def test_writes() -> None:
    assert HeadedDialect().write("a", {"x": 1}, "") == (
        '<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>'
    )
