from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.component import Limits
from ksi_daemon.errors import Denied
from ksi_daemon.loop import LoopLimits
from ksi_daemon.services.agents.family import Families, FamilyLimits, adopted, shrunk
from ksi_daemon.services.agents.spec import Spec
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory


def spec(name: str, parent: Spec | None = None, **rest: Any) -> Spec:
    bare = Spec(
        agent_id=name,
        component=None,
        system="",
        provider={},
        model=None,
        protocol="ksi",
        tools=None,
        allow=(),
        profile="agent",
        subscriptions=(),
        parent=parent.agent_id if parent else None,
        **{"limits": Limits()} | rest,
    )
    return adopted(bare, parent, f"spawn-{name}", LoopLimits())


def born(families: Families, name: str, parent: Spec | None = None) -> Spec:
    if parent is not None:
        families.check(parent)
    child = spec(name, parent)
    families.begin(child)
    if parent is not None:
        families.add(parent)
    return child


def test_a_child_knows_its_family() -> None:
    root = spec("root")
    child = spec("child", spec("mother", root))
    assert (root.spawn_id, root.root_id, root.depth) == ("spawn-root", "spawn-root", 0)
    assert (child.root_id, child.parent_spawn_id, child.depth) == (
        "spawn-root",
        "spawn-mother",
        2,
    )


def test_H8_generations_are_limited() -> None:
    families = Families(FamilyLimits(depth=2))
    last = born(families, "c", born(families, "b", born(families, "a")))
    with pytest.raises(Denied, match="agent:c is of generation 2, the limit is 2") as caught:
        families.check(last)
    assert caught.value.code == "spawn_limit"


def test_H8_children_are_counted_for_life() -> None:
    families = Families(FamilyLimits(children=2))
    root = born(families, "root")
    for name in ("a", "b"):
        families.end(born(families, name, root))
    with pytest.raises(Denied, match="agent:root has spawned 2 agents, which is the limit"):
        families.check(root)
    families.check(born(families, "other"))


def test_H8_a_family_is_limited_in_all() -> None:
    families = Families(FamilyLimits(children=2, descendants=3))
    root = born(families, "root")
    a, b = born(families, "a", root), born(families, "b", root)
    born(families, "aa", a)
    for member in (a, b):
        with pytest.raises(Denied, match="has had 3 members"):
            families.check(member)
    families.check(born(families, "other"))


def test_the_end_of_a_family_is_the_end_of_its_counts() -> None:
    families = Families(FamilyLimits(children=1, descendants=1))
    root = born(families, "root")
    child = born(families, "a", root)
    families.end(root)
    with pytest.raises(Denied):
        families.check(child)  # the family goes on
    families.end(child)
    families.check(born(families, "root"))


def test_what_earlier_runs_counted() -> None:
    families = Families(FamilyLimits(children=2, descendants=3))
    root = born(families, "root")
    child = born(families, "a", spec("root"))
    families.restore([("spawn-root", 2, 3), ("spawn-gone", 9, 9)], {"spawn-root", "spawn-a"})
    with pytest.raises(Denied, match="has spawned 2"):
        families.check(root)
    with pytest.raises(Denied, match="has had 3 members"):
        families.check(child)


@pytest.mark.parametrize(
    ("limits", "bounds", "shrunk_to"),
    [
        pytest.param(
            Limits(),
            LoopLimits(turns=9, calls=8, mistakes=7),
            Limits(turns=9, calls=8, mistakes=7),
            id="inherited",
        ),
        pytest.param(
            Limits(turns=1000, calls=1, mistakes=7, tokens=99),
            LoopLimits(turns=9, calls=8, mistakes=7, tokens=50),
            Limits(turns=9, calls=1, mistakes=7, tokens=50),
            id="the less of both",
        ),
        pytest.param(
            Limits(usd=0.5),
            LoopLimits(turns=1, calls=1, mistakes=1, wall_s=2.0),
            Limits(turns=1, calls=1, mistakes=1, usd=0.5, wall_s=2.0),
            id="what has no bound",
        ),
    ],
)
def test_a_child_has_no_more_than_its_parent(
    limits: Limits, bounds: LoopLimits, shrunk_to: Limits
) -> None:
    assert shrunk(limits, bounds) == shrunk_to


# -- in a daemon ---------------------------------------------------------------------------------

SPAWN = msgspec.json.encode(
    {"event": "agent:spawn", "data": {"component": "agents/forker", "prompt": "Go on."}}
).decode()


@pytest.fixture
def components() -> Iterator[str]:
    """Agents that do nothing but spawn agents like themselves, three at a time."""
    with short_directory() as path:
        for folder in ("agents", "profiles"):
            (path / folder).mkdir()
        (path / "profiles" / "agent.md").write_text(
            "---\ncomponent_type: profile\nallow: [agent:spawn]\n---\n"
        )
        (path / "agents" / "forker.md").write_text(
            "---\nallow: [agent:spawn]\nscript:\n  on_empty: repeat\n"
            f"  replies:\n    - '{SPAWN}{SPAWN}{SPAWN}'\n---\nSpawn.\n"
        )
        yield str(path)


async def until_quiet(peer: Peer) -> list[dict[str, Any]]:
    """Return the agents when none has anything to do."""
    with anyio.fail_after(30):
        while True:
            agents: list[dict[str, Any]] = (await peer.ask("agent:list"))["agents"]
            if all(agent["state"] == "idle" for agent in agents):
                return agents


async def denials(peer: Peer) -> set[str]:
    asked = {"patterns": ["agent:spawn"], "limit": 1000}
    found = (await peer.ask("monitor:get_events", asked))["events"]
    return {event["error"]["code"] for event in found if "error" in event}


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        pytest.param({"max_children": 2, "max_descendants": 999}, 1 + 2 + 4 + 8, id="children"),
        pytest.param({"max_children": 2, "max_descendants": 6}, 1 + 6, id="descendants"),
        pytest.param({"max_children": 2, "max_spawn_depth": 1}, 1 + 2, id="depth"),
    ],
)
async def test_H8_a_fork_bomb_fizzles_out(
    var: Path, components: str, limits: dict[str, int], count: int
) -> None:
    generous = {"max_hops": 1000, "max_events_per_root": 100_000}
    settings = {"components": components, **generous, **limits}
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        await peer.ask("agent:spawn", {"component": "agents/forker", "prompt": "Go."})
        assert len(await until_quiet(peer)) == count
        assert await denials(peer) == {"spawn_limit"}


async def test_H8_the_counts_outlive_the_daemon(var: Path, components: str) -> None:
    settings: dict[str, Any] = {"components": components, "max_children": 2, "max_spawn_depth": 1}
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        await peer.ask("agent:spawn", {"component": "agents/forker", "prompt": "Go."})
        assert len(await until_quiet(peer)) == 3
        await peer.ask("agent:terminate", {"pattern": "forker-*"})
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        sent = {"agent_id": "forker", "message": "Go.", "wait": True}
        answer = await peer.ask("agent:send", sent)
        assert {call["error"]["code"] for call in answer["calls"]} == {"spawn_limit"}
        assert len(await until_quiet(peer)) == 1


async def test_H8_what_an_operator_spawns_is_not_counted(var: Path, components: str) -> None:
    settings: dict[str, Any] = {"components": components, "max_children": 1, "max_descendants": 1}
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        for _ in range(8):
            await peer.ask("agent:spawn", {"component": "agents/forker"})
        assert len(await until_quiet(peer)) == 8


async def test_a_child_inherits_the_limits_of_its_parent(var: Path, components: str) -> None:
    settings: dict[str, Any] = {"components": components, "max_children": 1, "max_spawn_depth": 1}
    async with running_daemon(var, **settings) as socket, connected(socket) as peer:
        given = {"component": "agents/forker", "prompt": "Go.", "limits": {"turns": 2}}
        await peer.ask("agent:spawn", given)
        await until_quiet(peer)
        child = await peer.ask("agent:info", {"agent_id": "forker-2"})
        assert (child["parent"], child["depth"], child["limits"]["turns"]) == ("forker", 1, 2)
