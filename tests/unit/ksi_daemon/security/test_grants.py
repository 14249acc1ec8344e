from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.security.conditions import Bound
from ksi_daemon.security.grants import (
    Grant,
    Right,
    as_rights,
    check_grants,
    held,
    passed_on,
    purses,
    shown,
)


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        pytest.param(
            {"event": "a:b", "where": {"f": []}}, "nothing fits an empty list", id="an empty list"
        ),
        pytest.param(
            {"event": "a:b", "where": {"f": {}}}, "takes one of prefix", id="no way to be bound"
        ),
        pytest.param(
            {"event": "a:b", "where": {"f": [{"prefix": "a", "equals": "b"}]}},
            "takes one of prefix",
            id="two ways",
        ),
        pytest.param(
            {"event": "agent:spawn", "template": True}, "component is named", id="any template"
        ),
        pytest.param(
            {"event": "agent:spawn", "template": True, "where": {"component": {"prefix": "a"}}},
            "component is named",
            id="templates by prefix",
        ),
        pytest.param(
            {"event": "agent:*", "template": True, "where": {"component": "a"}},
            "component is named",
            id="a template of more than spawns",
        ),
    ],
)
def test_what_means_nothing_is_refused(grant: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        check_grants([msgspec.convert(grant, Grant)])


@pytest.mark.parametrize(
    "grant",
    [
        pytest.param({"event": "a:b", "wher": {}}, id="a field that there is not"),
        pytest.param({"event": "a:b", "budget": 0}, id="no use at all"),
        pytest.param({"event": "a:b", "purse": "x"}, id="a purse of one's own choice"),
        pytest.param({"event": "a:b", "where": {"f": {"suffix": "x"}}}, id="an unknown bound"),
        pytest.param({"where": {}}, id="no event"),
    ],
)
def test_what_is_no_grant_is_none(grant: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(grant, Grant)


def test_what_has_no_conditions_is_a_pattern() -> None:
    assert as_rights(["a:b", Grant(event="a:b"), Grant(event="c:d", budget=1)]) == (
        "a:b",
        Right(event="c:d", budget=1),
    )


def test_each_budget_has_a_purse_of_its_own() -> None:
    rights = as_rights([Grant(event="a:b", budget=2), "c:d", Grant(event="e:f", budget=1)])
    assert [r if isinstance(r, str) else r.purse for r in held(rights, "f/1")] == [
        "f/1.0",
        "c:d",
        "f/1.2",
    ]


NARROW = Right(event="a:*", where={"f": "self"}, budget=3, purse="p")
BOUND = Right(event="a:*", where={"f": Bound(equals="ada")}, budget=3, purse="p")


@pytest.mark.parametrize(
    ("asked", "holding", "given"),
    [
        pytest.param("a:b", "a:*", "a:b", id="of a pattern, what is asked for"),
        pytest.param("a:b", NARROW, Right(event="a:b", within=(BOUND,)), id="within conditions"),
        pytest.param(
            Grant(event="a:b", budget=1),
            NARROW,
            Right(event="a:b", budget=1, within=(BOUND,)),
            id="a budget within a budget",
        ),
        pytest.param("a:b", Right(event="a:*", delegable=False), None, id="not to be passed on"),
        pytest.param(
            "a:b",
            Right(event="a:*", delegable=1),
            Right(event="a:b", delegable=False),
            id="for one generation",
        ),
        pytest.param(
            Grant(event="a:b", delegable=5),
            Right(event="a:*", delegable=2),
            Right(event="a:b", delegable=1),
            id="for no more generations than are left",
        ),
        pytest.param(
            Grant(event="a:b", tainted=True), "a:*", "a:b", id="no trust that it has not itself"
        ),
        pytest.param(
            Grant(event="a:b", tainted=True),
            Right(event="a:*", tainted=True),
            Right(event="a:b", tainted=True),
            id="trust that it has",
        ),
        pytest.param(
            Grant(event="agent:spawn", where={"component": "x"}, template=True),
            "agent:spawn",
            Right(event="agent:spawn", where={"component": "x"}),
            id="no template of its own making",
        ),
    ],
)
def test_what_is_passed_on(asked: Any, holding: Any, given: Any) -> None:
    assert passed_on(asked, holding, "ada", None) == given


def test_a_grandchild_keeps_the_conditions_of_both() -> None:
    child = passed_on(Grant(event="a:b", where={"g": 1}), NARROW, "ada", None)
    assert isinstance(child, Right)
    grandchild = passed_on("a:b", child, "bob", "ada")
    assert isinstance(grandchild, Right)
    assert [each.where for each in grandchild.within] == [{"g": 1}, {"f": Bound(equals="ada")}]
    assert [*purses(grandchild)] == [("p", 3)]


def test_a_right_is_shown_with_what_is_left() -> None:
    right = Right(event="a:b", budget=2, purse="q", within=(BOUND,))
    assert shown(right, {"p": 1, "q": 5}) == {
        "event": "a:b",
        "budget": 2,
        "left": 0,
        "within": [{"event": "a:*", "where": {"f": {"equals": "ada"}}, "budget": 3, "left": 2}],
    }
    assert shown("a:b", {}) == "a:b"
