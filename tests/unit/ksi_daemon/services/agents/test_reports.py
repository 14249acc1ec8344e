from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory


async def until(true: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(20):
        while not await true():
            pass


async def spawn(peer: Peer, agent_id: str, *replies: Any, **rest: Any) -> None:
    given = {"agent_id": agent_id, "system": "Work."}
    provider = {"type": "scripted", "replies": list(replies)}
    await peer.ask("agent:spawn", given | {"provider": provider} | rest)


async def info(peer: Peer, agent_id: str = "ada") -> dict[str, Any]:
    found: dict[str, Any] = await peer.ask("agent:info", {"agent_id": agent_id})
    return found


async def events(peer: Peer, *patterns: str, **wanted: Any) -> list[dict[str, Any]]:
    wanted = {"patterns": list(patterns), **wanted}
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", wanted))["events"]
    return found


def says(event: str, **data: Any) -> str:
    return msgspec.json.encode({"event": event, "data": data}).decode()


WORDS = [
    ("status", "busy"),
    ("progress", 0.25),
    ("progress", {"done": 2**70, "of": None}),
    ("result", ["a", '"quoted"\n']),
]


@pytest.mark.parametrize(("kind", "said"), WORDS)
async def test_the_last_word_of_each_kind_outlives_the_daemon(
    var: Path, kind: str, said: Any
) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada")
        await peer.ask("agent:status", {"agent_id": "ada", "status": "ready"})
        await peer.ask(f"agent:{kind}", {"agent_id": "ada", kind: "another"} | {kind: said})
        assert (await info(peer))[kind] == said
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = await info(peer)
        assert (found[kind], found["status"]) == (said, said if kind == "status" else "ready")


async def test_a_new_agent_of_the_id_has_said_nothing(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada")
        await peer.ask("agent:status", {"agent_id": "ada", "status": "ready"})
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        await spawn(peer, "ada")
        assert "status" not in await info(peer)
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert "status" not in await info(peer)


@pytest.mark.parametrize("kind", ["status", "progress", "result"])
async def test_nobody_speaks_for_who_is_not_there(var: Path, kind: str) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="no agent 'ada'") as caught:
            await peer.ask(f"agent:{kind}", {"agent_id": "ada", kind: "x"})
        assert caught.value.code == "not_found"


# -- results for the parent ----------------------------------------------------------------------


@pytest.fixture
def components() -> Iterator[str]:
    """A worker that has one result to tell."""
    with short_directory() as path:
        for folder in ("agents", "profiles"):
            (path / folder).mkdir()
        (path / "profiles" / "agent.md").write_text(
            "---\ncomponent_type: profile\nallow: [system:help]\n---\n"
        )
        reply = says("agent:result", result={"n": 1})
        (path / "agents" / "worker.md").write_text(
            f"---\nscript:\n  replies:\n    - '{reply}'\n---\nWork.\n"
        )
        yield str(path)


RIGHTS = ["agent:spawn", "system:help", "agent:result"]


def spawns(**rest: Any) -> str:
    return says("agent:spawn", component="agents/worker", prompt="Work.", **rest)


async def parent_of(peer: Peer, *replies: str, **rest: Any) -> None:
    await spawn(peer, "boss", *replies, **{"allow": RIGHTS, "prompt": "Begin."} | rest)


async def told(peer: Peer, count: int) -> list[str]:
    """Return the last words of the boss when it has said *count*."""
    found: list[str] = []

    async def enough() -> bool:
        results = await events(peer, "completion:result", agent_id="boss")
        found[:] = [each["data"]["text"] for each in results]
        return len(found) >= count

    await until(enough)
    assert len(found) == count
    return found


async def test_a_parent_that_asked_is_told_the_result_of_its_child(
    var: Path, components: str
) -> None:
    async with running_daemon(var, components=components) as socket, connected(socket) as peer:
        await parent_of(peer, spawns(report=True), "It works.", "Well done.")
        await told(peer, 3)
        [result] = await events(peer, "agent:result")
        [*_, last] = await events(peer, "completion:result", agent_id="boss")
        assert (last["cause_id"], last["data"]["text"]) == (result["id"], "Well done.")


@pytest.mark.parametrize("subscriptions", [["agent:result"], ["agent:*"]])
async def test_a_parent_that_listens_is_told_once(
    var: Path, components: str, subscriptions: list[str]
) -> None:
    async with running_daemon(var, components=components) as socket, connected(socket) as peer:
        patterns = {"subscriptions": ["agent:result"]}
        await parent_of(peer, spawns(report=True), "It works.", "Well done.", "Twice?", **patterns)
        await told(peer, 3)

        async def idle() -> bool:
            found = await info(peer, "boss")
            return found["state"] == "idle" and not found["waiting"]

        await until(idle)
        await told(peer, 3)


async def test_a_parent_that_did_not_ask_is_not_told(var: Path, components: str) -> None:
    async with running_daemon(var, components=components) as socket, connected(socket) as peer:
        await parent_of(peer, spawns(), "It works.", "Who?")

        async def came() -> bool:
            return bool(await events(peer, "agent:result"))

        await until(came)
        await told(peer, 2)
        assert (await info(peer, "worker"))["result"] == {"n": 1}


async def test_another_agent_of_the_parents_id_is_not_told(var: Path, components: str) -> None:
    async with running_daemon(var, components=components) as socket, connected(socket) as peer:
        quiet = says("agent:spawn", component="agents/worker", report=True)
        await parent_of(peer, quiet, "It works.")
        await told(peer, 2)
        await peer.ask("agent:terminate", {"agent_id": "boss"})
        await spawn(peer, "boss", "Who?")
        await peer.ask("agent:send", {"agent_id": "worker", "message": "Go.", "wait": True})
        found = await info(peer, "boss")
        assert (found["state"], found["waiting"]) == ("idle", 0)


async def test_a_full_mailbox_of_the_parent_refuses_the_result(var: Path, components: str) -> None:
    settings: dict[str, Any] = {"components": components, "max_mailbox": 1, "drain_timeout_s": 0.05}
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        quiet = says("agent:spawn", component="agents/worker", report=True)
        never = {"text": "never", "delay_s": 3600}
        await parent_of(peer, quiet, "It works.", never)  # type: ignore[arg-type]
        await told(peer, 2)
        for _ in range(2):  # one that it holds an exchange about, one that waits
            await peer.ask("agent:send", {"agent_id": "boss", "message": "Go."})

            async def taken() -> bool:
                return (await info(peer, "boss"))["state"] == "running"

            await until(taken)
        with pytest.raises(KsiError) as caught:
            await peer.ask("agent:result", {"agent_id": "worker", "result": 1})
        assert (caught.value.code, caught.value.retryable) == ("mailbox_full", True)
        assert "result" not in await info(peer, "worker")
