from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.conversation import Manner, manner_of
from ksi_daemon.extraction import Tool
from ksi_daemon.loop import agreement
from ksi_daemon.providers.model import Capabilities, Completion
from ksi_daemon.services.completions.blocks import Reading, read

TOOL = Tool("a:b", "Do it.", {"type": "object"})
FENCE = '~~~tool_call\n{"name": "a:b", "arguments": {}}\n~~~'
BROKEN = '~~~tool_call\n{"name": oops}\n~~~'
LEFT_OUT = "(a call that could not be read was left out here)"


def manner(*, native: bool, protocol: str = "text_tagged") -> Manner:
    agreed = agreement({"preset": protocol, "use_native_tools": native})
    return manner_of(agreed, "", (TOOL,), Capabilities(), max_calls=9)


async def reading(
    text: str,
    message: dict[str, Any] | None = None,
    *,
    native: bool = True,
    protocol: str = "text_tagged",
) -> Reading:
    completion = Completion(text=text, stop_reason="stop", model="m", message=message)
    return await read(completion, "01-02", manner(native=native, protocol=protocol))


def openai(*calls: tuple[str | None, Any], content: Any = "") -> dict[str, Any]:
    entries = [{"id": id, "function": {"name": "a_b", "arguments": args}} for id, args in calls]
    return {"role": "assistant", "content": content, "tool_calls": entries}


async def test_a_native_call_without_an_id_has_the_same_one_when_it_is_read_again() -> None:
    message = openai((None, "{}"), (None, '{"x": 1}'))
    ids = [[call.id for call in (await reading("", message)).extraction.calls] for _ in range(2)]
    assert ids[0] == ids[1] == ["call_0102_1", "call_0102_2"]


async def test_native_calls_are_replayed_under_the_ids_that_are_answered() -> None:
    found = await reading("", openai((None, "{}"), ("c2", "{broken")))
    assert found.native is not None
    assert [(call["id"], call["function"]["arguments"]) for call in found.native["tool_calls"]] == [
        ("call_0102_1", "{}"),
        ("c2", "{}"),
    ]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        pytest.param(openai(("c1", "{}"), content=f"So:\n{BROKEN}"), "So:\n", id="text"),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": BROKEN},
                    {"type": "tool_use", "id": "c1", "name": "a_b", "input": {}},
                ],
            },
            [
                {"type": "text", "text": LEFT_OUT},
                {"type": "tool_use", "id": "c1", "name": "a_b", "input": {}},
            ],
            id="a part that is all of it",
        ),
    ],
)
async def test_what_was_rejected_beside_native_calls_is_cut(message: Any, content: Any) -> None:
    text = message["content"]
    text = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
    found = await reading(text, message)
    assert found.native is not None
    assert found.native["content"] == content


@pytest.mark.parametrize(
    ("text", "native"),
    [
        pytest.param("Words.", None, id="nothing to cut"),
        pytest.param(FENCE, None, id="a good call stays"),
        pytest.param(f"So:\n{BROKEN}", {"role": "assistant", "content": "So:"}, id="a broken one"),
        pytest.param(BROKEN, {"role": "assistant", "content": LEFT_OUT}, id="all of it"),
    ],
)
async def test_a_text_in_a_native_history_goes_back_without_what_was_rejected(
    text: str, native: Any
) -> None:
    assert (await reading(text)).native == native
    assert (await reading(text, native=False)).native is None


async def test_in_text_calls_that_win_leave_nothing_to_replay() -> None:
    found = await reading(FENCE, openai(("c1", "{}")), native=False)
    assert [call.dialect for call in found.extraction.calls] == ["text_tagged"]
    assert found.native is None


async def test_beside_native_calls_the_text_need_not_be_one_object() -> None:
    found = await reading("So:", openai(("c1", "{}")), protocol="json_action")
    assert [call.dialect for call in found.extraction.calls] == ["native"]
    assert found.extraction.rejected == ()
