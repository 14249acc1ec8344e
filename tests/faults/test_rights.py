"""Who may submit what (FAULTS section 2): every registered event against a committed table.

An event without a row fails, and so does a row without an event: whoever adds an event looks at who
may use it. The events and their effects are those of a real daemon; their handlers are put aside,
for the question is whether the router lets an event through. A client of another uid gets no
further than the socket: a real process of one tries every event.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon import security
from ksi_daemon.component import Component
from ksi_daemon.errors import Denied
from ksi_daemon.registry import tool
from ksi_daemon.router import Router, Submission
from ksi_daemon.security import Effect, Grant, Principal, capabilities
from ksi_daemon.security.capabilities import Delegated
from ksi_daemon.security.conditions import Bound
from ksi_daemon.services.agents.rights import endowed
from ksi_daemon.services.agents.spec import Defaults, Spawn, bounded, make_spec, principal_of
from ksi_daemon.testing import connected, running_daemon, running_router, short_directory

pytestmark = pytest.mark.faults

TABLE: Final = Path(__file__).parent.parent / "data" / "rights.tsv"
# A stranger is another user of the machine. An agent may be granted nothing, the namespace of the
# event, or its name; a child asks the one that has the namespace for the name.
COLUMNS: Final = (
    "event",
    "effect",
    "operator",
    "stranger",
    "nothing",
    "namespace",
    "name",
    "child",
)
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
    wide = security.agent("wide", (pattern,))
    return [
        security.client(1000, 1),
        security.agent("bare", ()),
        wide,
        security.agent("named", (event,)),
        security.agent("child", security.delegated([event], wide, frozenset(admin)).rights),
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
            own, *agents = [await verdict(router, event, each) for each in principals(event, admin)]
            rows.append((event, effect, own, "refused", *agents))
    return rows


async def nothing(data: dict[str, Any], ctx: Any) -> None:
    return None


async def test_each_event_has_its_row_and_the_router_keeps_it() -> None:
    assert await judged(await registered()) == committed()


ASK_AS_STRANGER: Final = """
import json, socket, sys
answers = {}
for event in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1])
        s.sendall(json.dumps({"event": event, "data": {}}).encode() + b"\\n")
        s.shutdown(socket.SHUT_WR)
        answers[event] = json.loads(s.makefile().readline())["error"]["code"]
json.dump(answers, sys.stdout)
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become another user, by setpriv",
)
async def test_S6_another_user_is_refused_before_any_event() -> None:
    events = [row[0] for row in committed()]
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as ksi:
            # Even where somebody has opened the way to the socket.
            for path, mode in ((var, 0o755), (socket.parent, 0o755), (socket, 0o666)):
                os.chmod(path, mode)
            before = (await ksi.ask("system:health"))["last_seq"]
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or sys.executable
            argv += [python, "-I", "-c", ASK_AS_STRANGER, str(socket)]
            done = await anyio.run_process(argv, input=json.dumps(events).encode())
            assert json.loads(done.stdout) == dict.fromkeys(events, "not_authorized")
            assert (await ksi.ask("system:health"))["last_seq"] == before
    assert {row[COLUMNS.index("stranger")] for row in committed()} == {"refused"}


async def test_what_is_not_registered_is_nobodys_and_tells_no_names() -> None:
    async with running_router() as (router, _):
        router.registry.add(tool("vault:open", nothing, schema={}, summary="x"))
        for principal in (security.agent("a", ("*",)), security.agent("a", ())):
            submission = Submission(event="vault:opem", principal=principal)
            error = (await router.submit(submission)).outcome.error
            assert error is not None
            assert error.code == "unknown_event"
            assert ("vault:open" in f"{error.message} {error.hint}") == bool(principal.allow)


def all_permitted(*asked: Any) -> security.Permit:
    return security.Permit(None, {})


def all_delegated(asked: list[str], giver: Any, admin: Any = ()) -> Delegated:
    return Delegated(tuple(asked), [])


REACHING: Final = capabilities.reaching


def patterns_reach_all(principal: Principal, event: str, effect: Effect) -> Iterable[Any]:
    return REACHING(principal, event, "write")


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (security, "permit", all_permitted),
        (capabilities, "reaching", patterns_reach_all),
        (security, "delegated", all_delegated),
    ],
    ids=["everything is permitted", "patterns reach admin events", "everything is covered"],
)
async def test_the_table_finds_a_check_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, broken: Callable[..., Any]
) -> None:
    events = await registered()
    monkeypatch.setattr(module, name, broken)
    assert await judged(events) != committed()


# Few names and values, so that what one is granted is often what another is denied.
PATTERNS: Final = ("a:a", "a:b", "b:a", "a:*", "b:*", "*:a", "*", "a:a*", "agent:spawn")
AGENTS: Final = ("root", "kid0", "kid1", "kid2", "kid3")
terms = st.sampled_from(
    (
        *("self", "parent", "children", "story", "x", "root", "kid0", 1, None),
        *(Bound(prefix="{self}/"), Bound(prefix="kid"), Bound(equals="self")),
        Bound(children_of="root"),
    )
)
conditions = terms | st.lists(terms, min_size=1, max_size=2).map(tuple)
wheres = st.dictionaries(st.sampled_from(("f", "g", "component")), conditions, max_size=2)
narrow = st.builds(
    Grant,
    event=st.sampled_from(PATTERNS),
    where=wheres,
    budget=st.none() | st.integers(1, 2),
    delegable=st.booleans() | st.integers(1, 2),
    tainted=st.booleans(),
)
templates = st.builds(
    Grant,
    event=st.just("agent:spawn"),
    where=st.just({"component": "x"}),
    delegable=st.booleans() | st.integers(1, 2),
    template=st.just(True),
)
grants = narrow | templates
entries = st.lists(st.sampled_from(PATTERNS) | grants, max_size=4).map(tuple)
patterns = st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple)
rights = st.tuples(entries, patterns, patterns)
values = st.sampled_from(("root", "kid0", "kid1", "kid0/x", "kid0/../x", "x", "s", "self", 1, None))
datas = st.dictionaries(
    st.sampled_from(("f", "g", "component")), values | st.lists(values, max_size=2)
)
events = st.sampled_from(("a:a", "a:b", "b:a", "agent:spawn", "agent:status"))
effects: st.SearchStrategy[Effect] = st.sampled_from(["observe", "egress", "spawn", "admin"])


class Call(NamedTuple):
    """An event as it might be submitted by anybody of a tree."""

    event: str
    effect: Effect
    data: dict[str, Any]
    tainted: bool


calls = st.builds(Call, events, effects, datas, st.booleans())


class Tree:
    """Agents that were spawned by each other, and what was taken of their purses."""

    def __init__(self, wanted: tuple[Any, ...]) -> None:
        self.used: Counter[str] = Counter()
        self.parents: dict[str, str] = {}
        allow, ask, deny = wanted
        allow = (*security.as_rights(allow), *ask)
        self.principals = {"root": security.agent("root", security.held(allow, "root"), ask, deny)}

    def spawn(self, parent: str, wanted: tuple[Any, ...], admin: set[str]) -> None:
        """Have *parent* spawn a child, with none of its rights if they are refused."""
        name, giver = f"kid{len(self.parents)}", self.principals[parent]
        allow, ask, deny = wanted
        asked = Spawn(agent_id=name, system="x", allow=allow, ask=ask, deny=deny)
        component = Component(name="x", provider="scripted", script={"replies": []})
        spec = make_spec(asked, name, component, (), Defaults(), parent)
        spec = bounded(spec, asked, Component(name="p"), giver)
        try:
            spec = endowed(spec, asked, giver, None, admin)
        except Denied:
            spec = msgspec.structs.replace(spec, allow=())
        spec = msgspec.structs.replace(spec, allow=security.held(spec.allow, name))
        self.parents[name] = parent
        self.principals[name] = principal_of(spec)

    def permit(self, name: str, call: Call) -> security.Permit | None:
        """Return by which right the agent *name* may do *call*, None if by none."""
        principal = msgspec.structs.replace(self.principals[name], tainted=call.tainted)
        at = security.Situation(name, self.parents.get(name), "s", self._children)
        try:
            return security.permit(
                principal, call.event, call.effect, lambda: call.data, at, self.used
            )
        except Denied:
            return None

    def do(self, name: str, call: Call) -> None:
        """Have an agent do *call*, if it may."""
        permit = self.permit(name, call)
        if permit is not None and permit.right is not None:
            self.used.update(purse for purse, _ in security.purses(permit.right))

    def must_ask(self, name: str, event: str) -> bool:
        return security.must_ask(self.principals[name], event)

    def _children(self, parent: str) -> list[str]:
        return [name for name, each in self.parents.items() if each == parent]


@settings(max_examples=1_000)
@given(
    root=rights,
    spawns=st.lists(st.tuples(st.integers(0, 9), rights), min_size=1, max_size=4),
    done=st.lists(st.tuples(st.sampled_from(AGENTS), calls), max_size=6),
    call=calls,
)
def test_down_a_tree_nobody_may_more_than_who_spawned_it(
    root: tuple[Any, ...],
    spawns: list[tuple[int, tuple[Any, ...]]],
    done: list[tuple[str, Call]],
    call: Call,
) -> None:
    tree = Tree(root)
    admin = {call.event} if call.effect == "admin" else set()
    for at, wanted in spawns:
        tree.spawn([*tree.principals][at % len(tree.principals)], wanted, admin)
    for name, each in done:
        if name in tree.principals:
            tree.do(name, each)
    for name, parent in tree.parents.items():
        permit = tree.permit(name, call)
        if permit is None:
            continue
        # As it is logged, with what its right has filled in.
        given = tree.permit(parent, call._replace(data={**call.data, **permit.filled}))
        assert given is not None, (name, tree.principals[name], tree.principals[parent])
        assert tree.must_ask(name, call.event) >= tree.must_ask(parent, call.event)
        for purse, size in security.purses(given.right) if given.right else ():
            assert tree.used[purse] < size
