from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.services.routing.targets import MAX_PER_AGENT
from ksi_daemon.testing import FakeClock, Peer, connected, running_daemon

HOUR = 3600.0


async def until(true: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(20):
        while not await true():
            pass


async def set_timer(peer: Peer, **asked: Any) -> Any:
    """Set a timer that marks the log with its name."""
    data = {"label": asked.get("name", "t")}
    return await peer.ask("timer:set", {"name": "t", "target": "system:mark", "data": data} | asked)


async def events(peer: Peer, *patterns: str, **asked: Any) -> list[dict[str, Any]]:
    asked = {"patterns": list(patterns), **asked}
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", asked))["events"]
    return found


async def marks(peer: Peer, count: int) -> list[str]:
    """Return the labels of the marks when there are *count*."""
    found: list[str] = []

    async def enough() -> bool:
        found[:] = [each["data"]["label"] for each in await events(peer, "system:mark")]
        return len(found) >= count

    await until(enough)
    assert len(found) == count
    return found


async def timers(peer: Peer) -> list[str]:
    return [timer["name"] for timer in (await peer.ask("timer:list"))["timers"]]


async def ended(peer: Peer, *names: str) -> None:
    """Return when no timer of *names* is left."""

    async def gone() -> bool:
        return not set(await timers(peer)) & set(names)

    await until(gone)


async def spawn(peer: Peer, *replies: Any, **rest: Any) -> Any:
    provider = {"type": "scripted", "replies": list(replies)}
    given = {"agent_id": "ada", "system": "Work.", "provider": provider} | rest
    return await peer.ask("agent:spawn", given)


def says(event: str, **data: Any) -> str:
    """Return what an agent says to have *event* submitted."""
    return msgspec.json.encode({"event": event, "data": data}).decode()


async def test_a_timer_fires_once_when_its_time_has_come(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        assert await set_timer(peer, after_s=HOUR) == {"name": "t", "due": "2030-01-01T01:00:00Z"}
        await set_timer(peer, name="later", at="2030-01-01T03:00:01+01:00")
        assert await timers(peer) == ["t", "later"]
        clock.advance(HOUR - 1)
        await set_timer(peer, name="now", after_s=0)
        assert await marks(peer, 1) == ["now"]
        clock.advance(1)
        assert await marks(peer, 2) == ["now", "t"]
        clock.advance(HOUR)
        await set_timer(peer, name="now", after_s=0)
        assert await marks(peer, 3) == ["now", "t", "now"]
        clock.advance(1)
        assert await marks(peer, 4) == ["now", "t", "now", "later"]
        await ended(peer, "now", "t", "later")


async def test_what_a_timer_submits_says_so(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await set_timer(peer, after_s=0)
        await marks(peer, 1)
        [set_] = await events(peer, "timer:set")
        [mark] = await events(peer, "system:mark")
        assert (mark["source"], mark["id"], mark["status"]) == (
            "timer:t",
            f"{set_['id']}.timer.1",
            "handled",
        )
        assert mark["correlation_id"] == mark["id"]


async def test_a_timer_fires_again_and_again(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await set_timer(peer, name="hourly", every_s=HOUR, max_fires=3)
        await set_timer(peer, name="soon", after_s=60, every_s=2 * HOUR)
        clock.advance(60)
        assert await marks(peer, 1) == ["soon"]
        for count in (2, 4, 5):  # hourly; soon and hourly; hourly for the last time
            clock.advance(HOUR)
            await marks(peer, count)
        await ended(peer, "hourly")
        clock.advance(HOUR)
        found = await marks(peer, 6)
        assert (found.count("hourly"), found.count("soon")) == (3, 3)
        [soon] = (await peer.ask("timer:list"))["timers"]
        assert (soon["name"], soon["fires"], soon["due"]) == ("soon", 3, "2030-01-01T06:01:00Z")


async def test_an_agent_is_told(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "Good morning.")
        await set_timer(peer, after_s=0, target={"agent": "ada"}, data={"message": "Wake up."})

        async def answered() -> bool:
            return bool(await events(peer, "completion:result"))

        await until(answered)
        [sent] = await events(peer, "agent:send")
        assert sent["data"] == {"agent_id": "ada", "message": "Wake up."}


async def test_a_cancelled_timer_does_not_fire(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        for name in ("a", "b", "c"):
            await set_timer(peer, name=name, after_s=1)
        assert await peer.ask("timer:cancel", {"name": "b"}) == {"cancelled": "b"}
        clock.advance(1)
        assert await marks(peer, 2) == ["a", "c"]
        with pytest.raises(KsiError, match="no timer 'b'"):
            await peer.ask("timer:cancel", {"name": "b"})


async def test_timers_outlive_the_daemon_and_catch_up_once(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await set_timer(peer, name="once", after_s=10)
        await set_timer(peer, name="every", every_s=100, max_fires=3)
        await set_timer(peer, name="far", after_s=10_000)
        await set_timer(peer, name="off", after_s=10)
        await peer.ask("timer:cancel", {"name": "off"})
        clock.advance(100)
        await marks(peer, 2)
    clock.advance(350)  # three of its times go by
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        assert await marks(peer, 3) == ["once", "every", "every"]
        every, far = (await peer.ask("timer:list"))["timers"]
        assert (every["fires"], every["due"]) == (2, "2030-01-01T00:08:20Z")
        assert far["name"] == "far"
        clock.advance(50)
        assert (await marks(peer, 4))[-1] == "every"
        await ended(peer, "every")


async def test_a_timer_that_fired_before_the_end_does_not_fire_again(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await set_timer(peer, after_s=0)
        await marks(peer, 1)
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await set_timer(peer, name="next", after_s=0)
        assert await marks(peer, 2) == ["t", "next"]


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        pytest.param({}, "args_schema", "say when: after_s, at or every_s", id="never"),
        pytest.param(
            {"after_s": 1, "at": "2030-01-01T00:00:00Z"}, "args_schema", "not both", id="twice"
        ),
        pytest.param({"at": "2030-01-01T00:00:00"}, "args_schema", "at has no zone", id="zone"),
        pytest.param({"at": "9999-12-31T23:59:59-12:00"}, "args_schema", "ten years", id="far"),
        pytest.param({"at": "tomorrow"}, "args_schema", "RFC3339", id="no time"),
        pytest.param({"after_s": -1}, "args_schema", "", id="negative"),
        pytest.param({"every_s": 0.5}, "args_schema", "", id="too often"),
        pytest.param({"after_s": 1, "max_fires": 2}, "args_schema", "for every_s", id="max_fires"),
        pytest.param({"after_s": 1, "name": "A"}, "args_schema", "", id="name"),
        pytest.param({"after_s": 1, "name": "there"}, "already_exists", "'there'", id="taken"),
        pytest.param({"after_s": 1, "target": "a:b"}, "unknown_event", "a:b", id="unknown"),
        pytest.param({"after_s": 1, "target": "state:get"}, "args_schema", "reads", id="a read"),
    ],
)
async def test_what_is_no_timer(var: Path, asked: dict[str, Any], code: str, message: str) -> None:
    async with running_daemon(var, clock=FakeClock()) as socket, connected(socket) as peer:
        await set_timer(peer, name="there", after_s=1)
        with pytest.raises(KsiError) as caught:
            await set_timer(peer, **asked)
        assert caught.value.code == code
        assert message in caught.value.message
        assert await timers(peer) == ["there"]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "1970-01-01T00:00:00Z"])
async def test_a_time_in_the_past_is_now(var: Path, at: str) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await set_timer(peer, at=at)
        assert await marks(peer, 1) == ["t"]


async def test_a_timer_without_a_name_gets_one(var: Path) -> None:
    async with running_daemon(var, clock=FakeClock()) as socket, connected(socket) as peer:
        given = await peer.ask("timer:set", {"after_s": 1, "target": "system:mark"})
        assert [given["name"]] == await timers(peer)


async def test_a_refused_timer_ends(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await set_timer(peer, every_s=1, data={"no": "label"})
        clock.advance(1)
        await ended(peer, "t")
        [mark] = await events(peer, "system:mark")
        assert (mark["status"], mark["error"]["code"]) == ("rejected", "args_schema")
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        assert await timers(peer) == []


async def test_a_name_is_free_again(var: Path) -> None:
    async with running_daemon(var, clock=FakeClock()) as socket, connected(socket) as peer:
        for _ in range(200):
            await set_timer(peer, after_s=HOUR)
            await peer.ask("timer:cancel", {"name": "t"})
        assert await timers(peer) == []


# -- timers of agents ----------------------------------------------------------------------------

MAKER = ["timer:*", "state:*"]
HOURLY = says(
    "timer:set", name="mine", every_s=HOUR, target="state:set", data={"key": "k", "value": 1}
)


async def test_a_timer_has_the_rights_and_the_story_of_its_agent(var: Path) -> None:
    clock = FakeClock()
    forbidden = says("timer:set", name="not", after_s=1, target="system:mark", data={"label": "x"})
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await spawn(peer, HOURLY + forbidden, "Done.", allow=MAKER, prompt="Go.")

        async def refused() -> bool:
            return bool(await events(peer, "timer:set", status="failed"))

        await until(refused)
        assert await timers(peer) == ["mine"]
        clock.advance(HOUR)

        async def fired() -> bool:
            return bool(await events(peer, "state:set"))

        await until(fired)
        [set_] = await events(peer, "state:set")
        timer, denied = await events(peer, "timer:set")
        assert denied["error"]["code"] == "denied"
        assert (set_["source"], set_["agent_id"], set_["cause_id"], set_["correlation_id"]) == (
            "timer:mine",
            "ada",
            timer["id"],
            timer["correlation_id"],
        )


async def test_H6_timers_that_set_timers_come_to_the_limit_of_hops(var: Path) -> None:
    again = says(
        "timer:set", name="next", after_s=0, target={"agent": "ada"}, data={"message": "Go on."}
    )
    async with running_daemon(var, max_hops=7) as socket, connected(socket) as peer:
        provider = {"type": "scripted", "replies": [again], "on_empty": "repeat"}
        allow = ["timer:*", "agent:send"]
        await spawn(peer, provider=provider, allow=allow, prompt="Go.")

        async def limited() -> bool:
            denied = await events(peer, "timer:set", "agent:send", status="denied")
            return any(each["error"]["code"] == "hop_limit" for each in denied)

        await until(limited)
        await ended(peer, "next")


async def test_the_timers_of_an_agent_end_with_it(var: Path) -> None:
    clock = FakeClock()
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        await spawn(peer, HOURLY, "Done.", allow=MAKER, prompt="Go.")

        async def set_() -> bool:
            return await timers(peer) == ["mine"]

        await until(set_)
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        assert await timers(peer) == []
        await spawn(peer, allow=MAKER)
        clock.advance(HOUR)
        await set_timer(peer, after_s=0)
        await marks(peer, 1)
        assert await events(peer, "state:set") == []
    async with running_daemon(var, clock=clock) as socket, connected(socket) as peer:
        assert await timers(peer) == []


async def test_an_agent_has_so_many_timers_and_cancels_only_its_own(var: Path) -> None:
    names = [f"t{n}" for n in range(MAX_PER_AGENT + 1)]
    reply = "".join(says("timer:set", name=n, after_s=9, target="state:set") for n in names)
    reply += says("timer:cancel", name="operators") + says("timer:cancel", name="t0")
    async with running_daemon(var, clock=FakeClock()) as socket, connected(socket) as peer:
        await set_timer(peer, name="operators", after_s=9)
        await spawn(peer, reply, "Done.", allow=MAKER, prompt="Go.")

        async def cancelled() -> bool:
            return bool(await events(peer, "timer:cancel", status="handled"))

        await until(cancelled)
        assert sorted(await timers(peer)) == sorted(["operators", *names[1:-1]])
        failed = await events(peer, "timer:*", status="failed")
        assert [each["error"]["code"] for each in failed] == ["too_many_timers", "denied"]
