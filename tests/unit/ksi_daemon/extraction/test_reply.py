from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, Schemas, protocol, read_reply

SCHEMAS: Schemas = {"a:b": {"type": "object"}}
EVENT = '{"event": "a:b", "data": {}}'
FENCE = '~~~tool_call\n{"name": "a:b", "arguments": {}}\n~~~'


def openai(*ids: str | None) -> dict[str, Any]:
    entries = [
        {"id": id, "function": {"name": "a_b", "arguments": f'{{"n": "{id}"}}'}} for id in ids
    ]
    return {"role": "assistant", "content": "", "tool_calls": entries}


def chosen(
    text: str,
    message: dict[str, Any] | None = None,
    *,
    preset: str = "text_tagged",
    native: bool = False,
    **overrides: Any,
) -> Extraction:
    return read_reply(
        text,
        message,
        reply_id="01-02",
        protocol=protocol(preset, **overrides),
        tools=SCHEMAS,
        native=native,
        stop_reason="stop",
    ).chosen


@pytest.mark.parametrize(
    ("found", "calls"),
    [
        pytest.param(chosen("Hello."), [], id="nothing"),
        pytest.param(chosen(FENCE), [("text_tagged", "a:b")], id="in text"),
        pytest.param(
            chosen("", openai("c1"), native=True), [("native", "a:b")], id="beside the text"
        ),
        pytest.param(
            chosen(FENCE, openai("c1"), native=True), [("native", "a:b")], id="native ones win"
        ),
        pytest.param(
            chosen(EVENT, openai("c1"), preset="ksi", native=True),
            [("native", "a:b"), ("event", "a:b")],
            id="but for events",
        ),
        pytest.param(
            chosen(FENCE, openai("c1")), [("text_tagged", "a:b")], id="what was not declared loses"
        ),
        pytest.param(
            chosen("</think>" + EVENT, preset="ksi"),
            [("event", "a:b")],
            id="a thought that a template opened",
        ),
        pytest.param(
            chosen("Well.", openai("c1"), preset="json_action", native=True),
            [("native", "a:b")],
            id="with native calls a text is no broken action",
        ),
    ],
)
def test_which_calls_count(found: Extraction, calls: list[tuple[str, str]]) -> None:
    assert [(call.dialect, call.name) for call in found.calls] == calls
    assert found.rejected == ()


def test_a_call_without_an_id_has_the_same_one_when_it_is_read_again() -> None:
    found = [chosen("", openai(None, None), native=True).calls for _ in range(2)]
    assert [call.id for call in found[0]] == ["call_0102_1", "call_0102_2"]
    assert found[0] == found[1]


def test_what_is_wrong_in_the_text_of_a_reply_without_calls_is_kept() -> None:
    [block] = chosen("Well.", preset="json_action").rejected
    assert block.dialect == "json_action"
