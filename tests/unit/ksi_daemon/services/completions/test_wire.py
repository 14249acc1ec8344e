from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.conversation import Manner, manner_of
from ksi_daemon.extraction import Tool
from ksi_daemon.loop import agreement
from ksi_daemon.providers.model import Capabilities, Message
from ksi_daemon.services.completions.wire import MISSING, Wire

TOOL = Tool("a:b", "Do it.", {"type": "object", "properties": {"x": {"type": "integer"}}})
NATIVE = Capabilities(native_tool_calls=True)
FREE = Capabilities(free_tool_role=True)


def manner(protocol: Any = "ksi", capabilities: Capabilities = NATIVE, *tools: Tool) -> Manner:
    return manner_of(agreement(protocol), "Speak.", tools or (TOOL,), capabilities, max_calls=9)


def user(content: str) -> Message:
    return Message("user", content)


def reply(content: str, *calls: str) -> Message:
    entries = [
        {"id": each, "type": "function", "function": {"name": "a_b", "arguments": "{}"}}
        for each in calls
    ]
    native = {"role": "assistant", "content": content, "tool_calls": entries}
    return Message("assistant", content, native=native if calls else None)


def result(content: str, call_id: str = "c1", name: str = "a:b") -> Message:
    return Message("tool", content, name, call_id)


def sent(
    messages: list[Message], protocol: Any = "ksi", capabilities: Capabilities = NATIVE
) -> list[Message]:
    spoken = manner(protocol, capabilities)
    wire = Wire(spoken, capabilities)
    for length in range(len(messages)):
        wire.request(spoken, messages[:length], None)
    at_once = Wire(spoken, capabilities).request(spoken, messages, None)
    # What has grown by and by is what it is at once.
    assert wire.request(spoken, messages, None) == at_once
    return list(at_once.messages[1:])


@pytest.mark.parametrize(
    ("messages", "merged"),
    [
        pytest.param([user("a"), reply("b")], [user("a"), reply("b")], id="alternating"),
        pytest.param([user("a"), user("b")], [user("a\n\nb")], id="two of one role"),
        pytest.param([user("a"), user("b"), user("c")], [user("a\n\nb\n\nc")], id="three"),
        pytest.param(
            [user("a"), reply(" \n"), user("b")], [user("a\n\nb")], id="nothing between them"
        ),
        pytest.param([user("a"), reply("")], [user("a")], id="nothing at the end"),
        pytest.param(
            [user("a"), reply("b"), result("1"), result("2", name="c:d"), user("e")],
            [
                user("a"),
                reply("b"),
                user("Tool Result (a:b):\n1\n\nTool Result (c:d):\n2\n\ne"),
            ],
            id="results and what follows are one message",
        ),
        pytest.param(
            [user("a"), reply("", "c1"), result("1")],
            [user("a\n\nTool Result (a:b):\n1")],
            id="a native reply without text",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_in_text_roles_alternate(messages: list[Message], merged: list[Message]) -> None:
    assert sent(messages) == merged


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [user("a"), reply("", "c1", "c2"), result("1"), result("2", "c2")],
            [
                user("a"),
                reply("", "c1", "c2"),
                result("1", name="a_b"),
                result("2", "c2", name="a_b"),
            ],
            id="results under the ids and the native names of their calls",
        ),
        pytest.param(
            [user("a"), reply("", "c1"), result("1"), result("2", "ksiu_1")],
            [
                user("a"),
                reply("", "c1"),
                result("1", name="a_b"),
                user("Tool Result (a:b):\n2"),
            ],
            id="the result of a call in text beside it is text",
        ),
        pytest.param(
            [user("a"), reply("", "c1", "c2"), result("1"), user("b")],
            [
                user("a"),
                reply("", "c1", "c2"),
                result("1", name="a_b"),
                Message("tool", MISSING, "a_b", "c2", is_error=True),
                user("b"),
            ],
            id="what was cut off has an answer",
        ),
        pytest.param(
            [user("a"), reply("a fence"), result("1", "ksiu_1")],
            [user("a"), reply("a fence"), user("Tool Result (a:b):\n1")],
            id="a provider that wrote its call into the text",
        ),
    ],
)
def test_natively_each_call_has_its_result(
    messages: list[Message], expected: list[Message]
) -> None:
    assert sent(messages, {"use_native_tools": True}) == expected


@pytest.mark.parametrize(
    ("protocol", "capabilities", "roles"),
    [
        pytest.param("ksi", FREE, ["user"], id="events are answered by text"),
        pytest.param("json_action", FREE, ["tool"], id="json_action by the role"),
        pytest.param("json_action", NATIVE, ["user"], id="unless it cannot be taken"),
        pytest.param({"result_style": "tool"}, FREE, ["tool"], id="as it is set"),
        pytest.param({"result_style": "tool"}, NATIVE, ["user"], id="set, and cannot be taken"),
        pytest.param(
            {"preset": "json_action", "result_style": "user"}, FREE, ["user"], id="text is set"
        ),
    ],
)
def test_the_form_of_a_result(protocol: Any, capabilities: Capabilities, roles: list[str]) -> None:
    messages = [user("a"), reply("b"), result("1", "ksiu_1")]
    assert [each.role for each in sent(messages, protocol, capabilities)[2:]] == roles


@pytest.mark.parametrize(
    ("setting", "capabilities", "native"),
    [
        pytest.param(False, NATIVE, False, id="off"),
        pytest.param(True, FREE, True, id="on, whatever the provider says"),
        pytest.param("auto", NATIVE, True, id="auto, and it can"),
        pytest.param("auto", FREE, False, id="auto, and it cannot"),
        pytest.param(
            True,
            Capabilities(native_tool_calls=True, self_contained_tools=True),
            False,
            id="a provider with tools of its own",
        ),
    ],
)
def test_tools_go_out_natively_or_in_the_prompt(
    setting: Any, capabilities: Capabilities, native: bool
) -> None:
    spoken = manner({"use_native_tools": setting}, capabilities)
    request = Wire(spoken, capabilities).request(spoken, [user("a")], None)
    assert [(each.name, each.schema) for each in request.tools] == (
        [("a_b", TOOL.schema)] if native else []
    )
    assert (request.messages[0].content == "Speak.") == native


def test_an_empty_system_prompt_is_left_out() -> None:
    spoken = manner_of(agreement("prompt_tools"), " \n", (), FREE, max_calls=9)
    assert Wire(spoken, FREE).request(spoken, [user("a")], "m").messages == (user("a"),)
