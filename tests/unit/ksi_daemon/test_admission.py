from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.admission import Admission, Limits
from ksi_daemon.errors import KsiError
from ksi_daemon.events import Event, now
from ksi_daemon.registry import Registry, tool
from ksi_daemon.security import Grant, Principal
from ksi_daemon.security.conditions import Bound
from ksi_daemon.security.redaction import Redactor
from ksi_daemon.submission import Submission

SECRET = "hunter2-hunter2"


def ready(limits: Limits | None = None) -> Admission:
    registry = Registry()

    async def kept(data: dict[str, Any], ctx: Any) -> None: ...

    registry.add(tool("a:b", kept, schema={}, summary="x"))
    registry.add(tool("a:keep", kept, schema={}, summary="x")._replace(keeps=True))
    registry.add(tool("a:in", kept, schema={}, summary="x")._replace(kind="transaction"))
    return Admission(registry, limits or Limits(), Redactor([SECRET]))


def agent(*allow: Any) -> Principal:
    return security.agent("ada", security.held(security.as_rights(allow), "f/1"))


def admitted(
    admission: Admission, event: str, data: dict[str, Any], principal: Principal
) -> tuple[Any, Submission]:
    raw = msgspec.Raw(msgspec.json.encode(data))
    submission = Submission(event=event, data=raw, principal=principal)
    stamped = Event(
        id="1",
        ts=now(),
        name=event,
        data=raw,
        source=principal.source,
        correlation_id="story",
        status="received",
    )
    return admission.admit(submission, stamped).payload, submission


def code(admission: Admission, event: str, data: dict[str, Any], principal: Principal) -> str:
    with pytest.raises(KsiError) as caught:
        admitted(admission, event, data, principal)
    return caught.value.code


def test_what_only_one_value_would_do_for_is_filled_in() -> None:
    own = Grant(event="a:b", where={"to": "self", "story": "story"})
    payload, _ = admitted(ready(), "a:b", {"x": 1}, agent(own))
    assert payload == {"x": 1, "to": "ada", "story": "story"}


def test_a_use_is_kept_with_its_event_and_not_that_of_a_refusal() -> None:
    admission = ready()
    admission.keep_use = lambda purse: ("use", (purse,))
    narrow = agent(Grant(event="a:b", where={"n": 1}, budget=1))
    assert code(admission, "a:b", {"n": 2}, narrow) == "denied"
    _, submission = admitted(admission, "a:b", {"n": 1}, narrow)
    assert submission.statements == (("use", ("f/1.0",)),)
    assert code(admission, "a:b", {"n": 1}, narrow) == "budget_spent"
    admission.forget("f")
    admitted(admission, "a:b", {"n": 1}, narrow)


def test_a_right_without_a_budget_is_used_before_one_with() -> None:
    admission = ready()
    both = agent(Grant(event="a:b", where={"n": 1}, budget=1), Grant(event="a:*", where={"n": 1}))
    for _ in range(3):
        admitted(admission, "a:b", {"n": 1}, both)
    assert not admission.used


def test_whose_child_is_whose_is_looked_up() -> None:
    admission = ready()
    narrow = agent(Grant(event="a:b", where={"to": "children"}))
    assert code(admission, "a:b", {"to": "bob"}, narrow) == "denied"
    admission.children_of = {"ada": {"bob"}}.__getitem__
    admitted(admission, "a:b", {"to": "bob"}, narrow)


def test_secrets_are_refused_where_they_would_be_kept_and_masked_before_the_transaction() -> None:
    admission, client = ready(), security.client(0, 1)
    assert code(admission, "a:keep", {"x": SECRET}, client) == "holds_secret"
    assert admitted(admission, "a:in", {"x": SECRET}, client)[0] == {"x": "*" * len(SECRET)}
    assert admitted(admission, "a:b", {"x": SECRET}, client)[0] == {"x": SECRET}


@pytest.mark.parametrize(
    ("grant", "data", "may"),
    [
        pytest.param("a:*", {}, True, id="a pattern"),
        pytest.param(Grant(event="a:b", where={"n": (1, 2)}), {"n": 2}, True, id="what fits"),
        pytest.param(Grant(event="a:b", where={"n": (1, 2)}), {"n": 3}, False, id="what does not"),
        pytest.param(
            Grant(event="a:b", where={"n": Bound(prefix="x")}), {}, False, id="what is open"
        ),
    ],
)
def test_whether_it_might(grant: Any, data: dict[str, Any], may: bool) -> None:
    admission = ready()
    assert admission.permits(agent(grant), "a:b", data) is may
    assert not admission.used


def test_H6_a_story_goes_on_with_the_count_that_it_had() -> None:
    admission = ready(Limits(events_per_root=5))
    admission.resume("story", 4)
    admitted(admission, "a:b", {}, agent("a:*"))
    assert code(admission, "a:b", {}, agent("a:*")) == "root_budget"
    admitted(admission, "a:b", {}, security.client(0, 1))


def test_H6_what_acts_for_an_agent_takes_from_its_bucket() -> None:
    admission = ready(Limits(agent_events_per_s=0.001, agent_events_burst=2))
    ada = agent("a:*")
    admitted(admission, "a:b", {}, ada)
    admitted(admission, "a:b", {}, security.stand_in("rule:x", ada))
    assert code(admission, "a:b", {}, ada) == "rate_limit"
    admitted(admission, "a:b", {}, security.stand_in("rule:x", security.SYSTEM))
