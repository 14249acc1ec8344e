"""Source 000 where it needs no daemon: a reply is one action, one answer, or one command."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ksi_daemon.extraction import Extraction, Rejected, extract, protocol

pytestmark = pytest.mark.conformance

FENCE = "```"
ECHO = '{"thought":"t","action":{"tool":"echo","args":{"text":"hi"}}}'


def read(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("json_action", **overrides))


def calls(text: str, **overrides: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in read(text, **overrides).calls]


def refusal(text: str, **overrides: Any) -> Rejected:
    """Return why nothing in *text* fires."""
    result = read(text, **overrides)
    assert (result.calls, result.final) == ((), msgspec.UNSET)
    [rejected] = result.rejected
    return rejected


def action(**fields: Any) -> str:
    return json.dumps({"action": {"tool": "echo", "args": {}, **fields}})


def test_S000_1_an_action() -> None:
    result = read(ECHO)
    assert [(call.name, call.args, call.dialect) for call in result.calls] == [
        ("echo", {"text": "hi"}, "json_action")
    ]
    assert result.thought == "t"


def test_S000_2_blanks_are_no_extra_text() -> None:
    result = read(f"\n  {ECHO}\n\n")
    assert [call.args for call in result.calls] == [{"text": "hi"}]
    assert result.rejected == ()


def test_S000_3_a_thought_is_optional() -> None:
    result = read(action())
    assert ([call.name for call in result.calls], result.thought) == (["echo"], "")


@pytest.mark.parametrize("content", ["x", 3, None, [1], {}])
def test_S000_5_final_content_is_any_json(content: Any) -> None:
    result = read(json.dumps({"final": {"content": content}}))
    assert (result.final, result.calls, result.rejected) == (content, (), ())


def test_S000_5_null_is_not_nothing() -> None:
    assert read('{"final":{"content":null}}').final is None
    assert read(ECHO).final is msgspec.UNSET


def test_S000_9_a_missing_brace() -> None:
    assert refusal('{"action":{"tool":"echo","args":{}}').code == "not_json"


def test_S000_10_prose_before() -> None:
    assert refusal(f"Sure! {ECHO}").code == "extra_text"


def test_S000_11_prose_behind() -> None:
    assert refusal(f"{ECHO} Done.").code == "extra_text"


def test_S000_12_a_fence() -> None:
    rejected = refusal(f"{FENCE}json\n{ECHO}\n{FENCE}")
    assert rejected.code == "extra_text"
    assert "no markdown" in rejected.message.lower()


def test_S000_13_two_objects() -> None:
    assert refusal(f"{ECHO}\n{ECHO}").code == "multiple_objects"


@pytest.mark.parametrize(
    ("text", "code"),
    [(f"[{ECHO}]", "not_object"), ('"hi"', "not_object"), ("42", "not_object"), ("", "not_json")],
    ids=["array", "string", "number", "empty"],
)
def test_S000_14_no_object(text: str, code: str) -> None:
    assert refusal(text).code == code


def test_S000_15_neither_form() -> None:
    rejected = refusal('{"thought":"x"}')
    assert rejected.code == "invalid_protocol"
    assert "'action'" in rejected.message
    assert "'final'" in rejected.message


def test_S000_16_both_forms() -> None:
    text = '{"action":{"tool":"echo","args":{}},"final":{"content":1}}'
    assert refusal(text).code == "invalid_protocol"


def test_S000_17_an_unknown_field() -> None:
    rejected = refusal('{"thought":"","action":{"tool":"echo","args":{}},"note":1}')
    assert rejected.code == "unknown_field"
    assert "note" in rejected.message


@pytest.mark.parametrize(
    "text", [action(x=1), '{"final":{"content":1,"x":1}}'], ids=["action", "final"]
)
def test_S000_18_an_unknown_field_within(text: str) -> None:
    assert refusal(text).code == "unknown_field"


@pytest.mark.parametrize(
    "text",
    ['{"action":{"args":{}}}', action(tool=""), action(tool=5), action(tool=None)],
    ids=["missing", "empty", "number", "null"],
)
def test_S000_19_a_tool_without_a_name(text: str) -> None:
    assert refusal(text).code == "missing_name"


@pytest.mark.parametrize("args", [[1], "{}", None], ids=["array", "text", "null"])
def test_S000_20_args_that_are_no_object(args: Any) -> None:
    assert refusal(action(args=args)).code == "args_type"


def test_S000_20_no_args() -> None:
    text = '{"action":{"tool":"echo"}}'
    assert refusal(text).code == "args_type"
    assert calls(text, mode="lenient") == [("echo", {})]


@pytest.mark.parametrize(
    ("thought", "length", "codes"),
    [("x" * 500, 200, ["thought_truncated"]), ("é" * 200, 200, []), ("é" * 201, 200, None)],
    ids=["500", "200 of two bytes", "201"],
)
def test_S000_21_22_a_thought_is_capped(thought: str, length: int, codes: list[str] | None) -> None:
    result = read(json.dumps({"thought": thought, "action": {"tool": "echo", "args": {}}}))
    assert (len(result.thought), len(result.calls)) == (length, 1)
    assert [note.code for note in result.diagnostics] == (
        ["thought_truncated"] if codes is None else codes
    )


def test_S000_31_a_command() -> None:
    [call] = read('@tool echo {"text":"hi"}').calls
    assert (call.name, call.args, call.dialect) == ("echo", {"text": "hi"}, "command")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        (
            "kom.memory.v1.search_memory",
            {"namespace": "project:metal", "query": {"text": "embedding model"}},
        ),
        ("agent:status", {"status": "ok"}),
        ("read-file", {"path": "a"}),
    ],
)
def test_S000_32_names_and_nested_args(name: str, args: dict[str, Any]) -> None:
    assert calls(f"@tool {name} {json.dumps(args)}") == [(name, args)]


def test_S000_33_brackets_and_quotes_in_a_command() -> None:
    assert calls(r'@tool echo {"text":"a } \"q\" { b"}') == [("echo", {"text": 'a } "q" { b'})]


def test_S000_34_a_command_of_two_lines() -> None:
    text = '@tool echo {"text":\n"hi"}'
    assert refusal(text).code == "malformed_block"
    assert calls(text, mode="lenient") == [("echo", {"text": "hi"})]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_S000_35_args_of_a_command_that_are_no_json(mode: str) -> None:
    assert refusal("@tool echo {text:hi}", mode=mode).code == "args_json"


def test_S000_36_a_command_without_args() -> None:
    assert calls("@tool ping") == [("ping", {})]


def test_S000_37_a_command_within_an_action_is_text() -> None:
    for mode in ("strict", "lenient"):
        assert calls(action(args={"text": "\n@tool x {}\n"}), mode=mode) == [
            ("echo", {"text": "\n@tool x {}\n"})
        ]


def test_S000_38_a_command_begins_its_line() -> None:
    assert calls('use @tool echo {"text":"x"} please', mode="lenient") == []


def test_S000_39_a_strict_command_is_the_whole_reply() -> None:
    text = "hello\n@tool echo {}"
    assert refusal(text).code == "extra_text"
    assert calls(text, mode="lenient") == [("echo", {})]
