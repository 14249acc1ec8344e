"""Completions without an agent: what a session elsewhere asks and gets."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ksi_client import DaemonError
from tests.loop import House, fence, house, native_call

pytestmark = pytest.mark.conformance

TOOL = {
    "name": "read_file",
    "description": "Read a file.",
    "schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def asking(reply: Any, **fields: Any) -> dict[str, Any]:
    provider: dict[str, Any] = {"type": "scripted", "replies": [reply]}
    if capabilities := fields.pop("capabilities", None):
        provider["capabilities"] = capabilities
    return {"prompt": "go", "provider": provider, "tools": [TOOL], **fields}


async def run(at: House, reply: Any, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await at.ksi.request("completion:run", asking(reply, **fields))
    return answer


async def test_S000_50_S004_41_a_session_elsewhere_is_told_the_calls_and_none_runs() -> None:
    async with house() as at:
        reply = f"Look:\n{fence('read_file', path='a')}"
        answer = await run(at, reply, protocol="text_tagged", system="Be brief.")
        assert at.prompt().startswith("Be brief.")
        assert "read_file" in at.prompt()
        assert await at.logged("read_file") == []
        [result] = await at.logged("completion:result")
        rows = at.query("SELECT id, agent_id, state, preset FROM completions")
    [call] = answer["calls"]
    assert (call["name"], call["args"], call["dialect"]) == (
        "read_file",
        {"path": "a"},
        "text_tagged",
    )
    assert (answer["text"], answer["stop_reason"], answer["residual"]) == (reply, "stop", "Look:\n")
    assert result["id"] == answer["completion_id"]
    assert rows == [(answer["completion_id"], None, "done", "text_tagged")]


@pytest.mark.parametrize("native", [True, False])
async def test_S004_41_the_tools_go_out_as_the_request_says(native: bool) -> None:
    reply = {"tool_calls": [native_call("read_file", path="a")]} if native else "No."
    async with house() as at:
        spoken = {"preset": "native_auto", "use_native_tools": native}
        answer = await run(at, reply, protocol=spoken, capabilities={"native_tool_calls": True})
        assert [tool.name for tool in at.requests[0].tools] == (["read_file"] if native else [])
        assert ("~~~tool_call" in at.prompt()) != native
    assert [call["dialect"] for call in answer["calls"]] == (["native"] if native else [])


async def test_a_conversation_may_hold_results() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "calls"},
        {"role": "tool", "name": "read_file", "content": "text"},
    ]
    async with house() as at:
        await run(at, "Done.", prompt=None, messages=messages)
        assert at.sent()[-1].content == "Tool Result (read_file):\ntext"


async def test_what_is_rejected_comes_with_what_the_model_should_be_told() -> None:
    async with house() as at:
        answer = await run(at, "no JSON", protocol="json_action")
    assert [block["code"] for block in answer["rejected"]] == ["not_json"]
    assert "not_json" in answer["corrections"]


async def test_of_a_text_that_broke_off_no_call_is_told() -> None:
    async with house() as at:
        reply = {"text": fence("read_file", path="a"), "stop_reason": None}
        answer = await run(at, reply, protocol="text_tagged")
    assert (answer["calls"], answer["stop_reason"]) == ([], None)
    assert "broke off" in answer["incomplete"]


async def test_one_may_ask_and_not_wait() -> None:
    async with house() as at:
        sent = await at.ksi.request("completion:async", asking("Hi."))
        with anyio.fail_after(30):
            while not (found := await at.logged("completion:result")):
                pass
    assert found[0]["data"]["request_id"] == sent["request_id"]
    assert found[0]["data"]["text"] == "Hi."


async def test_a_completion_is_cancelled_by_its_request() -> None:
    async with house() as at:
        late = asking({"text": "late", "delay_s": 600})
        request_id = (await at.ksi.request("completion:async", late))["request_id"]
        with anyio.fail_after(30):
            while not (await at.ksi.request("completion:status"))["requests"]:
                pass
            await at.ksi.request("completion:cancel", {"request_id": request_id})
            while (await at.ksi.request("completion:status"))["requests"]:
                pass
            while not (found := await at.logged("completion:cancelled")):
                pass
        assert found[0]["data"]["request_id"] == request_id
        with pytest.raises(DaemonError) as caught:
            await at.ksi.request("completion:cancel", {"request_id": request_id})
    assert caught.value.code == "not_found"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"prompt": None}, "args_schema", id="nothing to ask"),
        pytest.param(
            {"messages": [{"role": "user", "content": "x"}]}, "args_schema", id="two things"
        ),
        pytest.param({"protocol": "latin"}, "not_found", id="no such preset"),
        pytest.param({"provider": {"type": "none"}}, "args_schema", id="no such provider"),
        pytest.param({"provider": None}, "args_schema", id="no provider"),
        pytest.param(
            {"tools": [{"name": "x", "description": "", "schema": {"type": 5}}]},
            "args_schema",
            id="a schema that is none",
        ),
    ],
)
async def test_what_cannot_be_asked(fields: dict[str, Any], code: str) -> None:
    async with house() as at:
        with pytest.raises(DaemonError) as caught:
            await run(at, "Hi.", **fields)
    assert caught.value.code == code


async def test_a_provider_that_fails_is_told_and_logged() -> None:
    failing = {"error": {"message": "no", "code": "provider_auth"}}
    async with house() as at:
        with pytest.raises(DaemonError) as caught:
            await run(at, failing)
        [error] = await at.logged("completion:error")
    assert caught.value.code == error["error"]["code"] == "provider_auth"


@pytest.mark.parametrize("event", ["completion:run", "completion:async"])
async def test_an_agent_may_not_ask_models_past_its_budget(event: str) -> None:
    text = f'{{"event": "{event}", "data": {{"prompt": "x", "provider": "scripted"}}}}'
    async with house() as at:
        await at.spawn(text, "Done.", allow=["completion:*"])
        answer = await at.send()
    assert [call["status"] for call in answer["calls"]] == ["denied"]
