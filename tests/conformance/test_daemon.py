"""Cases that need the whole daemon: a client, an agent on the scripted provider, the log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_client import Client, connect
from ksi_daemon.testing import running_daemon, short_directory

pytestmark = pytest.mark.conformance


def event(name: str, data: dict[str, Any]) -> str:
    return json.dumps({"event": name, "data": data})


def tool_use(name: str, data: dict[str, Any], number: int = 1) -> str:
    block = {"type": "ksi_tool_use", "id": f"ksiu_{number:02}", "name": name, "input": data}
    return json.dumps(block)


@asynccontextmanager
async def house(**settings: Any) -> AsyncIterator[tuple[Client, Path]]:
    """Yield a client of a daemon, and the path of its log."""
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", **settings) as socket,
            connect(str(socket)) as ksi,
        ):
            yield ksi, directory / "v" / "events.db"


async def spawn(ksi: Client, *replies: Any, **rest: Any) -> None:
    fields = {"agent_id": "a", "system": "You are a test.", **rest}
    provider = {"type": "scripted", "replies": list(replies)}
    await ksi.request("agent:spawn", fields | {"provider": provider})


async def send(ksi: Client, message: str = "go", agent_id: str = "a") -> dict[str, Any]:
    data = {"agent_id": agent_id, "message": message, "wait": True}
    answer: dict[str, Any] = await ksi.request("agent:send", data)
    return answer


async def logged(ksi: Client, *patterns: str, **rest: Any) -> list[dict[str, Any]]:
    wanted = {"patterns": list(patterns), "limit": 10_000, **rest}
    events: list[dict[str, Any]] = (await ksi.request("monitor:get_events", wanted))["events"]
    return events


def query(log: Path, sql: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(f"file:{log}?mode=ro", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


async def test_S004_29_native_calls_of_a_provider_that_declares_none_run_and_are_answered() -> None:
    async with house() as (ksi, _):
        calls = [
            {"id": "c1", "function": {"name": "agent_status", "arguments": '{"status": "one"}'}},
            {"id": "c2", "function": {"name": "agent:status", "arguments": "[1]"}},
            {"id": "c3", "function": {"name": "agent:status", "arguments": {"status": "two"}}},
        ]
        await spawn(ksi, {"text": "So:", "stop_reason": "tool_calls", "tool_calls": calls}, "Done.")
        answer = await send(ksi)
        found = await logged(ksi, "agent:status")
        [rejected] = await logged(ksi, "extraction:rejected")
    assert (answer["text"], answer["turns"]) == ("Done.", 2)
    assert [each["data"]["status"] for each in found] == ["one", "two"]
    assert [each["call"]["id"] for each in found] == ["c1", "c3"]
    assert rejected["error"]["code"] == "args_type"


async def test_K1_spawn_emit_read() -> None:
    async with house() as (ksi, _):
        text = f"First {event('agent:status', {'status': 'one'})} then\n" + tool_use(
            "agent:progress", {"progress": 0.5}
        )
        await spawn(ksi, text)
        answer = await send(ksi)
        assert (answer["finish_reason"], answer["turns"]) == ("stop", 1)
        found = await logged(ksi, "agent:status", "agent:progress")
    assert [(each["event"], each["status"], each["source"]) for each in found] == [
        ("agent:status", "handled", "agent:a"),
        ("agent:progress", "handled", "agent:a"),
    ]


async def test_K2_each_agents_order_is_kept() -> None:
    replies = [event("agent:progress", {"progress": n}) for n in range(100)]
    async with house() as (ksi, _):
        for agent_id in ("a", "b"):
            await spawn(ksi, *replies, agent_id=agent_id)
        for _ in range(100):
            for agent_id in ("a", "b"):
                await ksi.request("agent:send", {"agent_id": agent_id, "message": "next"})
        for agent_id in ("a", "b"):
            assert (await send(ksi, "last", agent_id))["turns"] == 1
            found = await logged(ksi, "agent:progress", agent_id=agent_id)
            assert [each["data"]["progress"] for each in found] == list(range(100))


async def test_K8_what_is_not_granted_is_denied_at_dispatch() -> None:
    async with house() as (ksi, _):
        calls = [event("state:set", {"key": "k", "value": 1}), tool_use("system:shutdown", {})]
        await spawn(ksi, "\n".join(calls))
        answer = await send(ksi)
        assert [call["status"] for call in answer["calls"]] == ["denied", "denied"]
        assert [each["status"] for each in await logged(ksi, "state:set", "system:shutdown")] == [
            "denied",
            "denied",
        ]


async def test_S002_31_usage_and_reliability() -> None:
    legacy = [event("agent:status", {"status": str(n)}) for n in range(3)]
    tools = [tool_use("agent:status", {"status": str(n)}, n) for n in range(2)]
    broken = '{"type": "ksi_tool_use", "id": "ksiu_09", "name": "agent:status", "input": {"x" 1}}'
    async with house() as (ksi, log):
        await spawn(ksi, "\n\n".join([*legacy, *tools, broken]), "sorry")
        await send(ksi)
        report = await ksi.request("monitor:reliability", {"group_by": ["agent", "dialect"]})
        rows = {row["dialect"]: row for row in report["rows"] if row["dialect"]}
        by_sql = query(log, "SELECT dialect, seen, handled, rejected FROM v_reliability")
    figures = {name: (row["seen"], row["handled"], row["rejected"]) for name, row in rows.items()}
    assert figures == {"event": (3, 3, 0), "ksi_tool_use": (3, 2, 1)}
    assert {name: counts for name, *counts in by_sql if name} == {
        name: list(counts) for name, counts in figures.items()
    }
    handled = sum(row["handled"] for row in rows.values())
    assert handled / sum(row["seen"] for row in rows.values()) == 5 / 6


async def test_S002_29_S002_32_the_report_says_which_phase_is_safe() -> None:
    complex_ = {"status": "two\nlines"}
    others = [tool_use("agent:status", complex_ | {"n": n}, n) for n in range(20)]

    async def phases(ksi: Client) -> dict[str, str]:
        asked = {"include": ["migration"]}
        found = (await ksi.request("monitor:reliability", asked))["migration"]
        return {phase["legacy_event"]: phase["verdict"] for phase in found["phases"]}

    async with house() as (ksi, _):
        assert set((await phases(ksi)).values()) == {"safe", "too few calls"}
        await spawn(ksi, "\n".join(others), "Done.")
        await send(ksi)
        assert set((await phases(ksi)).values()) == {"safe"}
        await spawn(ksi, event("agent:status", {"status": "one"}), agent_id="simple")
        await send(ksi, agent_id="simple")
        expected = {"warn": "safe", "reject_complex": "safe", "reject": "not yet"}
        assert await phases(ksi) == expected
        await spawn(ksi, event("agent:status", complex_), agent_id="old")
        await send(ksi, agent_id="old")
        assert await phases(ksi) == expected | {"reject_complex": "not yet"}


async def test_S002_37_routed_and_logged_with_its_span() -> None:
    text = "Here: " + tool_use("agent:status", {"status": "ready"}) + " done."
    async with house() as (ksi, _):
        await spawn(ksi, text)
        await send(ksi)
        [found] = await logged(ksi, "agent:status")
        [completion] = await logged(ksi, "completion:result")
    assert found["agent_id"] == "a"
    assert found["completion_id"] == completion["id"] == found["cause_id"]
    call = found["call"]
    assert (call["id"], call["dialect"]) == ("ksiu_01", "ksi_tool_use")
    span = completion["data"]["text"][call["start"] : call["end"]]
    assert json.loads(span)["input"] == {"status": "ready"}
    assert found["duration_ms"] >= 0


async def test_S002_38_an_unknown_event_is_told_and_logged() -> None:
    async with house() as (ksi, log):
        await spawn(ksi, event("agent:statsu", {}), "sorry", allow=["agent:*"])
        answer = await send(ksi)
        assert (answer["turns"], answer["text"]) == (2, "sorry")
        [found] = await logged(ksi, "agent:statsu")
        told = query(log, "SELECT content FROM messages WHERE kind = 'feedback'")
    assert (found["status"], found["error"]["code"]) == ("unknown", "unknown_event")
    assert "unknown_tool" in told[0][0]
    assert "agent:status" in told[0][0]


async def test_S002_18_data_that_does_not_fit_is_told_and_not_run() -> None:
    async with house() as (ksi, log):
        await spawn(ksi, event("agent:status", {}), "sorry")
        assert (await send(ksi))["turns"] == 2
        [found] = await logged(ksi, "agent:status")
        told = query(log, "SELECT content FROM messages WHERE kind = 'feedback'")
    assert (found["status"], found["error"]["code"]) == ("rejected", "args_schema")
    assert "`status`" in told[0][0]


async def test_S002_48_results_come_back_and_end() -> None:
    get = event("state:get", {"key": "k"})
    async with house() as (ksi, log):
        await ksi.request("state:set", {"key": "k", "value": {"a": 1}})
        await spawn(ksi, get, f"again {get}", "enough", allow=["state:get"])
        answer = await send(ksi)
        told = query(log, "SELECT role, kind, content FROM messages ORDER BY position")
    assert (answer["text"], answer["turns"], answer["finish_reason"]) == ("enough", 3, "stop")
    expected = ("tool", "feedback", '{"value":{"a":1},"version":1}')
    assert [each for each in told if each[1] == "feedback"] == [expected] * 2


async def test_S002_48_a_loop_of_feedback_is_bounded() -> None:
    get = event("state:get", {"key": "k"})
    replies = [f"{n} {get}" for n in range(20)]
    async with house() as (ksi, _):
        await spawn(ksi, *replies, allow=["state:get"], limits={"turns": 4})
        answer = await send(ksi)
    assert (answer["finish_reason"], answer["turns"]) == ("max_iterations", 4)


async def test_S002_49_feedback_when_nothing_was_extracted() -> None:
    async with house() as (ksi, log):
        await spawn(ksi, '{"event": "agent:status", "data": {"status": "a" "b"}}', "sorry")
        answer = await send(ksi)
        [rejected] = await logged(ksi, "extraction:rejected")
        told = query(log, "SELECT content FROM messages WHERE kind = 'feedback'")
    assert (answer["turns"], answer["calls"], answer["rejected"]) == (2, [], 1)
    assert (rejected["status"], rejected["error"]["code"]) == ("rejected", "malformed_block")
    assert "malformed_block" in told[0][0]


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        pytest.param(["hello"], "stop", id="stop"),
        pytest.param([{"text": "cut of", "stop_reason": "length"}], "length", id="length"),
        pytest.param(['{"event": "a:b" "data"}'] * 3, "no_progress", id="no progress"),
        pytest.param(
            [f'{n} {{"event": "a:b" "data"}}' for n in range(9)],
            "consecutive_mistakes",
            id="mistakes",
        ),
        pytest.param(
            [{"error": {"message": "no", "code": "provider_auth"}}], "provider_auth", id="auth"
        ),
        pytest.param(
            [{"text": "broken o", "stop_reason": None}], "provider_error", id="broken off"
        ),
    ],
)
async def test_K7_finish_reasons(replies: list[Any], reason: str) -> None:
    settings = {"max_identical_turns": 2} if reason == "no_progress" else {}
    async with house(**settings) as (ksi, _):
        await spawn(ksi, *replies)
        assert (await send(ksi))["finish_reason"] == reason


async def test_S000_4_final_ends_the_exchange() -> None:
    action = '{"thought": "t", "action": {"tool": "state:get", "args": {"key": "k"}}}'
    final = '{"final": {"content": {"status": "ok"}}}'
    async with house() as (ksi, _):
        await spawn(ksi, action, final, protocol="json_action", allow=["state:get"])
        answer = await send(ksi)
    assert (answer["finish_reason"], answer["turns"]) == ("final", 2)
    assert (answer["text"], answer["calls"][0]["name"]) == ('{"status":"ok"}', "state:get")


async def test_S000_24_a_reply_that_is_no_json_is_asked_for_again() -> None:
    action = '{"action": {"tool": "agent:status", "args": {"status": "ready"}}}'
    async with house() as (ksi, _):
        replies = [f"Sure! {action}", action, '{"final": {"content": "done"}}']
        await spawn(ksi, *replies, protocol="json_action")
        answer = await send(ksi)
        [rejected] = await logged(ksi, "extraction:rejected")
        handled = await logged(ksi, "agent:status")
    assert rejected["error"]["code"] == "extra_text"
    assert (answer["turns"], answer["rejected"], len(handled)) == (3, 1, 1)
    assert (answer["text"], answer["finish_reason"]) == ("done", "final")


@pytest.mark.parametrize(
    ("preset", "written"),
    [
        pytest.param(
            "prompt_tools",
            'Now {"tool": "agent:status", "arguments": {"status": "ready"}}',
            id="prompt_tools",
        ),
        pytest.param(
            "text_tagged",
            'Now\n~~~tool_call\n{"name": "agent:status", "arguments": {"status": "ready"}}\n~~~',
            id="text_tagged",
        ),
        pytest.param("command", '@tool agent:status {"status": "ready"}', id="command"),
    ],
)
async def test_S003_32_each_preset_reaches_the_same_handler(preset: str, written: str) -> None:
    async with house() as (ksi, _):
        await spawn(ksi, written, protocol=preset)
        answer = await send(ksi)
        [found] = await logged(ksi, "agent:status")
    assert (answer["calls"][0]["status"], found["data"]["status"]) == ("handled", "ready")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param('{"tool": "agent:status", "arguments": {}}', id="a call"),
        pytest.param('{"tool": "agent:status", "arguments": {', id="a broken call"),
    ],
)
async def test_S003_12_without_tools_nothing_is_taught_or_read(reply: str) -> None:
    async with house() as (ksi, log):
        await spawn(ksi, reply, protocol="prompt_tools", tools=[])
        answer = await send(ksi)
        [(seen,)] = query(log, "SELECT count(*) FROM attempts")
    assert (answer["turns"], answer["finish_reason"], answer["rejected"]) == (1, "stop", 0)
    assert (answer["text"], answer["calls"], seen) == (reply, [], 0)


async def test_K7_a_provider_error_is_a_failure_in_the_log() -> None:
    async with house() as (ksi, _):
        await spawn(ksi, {"error": {"message": "no", "code": "provider_auth"}})
        await send(ksi)
        [found] = await logged(ksi, "completion:error")
    assert (found["status"], found["error"]["code"]) == ("failed", "provider_auth")


async def test_K7_a_hanging_provider_holds_nobody_else() -> None:
    async with house() as (ksi, _):
        await spawn(ksi, {"text": "late", "delay_s": 3600}, agent_id="slow")
        await spawn(ksi, "here")
        await ksi.request("agent:send", {"agent_id": "slow", "message": "go"})
        assert (await send(ksi))["text"] == "here"
        assert (await ksi.request("agent:terminate", {"pattern": "s*"}))["terminated"] == ["slow"]


async def test_K3_a_spawn_without_a_prompt_calls_no_model() -> None:
    async with house() as (ksi, _):
        await spawn(ksi, "never asked for")
        assert await logged(ksi, "completion:*") == []
