from __future__ import annotations

from ksi_daemon import security
from ksi_daemon.security import SYSTEM, Principal


def test_the_daemon_itself() -> None:
    assert Principal("system", "system", "system", operator=True) == SYSTEM


def test_a_client_keeps_its_scope_when_it_reconnects() -> None:
    first, second = security.client(1000, 1), security.client(1000, 2)
    assert first == Principal("client", "client:1000/1", "client:1000", operator=True)
    assert (first.scope, first.source) != (first.scope, second.source)
    assert first.scope == second.scope


def test_an_agent_has_its_grant_and_is_no_operator() -> None:
    assert security.agent("ada", ("a:*",)) == Principal(
        "agent", "agent:ada", "agent:ada", ("a:*",), "ada"
    )


def test_a_handler_has_the_rights_of_its_cause_and_its_own_name() -> None:
    for_agent = security.handler("a:b", security.agent("ada", ("a:*",)))
    assert for_agent == Principal("handler", "handler:a:b", "handler:a:b", ("a:*",), "ada")
    assert security.handler("a:b", security.client(0, 1)).operator
    assert security.handler("c:d", for_agent).agent_id == "ada"


def test_what_stands_in_for_an_agent_has_its_rights_and_its_own_name() -> None:
    rule = security.stand_in("rule:a", security.agent("ada", ("a:*",)))
    assert rule == Principal("handler", "rule:a", "rule:a", ("a:*",), "ada")
    assert security.stand_in("rule:a", SYSTEM).kind == "handler"


def test_nobody_is_human_for_a_human() -> None:
    person = security.client(0, 1, human=True)
    assert person.human
    assert not security.client(0, 1).human
    assert not security.handler("a:b", person).human
    assert not security.stand_in("rule:a", person).human


def test_what_acts_for_an_agent_is_denied_and_must_ask_as_it_is() -> None:
    ada = security.agent("ada", ("a:*",), ("a:b",), ("a:c",))
    for acting in (security.handler("a:b", ada), security.stand_in("rule:a", ada)):
        assert (acting.allow, acting.ask, acting.deny) == (ada.allow, ada.ask, ada.deny)
