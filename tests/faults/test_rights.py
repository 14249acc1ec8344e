"""Who may submit what (FAULTS section 2): every registered event against a committed table.

An event without a row fails, and so does a row without an event: whoever adds an event looks at who
may use it. The events and their effects are those of a real daemon; their handlers are put aside,
for the question is whether the router lets an event through. A client of another uid is not in the
table: it gets no further than the socket (tests/unit/ksi_daemon/transports/test_unix.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon import router as router_module
from ksi_daemon import security
from ksi_daemon.component import Component
from ksi_daemon.registry import tool
from ksi_daemon.router import Router, Submission
from ksi_daemon.security import Effect, Principal
from ksi_daemon.services.agents.spec import Defaults, Spawn, bounded, make_spec, principal_of
from ksi_daemon.testing import connected, running_daemon, running_router, short_directory

pytestmark = pytest.mark.faults

TABLE: Final = Path(__file__).parent.parent / "data" / "rights.tsv"
# An agent may be granted nothing, the namespace of the event, or its name; a child asks the one
# that has the namespace for the name.
COLUMNS: Final = ("event", "effect", "operator", "nothing", "namespace", "name", "child")
Events = list[tuple[str, Effect]]


async def registered() -> Events:
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as ksi:
            found = (await ksi.ask("system:discover"))["events"]
    return [(each["name"], each["class"]) for each in found]


def committed() -> list[tuple[str, ...]]:
    head, *rows = [tuple(line.split("\t")) for line in TABLE.read_text().splitlines()]
    assert head == COLUMNS
    return rows


def principals(event: str, admin: Iterable[str]) -> list[Principal]:
    pattern = event.partition(":")[0] + ":*"
    missing = security.not_covered([event], (pattern,), frozenset(admin))
    return [
        security.client(1000, 1),
        security.agent("bare", ()),
        security.agent("wide", (pattern,)),
        security.agent("named", (event,)),
        security.agent("child", () if missing else (event,)),
    ]


async def verdict(router: Router, event: str, principal: Principal) -> str:
    data = msgspec.Raw(b'{"agent_id": "%s"}' % (principal.agent_id or "x").encode())
    done = await router.submit(Submission(event=event, data=data, principal=principal))
    return "denied" if done.outcome.status == "denied" else "may"


async def judged(events: Events) -> list[tuple[str, ...]]:
    """Return the table as the router has it."""
    admin = [event for event, effect in events if effect == "admin"]
    rows: list[tuple[str, ...]] = []
    async with running_router() as (router, _):
        for event, effect in events:
            router.registry.add(tool(event, nothing, schema={}, summary="x", effect=effect))
        for event, effect in events:
            rights = [await verdict(router, event, each) for each in principals(event, admin)]
            rows.append((event, effect, *rights))
    return rows


async def nothing(data: dict[str, Any], ctx: Any) -> None:
    return None


async def test_each_event_has_its_row_and_the_router_keeps_it() -> None:
    assert await judged(await registered()) == committed()


async def test_what_is_not_registered_is_nobodys_and_tells_no_names() -> None:
    async with running_router() as (router, _):
        router.registry.add(tool("vault:open", nothing, schema={}, summary="x"))
        for principal in (security.agent("a", ("*",)), security.agent("a", ())):
            submission = Submission(event="vault:opem", principal=principal)
            error = (await router.submit(submission)).outcome.error
            assert error is not None
            assert error.code == "unknown_event"
            assert ("vault:open" in f"{error.message} {error.hint}") == bool(principal.allow)


def all_permitted(principal: Principal, event: str, effect: Effect) -> bool:
    return True


def all_covered(asked: Any, granted: Any, admin: Any = ()) -> list[str]:
    return []


def patterns_reach_all(principal: Principal, event: str, effect: Effect) -> bool:
    return security.permitted(principal, [(event, "write")]) != [] or principal.operator


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("is_permitted", all_permitted),
        ("is_permitted", patterns_reach_all),
        ("not_covered", all_covered),
    ],
    ids=["everything is permitted", "patterns reach admin events", "everything is covered"],
)
async def test_the_table_finds_a_check_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., Any]
) -> None:
    events = await registered()
    monkeypatch.setattr(router_module.security, name, broken)
    assert await judged(events) != committed()


# Few names, so that what one is granted is often what another is denied.
words = st.sampled_from(["a:a", "a:b", "b:a", "a:*", "b:*", "*:a", "*", "a:a*"])
patterns = st.lists(words, max_size=3).map(tuple)
rights = st.tuples(patterns, patterns, patterns)
names = st.sampled_from(["a:a", "a:b", "b:a", "agent:status"])
effects: st.SearchStrategy[Effect] = st.sampled_from(["observe", "write", "spawn", "admin"])


def decision(principal: Principal, event: str, effect: Effect) -> int:
    """Return 0 for denied, 1 for asks, 2 for allowed."""
    if not security.is_permitted(principal, event, effect):
        return 0
    return 1 if security.must_ask(principal, event) else 2


def child_of(parent: Principal, wanted: tuple[tuple[str, ...], ...], admin: set[str]) -> Principal:
    """Return the child that *parent* gets, or one without rights where it is refused."""
    allow, ask, deny = wanted
    asked = Spawn(agent_id="kid", system="x", allow=allow, ask=ask, deny=deny)
    component = Component(name="x", provider="scripted", script={"replies": []})
    spec = make_spec(asked, "kid", component, (), Defaults(), None)
    spec = bounded(spec, asked, Component(name="p"), parent)
    if security.not_covered(spec.allow, parent.allow, admin):
        spec = msgspec.structs.replace(spec, allow=())
    return principal_of(spec)


@settings(max_examples=1_000)
@given(root=rights, wanted=st.lists(rights, min_size=1, max_size=4), event=names, effect=effects)
def test_down_a_tree_nobody_may_more_than_who_spawned_it(
    root: tuple[tuple[str, ...], ...],
    wanted: list[tuple[tuple[str, ...], ...]],
    event: str,
    effect: Effect,
) -> None:
    parent = security.agent("root", *root)
    for each in wanted:
        child = child_of(parent, each, {event} if effect == "admin" else set())
        assert decision(child, event, effect) <= decision(parent, event, effect)
        parent = child
