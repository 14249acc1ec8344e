"""Native messages: calls of each vendor, which calls count, the way back, names."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import (
    Call,
    Diagnostic,
    Extraction,
    Rejected,
    choose,
    extract,
    native_names,
    protocol,
    read_native,
    replay,
)
from ksi_daemon.extraction.native import MAX_CALLS, vendor_of

OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_abc",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "/tmp/foo"}'},
        }
    ],
}
OLLAMA = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "read_file", "arguments": {"path": "/tmp/foo"}}}],
}
ANTHROPIC = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I look at it."},
        {"type": "tool_use", "id": "toolu_abc", "name": "read_file", "input": {"path": "/tmp/foo"}},
    ],
}
GEMINI = {
    "role": "model",
    "parts": [
        {"text": "Hm.", "thought": True},
        {"text": "I look at it."},
        {
            "functionCall": {"name": "read_file", "args": {"path": "/tmp/foo"}},
            "thoughtSignature": "c2ln",
        },
    ],
}


def found(message: Any, **settings: Any) -> Extraction:
    numbers = count(1)
    return read_native(message, new_id=lambda: f"new{next(numbers)}", **settings)


def openai(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", "tool_calls": list(calls)}


def call(arguments: Any, id: Any = "c1", name: Any = "read_file") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("message", "id", "text"),
    [
        pytest.param(OPENAI, "call_abc", "", id="S002_25 S004_2 OpenAI"),
        pytest.param(OLLAMA, "new1", "", id="Ollama"),
        pytest.param(ANTHROPIC, "toolu_abc", "I look at it.", id="S002_26 S004_3 Anthropic"),
        pytest.param(GEMINI, "new1", "I look at it.", id="S002_27 Gemini"),
        pytest.param({"content": GEMINI}, "new1", "I look at it.", id="candidate of Gemini"),
        pytest.param(GEMINI["parts"][2], "new1", "", id="part of Gemini"),
        pytest.param(
            {"function_call": OPENAI["tool_calls"][0]["function"]}, "new1", "", id="old OpenAI"
        ),
    ],
)
def test_S004_4_each_vendor_gives_the_same_call(message: Any, id: str, text: str) -> None:
    made = id == "new1"
    expected = Call("read_file", {"path": "/tmp/foo"}, id, made, "native", 0, 0)
    assert found(message) == Extraction(text, (expected,))


@pytest.mark.conformance
def test_S003_19_a_native_call_equals_the_one_in_text() -> None:
    text = '~~~tool_call\n{"name": "read_file", "arguments": {"path": "/tmp/foo"}}\n~~~'
    [native], [tagged] = found(OPENAI).calls, extract(text, protocol("text_tagged")).calls
    assert (native.name, native.args) == (tagged.name, tagged.args)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, id="S004_31 object"),
        pytest.param(' {"a": 1}\n', {"a": 1}, id="S004_32 text with blanks"),
        pytest.param("", {}, id="S004_33 empty"),
        pytest.param(" \n", {}, id="S004_33 blank"),
        pytest.param(None, {}, id="nothing"),
        pytest.param("[1]", "args_type", id="S004_32 list as text"),
        pytest.param("5", "args_type", id="S004_32 number as text"),
        pytest.param([1], "args_type", id="S004_34 list"),
        pytest.param(5, "args_type", id="S004_34 number"),
        pytest.param(True, "args_type", id="S004_34 boolean"),
        pytest.param("{a", "args_json", id="S004_34 no JSON"),
        pytest.param('{"a": "\\ud800"}', "malformed_block", id="half of a pair"),
        pytest.param('{"a":' * 99 + "1" + "}" * 99, "depth_limit", id="deep"),
    ],
)
def test_S004_31_to_34_arguments(arguments: Any, expected: Any) -> None:
    read = found(openai(call(arguments)))
    outcomes = [each.args for each in read.calls] + [each.code for each in read.rejected]
    assert outcomes == [expected]


@pytest.mark.conformance
def test_S004_36_a_bad_call_costs_the_others_nothing() -> None:
    read = found(openai(call("{}", "a"), call("[1]", "b"), call("{}", "c")))
    assert [(each.id, each.start) for each in read.calls] == [("a", 0), ("c", 2)]
    message = "'arguments' must be an object, got text"
    excerpt = json.dumps(call("[1]", "b"))[:120]
    assert read.rejected == (Rejected("args_type", message, "native", 1, 1, excerpt, "b"),)


@pytest.mark.conformance
def test_S004_37_an_id_is_used_once() -> None:
    read = found(openai(call('{"x": 1}'), call('{"x": 2}'), call('{"x": 1}')))
    assert [(each.id, each.args["x"]) for each in read.calls] == [("c1", 1), ("new1", 2)]
    assert read.diagnostics == (
        Diagnostic("duplicate_id", "the id 'c1' was used before", 1, 1),
        Diagnostic("duplicate_id", "the call 'c1' was repeated", 2, 2),
    )


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        pytest.param(call("{}", None), ("read_file", "new1"), id="null id"),
        pytest.param(call("{}", 5), ("read_file", "new1"), id="number as id"),
        pytest.param({"function": {"name": "a"}}, ("a", "new1"), id="no type"),
        pytest.param({"name": "a", "id": "c1"}, ("a", "c1"), id="no function"),
        pytest.param({"id": "c1", "type": "function"}, ("missing_name", "c1"), id="no name"),
        pytest.param(call("{}", name=""), ("missing_name", "c1"), id="empty name"),
        pytest.param(call("{}", name=["a"]), ("missing_name", "c1"), id="list as name"),
        pytest.param(None, ("missing_name", "new1"), id="null"),
        pytest.param("read_file", ("missing_name", "new1"), id="text"),
    ],
)
def test_S004_38_what_is_missing(entry: Any, outcome: tuple[str, str]) -> None:
    read = found(openai(entry))
    outcomes = [(each.name, each.id) for each in read.calls]
    assert outcomes + [(each.code, each.id) for each in read.rejected] == [outcome]


def test_what_is_told_of_a_bad_call_can_be_stored() -> None:
    [block] = found(
        openai(
            call(["\ud800"]),
        )
    ).rejected
    assert block.excerpt.encode().startswith(b'{"id": "c1"')


def test_calls_are_limited() -> None:
    read = found(openai(*(call({}, f"c{number}") for number in range(MAX_CALLS + 2))))
    assert len(read.calls) == MAX_CALLS
    assert [block.code for block in read.rejected] == ["size_limit"] * 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
_words = st.sampled_from(["role", "content", "type", "text", "id", "input", "args", "arguments"])
shaped = st.recursive(
    json_values | st.sampled_from(["function", "tool_use", "read_file", "c1", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            _words | st.sampled_from(["tool_calls", "function", "name", "parts", "functionCall"]),
            inner,
        )
    ),
    max_leaves=16,
)


@pytest.mark.conformance
@given(shaped, st.sampled_from(["openai", "anthropic", "gemini", None]))
def test_S004_39_nothing_raises_and_order_is_kept(message: Any, vendor: Any) -> None:
    before = deepcopy(message)
    read = found(message, vendor=vendor)
    places = sorted([each.start for each in read.calls] + [each.start for each in read.rejected])
    assert len(set(places)) == len(places)
    ids = [each.id for each in read.calls] + [each.id for each in read.rejected]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    replay(message, vendor=vendor, found=read)
    assert repr(message) == repr(before)


@given(st.lists(st.tuples(json_values, st.sampled_from(["a", "b", None])), max_size=6))
def test_S004_39_every_call_has_one_outcome(entries: list[tuple[Any, Any]]) -> None:
    read = found(openai(*(call(args, id) for args, id in entries)))
    repeated = [note for note in read.diagnostics if note.message.endswith("was repeated")]
    places = [each.start for each in (*read.calls, *read.rejected, *repeated)]
    assert sorted(places) == list(range(len(entries)))


TAGGED = '~~~tool_call\n{"name": "t"}\n~~~'
EVENT = '{"event": "a:b", "data": {}}'


def text_of(text: str) -> Extraction:
    return extract(text, protocol("any"), new_id=lambda: "text")


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("message", "text", "declared", "names", "codes"),
    [
        pytest.param(OPENAI, "x", True, ["read_file"], [], id="S004_26"),
        pytest.param(OPENAI, TAGGED, True, ["read_file"], ["shown"], id="S004_26 and a fence"),
        pytest.param(OPENAI, EVENT, True, ["read_file", "a:b"], [], id="S004_26 C14 and an event"),
        pytest.param({}, TAGGED, True, ["t"], ["native_fallback"], id="S004_27 no key"),
        pytest.param(
            {"tool_calls": None}, TAGGED, True, ["t"], ["native_fallback"], id="S004_27 null"
        ),
        pytest.param({"tool_calls": []}, TAGGED, True, ["t"], ["native_fallback"], id="S004_27 []"),
        pytest.param({}, "prose", True, [], [], id="S004_28"),
        pytest.param({}, TAGGED, False, ["t"], [], id="S004_29"),
        pytest.param({}, "prose", False, [], [], id="S004_29 prose"),
        pytest.param(OPENAI, TAGGED, False, ["t"], ["capability_mismatch"], id="S004_29 both"),
        pytest.param(
            OPENAI, "prose", False, ["read_file"], ["capability_mismatch"], id="S004_29 only native"
        ),
    ],
)
def test_S004_26_to_29_what_counts(
    message: Any, text: str, declared: bool, names: list[str], codes: list[str]
) -> None:
    chosen = choose(found(message), text_of(text), declared=declared)
    assert [each.name for each in chosen.calls] == names
    assert [note.code for note in chosen.diagnostics] == codes


def test_bad_native_calls_are_native_calls_too() -> None:
    chosen = choose(found(openai(call("[1]"))), text_of(TAGGED), declared=True)
    assert (chosen.calls, [block.code for block in chosen.rejected]) == ((), ["args_type"])


@pytest.mark.conformance
def test_S004_40_OpenAI_has_arguments_as_text() -> None:
    ollama = openai(call({"x": 1}, None), call("", "c2"), call("[1]", "c3"))
    ollama["audio"] = {"x": 1}
    assert replay(ollama, found=found(ollama)) == {
        "role": "assistant",
        "content": "x",
        "tool_calls": [call('{"x": 1}', "new1"), call("{}", "c2"), call("[1]", "c3")],
    }
    assert replay({"content": "x"}) == {"role": "assistant", "content": "x"}


@pytest.mark.conformance
def test_S004_40_Anthropic_has_input_as_an_object() -> None:
    assert replay(ANTHROPIC) == ANTHROPIC
    bad = {"type": "tool_use", "id": "t1", "name": "a", "input": '{"x": 1}'}
    assert replay({"content": [bad, bad]}) == {
        "role": "assistant",
        "content": [{**bad, "input": {"x": 1}}],
    }
    text = {"type": "text", "text": "x"}
    assert replay({"content": "x"}, vendor="anthropic") == {"role": "assistant", "content": [text]}


@pytest.mark.conformance
def test_S003_33_Gemini_gets_back_what_stands_beside_a_call() -> None:
    assert replay(GEMINI) == GEMINI
    assert replay({"content": GEMINI}) == GEMINI


@pytest.mark.parametrize("message", [None, [], "x", 5, {}, {"content": 5}])
def test_what_is_no_message_has_no_calls(message: Any) -> None:
    assert found(message) == Extraction("")
    assert replay(message)["role"] == "assistant"


def test_shapes_tell_the_vendor() -> None:
    known = [vendor_of(each) for each in (OPENAI, OLLAMA, ANTHROPIC, GEMINI, {"content": "x"}, {})]
    assert known == ["openai", "openai", "anthropic", "gemini", "openai", None]


@pytest.mark.conformance
def test_S004_45_names_go_there_and_back() -> None:
    names = native_names(["read_file", "composition:create_component", "kom.memory.v1.upsert"])
    assert names.native == {
        "composition:create_component": "composition_create_component",
        "kom.memory.v1.upsert": "kom_memory_v1_upsert",
        "read_file": "read_file",
    }
    read = found(openai(call({}, name="composition_create_component")), names=names)
    assert [each.name for each in read.calls] == ["composition:create_component"]
    assert [note.code for note in read.diagnostics] == ["name_mangled"]


def test_names_that_would_be_the_same_are_told_apart() -> None:
    names = native_names(["a:b", "a.b", "a_b", "x" * 99, "x" * 98])
    assert names.native["a_b"] == "a_b"
    assert len(set(names.native.values())) == 5


@given(st.lists(st.text("ab:._é/-", max_size=70) | st.text(max_size=5), max_size=8), st.randoms())
def test_S004_45_any_names_go_there_and_back(known: list[str], random: Any) -> None:
    names = native_names(known)
    for name in known:
        short = names.to_native(name)
        assert 0 < len(short) <= 64
        assert short.isascii()
        assert short.replace("_", "").replace("-", "").isalnum() or not short.strip("_-")
        assert names.to_original(short) == name
    random.shuffle(known)
    assert native_names(known).native == names.native


def test_unknown_names_stay() -> None:
    names = native_names(["a:b"])
    assert (names.to_native("c:d"), names.to_original("c_d")) == ("c_d", "c_d")
