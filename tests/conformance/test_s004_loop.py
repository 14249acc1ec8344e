"""Rows of source 004 that need an agent: native calls, the fallback table, how results go back."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import read_native, replay
from ksi_daemon.testing import short_directory
from tests.loop import House, fence, house, native_call

pytestmark = pytest.mark.conformance

NATIVE = {"native_tool_calls": True}
GET = native_call("state_get", "c1", key="k")
FENCE = fence("state:get", key="k")
VALUE = '{"value":"hello","version":1}'


async def told(at: House, *replies: Any, **fields: Any) -> dict[str, Any]:
    """Send a message to an agent that may read the state, in which ``k`` is "hello"."""
    await at.ksi.request("state:set", {"key": "k", "value": "hello"})
    await at.spawn(
        *replies,
        **{"protocol": "native_auto", "capabilities": NATIVE, "tools": ["state:get"]} | fields,
    )
    return await at.send()


def ran(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(call["id"], call["status"]) for call in answer["calls"]]


def roles(at: House) -> list[tuple[str, str | None]]:
    """Return role and call id of the messages of the last request."""
    return [(each.role, each.call_id) for each in at.sent()]


@pytest.mark.parametrize("declared", [True, False])
async def test_S004_1_in_auto_the_providers_capability_decides(declared: bool) -> None:
    async with house() as at:
        await told(at, "Hi.", capabilities={"native_tool_calls": declared})
        assert [tool.name for tool in at.requests[0].tools] == (["state_get"] if declared else [])
        assert ("~~~tool_call" in at.prompt()) == (not declared)


@pytest.mark.parametrize(
    ("reply", "dialects", "notes"),
    [
        pytest.param(
            {"text": f"So\n{FENCE}", "tool_calls": [GET]}, ["native"], {"shown"}, id="S004-26"
        ),
        pytest.param(FENCE, ["text_tagged"], {"native_fallback"}, id="S004-27 none"),
        pytest.param(
            {"text": FENCE, "tool_calls": []}, ["text_tagged"], {"native_fallback"}, id="S004-27 []"
        ),
        pytest.param('Like {"tool": "state:get", "arguments": {}}.', [], set(), id="S004-28"),
    ],
)
async def test_S004_26_27_28_rows_of_the_table_for_a_provider_that_does_native_calls(
    reply: Any, dialects: list[str], notes: set[str]
) -> None:
    async with house() as at:
        answer = await told(at, reply, "Done.")
        found = await at.logged("state:get")
        codes = {code for (code,) in at.query("SELECT code FROM v_diagnostics")}
    assert [each["call"]["dialect"] for each in found] == dialects
    assert notes <= codes
    assert (answer["finish_reason"], answer["turns"]) == ("stop", 2 if dialects else 1)


@pytest.mark.parametrize(
    ("reply", "dialects", "notes"),
    [
        pytest.param(FENCE, ["text_tagged"], set(), id="a fence"),
        pytest.param("Just words.", [], set(), id="prose"),
        pytest.param(
            {"text": FENCE, "tool_calls": [GET]},
            ["text_tagged"],
            {"capability_mismatch"},
            id="both: the fence",
        ),
        pytest.param(
            {"text": "So:", "tool_calls": [GET]},
            ["native"],
            {"capability_mismatch"},
            id="native calls alone are not lost",
        ),
    ],
)
async def test_S004_29_row_of_the_table_for_a_provider_that_does_none(
    reply: Any, dialects: list[str], notes: set[str]
) -> None:
    async with house() as at:
        await told(at, reply, "Done.", capabilities={"native_tool_calls": False})
        found = await at.logged("state:get")
        codes = {code for (code,) in at.query("SELECT code FROM v_diagnostics")}
        assert [each.role for each in at.sent()] in (["user"], ["user", "assistant", "user"])
    assert [each["call"]["dialect"] for each in found] == dialects
    assert codes & {"native_fallback", "capability_mismatch"} == notes


async def test_S004_30_a_provider_that_lies_is_understood() -> None:
    replies = [f"{n} {FENCE}" for n in range(3)]
    replies = [reply.replace("~~~tool_call", "\n~~~tool_call", 1) for reply in replies]
    async with house(max_same_calls=9) as at:
        answer = await told(at, *replies, "Done.")
        assert len(at.requests[-1].tools) == 1
        result = f"Tool Result (state:get):\n{VALUE}"
        assert [(each.role, each.content) for each in at.sent()][2::2] == [("user", result)] * 3
        assert all(each.native is None for each in at.sent())
    assert [status for _, status in ran(answer)] == ["handled"] * 3
    assert (answer["text"], answer["finish_reason"], answer["turns"]) == ("Done.", "stop", 4)


async def test_S004_36_one_bad_native_call_costs_the_others_nothing() -> None:
    bad = {"id": "c2", "function": {"name": "state_get", "arguments": '{"key": oops'}}
    async with house() as at:
        answer = await told(at, {"tool_calls": [GET, bad]}, "Done.")
        good, wrong = at.sent()[-2:]
        assert (good.role, good.call_id, good.content, good.is_error) == (
            "tool",
            "c1",
            VALUE,
            False,
        )
        assert (wrong.role, wrong.call_id, wrong.is_error) == ("tool", "c2", True)
        assert "args_json" in wrong.content
        # What no server could read does not go back to one.
        replayed = at.sent()[-3].native
        assert replayed is not None
        assert [each["function"]["arguments"] for each in replayed["tool_calls"]] == [
            '{"key": "k"}',
            "{}",
        ]
        assert "oops" in at.query("SELECT data FROM events WHERE name = 'completion:result'")[0][0]
    assert ran(answer) == [("c1", "handled")]


async def test_S004_37_ids_that_collide_are_told_apart() -> None:
    other = native_call("state_get", "c1", key="other")
    async with house() as at:
        answer = await told(at, {"tool_calls": [GET, other]}, "Done.")
        first, second = at.sent()[-2:]
        replayed = at.sent()[-3].native
        assert replayed is not None
        assert [each["id"] for each in replayed["tool_calls"]] == [first.call_id, second.call_id]
    assert [call["id"] for call in answer["calls"]] == [first.call_id, second.call_id]
    assert (first.call_id, first.content) == ("c1", VALUE)
    assert second.call_id != "c1"
    assert second.content == '{"value":null,"version":0}'


async def test_S004_38_a_native_call_that_lacks_something() -> None:
    calls = [
        {"id": None, "function": {"name": "state_get", "arguments": {"key": "k"}}},
        {"id": "c2", "name": "state_get", "arguments": {"key": "k"}},
        {"id": "c3", "function": {"arguments": {"key": "k"}}},
    ]
    async with house() as at:
        answer = await told(at, {"tool_calls": calls}, "Done.")
        assert [each.is_error for each in at.sent()[-3:]] == [False, False, True]
        assert "missing_name" in at.sent()[-1].content
    assert [status for _, status in ran(answer)] == ["handled", "handled"]


SLOW = '''
import anyio

from ksi_daemon.router import handles


@handles("odd:raise")
async def fail(data: dict, ctx):
    """Raise."""
    raise ValueError("broken inside")


@handles("odd:hang", timeout_s=0.05)
async def hang(data: dict, ctx):
    """Hang."""
    await anyio.sleep_forever()
'''


async def test_S004_39_every_native_call_has_one_result_in_the_order_of_the_calls() -> None:
    calls = [native_call("odd_raise", "c1"), native_call("odd_hang", "c2"), {**GET, "id": "c3"}]
    with short_directory() as plugins:
        (plugins / "odd.py").write_text(SLOW)
        async with house(plugins=str(plugins)) as at:
            answer = await told(
                at, {"tool_calls": calls}, "Done.", tools=["odd:raise", "odd:hang", "state:get"]
            )
            results = at.sent()[-3:]
    assert ran(answer) == [("c1", "failed"), ("c2", "timeout"), ("c3", "handled")]
    assert [(each.role, each.call_id, each.is_error) for each in results] == [
        ("tool", "c1", True),
        ("tool", "c2", True),
        ("tool", "c3", False),
    ]


async def test_S004_40_calls_are_replayed_as_their_vendor_wants_them() -> None:
    call = {"id": "c1", "function": {"name": "state_get", "arguments": {"key": "k"}}}
    async with house() as at:
        await told(at, {"text": "So:", "tool_calls": [call]}, "Done.")
        [_, reply, result] = at.sent()
    assert reply.native == {
        "role": "assistant",
        "content": "So:",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "state_get", "arguments": '{"key": "k"}'},
            }
        ],
    }
    assert (result.name, result.call_id, result.content) == ("state_get", "c1", VALUE)


async def test_S004_41_a_request_may_say_that_its_tools_go_in_the_prompt() -> None:
    async with house() as at:
        await told(at, "One.", "Two.", "Three.")
        await at.send(protocol={"use_native_tools": False})
        await at.send()
        assert [bool(each.tools) for each in at.requests] == [True, False, True]
        assert ["~~~tool_call" in at.prompt(n) for n in range(3)] == [False, True, False]


async def test_S004_42_of_a_provider_with_tools_of_its_own_only_events_are_read() -> None:
    event = '{"event": "state:get", "data": {"key": "k"}}'
    able = {"native_tool_calls": True, "self_contained_tools": True}
    async with house() as at:
        answer = await told(at, f"{FENCE}\n{event}", "Done.", capabilities=able)
        [found] = await at.logged("state:get")
        assert at.requests[0].tools == ()
    assert found["call"]["dialect"] == "event"
    assert len(answer["calls"]) == 1


async def test_S004_45_a_mangled_name_is_mapped_back() -> None:
    async with house() as at:
        answer = await told(
            at,
            {"tool_calls": [native_call("agent_status", "c1", status="ready")]},
            "Done.",
            tools=["agent:status"],
        )
    assert [(call["name"], call["status"]) for call in answer["calls"]] == [
        ("agent:status", "handled")
    ]


async def test_a_rejected_text_does_not_go_back_raw_into_a_native_history() -> None:
    broken = '~~~tool_call\n{"name": "state:get", "arguments": {"key" oops}}\n~~~'
    async with house() as at:
        await told(at, f"I look.\n{broken}", "Done.")
        sent = [each.native or each.content for each in at.sent()]
        assert sent[1] == {"role": "assistant", "content": "I look."}
        assert "malformed_block" in sent[2]
        assert at.messages()[1]["content"].endswith(broken)


async def test_S004_35_native_arguments_are_checked_before_they_are_used() -> None:
    async with house() as at:
        answer = await told(at, {"tool_calls": [native_call("state_get", "c1", key=5)]}, "Done.")
        result = at.sent()[-1]
    assert ran(answer) == [("c1", "rejected")]
    assert (result.call_id, result.is_error) == ("c1", True)
    assert "args_schema" in result.content
    assert '"key"' in result.content


async def test_S002_17_a_vendors_ids_are_kept() -> None:
    calls = [native_call("state_get", id, key="k") for id in ("call_abc123", "toolu_01abc")]
    async with house() as at:
        answer = await told(at, {"tool_calls": calls}, "Done.")
        assert [each.call_id for each in at.sent()[-2:]] == ["call_abc123", "toolu_01abc"]
    assert [call["id"] for call in answer["calls"]] == ["call_abc123", "toolu_01abc"]


@pytest.mark.parametrize(
    ("message", "id", "text"),
    [
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_abc",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path": "/tmp/foo"}'},
                    }
                ],
            },
            "call_abc",
            "",
            id="S004-2 OpenAI",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "So:"},
                    {
                        "type": "tool_use",
                        "id": "toolu_abc",
                        "name": "read_file",
                        "input": {"path": "/tmp/foo"},
                    },
                ],
            },
            "toolu_abc",
            "So:",
            id="S004-3 Anthropic",
        ),
        pytest.param(
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"name": "read_file", "args": {"path": "/tmp/foo"}},
                        "thoughtSignature": "xyz",
                    }
                ],
            },
            None,
            "",
            id="S002-27 Gemini",
        ),
    ],
)
def test_S004_2_3_S002_25_26_27_each_vendors_message_is_read(
    message: dict[str, Any], id: str | None, text: str
) -> None:
    found = read_native(message)
    [call] = found.calls
    assert (call.name, call.args, call.dialect) == ("read_file", {"path": "/tmp/foo"}, "native")
    assert call.id == id or (id is None and call.id_generated)
    assert found.residual == text
    assert "thoughtSignature" not in str(message) or "xyz" in str(replay(message))
