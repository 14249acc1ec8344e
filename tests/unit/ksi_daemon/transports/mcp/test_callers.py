from __future__ import annotations

import pytest

from ksi_daemon.component import Component
from ksi_daemon.errors import NotFound
from ksi_daemon.security import Grant, is_permitted
from ksi_daemon.transports.mcp import Callers

PROFILES = {
    "profiles/auditor": Component(allow=["monitor:*"]),
    "profiles/wide": Component(
        allow=["*", Grant(event="state:set", budget=2)], ask=["agent:spawn"], deny=["state:delete"]
    ),
}


def load(name: str, may_be_path: bool) -> Component:
    assert not may_be_path  # a caller must not have the daemon read a file of its choice
    if name not in PROFILES:
        raise NotFound("component", name)
    return PROFILES[name]


def callers() -> Callers:
    return Callers(load, "auditor")


async def test_it_is_no_operator_and_no_agent_and_no_person() -> None:
    caller = await callers().principal("stdio/1")
    assert (caller.kind, caller.source, caller.scope) == ("client", "mcp:stdio/1", "mcp:stdio/1")
    assert (caller.operator, caller.human, caller.agent_id) == (False, False, None)
    assert caller.allow == ("monitor:*",)


async def test_it_has_the_profile_that_it_names() -> None:
    caller = await callers().principal("http", "wide")
    assert (caller.ask, caller.deny) == (("agent:spawn",), ("state:delete",))
    assert is_permitted(caller, "state:get", "observe")
    assert not is_permitted(caller, "state:delete", "write")
    assert not is_permitted(caller, "system:shutdown", "admin")
    assert await callers().principal("http", "profiles/wide") == caller


async def test_a_budget_is_that_of_the_profile_whoever_calls() -> None:
    first, second = [await callers().principal(at, "wide") for at in ("stdio/1", "stdio/2")]
    assert first.allow == second.allow
    assert first.allow[1].purse == "mcp.profiles/wide.1"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["nobody", "../auditor", "profiles/../../x"])
async def test_a_profile_that_there_is_not(name: str) -> None:
    with pytest.raises(NotFound):
        await callers().principal("http", name)
