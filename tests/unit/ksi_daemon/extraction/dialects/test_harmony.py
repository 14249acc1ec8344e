"""Messages in channels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.harmony import HarmonyDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated
from tests.properties.written import SOME, arguments, prose

HEADERS = [
    "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>",
    "<|channel|>commentary to=functions.{}<|message|>",
    "<|channel|>analysis to=functions.{} code<|message|>",
    "<|start|>assistant<|channel|>commentary to=functions.{} <|constrain|>json<|message|>",
    "<|start|>assistant to=functions.{}<|channel|>commentary json<|message|>",
    "<|start|>assistant to={}<|channel|>analysis<|message|>",
]
CALL = '<|start|>assistant<|channel|>commentary to=functions.f<|message|>{"x": 1}<|call|>'
THOUGHT = "<|channel|>analysis<|message|>Let me see.<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>"


def found(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides))


@pytest.mark.parametrize("header", HEADERS)
@SOME
@given(before=prose, args=arguments, after=prose)
def test_reads_what_the_model_writes(
    header: str, before: str, args: dict[str, Any], after: str
) -> None:
    args["content"] = f"{CALL}{THOUGHT}{FINAL}"
    block = header.format("notes:save") + json.dumps(args, ensure_ascii=False)
    text = f"{before}\n{block}<|call|>\n{after}"
    result = found(text)
    assert [(call.name, call.args) for call in result.calls] == [("notes:save", args)]
    assert (result.rejected, result.thought) == ((), "")
    assert result.residual.split() == (before + "\n" + after).split()
    [call] = result.calls
    [again] = found(text[call.start : call.end]).calls
    assert (again.name, again.args) == (call.name, call.args)


@pytest.mark.parametrize(
    ("text", "calls", "codes", "residual", "thought"),
    [
        pytest.param(THOUGHT + FINAL, [], [], "Hello!", "Let me see.", id="thought and answer"),
        pytest.param(THOUGHT + CALL, ["f"], [], "", "Let me see.", id="thought and call"),
        pytest.param(CALL + CALL, ["f", "f"], [], "", "", id="two calls"),
        pytest.param(
            "<|channel|>commentary<|message|>I look.<|end|>" + CALL,
            ["f"],
            [],
            "I look.",
            "",
            id="words before a call",
        ),
        pytest.param(
            ' to=functions.f<|channel|>commentary json<|message|>{"x": 1}',
            ["f"],
            [],
            "",
            "",
            id="the reply begins behind its role",
        ),
        pytest.param(
            '<|channel|>analysis<|message|>{"event": "a:b", "data": {}}<|end|>',
            [],
            [],
            "",
            '{"event": "a:b", "data": {}}',
            id="nothing in a thought fires",
        ),
        pytest.param(
            "<|channel|>analysis<|message|>it is <|channel|>final<|message|>So.",
            [],
            [],
            "So.",
            "it is",
            id="a thought that nothing closes",
        ),
        pytest.param("<|channel|>analysis<|message|>hm", [], [], "", "hm", id="thought cut off"),
        pytest.param(
            '<|channel|>final<|message|>{"event": "a:b", "data": {}}<|return|>',
            ["a:b"],
            [],
            "",
            "",
            id="another dialect in the answer",
        ),
        pytest.param(
            '<|start|>functions.f to=assistant<|channel|>commentary<|message|>{"y": 2}<|end|>!',
            [],
            [],
            "!",
            "",
            id="a result that the model made up",
        ),
        pytest.param(
            "<|channel|>commentary to=assistant<|channel|>analysis<|message|>hm<|end|>",
            [],
            [],
            "",
            "hm",
            id="to itself",
        ),
        pytest.param(
            "<|channel|>commentary to=python<|message|>print(1)<|call|>!",
            [],
            ["malformed_block"],
            "!",
            "",
            id="arguments that are no object",
        ),
        pytest.param(
            '<|channel|>commentary to=functions.f<|message|>{"x": <|call|>!',
            [],
            ["malformed_block"],
            "!",
            "",
            id="broken",
        ),
        pytest.param(
            "<|channel|>commentary to=functions.f <|constr",
            [],
            ["unterminated_block"],
            "",
            "",
            id="cut off in the header",
        ),
        pytest.param(
            "<|channel|>commentary to=functions.f<|message|>",
            [],
            ["unterminated_block"],
            "",
            "",
            id="cut off behind the header",
        ),
        pytest.param("<|channel|>final", [], [], "<|channel|>final", "", id="header of no call"),
        pytest.param(
            "The `<|channel|>final<|message|>` header.",
            [],
            [],
            "The `<|channel|>final<|message|>` header.",
            "",
            id="talked about",
        ),
        pytest.param("Bye<|end|>\n", [], [], "Bye\n", "", id="the mark of the end"),
        pytest.param("a <|end|> b", [], [], "a <|end|> b", "", id="the mark of the end, talked of"),
    ],
)
def test_tells_calls_thoughts_and_text_apart(
    text: str, calls: list[str], codes: list[str], residual: str, thought: str
) -> None:
    result = found(text)
    assert [call.name for call in result.calls] == calls
    assert [block.code for block in result.rejected] == codes
    assert (result.residual, result.thought) == (residual, thought)


@pytest.mark.parametrize(
    "text",
    [
        f"{THOUGHT}{CALL}{FINAL}",
        f"{THOUGHT}{FINAL}{CALL}x",
        f"{CALL.replace('1', 'bad')}{CALL} x",
        ' to=functions.f<|channel|>commentary json<|message|>{"x": 1}<|call|> x',
        "a <|end|> b <|channel|> c <|end|> ",
        "<|channel|>commentary to=functions.f <|constr",
    ],
)
def test_a_stream_gives_the_same(text: str) -> None:
    ids = [f"g{number}" for number in range(9)]
    alone = protocol("any", dialects=["harmony"], open_thought=False)
    text += "\n" + " and so on" * 40
    whole = extract(text, alone, new_id=iter(ids).__next__)
    stream = Extractor(alone, new_id=iter(ids).__next__)
    told = [each for letter in text for each in stream.feed(letter) if isinstance(each, Call)]
    assert stream.close() == whole
    assert tuple(told) == whole.calls


@pytest.mark.parametrize(
    "unit",
    [
        "<|start|>assistant",
        "<|channel|>analysis<|message|>",
        "<|channel|>commentary to=functions.f<|message|>{",
        '<|channel|>commentary to=functions.f<|message|>{"x": "',
        "<|channel|>a<|constrain|>",
        "<|end|>",
        " to=a<|channel|>",
    ],
)
def test_cost_grows_with_the_text(unit: str) -> None:
    assert doubling(lambda size: found(repeated(unit, size)), 40_000) < LINEAR


def test_writes() -> None:
    header = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    assert HarmonyDialect().write("f", {"x": 1}, "") == f'{header}{{"x": 1}}<|call|>'
