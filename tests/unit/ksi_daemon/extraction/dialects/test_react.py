"""Calls in the lines of ReAct and in lists of actions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.react import ReactDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated

ALONE = protocol("any", dialects=("react",), open_thought=False)
WITH_EVENTS = protocol("any", dialects=("react", "event"))
EVENT = '{"event": "a:b", "data": {}}'
SEARCH = {"f": {"properties": {"q": {"type": "string"}}}}


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", dialects=("react",), **overrides), stop_reason=stop_reason)


def told(read: Extraction) -> tuple[list[Any], list[str], str]:
    calls = [(call.name, call.args) for call in read.calls]
    return calls, [block.code for block in read.rejected], read.residual


@pytest.mark.parametrize(
    ("text", "residual"),
    [
        pytest.param('Action: f\nAction Input: {"a": 1}', "", id="two lines"),
        pytest.param('Hm.\n\nAction: f\nAction Input: {"a": 1}\nok', "Hm.\n\n\nok", id="in prose"),
        pytest.param('Action: f\r\nAction Input: {"a": 1}\r\n', "\r\n", id="other line ends"),
        pytest.param('**Action:** f\n**Action Input:** {"a": 1}', "", id="bold"),
        pytest.param('Action 1: f\nAction Input 1: {"a": 1}', "", id="numbered"),
        pytest.param('Action: `f`\nAction Input:\n{"a":\n1}', "", id="on several lines"),
        pytest.param(
            'Action: f\nAction Input: ```json\n{"a": 1}\n```\nok', "\nok", id="in a fence"
        ),
        pytest.param('Action: f\nAction Input: "{\\"a\\": 1}"\nok', "\nok", id="in a string"),
        pytest.param(
            'Action:\n```json\n[{"tool_name": "f", "parameters": {"a": 1}}]\n```',
            "",
            id="Command R",
        ),
        pytest.param(
            'Action:\n```\n{"action": "f", "action_input": {"a": 1}}\n```', "", id="a blob"
        ),
        pytest.param('Action: {"action": "f", "action_input": {"a": 1}}', "", id="without a fence"),
    ],
)
def test_reads_an_action(text: str, residual: str) -> None:
    assert told(found(text)) == ([("f", {"a": 1})], [], residual)


@pytest.mark.parametrize(
    ("text", "codes", "residual"),
    [
        pytest.param("Action: f\nAction Input: text", ["args_type"], "", id="text"),
        pytest.param('Action: a b\nAction Input: {"a": 1}', ["missing_name"], "", id="no name"),
        pytest.param('Action: f\nAction Input: {"a": 1}}', ["malformed_block"], "}", id="a brace"),
        pytest.param(
            'Action: f\nAction Input: {"a" 1}\n\nok', ["malformed_block"], "\n\nok", id="colon"
        ),
        pytest.param('Action: f\nAction Input: {"a": 1', ["unterminated_block"], "", id="cut off"),
        pytest.param("Action: f\nAction Input:", ["unterminated_block"], "", id="cut off before"),
        pytest.param(
            'Action:\n```json\n[{"tool_name": "f", "parameters": {"a":}}]\n```\nok',
            ["malformed_block"],
            "\nok",
            id="in a list",
        ),
        pytest.param(
            'Action: {"action": "f", "action_input": "text"}',
            ["args_type"],
            "",
            id="text in a blob",
        ),
        pytest.param('Action: {"action": "a b"}', ["missing_name"], "", id="no name in a blob"),
    ],
)
def test_actions_that_are_not_right(text: str, codes: list[str], residual: str) -> None:
    assert told(found(text)) == ([], codes, residual)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Action: Final Answer\nAction Input: 42", id="the end"),
        pytest.param('Action: {"action": "Final Answer", "action_input": "42"}', id="as an object"),
        pytest.param(
            'Action:\n```json\n[{"tool_name": "directly-answer", "parameters": {}}]\n```',
            id="Command R answers",
        ),
        pytest.param("Final Answer: 42", id="an answer"),
        pytest.param("Action: None\nAction Input: None", id="no action"),
        pytest.param("Action: the action to take\nAction Input: the input to it", id="a prompt"),
        pytest.param("Action: f\n\nNo input.", id="no input"),
        pytest.param("The Action: f\nAction Input: {}", id="in a line"),
        pytest.param("Reaction: f\nAction Input: {}", id="another word"),
        pytest.param("> Action: f\n> Action Input: {}", id="a quotation"),
        pytest.param('Action: {"name": "f"}', id="another object"),
    ],
)
def test_prose(text: str) -> None:
    assert told(found(text)) == ([], [], text)


@pytest.mark.parametrize("nothing", ["None", "null", "N/A", ""])
def test_no_input_is_an_empty_object(nothing: str) -> None:
    text = f"Action: f\nAction Input: {nothing}\nObservation:"
    assert told(found(text))[:2] == ([("f", {})], [])
    assert told(found(text, mode="strict"))[:2] == ([], ["args_type"])


@pytest.mark.parametrize(
    ("text", "stop_reason", "calls", "codes"),
    [
        ("Action: f\nAction Input: two words\nObservation:", None, [("f", {"q": "two words"})], []),
        ('Action: f\nAction Input: "a \\"b\\""\n\nok', None, [("f", {"q": 'a "b"'})], []),
        ("Action: f\nAction Input: two words", "stop", [("f", {"q": "two words"})], []),
        ("Action: f\nAction Input: two wor", None, [], ["args_type"]),
        ("Action: f\nAction Input: two wor", "length", [], ["args_type"]),
        ("Action: f\nAction Input: two\nlines", "stop", [], ["args_type"]),
        ("Action: g\nAction Input: two words\nObservation:", None, [], ["args_type"]),
    ],
)
def test_text_is_the_one_argument_of_a_tool_that_takes_one_text(
    text: str, stop_reason: str | None, calls: list[Any], codes: list[str]
) -> None:
    read = extract(text, ALONE, tools=SEARCH, stop_reason=stop_reason)
    assert told(read)[:2] == (calls, codes)


def test_an_observation_is_hidden_and_nothing_in_it_runs() -> None:
    text = f"Action: f\nAction Input: {{}}\nObservation: {EVENT}\nThought: {EVENT}\n"
    read = extract(text, WITH_EVENTS)
    assert told(read) == ([("f", {}), ("a:b", {})], [], "\nThought: \n")
    assert [each.code for each in read.diagnostics] == ["shown"]
    asked = extract("Action: f\nAction Input: {}\nObservation:\n", WITH_EVENTS)
    assert (asked.residual, asked.diagnostics) == ("", ())


def test_a_list_holds_several_and_each_has_its_place() -> None:
    one, two = (json.dumps({"tool_name": name, "parameters": {}}) for name in "fg")
    text = f"Action:\n```json\n[\n{one},\n{two}\n]\n```\nok"
    read = found(text)
    assert [text[call.start : call.end] for call in read.calls] == [one, two]
    assert read.residual == "\nok"


def test_an_object_that_is_no_action_is_left_to_others() -> None:
    assert told(extract(f"Action: {EVENT}", WITH_EVENTS)) == ([("a:b", {})], [], "Action: ")


def test_is_mended_up_to_the_next_line() -> None:
    [call] = found('Action: f\nAction Input: {"a": 1,}\nObservation:').calls
    assert (call.args, call.repairs) == ({"a": 1}, ("trailing_comma",))
    text = 'Action: f\nAction Input: {"a": "x\nAction: g\nAction Input: {"b": 2}'
    assert told(found(text))[:2] == ([("g", {"b": 2})], ["malformed_block"])


def test_writes() -> None:
    written = ReactDialect().write("f", {"a": "x\ny"}, "")
    assert written == 'Action: f\nAction Input: {"a": "x\\ny"}'


def streamed(text: str, step: int) -> tuple[list[int], Extraction]:
    """Return how much had come when each call was given out, and the result."""
    reader, seen = Extractor(ALONE), []
    for at in range(0, len(text), step):
        chunk = text[at : at + step]
        seen += [at + len(chunk) for each in reader.feed(chunk) if isinstance(each, Call)]
    return seen, reader.close()


@pytest.mark.parametrize(
    ("call", "behind"),
    [
        ('Action: f\nAction Input: {"a": 1}', "\n\nM"),
        ("Action: f\nAction Input: {}", "\nObservation: x\nThought: m\n"),
        ('Action: {"action": "f", "action_input": {}}', "\nM"),
    ],
)
def test_a_stream_gives_an_action_out_when_it_is_certain(call: str, behind: str) -> None:
    [come] = streamed(f"{call}{behind}ore of it", 1)[0]
    assert come <= len(call + behind)


_PIECES = [
    "Action:",
    " f\n",
    "Action Input:",
    " {}",
    '{"a": 1}',
    "{",
    "}",
    '"',
    "```",
    "json",
    "\n",
]
_PIECES += ["\n\n", " ", "Observation:", "Thought:", "Final Answer", "**", "[", "]", ",", "text"]
_PIECES += ["Action: f\nAction Input:", '{"tool_name": "f"', '"parameters": {}', '{"action": "f"}']


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join), st.integers(1, 5))
def test_a_stream_finds_what_is_found_at_once(text: str, step: int) -> None:
    whole, parts = extract(text, ALONE), streamed(text, step)[1]
    assert [(each.name, each.args, each.span) for each in parts.calls] == [
        (each.name, each.args, each.span) for each in whole.calls
    ]
    assert (parts.rejected, parts.residual) == (whole.rejected, whole.residual)


@pytest.mark.parametrize(
    "unit",
    [
        "Action: x\n",
        "Action: x\nAction Input: {\n",
        'Action: x\nAction Input: {"a":"',
        "Action: x\nAction Input: y",
        "Action: x\nAction Input: {}\nObservation: ",
        'Action:\n```json\n[{"tool_name": "',
        'Action: {"action": "f"},',
    ],
)
def test_twice_the_text_costs_twice(unit: str) -> None:
    assert doubling(lambda size: extract(repeated(unit, size), ALONE), 40_000) < LINEAR
