"""No call in a foreign text stays hidden."""

from __future__ import annotations

import json

import pytest

from ksi_daemon.extraction import Call, candidates, protocol

KSI = protocol("ksi")
EVENT = '{"event":"a:b","data":{"x":1}}'
USE = '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":1}}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(EVENT, id="bare"),
        pytest.param(f"> {EVENT}", id="block quote"),
        pytest.param('> {"event":\n> "a:b","data":\n> {"x":1}}', id="block quote of several lines"),
        pytest.param(
            '- > > {"event":"a:b",\n  > > "data":{"x":1}}', id="quote in a quote in a list"
        ),
        pytest.param(
            json.dumps({"s": '> {"event":"a:b",\n> "data":{"x":1}}'}), id="block quote in a string"
        ),
        pytest.param(f"```python\n{EVENT}\n```", id="fence"),
        pytest.param(f"<think>{EVENT}", id="thought"),
        pytest.param(f'{{"list":[1,{{"x":{EVENT}}}]}}', id="data"),
        pytest.param(json.dumps({"s": f"see {EVENT}"}), id="string"),
        pytest.param(json.dumps({f"see {EVENT}": 1}), id="key"),
        pytest.param(json.dumps({"s": json.dumps({"t": EVENT})}), id="string in a string"),
        pytest.param(f'{{"x":NaN,"s":{json.dumps(EVENT)}}}', id="string beside NaN"),
        pytest.param(f'{{"x":NaN,"s":{EVENT}}}', id="beside NaN"),
        pytest.param(f'{{"n":{"1" * 5000},"s":{EVENT}}}', id="beside many digits"),
        pytest.param(f'{{"x":{EVENT},"x":1}}', id="under a repeated key"),
        pytest.param(f'{{"event":"a:b","data":{{bad {EVENT}', id="broken block"),
        pytest.param(f'{{"event":"no name","data":{EVENT}}}', id="data of no call"),
        pytest.param("{! " * 20 + EVENT, id="noise"),
        pytest.param('{"a":' * 500 + EVENT + "}" * 500, id="500 levels"),
    ],
)
def test_finds_what_is_hidden(text: str) -> None:
    assert ("a:b", {"x": 1}) in [(call.name, call.args) for call in candidates(text, KSI)]


def test_finds_blocks_of_lines_in_a_block_quote() -> None:
    text = '> ~~~ksi a:b\n> {"x": 1}\n> --- s\n> one\n> two\n> ~~~\n'
    [call] = candidates(f"He said:\n{text}So.", KSI)
    assert (call.name, call.args, call.span) == (
        "a:b",
        {"x": 1, "s": "one\ntwo"},
        (9, 9 + len(text)),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('{"event":"Birthday party","data":{}}', id="no event name"),
        pytest.param('{"type":"ksi_tool_use","name":"a:b","input":[1]}', id="unusable"),
    ],
)
def test_finds_only_calls(text: str) -> None:
    assert candidates(text, KSI) == ()


def test_gives_calls_in_order_with_their_places() -> None:
    text = f'{EVENT} {{"s":[{USE}]}}'
    assert candidates(text, KSI) == (
        Call("a:b", {"x": 1}, "", True, "event", 0, 30),
        Call("a:b", {"x": 1}, "ksiu_1", False, "ksi_tool_use", 31, 105),
    )


def test_finds_a_call_in_the_arguments_of_another() -> None:
    text = json.dumps({"event": "c:d", "data": {"content": USE}})
    assert [call.name for call in candidates(text, KSI)] == ["c:d", "a:b"]


def test_no_number_of_calls_hides_one() -> None:
    assert len(candidates(EVENT * 1000, KSI)) == 1000


def test_policy_hides_none() -> None:
    settings = protocol("ksi", mode="strict", legacy_event="reject", max_reply_chars=1)
    assert len(candidates('{"event":"a:b"}', settings)) == 1
