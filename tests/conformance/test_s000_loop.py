"""Rows of source 000 that need an agent: the strict protocol, its corrections, its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.testing import short_directory
from tests.loop import House, action, house

pytestmark = pytest.mark.conformance

FREE = {"free_tool_role": True}
GET = action("state:get", key="k")
VALUE = '{"value":"hello","version":1}'


def final(content: Any) -> str:
    return json.dumps({"final": {"content": content}})


async def told(at: House, *replies: Any, **fields: Any) -> dict[str, Any]:
    """Send a message to an agent that may read and write the state, in which ``k`` is "hello"."""
    await at.ksi.request("state:set", {"key": "k", "value": "hello"})
    asked = {"protocol": "json_action", "tools": ["state:get", "state:set"], "capabilities": FREE}
    await at.spawn(*replies, **{**asked, **fields})
    return await at.send()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("x", "x", id="text"),
        pytest.param(3, "3", id="a number"),
        pytest.param(None, "null", id="null is an answer"),
        pytest.param([1], "[1]", id="a list"),
        pytest.param({}, "{}", id="an empty object"),
        pytest.param({"status": "ok"}, '{"status":"ok"}', id="an object"),
    ],
)
async def test_S000_4_5_a_final_answer_ends_the_run(content: Any, text: str) -> None:
    async with house() as at:
        answer = await told(at, final(content), "must not be asked for")
        assert len(at.requests) == 1
    assert (answer["finish_reason"], answer["text"], answer["turns"]) == ("final", text, 1)
    assert "result" in answer
    assert answer["result"] == content


async def test_S000_5_an_answer_without_a_final_has_no_result() -> None:
    async with house() as at:
        answer = await told(at, "Just words.", protocol="ksi")
    assert "result" not in answer


async def test_S000_6_7_the_result_has_the_role_of_a_tool_behind_the_reply_as_it_was() -> None:
    reply = f"{GET}\n"
    async with house() as at:
        await told(at, reply, final("done"))
        kept = at.messages()
        assert [(each.role, each.name, each.content) for each in at.sent()[1:]] == [
            ("assistant", None, reply),
            ("tool", "state:get", VALUE),
        ]
    assert kept[1] == {"role": "assistant", "content": reply}
    call_id = kept[2].pop("call_id")
    assert call_id.startswith("ksiu_")
    assert kept[2] == {"role": "tool", "name": "state:get", "content": VALUE}


async def test_S000_8_28_the_next_turn_has_the_result() -> None:
    writing = action("state:set", key="k", value="bye")
    async with house() as at:
        answer = await told(at, GET, writing, final("done"))
        assert len(at.requests) == 3
        assert at.sent(1)[-1].content == VALUE
        assert at.sent(2)[-1].content == '{"version":2}'
    assert [call["name"] for call in answer["calls"]] == ["state:get", "state:set"]


@pytest.mark.parametrize(
    ("reply", "code", "word"),
    [
        pytest.param('{"action":{"tool":"state:get","args":{}}', "not_json", "}", id="S000-9"),
        pytest.param(f"Sure! {GET}", "extra_text", "nothing before", id="S000-10"),
        pytest.param(f"{GET} Done.", "extra_text", "nothing behind", id="S000-11"),
        pytest.param(f"```json\n{GET}\n```", "extra_text", "no Markdown", id="S000-12"),
        pytest.param(f"{GET}\n{GET}", "multiple_objects", "more than one", id="S000-13"),
        pytest.param(f"[{GET}]", "not_object", "object", id="S000-14 a list"),
        pytest.param("", "not_json", "empty", id="S000-14 nothing"),
        pytest.param('{"thought":"x"}', "invalid_protocol", "'action' or 'final'", id="S000-15"),
        pytest.param(
            '{"action":{"tool":"state:get","args":{"key":"k"}},"final":{"content":1}}',
            "invalid_protocol",
            "either",
            id="S000-16",
        ),
        pytest.param(
            '{"action":{"tool":"state:get","args":{"key":"k"}},"note":1}',
            "unknown_field",
            "note",
            id="S000-17",
        ),
        pytest.param(
            '{"action":{"tool":"state:get","args":{"key":"k"},"x":1}}',
            "unknown_field",
            "x",
            id="S000-18",
        ),
        pytest.param('{"action":{"tool":"","args":{}}}', "missing_name", "tool", id="S000-19"),
        pytest.param('{"action":{"tool":"state:get","args":[1]}}', "args_type", "", id="S000-20"),
    ],
)
async def test_S000_9_10_11_12_13_14_15_16_17_18_19_20_any_fault_refuses_the_reply(
    reply: str, code: str, word: str
) -> None:
    async with house() as at:
        answer = await told(at, reply, GET, final("done"))
        correction = at.sent(1)[-1]
        [rejected] = await at.logged("extraction:rejected")
        assert len(await at.logged("state:get")) == 1
    assert (correction.role, rejected["error"]["code"]) == ("user", code)
    assert code in correction.content
    assert word in correction.content
    assert correction.content.endswith("Send the whole reply again, as it should be.")
    assert (answer["finish_reason"], answer["text"], answer["turns"]) == ("final", "done", 3)


@pytest.mark.parametrize(("length", "cut"), [(500, True), (200, False)])
async def test_S000_21_22_a_thought_is_cut_and_its_call_runs(length: int, cut: bool) -> None:
    reply = json.dumps({"thought": "é" * length, **json.loads(GET)}, ensure_ascii=False)
    async with house() as at:
        answer = await told(at, reply, final("done"))
        codes = [code for (code,) in at.query("SELECT code FROM v_diagnostics")]
        [result, _] = await at.logged("completion:result")
    assert ("thought_truncated" in codes) == cut
    assert result["data"]["thought"] == "é" * 200
    assert [call["status"] for call in answer["calls"]] == ["handled"]


async def test_S000_21_the_length_of_a_thought_is_a_setting() -> None:
    reply = json.dumps({"thought": "x" * 300, **json.loads(GET)})
    async with house() as at:
        settings = {"preset": "json_action", "thought_limit": 250}
        await told(at, reply, final("done"), protocol=settings)
        [result, _] = await at.logged("completion:result")
    assert len(result["data"]["thought"]) == 250


async def test_S000_23_an_unknown_tool_is_told_with_those_there_are() -> None:
    async with house() as at:
        await told(at, action("delete_all"), final("done"))
        content = at.sent()[-1].content
        assert "unknown_tool" in content
        assert "state:get, state:set" in content
        assert "agent:status" not in content
        assert await at.logged("state:*") == await at.logged("state:set")  # the test's own


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param({"key": 5}, ["key", '\\"type\\":\\"string\\"'], id="S000-25 wrong type"),
        pytest.param({}, ["key", "required"], id="S000-26 missing"),
        pytest.param({"key": "k", "zzz": 1}, ["zzz"], id="S000-27 surplus"),
    ],
)
async def test_S000_25_26_27_what_does_not_fit_is_told_with_its_piece_of_the_schema(
    args: dict[str, Any], words: list[str]
) -> None:
    async with house() as at:
        answer = await told(at, action("state:get", **args), final("done"))
        content = at.sent()[-1].content
    assert [call["status"] for call in answer["calls"]] == ["rejected"]
    assert "args_schema" in content
    assert [word for word in words if word not in content] == []
    assert "state:set" not in content


async def test_S000_29_a_model_that_is_always_wrong_is_asked_four_times() -> None:
    async with house() as at:
        answer = await told(at, *["no JSON"] * 9)
        assert len(at.requests) == 4
        [error] = await at.logged("completion:error")
    assert (answer["finish_reason"], answer["turns"]) == ("retry_exhausted", 4)
    assert (error["status"], error["error"]["code"]) == ("failed", "retry_exhausted")


async def test_S000_29_retries_are_a_setting_and_count_in_a_row() -> None:
    async with house() as at:
        settings = {"preset": "json_action", "max_protocol_retries": 1}
        replies = ["bad", GET, "bad", GET, "bad", "bad", final("too late")]
        answer = await told(at, *replies, protocol=settings)
    assert (answer["finish_reason"], answer["turns"]) == ("retry_exhausted", 6)


async def test_S000_30_a_model_that_never_ends_is_stopped() -> None:
    replies = [action("state:set", key="k", value=n) for n in range(9)]
    async with house() as at:
        settings = {"preset": "json_action", "max_iterations": 5}
        answer = await told(at, *replies, protocol=settings)
        [error] = await at.logged("completion:error")
        assert len(await at.logged("completion:result")) == 5
    assert (answer["finish_reason"], answer["turns"]) == ("max_iterations", 5)
    assert (error["status"], error["error"]["code"]) == ("failed", "max_iterations")


async def test_S000_47_the_example_session() -> None:
    saving = action("state:set", key="note", value="Remember the milk.")
    async with house() as at:
        answer = await told(at, saving, final({"status": "ok", "upserted": 1}))
        roles = [each.role for each in at.requests[1].messages]
    assert roles == ["system", "user", "assistant", "tool"]
    assert answer["result"] == {"status": "ok", "upserted": 1}


ODD = '''
from ksi_daemon.router import handles


@handles("odd:raise")
async def fail(data: dict, ctx):
    """Raise."""
    raise ValueError("broken inside")


@handles("odd:object")
async def thing(data: dict, ctx):
    """Return what is no JSON."""
    return {"object": object(), "bytes": b"x", "number": float("nan")}
'''


async def test_S000_48_49_a_tool_that_fails_is_told_and_the_loop_goes_on() -> None:
    with short_directory() as plugins:
        (plugins / "odd.py").write_text(ODD)
        async with house(plugins=str(plugins)) as at:
            answer = await told(
                at,
                action("odd:raise"),
                action("odd:object"),
                final("done"),
                tools=["odd:raise", "odd:object"],
            )
            failed, odd = (each for each in at.messages() if each["role"] == "tool")
    assert list(json.loads(failed["content"])) == ["error"]
    assert "broken inside" in failed["content"]
    assert failed["is_error"] == 1
    assert json.loads(odd["content"])
    assert (answer["finish_reason"], answer["turns"]) == ("final", 3)


async def test_S000_40_41_42_the_prompt_has_rules_names_and_closed_schemas() -> None:
    async with house() as at:
        await told(at, final("done"))
        prompt = at.prompt()
    for name in ("state:get", "state:set"):
        assert name in prompt
    schemas = [
        json.loads(line.removeprefix("Arguments: "))
        for line in prompt.splitlines()
        if line.startswith("Arguments: ")
    ]
    assert [schema["additionalProperties"] for schema in schemas] == [False, False]
    assert ["required" in schema for schema in schemas] == [True, True]


async def test_S000_45_denied_names_are_not_listed() -> None:
    async with house() as at:
        await told(at, action("nope"), final("done"), tools=[], allow=["state:g*"])
        content = at.sent()[-1].content
        assert "unknown_tool" in content
        assert "state:set" not in content


async def test_S000_50_a_session_elsewhere_asks_for_the_system_message() -> None:
    async with house() as at:
        asked = {
            "preset": "json_action",
            "tools": [
                {
                    "name": "echo",
                    "description": "Say.",
                    "schema": {
                        "type": "object",
                        "properties": {"text": {"type": "string"}},
                        "required": ["text"],
                    },
                }
            ],
        }
        prompt = (await at.ksi.request("extraction:prompt", asked))["prompt"]
    assert '"action"' in prompt
    assert '"final"' in prompt
    assert "echo" in prompt
