from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.services.routing.targets import MAX_PER_AGENT
from ksi_daemon.testing import Peer, connected, running_daemon

# Whoever may do this may make rules.
MAKER = ["routing:*", "monitor:subscribe", "state:*"]


async def until(true: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(20):
        while not await true():
            pass


async def add(peer: Peer, **rule: Any) -> Any:
    given = {"name": "r", "pattern": "system:mark", "target": "state:set"} | rule
    return await peer.ask("routing:add_rule", given)


async def mark(peer: Peer, label: str = "go", **data: Any) -> None:
    await peer.ask("system:mark", {"label": label, "data": data})


async def events(peer: Peer, *patterns: str, **asked: Any) -> list[dict[str, Any]]:
    asked = {"patterns": list(patterns), **asked}
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", asked))["events"]
    return found


async def logged(peer: Peer, pattern: str, count: int) -> list[dict[str, Any]]:
    """Return the events of *pattern* when there are *count*."""
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        found[:] = await events(peer, pattern)
        return len(found) >= count

    await until(enough)
    assert len(found) == count
    return found


async def rules(peer: Peer) -> list[str]:
    return [rule["name"] for rule in (await peer.ask("routing:list_rules"))["rules"]]


async def spawn(peer: Peer, agent_id: str, *replies: Any, **rest: Any) -> Any:
    provider = {"type": "scripted", "replies": list(replies)}
    given = {"agent_id": agent_id, "system": "Work.", "provider": provider} | rest
    return await peer.ask("agent:spawn", given)


def says(event: str, **data: Any) -> str:
    """Return what an agent says to have *event* submitted."""
    return msgspec.json.encode({"event": event, "data": data}).decode()


ADD = says(
    "routing:add_rule",
    name="mine",
    pattern="system:mark",
    target="state:set",
    mapping={"key": "k", "value": 1},
)
MAPPING = {"key": "{{data.label}}", "value": "{{data.data}}"}


async def test_an_event_sets_off_another(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, mapping=MAPPING, condition={"data.data.n": {"ge": 2}})
        for n in (1, 2):
            await mark(peer, f"m{n}", n=n)
        [set_] = await logged(peer, "state:set", 1)
        [_, second] = await events(peer, "system:mark")
        assert set_["data"] == {"key": "m2", "value": {"n": 2}}
        assert (set_["source"], set_["cause_id"], set_["id"]) == (
            "rule:r",
            second["id"],
            f"{second['id']}.rule.r",
        )
        assert (await peer.ask("state:get", {"key": "m2"}))["value"] == {"n": 2}
        [rule] = (await peer.ask("routing:list_rules"))["rules"]
        assert (rule["name"], rule["fires"], rule["agent_id"]) == ("r", 1, None)


async def test_without_a_mapping_the_data_are_passed_on(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(
            peer,
            pattern="state:set",
            condition={"data.namespace": "a"},
            target="system:mark",
            mapping={"label": "{{data.key}}"},
        )
        await add(peer, name="same", target="system:mark", condition={"data.label": "once"})
        await peer.ask("state:set", {"namespace": "a", "key": "k", "value": 1})
        await logged(peer, "system:mark", 1)
        await mark(peer, "once")
        # The rule's own event fits the rule again; the circle ends by the limit of hops.
        last = (await logged(peer, "system:mark", 18 + 1))[-1]
        assert (last["status"], last["error"]["code"]) == ("denied", "hop_limit")
        assert last["data"] == {"label": "once", "data": {}}


async def test_H6_a_circle_of_rules_ends(var: Path) -> None:
    async with running_daemon(var, max_hops=6) as socket, connected(socket) as peer:
        await add(peer, name="there", target="state:set", mapping={"key": "k", "value": 1})
        await add(
            peer, name="back", pattern="state:set", target="system:mark", mapping={"label": "back"}
        )
        await mark(peer)
        marks = await logged(peer, "system:mark", 4)
        assert [each["data"]["label"] for each in marks] == ["go", "back", "back", "back"]
        [*_, last] = await logged(peer, "state:set", 4)
        assert last["error"]["code"] == "hop_limit"


async def test_H6_rules_that_multiply_come_to_the_limit_of_their_story(var: Path) -> None:
    async with running_daemon(var, max_events_per_root=50) as socket, connected(socket) as peer:
        for name in ("a", "b"):
            await add(peer, name=name, target="system:mark", condition={"data.label": "x"})
        await mark(peer, "x")

        async def limited() -> bool:
            denied = await events(peer, "system:mark", status="denied")
            return any(each["error"]["code"] == "root_budget" for each in denied)

        await until(limited)
        assert len(await events(peer, "system:mark", status="handled")) <= 51
        assert (await peer.ask("system:health"))["status"] == "ok"


async def test_an_agent_is_told(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada", "I see.", "Thanks.")
        await add(peer, target={"agent": "ada"}, condition={"data.label": {"ne": "praise"}})
        await add(
            peer,
            name="praise",
            target={"agent": "ada"},
            condition={"data.label": "praise"},
            mapping={"message": "{{data.data.points}} points."},
        )
        await mark(peer, "go")
        [sent] = await logged(peer, "agent:send", 1)
        assert sent["data"] == {
            "agent_id": "ada",
            "untrusted": True,
            "message": f"Event system:mark from {(await events(peer, 'system:mark'))[0]['source']}:"
            '\n{"label":"go","data":{}}',
        }
        await mark(peer, "praise", points=8)
        [_, praise] = await logged(peer, "agent:send", 2)
        assert praise["data"]["message"] == "8 points."
        told = await logged(peer, "completion:result", 2)
        assert [each["data"]["text"] for each in told] == ["I see.", "Thanks."]


async def test_rules_of_higher_priority_act_first(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        for name, priority in (("low", -1), ("none", 0), ("high", 5), ("none2", 0)):
            await add(peer, name=name, priority=priority, mapping={"key": name, "value": 1})
        assert await rules(peer) == ["high", "none", "none2", "low"]
        await mark(peer)
        set_ = await logged(peer, "state:set", 4)
        assert [each["data"]["key"] for each in set_] == ["high", "none", "none2", "low"]


async def test_a_rule_ends_after_as_many_firings_as_it_may_have(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, max_fires=2, mapping=MAPPING)
        for n in range(4):
            await mark(peer, f"m{n}")
        await add(peer, name="last", condition={"data.label": "end"}, mapping=MAPPING)
        await mark(peer, "end")
        set_ = await logged(peer, "state:set", 3)
        assert [each["data"]["key"] for each in set_] == ["m0", "m1", "end"]
        assert await rules(peer) == ["last"]


async def test_a_rule_ends_with_its_time(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, name="short", ttl_s=1e-6, mapping=MAPPING)
        await add(peer, name="long", ttl_s=3600, mapping={"key": "long", "value": 1})
        await mark(peer)
        assert [e["data"]["key"] for e in await logged(peer, "state:set", 1)] == ["long"]
        assert await rules(peer) == ["long"]
        await add(peer, name="short")  # the name is free again


async def test_what_was_refused_sets_off_nothing_and_what_failed_does(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(
            peer, pattern="state:set", target="system:mark", mapping={"label": "{{data.key}}"}
        )
        for data in ({"key": ""}, {"key": "k", "value": 1, "expect_version": 9}):
            with pytest.raises(KsiError):
                await peer.ask("state:set", data)
        [fired] = await logged(peer, "system:mark", 1)
        assert fired["data"]["label"] == "k"


async def test_a_deleted_rule_fires_no_more(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, mapping=MAPPING)
        await add(peer, name="other", mapping={"key": "other", "value": 1})
        await peer.ask("routing:delete_rule", {"name": "r"})
        await mark(peer)
        assert [e["data"]["key"] for e in await logged(peer, "state:set", 1)] == ["other"]
        assert await rules(peer) == ["other"]


async def test_rules_and_their_counts_outlive_the_daemon(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, mapping=MAPPING, max_fires=3)
        await mark(peer, "a")
        await logged(peer, "state:set", 1)
    async with running_daemon(var) as socket, connected(socket) as peer:
        [rule] = (await peer.ask("routing:list_rules"))["rules"]
        assert (rule["name"], rule["fires"]) == ("r", 1)
        for label in ("b", "c", "d"):
            await mark(peer, label)
        await add(peer, name="end", mapping={"key": "end", "value": 1})
        await mark(peer, "e")
        set_ = await logged(peer, "state:set", 4)
        assert [each["data"]["key"] for each in set_] == ["a", "b", "c", "end"]


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        pytest.param({"name": "R"}, "args_schema", "", id="name"),
        pytest.param({"target": "state:sett"}, "unknown_event", "state:sett", id="target"),
        pytest.param({"target": "state:get"}, "args_schema", "only reads", id="a read"),
        pytest.param({"target": "agent:spawned"}, "unknown_event", "", id="a notice"),
        pytest.param({"condition": {"n": 1}}, "args_schema", "is no path", id="condition"),
        pytest.param({"mapping": {"k": "{{n}}"}}, "args_schema", "is no path", id="mapping"),
        pytest.param({"target": {"agnt": "a"}}, "args_schema", "", id="misspelt"),
        pytest.param({"max_fires": 0}, "args_schema", "", id="never"),
        pytest.param({"ttl_s": -1}, "args_schema", "", id="in the past"),
        pytest.param({"name": "there"}, "already_exists", "'there' already", id="taken"),
    ],
)
async def test_what_is_no_rule(var: Path, rule: dict[str, Any], code: str, message: str) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, name="there")
        with pytest.raises(KsiError) as caught:
            await add(peer, **rule)
        assert caught.value.code == code
        assert message in caught.value.message
        assert await rules(peer) == ["there"]


async def test_deleting_what_is_not_there(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, name="praise")
        with pytest.raises(KsiError, match="no rule 'prase'") as caught:
            await peer.ask("routing:delete_rule", {"name": "prase"})
        assert caught.value.hint == "did you mean 'praise'?"


async def test_data_that_grow_too_large_are_not_submitted(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, mapping={"key": "k", "value": ["{{data}}"] * 32})
        await mark(peer, "x" * 100_000)
        [failed] = await logged(peer, "routing:failed", 1)
        assert failed["data"]["rule"] == "r"
        assert "more than 1048576 bytes" in failed["data"]["reason"]
        assert await events(peer, "state:set") == []


# -- rules of agents -----------------------------------------------------------------------------


async def test_a_rule_has_the_rights_of_the_agent_that_made_it(var: Path) -> None:
    rule = {"name": "mine", "pattern": "system:mark", "mapping": MAPPING}
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(
            peer,
            "ada",
            says("routing:add_rule", **rule, target="system:mark")
            + says("routing:add_rule", **rule, target="state:set"),
            "Done.",
            allow=MAKER,
            prompt="Make rules.",
        )
        await logged(peer, "routing:add_rule", 2)

        async def made() -> bool:
            return await rules(peer) == ["mine"]

        await until(made)
        [denied] = await events(peer, "routing:add_rule", status="failed")
        assert denied["error"]["code"] == "denied"
        assert "agent:ada may not emit 'system:mark'" in denied["error"]["message"]
        await mark(peer, "m")
        [set_] = await logged(peer, "state:set", 1)
        assert (set_["source"], set_["agent_id"], set_["status"]) == ("rule:mine", "ada", "handled")


@pytest.mark.parametrize("missing", ["monitor:subscribe", "routing:*"])
async def test_an_agent_needs_the_rights_to_make_and_to_follow(var: Path, missing: str) -> None:
    allow = [each for each in MAKER if each != missing]
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada", ADD, "Done.", allow=allow, prompt="Go.")

        async def refused() -> bool:
            return bool([e for e in await events(peer, "routing:add_rule") if "error" in e])

        await until(refused)
        assert await rules(peer) == []


async def test_the_rules_of_an_agent_end_with_it(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada", ADD, "Done.", allow=MAKER, prompt="Go.")
        await add(peer, name="operators", mapping={"key": "o", "value": 1})

        async def made() -> bool:
            return await rules(peer) == ["mine", "operators"] or await rules(peer) == [
                "operators",
                "mine",
            ]

        await until(made)
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        assert await rules(peer) == ["operators"]
        await spawn(peer, "ada", allow=MAKER)
        await mark(peer)
        assert [e["data"]["key"] for e in await logged(peer, "state:set", 1)] == ["o"]
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await rules(peer) == ["operators"]


async def test_an_agent_may_delete_its_own_rules_only(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await add(peer, name="operators")
        both = ADD + says("routing:delete_rule", name="operators")
        await spawn(
            peer,
            "ada",
            both + says("routing:delete_rule", name="mine"),
            "Done.",
            allow=MAKER,
            prompt="Go.",
        )

        async def deleted() -> bool:
            found = await events(peer, "routing:delete_rule", status="handled")
            return len(found) == 1

        await until(deleted)
        assert await rules(peer) == ["operators"]
        [failed] = await events(peer, "routing:delete_rule", status="failed")
        assert failed["error"]["code"] == "denied"


async def test_an_agent_has_so_many_rules_and_no_more(var: Path) -> None:
    names = [f"r{n}" for n in range(MAX_PER_AGENT + 1)]
    reply = "".join(
        says("routing:add_rule", name=n, pattern="x:y", target="state:set") for n in names
    )
    async with running_daemon(var) as socket, connected(socket) as peer:
        await spawn(peer, "ada", reply, "Done.", allow=MAKER, prompt="Go.")
        await logged(peer, "completion:result", 2)
        assert sorted(await rules(peer)) == sorted(names[:-1])
        [failed] = await events(peer, "routing:add_rule", status="failed")
        assert failed["error"]["code"] == "too_many_rules"
