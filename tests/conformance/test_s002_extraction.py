"""Source 002 where it needs no daemon: two formats in one text, found exactly."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import Extraction, extract, new_call_id, protocol, teach

pytestmark = pytest.mark.conformance

FENCE = "```"
SEED_USE = r"""{
  "type": "ksi_tool_use",
  "id": "ksiu_create_001",
  "name": "composition:create_component",
  "input": {
    "name": "agents/json_processor",
    "content": "---\ncomponent_type: agent\n---\n\n# Processor\n```json\n{\"example\": \"nested_json\"}\n```\n\nValidate first."
  }
}"""  # noqa: E501
SEED_DATA = {
    "name": "agents/json_processor",
    "content": "---\ncomponent_type: agent\n---\n\n# Processor\n"
    '```json\n{"example": "nested_json"}\n```\n\nValidate first.',
}


def event(name: str = "a:b", **data: Any) -> str:
    return json.dumps({"event": name, "data": data})


def use(name: str = "a:b", id: str = "ksiu_1", **data: Any) -> str:
    return json.dumps({"type": "ksi_tool_use", "id": id, "name": name, "input": data})


def read(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("ksi", **overrides), stop_reason=stop_reason)


def calls(text: str, **overrides: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in read(text, **overrides).calls]


def codes(text: str, **overrides: Any) -> list[str]:
    return [block.code for block in read(text, **overrides).rejected]


def test_S002_1_legacy_event() -> None:
    text = '{"event":"agent:status","data":{"agent_id":"test","status":"ready"}}'
    assert calls(text) == [("agent:status", {"agent_id": "test", "status": "ready"})]


def test_S002_2_tool_use() -> None:
    assert calls(SEED_USE) == [("composition:create_component", SEED_DATA)]


@given(st.text(max_size=200), st.text(st.characters(exclude_characters="{>`~<"), max_size=20))
@settings(max_examples=200, deadline=None)
def test_S002_5_any_content(content: str, prose: str) -> None:
    assert calls(prose + use(content=content)) == [("a:b", {"content": content})]


@pytest.mark.parametrize("content", ["}", "{", "if x { print(1)", '\\"', '"'])
def test_S002_6_lone_brackets_in_strings(content: str) -> None:
    assert calls(f"note {use(c=content)} end") == [("a:b", {"c": content})]


@pytest.mark.parametrize("depth", [3, 10, 60])
def test_S002_7_depth(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = {"n": value}
    assert calls(use(v=value["n"])) == [("a:b", {"v": value["n"]})]


@pytest.mark.parametrize("depth", [70, 900, 2000, 100_000])
def test_S002_7_beyond_the_limit(depth: int) -> None:
    text = '{"event":"a:b","data":' + '{"n":' * depth + "1" + "}" * (depth + 1)
    assert (calls(text), codes(text)) == ([], ["depth_limit"])


def test_S002_8_prose_around() -> None:
    result = read(f"I'll do it.\n{event(x=1)}\nthen\n{event(x=2)}\nbye")
    assert [call.args for call in result.calls] == [{"x": 1}, {"x": 2}]
    assert result.residual == "I'll do it.\n\nthen\n\nbye"


def test_S002_9_source_order() -> None:
    assert [name for name, _ in calls(event("a:b") + use("a:c") + event("a:d"))] == [
        "a:b",
        "a:c",
        "a:d",
    ]


def test_S002_10_same_name_other_ids() -> None:
    result = read(use(id="ksiu_1") + use(id="ksiu_2"))
    assert [call.id for call in result.calls] == ["ksiu_1", "ksiu_2"]


@pytest.mark.parametrize("kind", ["KSI_TOOL_USE", "tool_use", "ksi_tool_use "])
def test_S002_11_exact_type(kind: str) -> None:
    text = use().replace("ksi_tool_use", kind)
    assert (calls(text), codes(text)) == ([], [])


def test_S002_12_missing_id() -> None:
    text = f'{{"type":"ksi_tool_use","name":"a:b","input":{{}}}}\n{event("a:c")}'
    assert calls(text) == [("a:b", {}), ("a:c", {})]
    assert [call.id_generated for call in read(text).calls] == [True, True]
    assert "id_generated" in [note.code for note in read(text).diagnostics]
    assert (calls(text, mode="strict"), codes(text, mode="strict")) == (
        [("a:c", {})],
        ["missing_id"],
    )


@pytest.mark.parametrize("name", ["", '"name":"",', '"name":5,'])
def test_S002_13_missing_name(name: str) -> None:
    text = f'{{"type":"ksi_tool_use","id":"ksiu_1",{name}"input":{{}}}}\n{event("a:c")}'
    assert (calls(text), codes(text)) == ([("a:c", {})], ["missing_name"])


@pytest.mark.parametrize(
    ("value", "lenient", "strict"),
    [
        ('"input":[1]', "args_type", "args_type"),
        ('"input":"no"', "args_type", "args_type"),
        ('"input":"{\\"x\\":1}"', {"x": 1}, "args_type"),
        ('"input":null', {}, "args_type"),
        ('"_more":1', {}, "args_type"),
        ('"more":1', "args_type", "args_type"),
    ],
)
def test_S002_14_input(value: str, lenient: Any, strict: str) -> None:
    text = f'{{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b",{value}}}'
    result = read(text)
    found = [call.args for call in result.calls] + [block.code for block in result.rejected]
    assert found == [lenient]
    assert codes(text, mode="strict") == [strict]


def test_S002_15_prefix_of_ids() -> None:
    [call] = read(use(id="x1")).calls
    assert (call.id, call.id_generated) == ("x1", False)
    [rejected] = read(use(id="x1"), mode="strict").rejected
    assert "ksiu_" in rejected.message


def test_S002_16_generated_ids() -> None:
    ids = {new_call_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(re.fullmatch(r"ksiu_\d{10,13}_[0-9a-f]{6,}", id) for id in ids)
    assert [call.id for call in read(use(id="ksiu_01") + use(id="ksiu_02")).calls] == [
        "ksiu_01",
        "ksiu_02",
    ]


def test_S002_19_malformed_block_between_good_ones() -> None:
    text = f'{event("a:b")}\n{{"event":"a:x","data":{{"q":}}}}\n{event("a:c")}'
    assert (calls(text), codes(text)) == ([("a:b", {}), ("a:c", {})], ["malformed_block"])


def test_S002_20_comments() -> None:
    text = '{\n  "type": "ksi_tool_use",  // kind\n  "id": "ksiu_1",\n  "name": "a:b"\n}'
    [rejected] = read(text, mode="strict").rejected
    assert rejected.code == "malformed_block"
    assert "comment" in rejected.message


def test_S002_20_the_specification_itself() -> None:
    text = '{"type":"ksi_tool_use","id":"ksiu_[unique_id]","name":"[event_name]","input":{}}'
    assert (calls(text), codes(text)) == ([], ["missing_name"])


def test_S002_22_fenced_examples() -> None:
    examples = re.findall(r"```json\n(.+?)\n```", teach(protocol("ksi")), re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        assert len(calls(f"{FENCE}json\n{example}\n{FENCE}")) == 1


def test_S002_23_both_formats_are_equal_for_simple_data() -> None:
    assert calls(event("agent:status", status="ready")) == calls(
        use("agent:status", status="ready")
    )


def test_S002_24_complex_content() -> None:
    part = (
        f'# Title\n{FENCE}json\n{event("x:y", s="z")}\n{FENCE}\nText with "quotes" and \\ signs.\n'
    )
    content = part * 600
    assert len(content) > 50_000
    assert calls(use(content=content)) == [("a:b", {"content": content})]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool_calls":[{"id":"call_1","type":"function","function":{"name":"a","arguments":"{}"}}]}',
        '{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"location":"SF"}}',
        '{"functionCall":{"name":"get_weather","args":{"location":"SF"}}}',
    ],
)
def test_S002_28_native_shapes_in_text(text: str) -> None:
    assert (calls(text), codes(text)) == ([], [])


def test_S002_29_backward_compatible() -> None:
    assert protocol("ksi").legacy_event == "allow"


@pytest.mark.parametrize(
    ("policy", "simple", "complex_"),
    [
        ("allow", [], []),
        ("warn", [], []),
        ("reject_complex", [], ["legacy_complex"]),
        ("reject", ["legacy_rejected"], ["legacy_rejected"]),
    ],
)
def test_S002_32_legacy_policy(policy: str, simple: list[str], complex_: list[str]) -> None:
    assert codes(event(c="one line"), legacy_event=policy) == simple
    assert codes(event(c="two\nlines"), legacy_event=policy) == complex_


def test_S002_35_exact_boundaries() -> None:
    first, second = event(x=1), use(x=2)
    text = f"a {first} b {second} c"
    result = read(text)
    assert [text[call.start : call.end] for call in result.calls] == [first, second]
    assert result.residual == "a  b  c"


@pytest.mark.parametrize("stop_reason", [None, "length", "stop"])
def test_S002_39_truncated_reply(stop_reason: str | None) -> None:
    text = event("a:b") + '\n{"type":"ksi_tool_use","id":"ksiu_2","name":"a:c","input":{"c":"abc'
    result = read(text, stop_reason)
    assert [call.name for call in result.calls] == ["a:b"]
    assert [block.code for block in result.rejected] == ["unterminated_block"]


@pytest.mark.parametrize(
    "prose", ["set {x | x>0 and\n", 'say {"oops and then ', '{"a": {"b": ', "} } ] {{{ ", '" ']
)
def test_S002_40_stray_brace_or_quote(prose: str) -> None:
    assert calls(prose + use(c="}")) == [("a:b", {"c": "}"})]


def test_S002_41_arrays_and_wrappers() -> None:
    assert calls(f"[{event('a:b')},{event('a:c')}]") == [("a:b", {}), ("a:c", {})]
    wrapped = f'{{"events": [{event("a:b")}]}}'
    assert calls(wrapped) == []
    assert [note.code for note in read(wrapped).diagnostics] == ["nested_call"]
    assert calls(wrapped, descend=True) == [("a:b", {})]


@pytest.mark.parametrize("data", ['"s"', "[1]", "5", "true"])
def test_S002_42_data_that_is_no_object(data: str) -> None:
    text = f'{{"event":"a:b","data":{data}}}'
    assert (calls(text), codes(text)) == ([], ["args_type"])


@pytest.mark.parametrize("text", ['{"event":"a:b","data":null}', '{"event":"a:b"}'])
def test_S002_42_no_data(text: str) -> None:
    assert calls(text) == [("a:b", {})]
    assert codes(text, mode="strict") == ["args_type"]


def test_S002_43_both_key_sets() -> None:
    text = use(i=1)[:-1] + ',"event":"a:c","data":{}}'
    assert [(c.name, c.args, c.dialect) for c in read(text).calls] == [
        ("a:b", {"i": 1}, "ksi_tool_use")
    ]


def test_S002_44_other_json() -> None:
    assert read('[1,2] "x" {} {"a":1} null') == Extraction('[1,2] "x" {} {"a":1} null')


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"'])
def test_S002_47_what_is_not_json(value: str) -> None:
    text = f'{{"event":"a:b","data":{{"x":{value}}}}}'
    assert (calls(text), codes(text)) == ([], ["malformed_block"])


def test_S002_47_repeated_keys() -> None:
    result = read('{"event":"a:b","data":{"x":1,"x":2}}')
    assert [call.args for call in result.calls] == [{"x": 2}]
    assert [note.code for note in result.diagnostics] == ["duplicate_keys"]


def test_S002_50_no_salvage_from_a_broken_call() -> None:
    text = '{"event":"x", // c\n "data":{"event":"y","data":{}}}'
    assert (calls(text, repair="off"), codes(text, repair="off")) == ([], ["malformed_block"])


@pytest.mark.parametrize("text", [f"x {{{event()}}} y", f"{{bad {{{event()}}}}}"])
def test_S002_50_prose_around_a_call_is_no_call(text: str) -> None:
    assert (calls(text), codes(text)) == ([("a:b", {})], [])
