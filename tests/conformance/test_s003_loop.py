"""Rows of source 003 that need an agent: tools in the prompt, natively by choice, results."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from ksi_client import DaemonError
from ksi_daemon.testing import short_directory
from tests.loop import House, house, native_call, prompted

pytestmark = pytest.mark.conformance

NATIVE = {"native_tool_calls": True}
GET = prompted("state:get", key="k")
VALUE = '{"value":"hello","version":1}'
RESULT = f"Tool Result (state:get):\n{VALUE}"


async def told(at: House, *replies: Any, **fields: Any) -> dict[str, Any]:
    """Send a message to an agent that may use the state, in which ``k`` is "hello"."""
    await at.ksi.request("state:set", {"key": "k", "value": "hello"})
    asked = {"protocol": "prompt_tools", "tools": ["state:get", "state:set"]}
    await at.spawn(*replies, **{**asked, **fields})
    return await at.send()


async def test_S003_1_35_tools_are_in_the_prompt_if_nothing_is_said() -> None:
    async with house() as at:
        await told(at, "Hi.", capabilities=NATIVE)
        assert at.requests[0].tools == ()
        assert "## Available Tools" in at.prompt()


@pytest.mark.parametrize("value", ["yes", 1, None, "Auto"])
async def test_S003_2_a_setting_of_another_kind_is_refused(value: Any) -> None:
    async with house() as at:
        with pytest.raises(DaemonError, match="use_native_tools") as caught:
            await told(at, protocol={"preset": "prompt_tools", "use_native_tools": value})
    assert caught.value.code == "invalid_configuration"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("mode", "loose"),
        ("dialects", "event"),
        ("result_style", "system"),
        ("on_malformed", "yes"),
        ("max_protocol_retries", -1),
        ("max_iterations", 0),
        ("thought_limit", -1),
        ("legacy_event", "no"),
    ],
)
async def test_S003_2_each_setting_is_checked(setting: str, value: Any) -> None:
    async with house() as at:
        with pytest.raises(DaemonError, match=setting) as caught:
            await told(at, protocol={setting: value})
    assert caught.value.code == "invalid_configuration"


async def test_S003_3_no_field_is_false() -> None:
    async with house() as at:
        await told(at, "Hi.", capabilities=NATIVE)
        spoken = {"preset": "prompt_tools", "use_native_tools": False}
        await told(at, "Hi.", agent_id="b", capabilities=NATIVE, protocol=spoken)
        await at.send(agent_id="b")
        assert at.requests[0].messages == at.requests[2].messages
        assert at.requests[0].tools == at.requests[2].tools


async def test_S003_4_36_natively_the_tools_are_in_the_request_and_not_in_the_prompt() -> None:
    async with house() as at:
        spoken = {"preset": "prompt_tools", "use_native_tools": True}
        await told(at, "Hi.", protocol=spoken)
        tools = {tool.name: tool.schema for tool in at.requests[0].tools}
        assert at.prompt() == "You are a test."
    assert list(tools) == ["state_get", "state_set"]
    assert tools["state_get"]["required"] == ["key"]


async def test_S003_5_each_request_may_say_it_otherwise() -> None:
    async with house() as at:
        await told(at, "One.", "Two.", "Three.")
        await at.send(protocol={"use_native_tools": True})
        await at.send(protocol="text_tagged")
        assert [len(each.tools) for each in at.requests] == [0, 2, 0]
        assert ["## Available Tools" in at.prompt(n) for n in range(3)] == [True, False, False]
        assert "~~~tool_call" in at.prompt(2)
        with pytest.raises(DaemonError, match="no preset 'latin'"):
            await at.send(protocol="latin")


async def test_S003_11_the_tools_stand_behind_the_instructions() -> None:
    async with house() as at:
        await told(at, "Hi.")
        assert at.prompt().startswith("You are a test.\n\n## Available Tools\n\n**state:get**\n")
        assert at.prompt().count("## Available Tools") == 1


async def test_S003_12_without_tools_what_looks_like_a_call_is_data() -> None:
    async with house() as at:
        answer = await told(at, '{"tool": "x", "arguments": {}}', tools=[])
        assert at.prompt() == "You are a test."
        assert await at.logged("extraction:*") == []
    assert (answer["turns"], answer["calls"], answer["rejected"]) == (1, [], 0)


async def test_S003_18_50_missing_arguments_are_none_and_ids_differ_across_replies() -> None:
    async with house() as at:
        answer = await told(at, '{"tool": "system:ping"}', GET, "Done.")
    assert len({call["id"] for call in answer["calls"]}) == 2


async def test_S003_19_the_same_call_in_each_form_is_one_call() -> None:
    async with house() as at:
        await told(at, GET, "Done.")
        spoken = {"preset": "prompt_tools", "use_native_tools": True}
        call = {"tool_calls": [native_call("state_get", key="k")]}
        await told(at, call, "Done.", agent_id="b", protocol=spoken)
        await at.send(agent_id="b")
        found = await at.logged("state:get")
    assert [each["data"] for each in found] == [{"key": "k"}, {"key": "k"}]
    assert [each["call"]["dialect"] for each in found] == ["prompt_json", "native"]


async def test_S003_21_a_result_goes_back_as_a_message_of_the_user() -> None:
    async with house() as at:
        await told(at, GET, "Done.")
        assert [(each.role, each.content) for each in at.sent()] == [
            ("user", "go"),
            ("assistant", GET),
            ("user", RESULT),
        ]
        assert at.messages()[2]["role"] == "tool"


async def test_S003_22_natively_a_result_answers_its_call() -> None:
    spoken = {"preset": "prompt_tools", "use_native_tools": True}
    async with house() as at:
        call = {"tool_calls": [native_call("state_get", "call_7", key="k")]}
        await told(at, call, "Done.", protocol=spoken)
        result = at.sent()[-1]
    assert (result.role, result.call_id, result.content) == ("tool", "call_7", VALUE)


async def test_S003_23_24_two_calls_run_in_order_and_have_one_message() -> None:
    writing = prompted("state:set", key="k", value="bye")
    async with house() as at:
        answer = await told(at, f"First\n{writing}\nthen\n{GET}", GET, "Done.")
        roles = [each.role for each in at.sent()]
        both = at.sent(1)[-1].content
    assert roles == ["user", "assistant"] * 2 + ["user"]
    assert both == (
        'Tool Result (state:set):\n{"version":2}\n\n'
        'Tool Result (state:get):\n{"value":"bye","version":2}'
    )
    assert len(answer["calls"]) == 3


async def test_S003_26_33_a_request_holds_nothing_of_ours() -> None:
    async with house() as at:
        await told(at, GET, "Done.")
        fields = [
            {name for name in each.__struct_fields__ if getattr(each, name)} for each in at.sent()
        ]
    assert fields == [{"role", "content"}] * 3
    assert at.requests[-1].tools == ()


async def test_S003_27_29_a_native_history_goes_on_in_text() -> None:
    spoken = {"preset": "prompt_tools", "use_native_tools": True}
    async with house() as at:
        call = {"tool_calls": [native_call("state_get", key="k")]}
        await told(at, call, "Done.", "Bye.", protocol=spoken)
        native = at.sent()
        assert [(each.role, bool(each.native)) for each in native][1] == ("assistant", True)
        assert native[1].content == ""
        await at.send("more", protocol={"use_native_tools": False})
        assert [(each.role, each.content, each.native) for each in at.sent()] == [
            ("user", f"go\n\n{RESULT}", None),
            ("assistant", "Done.", None),
            ("user", "more", None),
        ]


@pytest.mark.parametrize("system", [" ", " \n"])
async def test_S003_28_an_empty_system_prompt_is_not_sent(system: str) -> None:
    async with house() as at:
        await told(at, "Hi.", system=system, tools=[])
        assert [each.role for each in at.requests[0].messages] == ["user"]


async def test_S003_30_31_the_debug_log_tells_what_is_sent_and_what_came() -> None:
    async with house() as at:
        with capture_logs() as logs:
            await told(at, GET, "Done.")
            await told(at, "Hi.", agent_id="b", tools=[])
            await at.send(agent_id="b")
    told_of = [entry["mode"] for entry in logs if entry["event"] == "tools_told"]
    assert told_of == ["Using prompt-based tools (provider-agnostic)"] * 3  # the agent's turns
    sanitized = [entry for entry in logs if entry["event"] == "messages_sanitized"]
    assert sanitized[1]["summary"] == "After sanitization: 3 messages (removed 0)"
    assert sanitized[1]["messages"][3] == {
        "index": 3,
        "role": "user",
        "has_tools": False,
        "has_tool_id": False,
        "preview": RESULT,
    }
    parsed = [entry["summary"] for entry in logs if entry["event"] == "calls_parsed"]
    assert parsed[0] == "Parsed 1 prompt-based tool call(s)"
    [result] = [entry for entry in logs if entry["event"] == "result_told"]
    assert (result["tool"], result["head"], result["length"]) == ("state:get", VALUE, len(VALUE))


async def test_S003_34_a_model_sees_its_error_and_mends_it() -> None:
    async with house() as at:
        answer = await told(at, prompted("state:get"), GET, "Done.")
        rows = at.query("SELECT verdict, corrected FROM attempts ORDER BY completion_id")
    assert (answer["turns"], answer["finish_reason"]) == (3, "stop")
    assert [call["status"] for call in answer["calls"]] == ["rejected", "handled"]
    assert rows == [("strict", 1), ("strict", 0)]


async def test_S003_37_native_and_prompt_come_to_the_same() -> None:
    ends = []
    for native in (False, True):
        replies: list[Any] = []
        for n in range(3):
            args = {"key": f"k{n}", "value": n}
            call = {"tool_calls": [native_call("state_set", f"c{n}", **args)]}
            replies.append(call if native else prompted("state:set", **args))
        async with house() as at:
            spoken = {"preset": "prompt_tools", "use_native_tools": native}
            answer = await told(at, *replies, "Done.", protocol=spoken)
            states = [await at.ksi.request("state:get", {"key": f"k{n}"}) for n in range(3)]
            events = [
                (each["event"], each["data"], each["status"])
                for each in await at.logged("state:set")
            ]
        results = [(call["name"], call["result"]) for call in answer["calls"]]
        ends.append((answer["text"], answer["turns"], results, states, events))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("stop_reason", "status"), [("length", None), ("stop", "handled")], ids=["cut off", "stopped"]
)
async def test_S003_40_a_call_that_is_cut_off_is_told_where(
    stop_reason: str, status: str | None
) -> None:
    reply = {"text": '{"tool":"state:get","arguments":{"key":"k"', "stop_reason": stop_reason}
    async with house() as at:
        answer = await told(at, reply, GET, "Done.")
        assert [call["status"] for call in answer["calls"]][:1] == ["handled"]
        first = at.sent(1)[-1].content
    assert answer["rejected"] == (0 if status else 1)
    assert (first == RESULT) == bool(status)
    if not status:
        assert "unterminated_block" in first
        assert "cut off where ',' or '}' was expected" in first


async def test_S003_41_arguments_that_are_no_object_are_named() -> None:
    async with house() as at:
        await told(at, '{"tool": "state:get", "arguments": "print(1)"}', "sorry")
        content = at.sent()[-1].content
    assert "'arguments'" in content
    assert "object" in content


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('```json\n{"result": 42,}}\n```', id="S003-42"),
        pytest.param('{"name":"Ada","age":36}', id="S003-16"),
        pytest.param("```python\ntransform(data=[1, 2])\n```", id="S003-17"),
    ],
)
async def test_S003_16_17_42_what_is_no_call_is_not_told_of(text: str) -> None:
    async with house() as at:
        answer = await told(at, text)
    assert (answer["turns"], answer["rejected"]) == (1, 0)


async def test_S003_43_the_good_call_runs_and_the_bad_one_is_told_beside_it() -> None:
    bad = '{"tool": "state:get", "arguments": {"key": }}'
    async with house() as at:
        answer = await told(at, f"{GET}\n{bad}", "Done.")
        content = at.sent()[-1].content
    assert [call["status"] for call in answer["calls"]] == ["handled"]
    assert content.startswith(f"{RESULT}\n\nNot run, malformed_block")


async def test_S003_44_an_unknown_tool_is_told_with_the_list_and_the_closest() -> None:
    async with house() as at:
        await told(at, prompted("state:gte"), "Done.")
        content = at.sent()[-1].content
    assert "did you mean 'state:get'?" in content
    assert "There are: state:get, state:set" in content


TOOLS = '''
from ksi_daemon.router import handles


@handles("odd:none")
async def nothing(data: dict, ctx):
    """Return nothing."""


@handles("odd:raise")
async def fail(data: dict, ctx):
    """Raise."""
    raise ValueError("broken inside")


@handles("odd:large")
async def large(data: dict, ctx):
    """Return 1 MB."""
    return "x" * 1_000_000
'''


@pytest.mark.parametrize(
    ("tool", "starts", "ends"),
    [
        ("odd:none", "(no output)", "(no output)"),
        ("odd:raise", "Error handler_failed: ", "broken inside"),
        ("odd:large", "xxx", "more characters are in the log]"),
        ("state:get", '{"value":"hello"', "}"),
    ],
)
async def test_S003_46_whatever_a_tool_returns_is_told(tool: str, starts: str, ends: str) -> None:
    with short_directory() as plugins:
        (plugins / "odd.py").write_text(TOOLS)
        async with house(plugins=str(plugins)) as at:
            args = {"key": "k"} if tool == "state:get" else {}
            answer = await told(at, prompted(tool, **args), "Done.", tools=[tool])
            content = at.sent()[-1].content.removeprefix(f"Tool Result ({tool}):\n")
    assert content.startswith(starts)
    assert content.endswith(ends)
    assert len(content) < 30_000
    assert answer["turns"] == 2
    if tool == "odd:large":
        assert len(answer["calls"][0]["result"]) == 1_000_000


async def test_S003_49_what_is_told_can_be_called_and_nothing_else() -> None:
    async with house() as at:
        info = {"agent_id": "a", "told": True}
        await told(at, prompted("state:query"), prompted("state:set", key="a", value=1), "Done.")
        names = [tool["name"] for tool in (await at.ksi.request("agent:info", info))["told"]]
        found = await at.logged("state:query", "state:set")
    assert names == ["state:get", "state:set"]
    assert [each["status"] for each in found][1:] == ["denied", "handled"]


@pytest.mark.parametrize(
    ("on_malformed", "turns", "runs"),
    [("ignore", 1, 1), ("feedback", 2, 1), ("reject_reply", 2, 0)],
)
async def test_what_is_done_with_a_broken_block(on_malformed: str, turns: int, runs: int) -> None:
    status = json.dumps({"event": "agent:status", "data": {"status": "ready"}})
    broken = '{"event": "agent:status", "data": 5}'
    async with house() as at:
        answer = await told(
            at,
            f"{status}\n{broken}",
            "Done.",
            protocol={"on_malformed": on_malformed},
            tools=["agent:status"],
        )
        rejected = await at.logged("extraction:rejected")
        codes = at.query("SELECT code FROM attempts WHERE verdict = 'rejected' ORDER BY ordinal")
    assert (answer["turns"], len(answer["calls"])) == (turns, runs)
    expected = ["args_type"] if runs else ["reply_refused", "args_type"]
    assert [each["error"]["code"] for each in rejected] == expected
    assert [code for (code,) in codes] == expected


STRUCT = '''
import msgspec

from ksi_daemon.router import handles


class Point(msgspec.Struct):
    x: int


@handles("odd:point")
async def point(data: Point, ctx):
    """Take a point."""
    return data.x
'''


async def test_S002_36_a_handlers_model_is_all_it_takes_to_check_arguments() -> None:
    with short_directory() as plugins:
        (plugins / "odd.py").write_text(STRUCT)
        async with house(plugins=str(plugins)) as at:
            replies = [prompted("odd:point", x="one"), prompted("odd:point", x=1), "Done."]
            answer = await told(at, *replies, tools=["odd:point"])
            content = at.sent(1)[-1].content
    assert [call["status"] for call in answer["calls"]] == ["rejected", "handled"]
    assert '{"x":{"type":"integer"}}' in content


async def test_S003_25_what_was_sent_is_not_changed_by_what_follows() -> None:
    spoken = {"preset": "prompt_tools", "use_native_tools": True}
    calls = [{"tool_calls": [native_call("state_get", f"c{n}", key=f"k{n}")]} for n in range(3)]
    async with house() as at:
        await told(at, *calls, "Done.", protocol=spoken)
        histories = [at.sent(n) for n in range(4)]
    for before, after in pairwise(histories):
        assert list(after)[: len(before)] == list(before)
