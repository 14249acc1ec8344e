from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ksi_daemon import security
from ksi_daemon.conversation import Answer, Inbound, LoopLimits, Session
from ksi_daemon.errors import KsiError
from ksi_daemon.events import EMPTY, Event, now
from ksi_daemon.providers.model import Capabilities, Completion, Provider, Request
from ksi_daemon.router import Submission
from ksi_daemon.services.completions import Completions
from ksi_daemon.testing import Peer, connected, running_daemon, running_router

SETTING = '{"event": "state:set", "data": {"key": "k", "value": 1}}'
NEVER = {"text": "too late", "delay_s": 3_600}


@asynccontextmanager
async def asked(var: Path, *replies: Any) -> AsyncIterator[tuple[Peer, Peer]]:
    """A daemon whose agent ``ada`` was asked by the second peer, and a first one to look on."""
    provider = {"type": "scripted", "replies": list(replies)}
    spawn = {"agent_id": "ada", "system": "S", "provider": provider, "allow": ["state:*"]}
    async with (
        running_daemon(var, drain_timeout_s=0.05) as path,
        connected(path) as peer,
        connected(path) as other,
    ):
        await peer.ask("agent:spawn", spawn)
        data = {"agent_id": "ada", "message": "Go.", "wait": True}
        other.write({"event": "agent:send", "data": data})
        yield peer, other


async def running(peer: Peer, turn: int) -> dict[str, Any]:
    """Return the exchange under way when *turn* of its replies are there."""
    with anyio.fail_after(10):
        while True:
            found = (await peer.ask("completion:status"))["running"]
            if found and found[0]["turn"] == turn:
                [exchange] = found
                return dict(exchange)


async def test_status_lists_the_exchanges_under_way(var: Path) -> None:
    async with asked(var, SETTING, NEVER) as (peer, _):
        exchange = await running(peer, 1)
        events = await peer.ask("monitor:get_events", {"patterns": ["agent:send"]})
        [sent] = events["events"]
        assert exchange.pop("tokens") > 0
        assert exchange == {"agent_id": "ada", "request_id": sent["id"], "turn": 1}


async def test_cancel_ends_an_exchange_and_keeps_what_was_done(var: Path) -> None:
    async with asked(var, SETTING, NEVER) as (peer, other):
        await running(peer, 1)
        assert await peer.ask("completion:cancel", {"agent_id": "ada"}) == {"cancelled": "ada"}
        answer = (await other.pushed())["result"]
        assert (answer["finish_reason"], answer["turns"]) == ("cancelled", 1)
        assert [report["name"] for report in answer["calls"]] == ["state:set"]
        assert await peer.ask("completion:status") == {"running": [], "requests": []}
        events = await peer.ask("monitor:get_events", {"patterns": ["completion:cancelled"]})
        [cancelled] = events["events"]
    assert cancelled["data"] == {
        "agent_id": "ada",
        "request_id": answer["request_id"],
        "reason": "cancelled",
    }


async def test_there_must_be_something_to_cancel(var: Path) -> None:
    async with asked(var, "Done.") as (peer, other):
        await other.pushed()
        with pytest.raises(KsiError, match="no exchange under way of agent 'ada'") as caught:
            await peer.ask("completion:cancel", {"agent_id": "ada"})
    assert caught.value.code == "not_found"


async def test_one_agents_slow_model_holds_up_no_other(var: Path) -> None:
    async with asked(var, NEVER) as (peer, _):
        provider = {"type": "scripted", "replies": ["Quick."]}
        spawn = {"agent_id": "bob", "system": "S", "provider": provider}
        await peer.ask("agent:spawn", spawn)
        data = {"agent_id": "bob", "message": "Go.", "wait": True}
        assert (await peer.ask("agent:send", data))["text"] == "Quick."
        assert (await running(peer, 0))["agent_id"] == "ada"


async def test_arguments_that_are_plain_text_are_read_by_the_schema_of_the_tool(var: Path) -> None:
    call = (
        "<function=state:set>\n<parameter=key>\n2024\n</parameter>\n"
        "<parameter=value>\n2024\n</parameter>\n</function>"
    )
    provider = {"type": "scripted", "replies": [call, "Done."]}
    spawn = {"agent_id": "ada", "system": "S", "provider": provider, "allow": ["state:*"]}
    async with running_daemon(var) as path, connected(path) as peer:
        await peer.ask("agent:spawn", {**spawn, "protocol": "any"})
        answer = await peer.ask("agent:send", {"agent_id": "ada", "message": "Go.", "wait": True})
        assert [report["status"] for report in answer["calls"]] == ["handled"]
        assert (await peer.ask("state:get", {"key": "2024"}))["value"] == 2024


class Stubborn:
    """A provider that cannot be cancelled: it ends when it is released."""

    name = model = "stubborn"
    price = None
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.release = anyio.Event()

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        with anyio.CancelScope(shield=True):
            await self.release.wait()
        return Completion(text="Done.", stop_reason="stop", model=self.model)

    async def aclose(self) -> None:
        """Hold nothing."""


def session(provider: Provider) -> Session:
    return Session(
        agent_id="ada",
        principal=security.agent("ada", ()),
        system="",
        provider=provider,
        model=None,
        spoken="ksi",
        limits=LoopLimits(),
    )


def inbound(request_id: str) -> Inbound:
    cause = Event(
        id=request_id,
        ts=now(),
        name="agent:send",
        data=EMPTY,
        source="client:0/1",
        correlation_id=request_id,
        status="received",
    )
    return Inbound(cause=cause, content="Go.")


async def test_the_exchange_of_an_agent_that_ended_hides_none_of_its_successor() -> None:
    async with running_router() as (router, _):
        completions = Completions(
            router, price_of=lambda model: None, provider_of=lambda wanted: Stubborn()
        )
        router.include(completions)
        first, second = Stubborn(), Stubborn()
        answers: list[Answer] = []

        async def answer(provider: Stubborn, request_id: str) -> None:
            answers.append(await completions.answer(session(provider), inbound(request_id)))

        async def under_way() -> list[str]:
            asked = Submission(event="completion:status", principal=security.client(0, 1))
            running = (await router.submit(asked)).result()["running"]
            return [each["request_id"] for each in running]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, first, "r1")
            await anyio.lowlevel.checkpoint()
            assert completions.stop("ada", "terminated")
            tasks.start_soon(answer, second, "r2")
            await anyio.lowlevel.checkpoint()
            first.release.set()
            while not answers:
                await anyio.lowlevel.checkpoint()
            assert await under_way() == ["r2"]
            second.release.set()
        assert [(each.request_id, each.finish_reason) for each in answers] == [
            ("r1", "terminated"),
            ("r2", "stop"),
        ]
        assert await under_way() == []


async def test_replies_that_never_came_count_in_reliability(var: Path) -> None:
    gone = {"error": {"message": "no", "code": "provider_timeout"}}
    async with asked(var, gone, gone) as (peer, _):
        again = {"agent_id": "ada", "message": "Again.", "wait": True}
        assert (await peer.ask("agent:send", again))["finish_reason"] == "provider_timeout"
        provider = {"type": "scripted", "replies": [gone]}
        with pytest.raises(KsiError):
            await peer.ask("completion:run", {"prompt": "Hi.", "provider": provider})
        asked_for = {"group_by": ["agent"]}
        rows = (await peer.ask("monitor:reliability", asked_for))["rows"]
        exact = await peer.ask("monitor:reliability", {**asked_for, "exact": True})
    assert [(row["agent"], row["errors"], row["faults"]["provider"]) for row in rows] == [
        (None, 1, 1),
        ("ada", 2, 2),
    ]
    assert exact["rows"] == rows
