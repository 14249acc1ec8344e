from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Tool, protocol, teach
from ksi_daemon.testing import Peer, connected, running_daemon

PROXY = '''
from ksi_daemon.router import Context, handles


@handles("proxy:emit")
async def emit(data: dict, ctx: Context) -> object:
    """Emit whatever one is asked to."""
    return await ctx.emit(data["event"], data["data"])
'''


def scripted(*replies: Any) -> dict[str, Any]:
    return {"type": "scripted", "replies": list(replies)}


def saying(*replies: Any, **rest: Any) -> dict[str, Any]:
    """The spawn of agent ``ada`` who says *replies*."""
    return {"agent_id": "ada", "system": "Speak.", "provider": scripted(*replies)} | rest


# A reply that comes after the test.
NEVER = {"text": "too late", "delay_s": 3_600}


@asynccontextmanager
async def served(var: Path, **settings: Any) -> AsyncIterator[tuple[Peer, Peer]]:
    """A daemon and two connections to it; it does not wait for agents when it stops."""
    async with (
        running_daemon(var, **{"drain_timeout_s": 0.05} | settings) as path,
        connected(path) as peer,
        connected(path) as other,
    ):
        yield peer, other


async def until(true: Callable[[], Awaitable[object]]) -> None:
    """Return when *true* says so; each asking lets the daemon work."""
    with anyio.fail_after(10):
        while not await true():
            pass


async def events(peer: Peer, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", asked))["events"]
    return found


async def busy(peer: Peer, *agents: str) -> None:
    """Return when each of *agents* holds an exchange."""

    async def running() -> bool:
        status = await peer.ask("completion:status")
        return {each["agent_id"] for each in status["running"]} >= set(agents)

    await until(running)


async def idle(peer: Peer, agent_id: str = "ada") -> None:
    """Return when the agent has answered all its messages."""

    async def resting() -> bool:
        info = await peer.ask("agent:info", {"agent_id": agent_id})
        return info["state"] == "idle" and not info["waiting"]

    await until(resting)


async def send(peer: Peer, message: str = "Go.", agent_id: str = "ada", **rest: Any) -> Any:
    return await peer.ask("agent:send", {"agent_id": agent_id, "message": message} | rest)


async def heard(peer: Peer, agent_id: str = "ada") -> list[str]:
    """Return the texts of the agent's replies in order."""
    found = await events(peer, patterns=["completion:result"], agent_id=agent_id)
    return [event["data"]["text"] for event in found]


def encode(value: object) -> str:
    """Return *value* as an agent writes it."""
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize(
    ("asked", "result", "provider"),
    [
        pytest.param(
            {"component": "agents/greeter"},
            {"agent_id": "greeter", "state": "idle", "model": None},
            "scripted",
            id="component",
        ),
        pytest.param(
            {"component": "components/agents/greeter.md", "agent_id": "ada"},
            {"agent_id": "ada", "state": "idle", "model": None},
            "scripted",
            id="component as a path in the checkout",
        ),
        pytest.param(
            {"system": "Speak.", "provider": scripted("hi"), "model": "m"},
            {"agent_id": "agent", "state": "idle", "model": "m"},
            "scripted",
            id="inline",
        ),
    ],
)
async def test_spawn(
    var: Path, asked: dict[str, Any], result: dict[str, Any], provider: str
) -> None:
    async with served(var) as (peer, _):
        assert await peer.ask("agent:spawn", asked) == result
        [agent] = (await peer.ask("agent:list"))["agents"]
        assert agent == {
            "agent_id": result["agent_id"],
            "state": "idle",
            "component": asked.get("component"),
            "provider": provider,
            "model": result["model"],
            "parent": None,
            "tainted_by": None,
        }
        [spawned] = await events(peer, patterns=["agent:spawned"])
        assert spawned["data"] == agent
        [asking] = await events(peer, patterns=["agent:spawn"])
        assert (spawned["cause_id"], spawned["agent_id"]) == (asking["id"], result["agent_id"])
        # Nobody was spoken to, so no model was called.
        assert await events(peer, patterns=["completion:*"]) == []


async def test_a_prompt_is_the_first_message(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("Hello.", prompt="Greet."))
        await idle(peer)
        assert await heard(peer) == ["Hello."]


async def test_ids_that_are_not_given_are_found(var: Path) -> None:
    async with served(var) as (peer, _):
        ids = [
            (await peer.ask("agent:spawn", {"component": "agents/greeter"}))["agent_id"]
            for _ in range(3)
        ]
    assert ids == ["greeter", "greeter-2", "greeter-3"]


async def test_a_file_of_any_name_gives_an_id(var: Path) -> None:
    for name in (".Héllo World.md", "-.md"):
        (var / name).write_text("---\nscript: {replies: [hi]}\n---\nSpeak.")
    async with served(var) as (peer, _):
        ids = [
            (await peer.ask("agent:spawn", {"component": str(var / name)}))["agent_id"]
            for name in (".Héllo World.md", "-.md")
        ]
    assert ids == ["h-llo-world", "agent"]


@pytest.mark.parametrize(
    ("asked", "code", "message", "hint"),
    [
        pytest.param(
            {},
            "args_schema",
            "give a component or a system prompt",
            None,
            id="nothing",
        ),
        pytest.param(
            {"component": "agents/greter"},
            "not_found",
            "no component 'agents/greter'",
            "did you mean 'agents/greeter'?",
            id="unknown component",
        ),
        pytest.param(
            {"component": "../../etc/passwd"},
            "component_name",
            "'../../etc/passwd' is no component name",
            "a name is like agents/writer: lower case, digits, _ and -, no dots",
            id="a component that is none",
        ),
        pytest.param(
            saying("hi", agent_id="Ada"),
            "args_schema",
            "'Ada' is no agent id",
            "lower case letters, digits, _ and -, at most 64",
            id="bad id",
        ),
        pytest.param(
            {"system": "Speak."},
            "args_schema",
            "the agent has no provider",
            "give one at the spawn, or start the daemon with --provider",
            id="no provider",
        ),
        pytest.param(
            {"system": "Speak.", "provider": "opnai"},
            "args_schema",
            "provider: no type 'opnai'",
            "did you mean 'openai'?",
            id="unknown provider",
        ),
        pytest.param(
            {"system": "Speak.", "provider": {"type": "scripted"}},
            "args_schema",
            "provider: Object missing required field `replies`",
            "fields: replies, on_empty, model, prices, capabilities",
            id="provider that lacks something",
        ),
        pytest.param(
            saying("hi", protocol="ski"),
            "not_found",
            "no preset 'ski'",
            "did you mean 'ksi'?",
            id="unknown preset",
        ),
        pytest.param(
            saying("hi", profile="agnt"),
            "not_found",
            "no component 'profiles/agnt'",
            "did you mean 'profiles/agent'?",
            id="unknown profile",
        ),
        pytest.param(
            saying("hi", limits={"turns": 0}),
            "args_schema",
            "Expected `int` >= 1 - at `$.limits.turns`",
            None,
            id="bad limit",
        ),
        pytest.param(
            saying("hi", allow="*"),
            "args_schema",
            "Expected `array | null`, got `str` - at `$.allow`",
            None,
            id="patterns that are text",
        ),
    ],
)
async def test_a_spawn_that_cannot_be(
    var: Path, asked: dict[str, Any], code: str, message: str, hint: str | None
) -> None:
    async with served(var) as (peer, _):
        with pytest.raises(KsiError) as caught:
            await peer.ask("agent:spawn", asked)
        error = caught.value
        assert (error.code, error.message, error.hint) == (code, message, hint)
        assert await peer.ask("agent:list") == {"agents": []}
        [event] = await events(peer, patterns=["agent:*"])
        assert event["event"] == "agent:spawn"


async def test_an_id_is_taken_once(var: Path) -> None:
    outcomes: list[bool] = []

    async def spawn(path: Path) -> None:
        async with connected(path) as peer:
            outcomes.append((await peer.request("agent:spawn", saying("hi")))["ok"])

    async with running_daemon(var) as path:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(spawn, path)
        async with connected(path) as peer:
            with pytest.raises(KsiError, match="agent 'ada' lives already") as caught:
                await peer.ask("agent:spawn", saying("hi"))
    assert sorted(outcomes) == [False] * 4 + [True]
    assert caught.value.code == "already_exists"


async def test_agents_are_not_more_than_the_limit(var: Path) -> None:
    async with served(var, max_agents=1) as (peer, _):
        await peer.ask("agent:spawn", saying("hi"))
        with pytest.raises(KsiError, match="1 agents live already") as caught:
            await peer.ask("agent:spawn", saying("hi", agent_id="bob"))
        assert caught.value.code == "too_many_agents"
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        await peer.ask("agent:spawn", saying("hi", agent_id="bob"))


async def test_info_tells_what_an_agent_is_made_of_but_not_its_providers_settings(
    var: Path,
) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", allow=["state:*"], limits={"turns": 3}))
        assert await peer.ask("agent:info", {"agent_id": "ada"}) == {
            "agent_id": "ada",
            "component": None,
            "system": "Speak.",
            "provider": "scripted",
            "model": None,
            "protocol": "ksi",
            "tools": None,
            "allow": ["state:*"],
            "profile": "agent",
            "subscriptions": [],
            "limits": {"turns": 3},
            "parent": None,
            "tainted_by": None,
            "report": False,
            "ask": [],
            "deny": [],
            "depth": 0,
            "template": False,
            "state": "idle",
            "waiting": 0,
            "usage": {
                "replies": 0,
                "input_tokens": 0,
                "output_tokens": 0,
                "cached_tokens": 0,
                "usd": None,
                "unpriced": 0,
            },
        }


async def usage(peer: Peer) -> dict[str, Any]:
    info = await peer.ask("agent:info", {"agent_id": "ada"})
    found: dict[str, Any] = info["usage"]
    return found


@pytest.mark.parametrize(
    ("prices", "usd", "unpriced"),
    [
        pytest.param({"in": 0, "out": 500_000}, 2.0, 0, id="known"),
        pytest.param({"in": 0, "out": 0}, 0.0, 0, id="free"),
        pytest.param(None, None, 2, id="a price that nobody knows is not 0"),
    ],
)
async def test_info_tells_what_an_agent_has_cost(
    var: Path, prices: object, usd: float | None, unpriced: int
) -> None:
    provider = {"type": "scripted", "replies": ["x" * 8], "on_empty": "repeat", "prices": prices}
    spawn = {"agent_id": "ada", "system": "S", "provider": provider}
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", spawn)
        for _ in range(2):
            await send(peer, "Go.", wait=True)
        cost = await usage(peer)
        assert cost.pop("input_tokens") > 0
        assert cost == {
            "replies": 2,
            "output_tokens": 4,
            "cached_tokens": 0,
            "usd": usd,
            "unpriced": unpriced,
        }
    async with served(var) as (peer, _):
        assert (await usage(peer))["replies"] == 2
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        await peer.ask("agent:spawn", spawn)
        assert (await usage(peer))["replies"] == 0


async def test_what_an_agent_is_told_is_told_if_asked(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", tools=["state:get"]))
        info = await peer.ask("agent:info", {"agent_id": "ada", "told": True})
        described = await peer.ask("system:help", {"event": "state:get"})
    [tool] = info["told"]
    assert (tool["name"], tool["description"]) == ("state:get", described["summary"])
    assert tool["schema"] == described["schema"]


async def test_an_agent_that_writes_files_is_taught_the_form_for_long_text(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", tools=["composition:create_component"]))
        told = (await peer.ask("agent:info", {"agent_id": "ada", "told": True}))["told"]
    tools = [Tool(**tool) for tool in told]
    text = teach(protocol("ksi"), tools)
    assert tools[0].schema["properties"]["content"]["contentMediaType"] == "text/markdown"
    assert "~~~ksi composition:create_component id=" in text


async def test_an_agent_is_not_taught_to_say_who_it_is(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", tools=["agent:status"]))
        [tool] = (await peer.ask("agent:info", {"agent_id": "ada", "told": True}))["told"]
        described = await peer.ask("system:help", {"event": "agent:status"})
    assert "agent_id" in described["schema"]["properties"]
    assert list(tool["schema"]["properties"]) == tool["schema"]["required"] == ["status"]
    assert tool["example"] == {"status": "ready"}


async def test_who_waits_gets_the_answer(var: Path) -> None:
    text = 'On it.\n{"event": "state:set", "data": {"key": "k", "value": 1}}'
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(text, "Done.", allow=["state:*"]))
        answer = await send(peer, wait=True)
        [call] = answer.pop("calls")
        assert call.pop("id").startswith("ksiu_")
        assert call == {"name": "state:set", "status": "handled", "result": {"version": 1}}
        assert answer == {
            "request_id": answer["request_id"],
            "text": "Done.",
            "finish_reason": "stop",
            "turns": 2,
            "error": None,
            "rejected": 0,
        }
        [asked] = await events(peer, patterns=["agent:send"])
        assert (asked["id"], asked["status"]) == (answer["request_id"], "handled")


async def test_who_does_not_wait_gets_a_receipt(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(NEVER))
        receipt = await send(peer)
        [asked] = await events(peer, patterns=["agent:send"])
        assert receipt == {"request_id": asked["id"]}


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        pytest.param({"agent_id": "abc", "message": "x"}, "not_found", "no agent 'abc'", id="who"),
        pytest.param(
            {"agent_id": "ada", "message": ""},
            "args_schema",
            "Expected `str` of length >= 1 - at `$.message`",
            id="nothing to say",
        ),
    ],
)
async def test_a_message_that_cannot_be_sent(
    var: Path, data: dict[str, Any], code: str, message: str
) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi"))
        with pytest.raises(KsiError) as caught:
            await peer.ask("agent:send", data)
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_messages_are_answered_one_after_the_other_in_order(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(*(f"reply {n}" for n in range(20))))
        for n in range(20):
            peer.write(
                {"event": "agent:send", "data": {"agent_id": "ada", "message": f"message {n}"}}
            )
        await until(lambda: has_replied(peer, 20))
        found = await events(peer, patterns=["completion:result"])
        sent = await events(peer, patterns=["agent:send"])
    assert [event["data"]["text"] for event in found] == [f"reply {n}" for n in range(20)]
    assert [event["cause_id"] for event in found] == [event["id"] for event in sent]


async def has_replied(peer: Peer, times: int) -> bool:
    return len(await heard(peer)) == times


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
async def test_a_full_mailbox_refuses(var: Path, at_once: bool) -> None:
    async with served(var, max_mailbox=3) as (peer, _):
        await peer.ask("agent:spawn", saying(NEVER))
        await send(peer)
        await busy(peer, "ada")
        if at_once:
            for n in range(6):
                data = {"agent_id": "ada", "message": "x"}
                peer.write({"id": f"m{n}", "event": "agent:send", "data": data})
            replies = [await peer.pushed() for _ in range(6)]
        else:
            given = {"agent_id": "ada", "message": "x"}
            replies = [await peer.request("agent:send", given) for _ in range(6)]
        assert sum(reply["ok"] for reply in replies) == 3
        refused = next(reply["error"] for reply in replies if not reply["ok"])
        assert refused == {
            "code": "mailbox_full",
            "message": "3 messages wait for agent 'ada'",
            "retryable": True,
        }
        assert (await peer.ask("agent:info", {"agent_id": "ada"}))["waiting"] == 3


@pytest.mark.parametrize(
    ("asked", "ended"),
    [
        pytest.param({"agent_id": "ada"}, ["ada"], id="one"),
        pytest.param({"agent_ids": ["eve", "ada"]}, ["ada", "eve"], id="many"),
        pytest.param({"agent_id": "ada", "agent_ids": ["ada"]}, ["ada"], id="one named twice"),
        pytest.param({"pattern": "bob*"}, ["bob", "bob-2"], id="pattern"),
        pytest.param({"pattern": "*"}, ["ada", "bob", "bob-2", "eve"], id="all"),
        pytest.param({"pattern": "zed*"}, [], id="none"),
        pytest.param({"pattern": "bob", "agent_id": "ada"}, ["ada", "bob"], id="both"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True], ids=["", "dry run"])
async def test_terminate(var: Path, asked: dict[str, Any], ended: list[str], dry_run: bool) -> None:
    everybody = ["ada", "bob", "bob-2", "eve"]
    async with served(var) as (peer, _):
        for agent_id in everybody:
            await peer.ask("agent:spawn", saying("hi", agent_id=agent_id))
        result = await peer.ask("agent:terminate", asked | {"dry_run": dry_run})
        assert result == {"terminated": ended, "dry_run": dry_run}
        gone = [] if dry_run else ended
        living = (await peer.ask("agent:list"))["agents"]
        assert [agent["agent_id"] for agent in living] == [e for e in everybody if e not in gone]
        told = await events(peer, patterns=["agent:terminated"])
        assert [event["agent_id"] for event in told] == gone


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        pytest.param({}, "args_schema", "say which: agent_id, agent_ids or pattern", id="none"),
        pytest.param({"agent_ids": ["ada", "zed"]}, "not_found", "no agent 'zed'", id="unknown"),
    ],
)
async def test_a_termination_that_cannot_be_ends_nobody(
    var: Path, asked: dict[str, Any], code: str, message: str
) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi"))
        with pytest.raises(KsiError) as caught:
            await peer.ask("agent:terminate", asked)
        assert (caught.value.code, caught.value.message) == (code, message)
        assert len((await peer.ask("agent:list"))["agents"]) == 1


async def test_who_waits_for_a_terminated_agent_is_told(var: Path) -> None:
    async with served(var) as (peer, other):
        await peer.ask("agent:spawn", saying(NEVER))
        for number in (1, 2):
            data = {"agent_id": "ada", "message": "Go.", "wait": True}
            other.write({"id": f"w{number}", "event": "agent:send", "data": data})
        await busy(peer, "ada")
        await until(lambda: is_waiting(peer, 1))
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        answers = [(await other.pushed())["result"] for _ in range(2)]
        assert [(a["finish_reason"], a["text"], a["turns"]) for a in answers] == [
            ("terminated", "", 0)
        ] * 2
        assert await peer.ask("completion:status") == {"running": [], "requests": []}
        [cancelled] = await events(peer, patterns=["completion:cancelled"])
        assert cancelled["data"]["reason"] == "terminated"


async def is_waiting(peer: Peer, messages: int) -> bool:
    info = await peer.ask("agent:info", {"agent_id": "ada"})
    return bool(info["waiting"] == messages)


async def test_an_id_is_free_again_and_its_bearer_begins_anew(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("I am the first."))
        await send(peer, wait=True)
        await peer.ask("agent:status", {"agent_id": "ada", "status": "old"})
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        with pytest.raises(KsiError, match="no agent 'ada'"):
            await send(peer)
        await peer.ask("agent:spawn", saying("I am the second."))
        answer = await send(peer, wait=True)
        assert (answer["text"], answer["turns"]) == ("I am the second.", 1)
        assert "status" not in await peer.ask("agent:info", {"agent_id": "ada"})


async def test_who_ends_and_spawns_at_once_keeps_the_new_one_over_a_restart(var: Path) -> None:
    async with served(var) as (peer, other):
        await peer.ask("agent:spawn", saying("first"))
        peer.write({"id": "t", "event": "agent:terminate", "data": {"agent_id": "ada"}})
        await until(lambda: spawns(other))
        assert (await peer.pushed())["ok"]
        await send(peer, wait=True)
    async with served(var) as (peer, _):
        [agent] = (await peer.ask("agent:list"))["agents"]
        assert agent["agent_id"] == "ada"
        assert await heard(peer) == ["second"]


async def spawns(peer: Peer) -> bool:
    return bool((await peer.request("agent:spawn", saying("second", "third")))["ok"])


async def test_two_may_end_the_same_agents_at_once(var: Path) -> None:
    async with served(var) as (peer, other):
        for n in range(20):
            await peer.ask("agent:spawn", saying("hi", agent_id=f"a{n}"))
        for each in (peer, other):
            each.write({"id": "t", "event": "agent:terminate", "data": {"pattern": "*"}})
        replies = [await peer.pushed(), await other.pushed()]
        assert [reply["ok"] for reply in replies] == [True, True]
        assert len(await events(peer, patterns=["agent:terminated"])) == 20


async def test_cancel_ends_the_exchange_and_not_the_agent(var: Path) -> None:
    async with served(var) as (peer, other):
        await peer.ask("agent:spawn", saying(NEVER, "Next."))
        data = {"agent_id": "ada", "message": "Go.", "wait": True}
        other.write({"event": "agent:send", "data": data})
        await busy(peer, "ada")
        assert await peer.ask("agent:cancel", {"agent_id": "ada"}) == {"cancelled": True}
        assert (await other.pushed())["result"]["finish_reason"] == "cancelled"
        assert (await send(peer, wait=True))["text"] == "Next."
        assert await peer.ask("agent:cancel", {"agent_id": "ada"}) == {"cancelled": False}


async def test_what_an_agent_says_of_itself_is_shown(var: Path) -> None:
    reply = "\n".join(
        encode({"event": f"agent:{kind}", "data": data})
        for kind, data in (
            ("status", {"status": "ready", "mood": "good"}),
            ("progress", {"progress": 0.5}),
            ("result", {"result": {"n": 1}}),
        )
    )
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(reply, allow=[]))
        assert (await send(peer, wait=True))["turns"] == 1
        [agent] = (await peer.ask("agent:list"))["agents"]
        assert (agent["status"], agent["progress"], agent["result"]) == ("ready", 0.5, {"n": 1})


async def test_an_agent_cannot_speak_as_another(var: Path) -> None:
    reply = encode({"event": "agent:status", "data": {"agent_id": "bob", "status": "mad"}})
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", agent_id="bob"))
        await peer.ask("agent:spawn", saying(reply, "Oh."))
        [call] = (await send(peer, wait=True))["calls"]
        assert (call["status"], call["error"]["code"]) == ("denied", "denied")
        assert "status" not in await peer.ask("agent:info", {"agent_id": "bob"})


async def test_two_agents_talk(var: Path) -> None:
    def to(agent_id: str, text: str) -> str:
        return encode({"event": "agent:send", "data": {"agent_id": agent_id, "message": text}})

    async with served(var) as (peer, _):
        allow = {"allow": ["agent:send"]}
        bob = saying(to("ada", "Two."), "Bye.", agent_id="bob", **allow)
        await peer.ask("agent:spawn", bob)
        await peer.ask("agent:spawn", saying(to("bob", "One."), "Thanks.", **allow))
        await send(peer)
        await until(lambda: has_said(peer, "ada", "Thanks."))
        story = await events(peer, patterns=["agent:send", "completion:result"])
    assert [
        (event["event"], event["source"], event["agent_id"]) for event in map(plainly, story)
    ] == [
        ("agent:send", "client", None),
        ("completion:result", "system", "ada"),
        ("agent:send", "agent:ada", "ada"),
        ("completion:result", "system", "bob"),
        ("agent:send", "agent:bob", "bob"),
        ("completion:result", "system", "ada"),
    ]
    assert len({event["correlation_id"] for event in story}) == 1
    assert [event["cause_id"] for event in story[1:]] == [event["id"] for event in story[:-1]]


def plainly(event: dict[str, Any]) -> dict[str, Any]:
    source = "client" if event["source"].startswith("client:") else event["source"]
    return {"agent_id": None} | event | {"source": source}


async def has_said(peer: Peer, agent_id: str, text: str) -> bool:
    return text in await heard(peer, agent_id)


async def test_a_talk_without_end_ends_at_the_hop_limit(var: Path) -> None:
    def to(agent_id: str) -> dict[str, Any]:
        call = encode({"event": "agent:send", "data": {"agent_id": agent_id, "message": "And?"}})
        return {"type": "scripted", "replies": [call], "on_empty": "repeat"}

    async with served(var, max_hops=6) as (peer, _):
        for name, other in (("ada", "bob"), ("bob", "ada")):
            spawn = saying(agent_id=name, allow=["agent:send"]) | {"provider": to(other)}
            await peer.ask("agent:spawn", spawn)
        await send(peer)
        await until(lambda: is_denied(peer))
        await idle(peer, "ada")
        await idle(peer, "bob")
        sends = await events(peer, patterns=["agent:send"])
    assert [event["status"] for event in sends[:7]] == ["handled"] * 7
    assert {event["error"]["code"] for event in sends[7:]} == {"hop_limit"}


async def is_denied(peer: Peer) -> bool:
    return bool(await events(peer, status="denied"))


@pytest.mark.parametrize(
    ("allow", "child", "code"),
    [
        pytest.param(["state:*"], {"allow": ["state:get"]}, None, id="less than its own"),
        pytest.param(["state:*"], {"allow": ["state:*"]}, None, id="as much as its own"),
        pytest.param(["state:*"], {"allow": []}, None, id="nothing"),
        pytest.param(["state:*"], {"allow": ["*"]}, "denied", id="everything"),
        pytest.param(["state:*"], {"allow": ["agent:send"]}, "denied", id="something else"),
        pytest.param(["state:*"], {}, "denied", id="a profile with more"),
        pytest.param(["system:*"], {}, None, id="a profile with less"),
        pytest.param(["*"], {"allow": ["agent:terminate"]}, "denied", id="an admin event by *"),
        pytest.param(
            ["agent:terminate"], {"allow": ["agent:terminate"]}, None, id="an admin event by name"
        ),
        pytest.param(
            ["*"],
            {"allow": [], "provider": scripted("hi")},
            "denied",
            id="a provider of its choosing",
        ),
        pytest.param(
            ["*"], {"allow": [], "component": "{var}/secret.md"}, "component_name", id="any file"
        ),
        pytest.param(["state:*"], {"allow": [], "subscriptions": ["*"]}, "denied", id="to listen"),
        pytest.param(
            ["state:*", "monitor:subscribe"],
            {"allow": [], "subscriptions": ["*"]},
            None,
            id="to listen, where it may itself",
        ),
    ],
)
@pytest.mark.parametrize("by", ["itself", "a handler"])
async def test_an_agent_gives_no_more_rights_than_it_has(
    var: Path, allow: list[str], child: dict[str, Any], code: str | None, by: str
) -> None:
    (var / "plugins").mkdir()
    (var / "plugins" / "proxy.py").write_text(PROXY)
    (var / "secret.md").write_text("---\nscript: {replies: [hi]}\n---\nThe secret.")
    asked = {"component": "agents/greeter", "agent_id": "child"} | child
    asked["component"] = asked["component"].format(var=var)
    call: dict[str, Any] = {"event": "agent:spawn", "data": asked}
    if by == "a handler":
        call = {"event": "proxy:emit", "data": call}
    granted = [*allow, "agent:spawn", "proxy:emit"]
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(encode(call), "Done.", allow=granted))
        [report] = (await send(peer, wait=True))["calls"]
        assert report.get("error", {}).get("code") == code
        living = [agent["agent_id"] for agent in (await peer.ask("agent:list"))["agents"]]
        assert living == (["ada"] if code else ["ada", "child"])
        if code is None:
            info = await peer.ask("agent:info", {"agent_id": "child"})
            assert info["parent"] == "ada"


async def test_an_agent_cannot_wait_for_another(var: Path) -> None:
    call = encode(
        {"event": "agent:send", "data": {"agent_id": "bob", "message": "x", "wait": True}}
    )
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("hi", agent_id="bob"))
        await peer.ask("agent:spawn", saying(call, "Oh.", allow=["agent:send"]))
        [report] = (await send(peer, wait=True))["calls"]
    assert report["error"]["message"] == "an agent cannot wait for another's answer"


async def test_an_agent_may_end_itself_where_it_is_granted(var: Path) -> None:
    call = encode({"event": "agent:terminate", "data": {"agent_id": "ada"}})
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(call, "still here", allow=["agent:terminate"]))
        answer = await send(peer, wait=True)
        assert answer["finish_reason"] == "terminated"
        assert await peer.ask("agent:list") == {"agents": []}


# -- the protocol that is best ---------------------------------------------------------------------


def status(number: int) -> str:
    return '{"event": "agent:status", "data": {"status": "' + str(number) + '"}}'


def fenced(number: int) -> str:
    call = '{"name": "agent:status", "arguments": {"status": "' + str(number) + '"}}'
    return f"~~~tool_call\n{call}\n~~~"


async def tried(peer: Peer, protocol: str, replies: list[str]) -> None:
    """Have an agent answer with *replies* in *protocol*, all in one exchange."""
    asked = saying("\n".join(replies), "Done.", agent_id=protocol, protocol=protocol)
    await peer.ask("agent:spawn", asked)
    await peer.ask("agent:send", {"agent_id": protocol, "message": "Go.", "wait": True})


async def test_the_best_protocol_is_what_the_log_says(var: Path) -> None:
    async with served(var) as (peer, _):
        await tried(peer, "text_tagged", [fenced(n) for n in range(30)])
        await tried(peer, "ksi", ['{"event": "agent:status", "data": 5}'] * 20 + [status(1)])
        found = await peer.ask("agent:spawn", saying(protocol="best"))
        info = await peer.ask("agent:info", {"agent_id": "ada"})
    assert found["protocol"] == info["protocol"] == "text_tagged"
    assert found["note"] == "text_tagged fits scripted best, by 51 calls"


@pytest.mark.parametrize(
    ("settings", "spawn", "protocol"),
    [
        pytest.param({}, {"protocol": "best"}, "ksi", id="asked for at the spawn"),
        pytest.param(
            {"protocol": "text_tagged"}, {"protocol": "best"}, "text_tagged", id="else the usual"
        ),
        pytest.param({"protocol": "best"}, {}, "ksi", id="the setting"),
    ],
)
async def test_where_no_protocol_is_known_to_be_best_the_usual_one_is_taken(
    var: Path, settings: dict[str, Any], spawn: dict[str, Any], protocol: str
) -> None:
    async with served(var, **settings) as (peer, _):
        found = await peer.ask("agent:spawn", saying(**spawn))
    assert found["protocol"] == protocol
    assert found["note"] == f"scripted has made no call yet; the protocol is {protocol}"


async def test_an_agent_of_the_best_protocol_comes_back_with_what_was_chosen(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(protocol="best"))
    async with served(var) as (peer, _):
        assert (await peer.ask("agent:info", {"agent_id": "ada"}))["protocol"] == "ksi"


async def test_a_spawn_that_names_its_protocol_says_nothing_of_it(var: Path) -> None:
    async with served(var) as (peer, _):
        assert set(await peer.ask("agent:spawn", saying())) == {"agent_id", "state", "model"}
