from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.component import Component
from ksi_daemon.errors import Denied
from ksi_daemon.security import Grant, Right
from ksi_daemon.security.conditions import Bound
from ksi_daemon.services.agents.rights import endowed, rechecked
from ksi_daemon.services.agents.spec import Defaults, Spawn, Spec, make_spec


def spec(agent_id: str, *allow: Any, **more: Any) -> Spec:
    component = Component(name="x", provider="scripted", script={"replies": []})
    asked = Spawn(agent_id=agent_id, system="x", allow=allow)
    made = make_spec(asked, agent_id, component, (), Defaults(), None)
    return msgspec.structs.replace(made, **more)


def spawner(*allow: Any) -> security.Principal:
    return security.agent("boss", security.as_rights(allow))


OWN = Grant(event="state:*", where={"key": Bound(prefix="{self}/")})
BOSS = Right(event="state:*", where={"key": Bound(prefix="boss/")})


def test_a_child_gets_what_its_spawner_can_give() -> None:
    child = endowed(spec("kid", "state:get"), Spawn(), spawner(OWN), None, ())
    assert child.allow == (Right(event="state:get", within=(BOSS,)),)
    assert not child.template


@pytest.mark.parametrize(
    ("data", "allow", "message"),
    [
        pytest.param(
            Spawn(provider={"type": "cli"}), (), "may not choose a provider", id="a provider"
        ),
        pytest.param(Spawn(), ("a:b",), "may not grant 'a:b'", id="a right that it has not"),
        pytest.param(Spawn(), ("state:end",), "may not grant 'state:end'", id="an admin event"),
    ],
)
def test_what_a_spawner_cannot_give(data: Spawn, allow: tuple[str, ...], message: str) -> None:
    with pytest.raises(Denied, match=message):
        endowed(spec("kid", *allow), data, spawner(OWN), None, {"state:end"})


def test_by_a_template_a_child_has_the_rights_of_its_component() -> None:
    template = Right(event="agent:spawn", where={"component": "x"}, template=True)
    child = endowed(spec("kid", "a:b"), Spawn(), spawner(template), template, ())
    assert (child.allow, child.template) == (("a:b",), True)


def test_a_restart_gives_nobody_more_than_its_parent_has_by_then() -> None:
    parent = spec("boss", "a:a")
    assert rechecked(spec("kid", "a:a", "a:b"), parent, ()).allow == ("a:a",)


def test_a_restart_changes_nothing_where_nothing_has_changed() -> None:
    parent = spec("boss", OWN)
    child = endowed(
        spec("kid", "state:get"), Spawn(), security.agent("boss", parent.allow), None, ()
    )
    assert rechecked(child, parent, ()) == child


def test_what_a_person_laid_down_in_a_template_stands() -> None:
    child = spec("kid", "a:b", template=True)
    assert rechecked(child, spec("boss"), ()) == child
