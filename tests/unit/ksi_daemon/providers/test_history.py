from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.providers.history import NO_RESULT, Asked, Result, Turn, prepare
from ksi_daemon.providers.model import Message, Request, Tool

TOOL = Tool("t", "", {"type": "object"})
ASK = Message("user", "q")
USER = Turn(role="user", text="q")
A, B = Asked("c1", "t", {"a": 1}), Asked("c2", "t", {})


def entry(id: str, arguments: Any = "{}", name: Any = "t") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def native(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "s", "tool_calls": list(entries)}


BOTH = native(entry("c1", '{"a": 1}'), entry("c2"))
SAID = Turn(role="assistant", text="s", calls=(A, B))


def answered(*results: Result) -> Turn:
    return Turn(role="user", results=results)


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        pytest.param([], (), id="nothing"),
        pytest.param([ASK, Message("user", "r")], (Turn(role="user", text="q\n\nr"),), id="joined"),
        pytest.param([ASK, Message("assistant", " \n")], (USER,), id="blank"),
        pytest.param(
            [
                Message("assistant", "s", native=BOTH),
                Message("tool", "y", call_id="c2", is_error=True),
                Message("tool", "x", call_id="c1"),
                ASK,
            ],
            (
                SAID,
                Turn(
                    role="user",
                    text="q",
                    results=(Result(B, "t", "y", True), Result(A, "t", "x")),
                ),
            ),
            id="results by their ids, text behind them",
        ),
        pytest.param(
            [Message("assistant", "s", native=BOTH), Message("tool", "x", call_id="c1"), ASK],
            (
                SAID,
                Turn(
                    role="user",
                    text="q",
                    results=(Result(A, "t", "x"), Result(B, "t", NO_RESULT, True)),
                ),
            ),
            id="a call that got no result",
        ),
        pytest.param(
            [Message("assistant", "s", native=BOTH)],
            (SAID, answered(Result(A, "t", NO_RESULT, True), Result(B, "t", NO_RESULT, True))),
            id="the end before the results",
        ),
        pytest.param(
            [
                Message("assistant", "s", native=native(entry("c2"))),
                Message("tool", "y", call_id="c2"),
                Message("tool", "z", name="t", call_id="c2"),
            ],
            (
                Turn(role="assistant", text="s", calls=(B,)),
                Turn(role="user", text="Tool Result (t):\nz", results=(Result(B, "t", "y"),)),
            ),
            id="a second result is text",
        ),
        pytest.param(
            [Message("tool", "z", name="t", call_id="c9")],
            (Turn(role="user", text="Tool Result (t):\nz"),),
            id="a result without a call is text",
        ),
        pytest.param(
            [ASK, Message("assistant", "s", native=native(entry("c2", "{bad", None)))],
            (
                USER,
                Turn(role="assistant", text="s", calls=(Asked("c2", "_e3b0c442", {}),)),
                answered(Result(Asked("c2", "_e3b0c442", {}), "_e3b0c442", NO_RESULT, True)),
            ),
            id="a call that could not be used",
        ),
        pytest.param(
            [Message("assistant", "s", native={"role": "assistant", "content": "s"})],
            (Turn(role="assistant", text="s"),),
            id="a native message without calls",
        ),
        pytest.param(
            [Message("assistant", "s", native={"what": 1})],
            (Turn(role="assistant", text="s"),),
            id="a message of no vendor",
        ),
    ],
)
def test_turns(messages: list[Message], turns: tuple[Turn, ...]) -> None:
    conversation = prepare(Request(messages=tuple(messages), tools=(TOOL,)), "anthropic")
    assert conversation.turns == turns


def test_all_system_messages_are_one_prompt() -> None:
    messages = (Message("system", "a"), ASK, Message("system", ""), Message("system", "b"))
    conversation = prepare(Request(messages=messages), "openai")
    assert (conversation.system, conversation.turns) == ("a\n\nb", (USER,))


def test_without_tools_calls_and_results_are_text() -> None:
    messages = (
        Message("assistant", "s", native=BOTH),
        Message("tool", "x", name="t", call_id="c1"),
    )
    assert prepare(Request(messages=messages), "openai").turns == (
        Turn(role="assistant", text="s"),
        Turn(role="user", text="Tool Result (t):\nx"),
    )


def test_a_free_tool_role_keeps_its_place() -> None:
    messages = (ASK, Message("tool", "x", name="t"), Message("user", "r"))
    turns = prepare(Request(messages=messages), "openai", free_tool_role=True).turns
    assert turns == (
        USER,
        Turn(role="user", text="r", results=(Result(None, "t", "x"),)),
    )


def test_calls_without_ids_get_numbers_that_stay() -> None:
    def said(*names: str) -> Message:
        parts = [{"functionCall": {"name": name, "args": {}}} for name in names]
        return Message("assistant", "", native={"role": "model", "parts": parts})

    messages = (
        said("t", "u"),
        Message("tool", "x", call_id="ksiu_1"),
        Message("tool", "y", call_id="ksiu_2"),
        said("v"),
    )
    turns = prepare(Request(messages=messages, tools=(TOOL,)), "anthropic").turns
    ids = [(call.id, call.name) for turn in turns for call in turn.calls]
    results = [
        (result.call.id, result.content) for turn in turns for result in turn.results if result.call
    ]
    assert ids == [("call_1", "t"), ("call_2", "u"), ("call_3", "v")]
    assert results == [("call_1", "x"), ("call_2", "y"), ("call_3", NO_RESULT)]


def test_a_message_in_the_vendors_own_form_stays() -> None:
    own = native(entry("c1"))
    request = Request(messages=(Message("assistant", "s", native=own),), tools=(TOOL,))
    kept = {vendor: prepare(request, vendor).turns[0].native for vendor in ("openai", "gemini")}
    assert kept == {"openai": own, "gemini": None}
