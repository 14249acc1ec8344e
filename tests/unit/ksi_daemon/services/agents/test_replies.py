from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.conversation import Answer
from ksi_daemon.errors import KsiError
from ksi_daemon.events import CallRef, Event, now
from ksi_daemon.services.agents.replies import answer_data, asker_of, reply_text, result_text
from ksi_daemon.testing import Peer, connected, running_daemon


def asked(**rest: Any) -> Event:
    given: dict[str, Any] = {
        "id": "e1",
        "ts": now(),
        "name": "agent:send",
        "data": msgspec.Raw(b'{"agent_id": "bob", "message": "?", "reply": true}'),
        "source": "agent:ada",
        "correlation_id": "e0",
        "agent_id": "ada",
        "status": "received",
    }
    return Event(**given | rest)


@pytest.mark.parametrize(
    ("event", "asker"),
    [
        pytest.param(asked(), "ada", id="an agent that wants a reply"),
        pytest.param(asked(data=msgspec.Raw(b"{}")), None, id="one that does not"),
        pytest.param(asked(agent_id=None), None, id="a client"),
        pytest.param(asked(name="agent:spawn"), None, id="another event"),
        pytest.param(asked(data=msgspec.Raw(b'{"reply": 1}')), None, id="no such data"),
    ],
)
def test_who_waits_for_an_answer(event: Event, asker: str | None) -> None:
    assert asker_of(event) == asker


CALL = CallRef("ksiu_01", "event", 0, 9)


@pytest.mark.parametrize(
    ("event", "answer", "text"),
    [
        pytest.param(
            asked(call=CALL),
            Answer("e1", "42", "stop", 1),
            "Answer of agent bob to request e1, your call ksiu_01:\n42",
            id="of a call",
        ),
        pytest.param(
            asked(), Answer("e1", "42", "final", 1), "Answer of agent bob to request e1:\n42"
        ),
        pytest.param(
            asked(),
            Answer("e1", "", "terminated", 0),
            "Answer of agent bob to request e1 (it ended: terminated):\n",
            id="none",
        ),
    ],
)
def test_how_an_answer_reads(event: Event, answer: Answer, text: str) -> None:
    assert reply_text("bob", event, answer) == text


def test_what_the_log_is_told() -> None:
    assert answer_data("bob", asked(call=CALL), Answer("e1", "42", "stop", 1)) == {
        "agent_id": "ada",
        "from": "bob",
        "request_id": "e1",
        "call_id": "ksiu_01",
        "text": "42",
        "finish_reason": "stop",
    }


@pytest.mark.parametrize(
    ("result", "text"), [("done", "done"), ({"n": 1}, '{"n":1}'), (None, "null")]
)
def test_how_a_result_reads(result: Any, text: str) -> None:
    assert result_text("bob", result) == f"Result of agent bob:\n{text}"


# -- in a daemon ---------------------------------------------------------------------------------


@asynccontextmanager
async def served(var: Path) -> AsyncIterator[Peer]:
    async with running_daemon(var, drain_timeout_s=0.05) as path, connected(path) as peer:
        yield peer


async def until(true: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(20):
        while not await true():
            pass


async def spawn(peer: Peer, agent_id: str, *replies: Any, **rest: Any) -> None:
    given = {"agent_id": agent_id, "system": "Work.", "allow": ["agent:send"]}
    provider = {"type": "scripted", "replies": list(replies)}
    await peer.ask("agent:spawn", given | {"provider": provider} | rest)


def ask(agent_id: str, message: str = "How much?", call: str = "ksiu_q1") -> str:
    """Return what an agent says to ask another."""
    data = {"agent_id": agent_id, "message": message, "reply": True}
    given = {"type": "ksi_tool_use", "id": call, "name": "agent:send", "input": data}
    return msgspec.json.encode(given).decode()


async def events(peer: Peer, *patterns: str, **wanted: Any) -> list[dict[str, Any]]:
    wanted = {"patterns": list(patterns), **wanted}
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", wanted))["events"]
    return found


async def said(peer: Peer, agent_id: str, count: int) -> list[str]:
    """Return the replies of an agent's model when there are *count*."""
    found: list[str] = []

    async def enough() -> bool:
        results = await events(peer, "completion:result", agent_id=agent_id)
        found[:] = [each["data"]["text"] for each in results]
        return len(found) >= count

    await until(enough)
    assert len(found) == count
    return found


async def test_the_answer_comes_back_with_the_ids_of_the_question(var: Path) -> None:
    async with served(var) as peer:
        await spawn(peer, "bob", "42")
        await spawn(peer, "ada", ask("bob"), "Bob says 42.", prompt="Find out.")
        await said(peer, "ada", 2)
        [sent] = await events(peer, "agent:send")
        [told] = await events(peer, "agent:answered")
        assert told["data"] == {
            "agent_id": "ada",
            "from": "bob",
            "request_id": sent["id"],
            "call_id": "ksiu_q1",
            "text": "42",
            "finish_reason": "stop",
        }
        assert (told["cause_id"], told["correlation_id"]) == (sent["id"], sent["correlation_id"])


async def test_two_questions_at_once_are_told_apart(var: Path) -> None:
    async with served(var) as peer:
        await spawn(peer, "bob", "Red.")
        await spawn(peer, "eve", "Blue.")
        both = ask("bob", call="ksiu_b") + "\n" + ask("eve", call="ksiu_e")
        await spawn(peer, "ada", both, "One.", "Two.", prompt="Ask both.")
        await said(peer, "ada", 3)
        told = await events(peer, "agent:answered")
        assert {each["data"]["call_id"]: each["data"]["text"] for each in told} == {
            "ksiu_b": "Red.",
            "ksiu_e": "Blue.",
        }


async def test_a_message_without_reply_brings_no_answer(var: Path) -> None:
    plain = msgspec.json.encode(
        {"event": "agent:send", "data": {"agent_id": "bob", "message": "Hi."}}
    )
    async with served(var) as peer:
        await spawn(peer, "bob", "Hello.")
        await spawn(peer, "ada", plain.decode(), prompt="Greet.")
        await said(peer, "bob", 1)
        await peer.ask("system:mark", {"label": "end"})
        assert await events(peer, "agent:answered") == []


@pytest.mark.parametrize("waits", ["in its exchange", "in its mailbox"])
async def test_who_is_terminated_answers_that_it_was(var: Path, waits: str) -> None:
    never = {"text": "too late", "delay_s": 3600}
    async with served(var) as peer:
        await spawn(peer, "bob", never, **({"prompt": "Go."} if "mailbox" in waits else {}))
        await spawn(peer, "ada", ask("bob"), "I see.", prompt="Find out.")

        async def asked_() -> bool:
            info = await peer.ask("agent:info", {"agent_id": "bob"})
            return bool(await events(peer, "agent:send")) and info["state"] == "running"

        await until(asked_)
        if "mailbox" in waits:
            await until(lambda: waiting(peer, "bob"))
        await peer.ask("agent:terminate", {"agent_id": "bob"})
        await said(peer, "ada", 2)
        [told] = await events(peer, "agent:answered")
        assert told["data"]["finish_reason"] == "terminated"


async def waiting(peer: Peer, agent_id: str) -> bool:
    return bool((await peer.ask("agent:info", {"agent_id": agent_id}))["waiting"])


async def test_a_question_is_answered_over_a_restart(var: Path) -> None:
    slow = {"text": "42", "delay_s": 3600}
    async with served(var) as peer:
        await spawn(peer, "bob", slow)
        await spawn(peer, "ada", ask("bob"), "Bob says 42.", prompt="Find out.")

        async def taken() -> bool:
            status = await peer.ask("completion:status")
            return "bob" in {each["agent_id"] for each in status["running"]}

        await until(taken)
        await until(lambda: idle(peer, "ada"))
    hurry(var)
    async with served(var) as peer:
        await said(peer, "ada", 2)
        [told] = await events(peer, "agent:answered")
        assert told["data"]["text"] == "42"
    async with served(var) as peer:
        assert len(await events(peer, "agent:answered")) == 1


async def idle(peer: Peer, agent_id: str) -> bool:
    return bool((await peer.ask("agent:info", {"agent_id": agent_id}))["state"] == "idle")


def hurry(var: Path) -> None:
    """Take the delay out of the agents' scripts while no daemon runs."""
    with sqlite3.connect(var / "events.db") as log:
        log.execute("UPDATE agents SET spec = replace(spec, '3600', '0')")
    log.close()


async def test_reply_is_for_agents(var: Path) -> None:
    async with served(var) as peer:
        await spawn(peer, "bob")
        with pytest.raises(KsiError, match="reply is for agents") as caught:
            await peer.ask("agent:send", {"agent_id": "bob", "message": "?", "reply": True})
        assert caught.value.hint == "a client says wait"


async def test_H6_agents_that_ask_each_other_for_ever_come_to_the_limit_of_hops(var: Path) -> None:
    def endless(other: str) -> dict[str, Any]:
        return {"type": "scripted", "replies": [ask(other)], "on_empty": "repeat"}

    async with running_daemon(var, max_hops=6) as path, connected(path) as peer:
        await spawn(peer, "bob", provider=endless("ada"))
        await spawn(peer, "ada", provider=endless("bob"), prompt="Ask.")

        async def limited() -> bool:
            denied = await events(peer, "agent:send", status="denied")
            return any(each["error"]["code"] == "hop_limit" for each in denied)

        await until(limited)


async def test_an_agent_that_is_slow_keeps_nobody_waiting(var: Path) -> None:
    async with served(var) as peer:
        await spawn(peer, "slow", {"text": "too late", "delay_s": 3600}, prompt="Go.")
        await spawn(peer, "bob", "42")
        both = ask("slow", call="ksiu_s") + "\n" + ask("bob", call="ksiu_b")
        await spawn(peer, "ada", both, "Bob says 42.", prompt="Ask both.")
        assert (await said(peer, "ada", 2))[-1] == "Bob says 42."
        assert not await idle(peer, "slow")


async def test_an_agent_whose_program_is_stopped_keeps_nobody_waiting(var: Path) -> None:
    """A provider's process that got SIGSTOP answers never, and costs its own agent only."""
    pid_file = var / "pid"
    argv = ["sh", "-c", f"echo $$ > {pid_file}; kill -STOP $$"]
    async with served(var) as peer:
        await spawn(peer, "frozen", provider={"type": "cli", "argv": argv}, prompt="Go.")
        with anyio.fail_after(20):
            while not is_stopped(pid_file):
                await peer.ask("system:health")
        await spawn(peer, "bob", "42")
        both = ask("frozen", call="ksiu_f") + "\n" + ask("bob", call="ksiu_b")
        await spawn(peer, "ada", both, "Bob says 42.", prompt="Ask both.")
        assert (await said(peer, "ada", 2))[-1] == "Bob says 42."
        pid = int(pid_file.read_text())
        await peer.ask("agent:terminate", {"agent_id": "frozen"})

        with anyio.fail_after(20):
            while is_alive(pid):
                await peer.ask("system:health")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_stopped(pid_file: Path) -> bool:
    """Say whether the process named in *pid_file* is stopped by a signal."""
    text = pid_file.read_text().strip() if pid_file.exists() else ""
    return bool(text) and ") T " in Path(f"/proc/{text}/stat").read_text()
