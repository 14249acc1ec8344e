"""The action form, as the whole reply and in prose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects import Answer, Draft, Fault
from ksi_daemon.extraction.dialects.json_action import FORMS, ActionDialect

ACTION = ActionDialect()
ECHO = '{"action":{"tool":"echo","args":{"text":"hi"}}}'


def found(text: str, mode: str = "strict") -> Extraction:
    return extract(text, protocol("json_action", mode=mode))


def outcome(text: str, mode: str = "strict") -> tuple[list[str], list[str]]:
    read = found(text, mode)
    return [call.name for call in read.calls], [block.code for block in read.rejected]


def test_reads_an_action() -> None:
    block = {"thought": "t", "action": {"tool": "echo", "args": {"x": 1}}}
    assert ACTION.read(block, strict=True) == Draft("echo", {"x": 1}, None, thought="t")


def test_says_where_arguments_belong_that_stand_elsewhere() -> None:
    fault = Fault("args_type", "'args' is missing; 'arguments' belong in it")
    action = {"tool": "echo", "thought": "why", "arguments": {"x": 1}}
    assert ACTION.read({"action": action}, strict=False) == fault


@pytest.mark.parametrize("content", ["x", 3, None, [1], {}])
def test_S000_5_a_final_answer_is_any_json(content: Any) -> None:
    assert ACTION.read({"final": {"content": content}}, strict=True) == Answer(content)
    text = msgspec.json.encode({"final": {"content": content}}).decode()
    assert found(text) == Extraction("", final=content)


@pytest.mark.parametrize(
    ("length", "kept", "codes"), [(200, 200, []), (500, 200, ["thought_truncated"])]
)
def test_S000_21_a_thought_is_capped_by_characters(
    length: int, kept: int, codes: list[str]
) -> None:
    read = found('{"thought":"' + "é" * length + '",' + ECHO[1:])
    assert read.thought == "é" * kept
    assert [note.code for note in read.diagnostics] == codes
    assert [call.args for call in read.calls] == [{"text": "hi"}]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        pytest.param(
            {"action": {"tool": "echo", "args": {}}, "final": {"content": 1}},
            Fault("invalid_protocol", FORMS),
            id="both",
        ),
        pytest.param(
            {"action": {"tool": "echo", "args": {}}, "note": 1},
            Fault("unknown_field", f"there is no field 'note'; {FORMS}"),
            id="unknown field",
        ),
        pytest.param(
            {"action": {"tool": "echo", "args": {}, "x": 1}},
            Fault("unknown_field", f"there is no field 'x'; {FORMS}"),
            id="unknown field of the action",
        ),
        pytest.param(
            {"action": {"tool": "", "args": {}}},
            Fault("missing_name", "'tool' must name a tool, got ''"),
            id="empty name",
        ),
        pytest.param(
            {"action": {"args": {}}},
            Fault("missing_name", "'tool' must name a tool, got None"),
            id="no name",
        ),
        pytest.param(
            {"action": {"tool": "echo", "args": "{}"}},
            Fault("args_type", "'args' must be an object, got text"),
            id="text",
        ),
        pytest.param(
            {"action": {"tool": "echo"}},
            Fault("args_type", "'args' must be an object, got nothing"),
            id="no args",
        ),
        pytest.param(
            {"thought": 1, "action": {"tool": "echo", "args": {}}},
            Fault("invalid_protocol", "'thought' must be text, got 1"),
            id="thought",
        ),
    ],
)
def test_strict_says_what_is_wrong(block: dict[str, Any], fault: Fault) -> None:
    assert ACTION.read(block, strict=True) == fault


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "not_json", id="empty"),
        pytest.param("Done.", "not_json", id="prose"),
        pytest.param(ECHO[:-1], "not_json", id="cut off"),
        pytest.param('{"action":{"tool":"echo","args":{"x":"@tool\n@tool x', "not_json", id="open"),
        pytest.param("42", "not_object", id="number"),
        pytest.param('"hi"', "not_object", id="string"),
        pytest.param(f"[{ECHO}]", "not_object", id="array"),
        pytest.param(f"Sure! {ECHO}", "extra_text", id="text before"),
        pytest.param(f"{ECHO} Done.", "extra_text", id="text behind"),
        pytest.param(f"```json\n{ECHO}\n```", "extra_text", id="fence"),
        pytest.param("hello\n@tool echo {}", "extra_text", id="command in prose"),
        pytest.param(f"{ECHO}\n{ECHO}", "multiple_objects", id="two"),
        pytest.param('{"thought":"x"}', "invalid_protocol", id="neither form"),
        pytest.param('{"action":[]}', "invalid_protocol", id="no object"),
        pytest.param('@tool echo {"a":\n1}', "malformed_block", id="command of two lines"),
    ],
)
def test_a_reply_is_one_object(text: str, code: str) -> None:
    assert outcome(text) == ([], [code])


@pytest.mark.parametrize("text", [ECHO, f"\n  {ECHO}\n\n", ' @tool echo {"text":"hi"}\n'])
def test_blanks_around_it_are_nothing(text: str) -> None:
    assert outcome(text) == (["echo"], [])


def test_S000_37_a_command_in_a_string_is_text() -> None:
    [call] = found('{"action":{"tool":"echo","args":{"text":"@tool x {}"}}}').calls
    assert (call.name, call.args) == ("echo", {"text": "@tool x {}"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(f"Sure! {ECHO} Done.", ["echo"], id="in prose"),
        pytest.param(f"{ECHO}\n{ECHO}", ["echo", "echo"], id="two"),
        pytest.param('{"action":{"tool":"echo"},"note":1}', ["echo"], id="loose"),
        pytest.param('{"action":"click"}', [], id="data"),
        pytest.param("hello\n@tool ping\nbye", ["ping"], id="command"),
    ],
)
def test_lenient_finds_it_in_prose(text: str, names: list[str]) -> None:
    assert outcome(text, "lenient") == (names, [])


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param("{'action': 'store_true', 'default': f(1)}", [], id="options"),
        pytest.param("{'action': {'tool': 'echo', 'args': f(1)}}", ["malformed_block"], id="call"),
        pytest.param('{thought: 1, "final": {"content": f(1)}}', ["malformed_block"], id="final"),
    ],
)
def test_only_an_action_that_is_an_object_resembles_a_call(text: str, codes: list[str]) -> None:
    assert outcome(text, "lenient") == ([], codes)


def test_an_answer_beside_a_call_is_premature() -> None:
    read = found(f'{ECHO} {{"final":{{"content":1}}}}', "lenient")
    assert ([call.name for call in read.calls], read.final) == (["echo"], msgspec.UNSET)


def test_lenient_answers_in_prose() -> None:
    read = found('So: {"final":{"content":1}}', "lenient")
    assert read == Extraction("So: ", final=1)


def test_writes() -> None:
    assert ACTION.write("t", {"x": 1}, "") == '{"action": {"tool": "t", "args": {"x": 1}}}'
