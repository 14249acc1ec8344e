from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon import security
from ksi_daemon.events import matches_any
from ksi_daemon.security import (
    SYSTEM,
    Effect,
    Principal,
    delegated,
    is_permitted,
    must_ask,
    permitted,
)
from ksi_daemon.security.capabilities import SELF_REPORT

CLIENT = security.client(1000, 1)


def agent(*allow: str) -> Principal:
    return security.agent("ada", allow)


@pytest.mark.parametrize(
    ("principal", "event", "effect", "may"),
    [
        pytest.param(SYSTEM, "a:told", "notice", True, id="the daemon tells notices"),
        pytest.param(CLIENT, "a:told", "notice", False, id="nobody else does, not a client"),
        pytest.param(agent("*", "a:told"), "a:told", "notice", False, id="not an agent"),
        pytest.param(CLIENT, "a:b", "admin", True, id="an operator may all"),
        pytest.param(agent(), "a:b", "observe", False, id="nothing is granted by itself"),
        pytest.param(agent(), "agent:status", "write", True, id="but to speak of oneself"),
        pytest.param(agent("a:b"), "a:b", "write", True, id="by name"),
        pytest.param(agent("a:*"), "a:b", "exec", True, id="by pattern"),
        pytest.param(agent("a:*"), "b:b", "write", False, id="another namespace"),
        pytest.param(agent("*"), "a:b", "spawn", True, id="by a bare star"),
        pytest.param(agent("*", "a:*"), "a:b", "admin", False, id="no pattern reaches admin"),
        pytest.param(agent("a:b"), "a:b", "admin", True, id="admin by name"),
        pytest.param(
            security.handler("x:y", agent("a:b")), "a:b", "write", True, id="a handler for an agent"
        ),
        pytest.param(
            security.handler("x:y", agent("a:b")), "a:c", "write", False, id="has no more rights"
        ),
        pytest.param(
            security.agent("a", ("a:*",), (), ("a:b",)), "a:b", "write", False, id="what is denied"
        ),
        pytest.param(
            security.agent("a", ("a:b",), (), ("a:*",)), "a:b", "write", False, id="by a pattern"
        ),
        pytest.param(
            security.agent("a", ("a:*",), (), ("a:b",)), "a:c", "write", True, id="not the rest"
        ),
        pytest.param(
            security.agent("a", (), (), ("*",)), "agent:status", "write", False, id="not a word"
        ),
        pytest.param(
            security.agent("a", ("a:*",), ("a:b",)), "a:b", "write", True, id="what it asks for"
        ),
    ],
)
def test_who_may(principal: Principal, event: str, effect: Effect, may: bool) -> None:
    assert is_permitted(principal, event, effect) is may


@pytest.mark.parametrize(
    ("principal", "event", "must"),
    [
        pytest.param(security.agent("a", ("a:*",), ("a:b",)), "a:b", True, id="by name"),
        pytest.param(security.agent("a", ("a:b",), ("a:*",)), "a:b", True, id="by pattern"),
        pytest.param(security.agent("a", ("a:*",), ("a:b",)), "a:c", False, id="not the rest"),
        pytest.param(
            security.handler("x:y", security.agent("a", (), ("a:b",))), "a:b", True, id="a handler"
        ),
        pytest.param(CLIENT, "a:b", False, id="an operator"),
    ],
)
def test_who_must_ask(principal: Principal, event: str, must: bool) -> None:
    assert must_ask(principal, event) is must


def test_what_a_principal_may_of_many() -> None:
    events: list[tuple[str, Effect]] = [("a:b", "write"), ("a:c", "admin"), ("b:b", "observe")]
    assert permitted(agent("a:*"), events) == ["a:b"]
    assert permitted(CLIENT, events) == ["a:b", "a:c", "b:b"]


@pytest.mark.parametrize(
    ("asked", "granted", "missing"),
    [
        pytest.param(["a:b"], ("a:b",), [], id="equal"),
        pytest.param(["a:b"], ("a:*",), [], id="inside a pattern"),
        pytest.param(["a:b*"], ("a:*",), [], id="a narrower pattern"),
        pytest.param(["a:*"], ("a:*",), [], id="the same pattern"),
        pytest.param(["a:*"], ("a:b",), ["a:*"], id="a wider pattern"),
        pytest.param(["*"], ("a:*",), ["*"], id="everything"),
        pytest.param(["*"], ("*",), [], id="everything from everything"),
        pytest.param(["*:b"], ("a:*",), ["*:b"], id="an open beginning"),
        pytest.param(["a:b"], ("*:b",), ["a:b"], id="a grant with an open beginning is not read"),
        pytest.param(["a:b", "c:d", "a:e"], ("a:*",), ["c:d"], id="those that are missing"),
        pytest.param(["a:b"], (), ["a:b"], id="nothing granted"),
        pytest.param(["agent:status"], (), [], id="what everybody may"),
        pytest.param([], (), [], id="nothing asked"),
    ],
)
def test_what_is_missing(asked: list[str], granted: tuple[str, ...], missing: list[str]) -> None:
    rights = tuple(each for each in asked if each not in missing)
    assert delegated(asked, agent(*granted)) == (rights, missing)


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        pytest.param(("*", "a:*"), ["a:end"], id="by a pattern, which reaches no admin event"),
        pytest.param(("a:end",), [], id="by its name"),
    ],
)
def test_the_right_to_an_admin_event_is_covered_by_its_name_only(
    granted: tuple[str, ...], missing: list[str]
) -> None:
    assert delegated(["a:end"], agent(*granted), {"a:end"}).missing == missing


letters = st.text("ab:*", max_size=6)
names = st.text("ab:", max_size=6)
effects = st.sampled_from(["observe", "write", "spawn", "exec", "egress", "admin"])


@given(asked=st.lists(letters), granted=st.lists(letters), name=names, effect=effects)
def test_a_child_may_nothing_that_its_parent_may_not(
    asked: list[str], granted: list[str], name: str, effect: Effect
) -> None:
    parent = agent(*granted)
    admin = {name} if effect == "admin" else set()
    child = agent(*delegated(asked, parent, admin).rights)
    if is_permitted(child, name, effect):
        assert is_permitted(parent, name, effect)


@given(asked=letters, granted=letters, name=names)
def test_what_is_covered_matches_nothing_more(asked: str, granted: str, name: str) -> None:
    if delegated([asked], agent(granted)).rights and matches_any([asked], name):
        assert matches_any([granted], name) or name in SELF_REPORT
