"""Calls in a list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.provider_list import ProviderListDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated

A = '{"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{\\"x\\": 1}"}}'
B = '{"name": "b", "arguments": {}}'


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides), stop_reason=stop_reason)


@pytest.mark.parametrize(
    ("text", "calls", "codes", "residual"),
    [
        pytest.param(f'So: {{"tool_calls": [{A}]}}.', ["a"], [], "So: .", id="one"),
        pytest.param(f'{{"tool_calls": [{A}, {B}]}}', ["a", "b"], [], "", id="two"),
        pytest.param(f'```json\n{{"tool_calls": [{A}]}}\n```', ["a"], [], None, id="in a fence"),
        pytest.param(
            f'{{"role": "assistant", "content": null, "tool_calls": [{A}]}}',
            ["a"],
            [],
            "",
            id="the whole message",
        ),
        pytest.param(
            f'{{"content": "a \\"}} b", "tool_calls": [{A}], "role": "assistant"}}',
            ["a"],
            [],
            "",
            id="members on both sides",
        ),
        pytest.param(
            f'{{"tool_calls": [{A}, {{"x": 1}}]}}', ["a"], ["missing_name"], "", id="no call"
        ),
        pytest.param(
            '{"tool_calls": [{"function": {"name": "a", "arguments": "x"}}]}',
            [],
            ["args_json"],
            "",
            id="arguments that are no JSON",
        ),
        pytest.param(f'{{"tool_calls": [{B}, "b"]}}', [], ["args_type"], "", id="no objects"),
        pytest.param(
            f'{{"tool_calls": [{B}], "tool_calls": 1}}', [], ["malformed_block"], "", id="two lists"
        ),
        pytest.param(f'{{"tool_calls": [{B} x]}}', [], ["malformed_block"], "", id="broken"),
        pytest.param(
            f'{{"tool_calls": [{{"n": 1 x}}]}}\n\n{{"tool_calls": [{B}]}}',
            ["b"],
            ["malformed_block"],
            "\n\n",
            id="a broken one and another",
        ),
        pytest.param(f'{{"tool_calls": [{B}', [], ["unterminated_block"], "", id="cut off"),
        pytest.param(
            '{"tool_calls": []}', [], [], '{"tool_calls": []}', id="an empty list calls nothing"
        ),
        pytest.param('see "tool_calls": [{', [], [], 'see "tool_calls": [{', id="talked about"),
    ],
)
def test_reads_lists(text: str, calls: list[str], codes: list[str], residual: str | None) -> None:
    result = found(text)
    assert [call.name for call in result.calls] == calls
    assert [block.code for block in result.rejected] == codes
    assert residual is None or result.residual == residual


def test_each_call_has_a_span_that_gives_it_again() -> None:
    lone, pair = f'{{"tool_calls": [{A}]}}', f'{{"tool_calls": [{A} , {B}]}}'
    assert [lone[call.start : call.end] for call in found(lone).calls] == [lone]
    assert [pair[call.start : call.end] for call in found(pair).calls] == [A, B]
    assert [call.name for call in found(A).calls] == ["a"]


def test_is_mended_if_it_holds_one_call() -> None:
    [call] = found(f'{{"tool_calls": [{B},]}}').calls
    assert call.repairs == ("trailing_comma",)
    assert found(f'{{"tool_calls": [{B}, {B},]}}').calls == ()
    assert found(f'{{"tool_calls": [{B},]}}', repair="off").calls == ()


def test_a_stream_gives_the_calls_of_a_list_that_is_whole() -> None:
    text = f'So: {{"tool_calls": [{A}, {B}]}} and so on' + " and on" * 40
    stream = Extractor(protocol("any", dialects=["provider_list"], open_thought=False))
    told = [each for letter in text for each in stream.feed(letter) if isinstance(each, Call)]
    assert [call.name for call in told] == ["a", "b"]


@pytest.mark.conformance
def test_S002_28_is_not_executed_under_the_preset_ksi() -> None:
    text = f'{{"tool_calls": [{A}]}}'
    assert extract(text, protocol("ksi")).calls == ()


@pytest.mark.parametrize(
    "unit",
    [
        '{"tool_calls": [{',
        '{"content": "',
        '{"role": "a", "tool_calls": [{"x": "',
        '{"tool_calls": [{"x": 1,}',
        '{"content": "\\"{',
    ],
)
def test_cost_grows_with_the_text(unit: str) -> None:
    assert doubling(lambda size: found(repeated(unit, size)), 40_000) < LINEAR


def test_writes() -> None:
    text = ProviderListDialect().write("a", {"x": 1}, "c1")
    assert json.loads(text) == {"tool_calls": [json.loads(A)]}
