from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.services.routing.conditions import MAX_DEPTH, MAX_TESTS, compiled
from tests.growth import LINEAR, doubling

FIELDS = {
    "event": "task:done",
    "source": "agent:ada",
    "data": {
        "n": 7,
        "half": 0.5,
        "one": 1,
        "yes": True,
        "null": None,
        "text": "urgent: fix it",
        "tags": ["bug", "ui", 3],
        "by": {"name": "bob", "age": 30},
    },
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        pytest.param({}, True, id="no condition"),
        pytest.param({"data.n": 7}, True, id="a bare value is eq"),
        pytest.param({"data.n": {"eq": 7.0}}, True, id="7 is 7.0"),
        pytest.param({"data.yes": {"eq": 1}}, False, id="true is not 1"),
        pytest.param({"data.one": {"eq": True}}, False, id="1 is not true"),
        pytest.param({"data.yes": True}, True, id="true is true"),
        pytest.param({"data.null": None}, True, id="null is null"),
        pytest.param({"data.none": None}, False, id="absent is not null"),
        pytest.param({"data.by": {"eq": {"name": "bob", "age": 30}}}, True, id="objects"),
        pytest.param({"data.by": {"eq": {"name": "bob", "age": True}}}, False, id="other object"),
        pytest.param({"data.tags": ["bug", "ui", 3]}, True, id="lists"),
        pytest.param({"data.tags": ["bug", "ui", True]}, False, id="another list"),
        pytest.param({"data.n": {"ne": 8}}, True, id="ne"),
        pytest.param({"data.none": {"ne": 8}}, True, id="absent is ne"),
        pytest.param({"data.n": {"lt": 8}}, True, id="lt"),
        pytest.param({"data.n": {"lt": 7}}, False, id="not lt"),
        pytest.param({"data.n": {"le": 7}}, True, id="le"),
        pytest.param({"data.n": {"gt": 7}}, False, id="not gt"),
        pytest.param({"data.n": {"ge": 7}}, True, id="ge"),
        pytest.param({"data.n": {"gt": 5, "lt": 6}}, False, id="both of two"),
        pytest.param({"data.text": {"gt": "u"}}, True, id="texts have an order"),
        pytest.param({"data.text": {"gt": 1}}, False, id="text and number have none"),
        pytest.param({"data.yes": {"gt": 0}}, False, id="true has none"),
        pytest.param({"data.none": {"lt": 1}}, False, id="absent has none"),
        pytest.param({"data.n": {"in": [1, 7]}}, True, id="in"),
        pytest.param({"data.one": {"in": [True]}}, False, id="1 is not in [true]"),
        pytest.param({"data.tags": {"contains": "ui"}}, True, id="a list contains"),
        pytest.param({"data.tags": {"contains": "u"}}, False, id="a list has no such member"),
        pytest.param({"data.text": {"contains": "fix"}}, True, id="a text contains"),
        pytest.param({"data.text": {"contains": 1}}, False, id="a text contains texts"),
        pytest.param({"data.by": {"contains": "age"}}, True, id="an object contains a key"),
        pytest.param({"data.n": {"contains": 7}}, False, id="a number contains nothing"),
        pytest.param({"data.null": {"exists": True}}, True, id="null exists"),
        pytest.param({"data.none": {"exists": True}}, False, id="absent"),
        pytest.param({"data.none": {"exists": False}}, True, id="not exists"),
        pytest.param({"source": {"prefix": "agent:"}}, True, id="prefix"),
        pytest.param({"data.n": {"prefix": "7"}}, False, id="a number has no prefix"),
        pytest.param({"data.n": 7, "source": "agent:bob"}, False, id="all paths must hold"),
        pytest.param({"and": [{"data.n": 7}, {"data.one": 1}]}, True, id="and"),
        pytest.param({"and": [{"data.n": 7}, {"data.one": 2}]}, False, id="and, one fails"),
        pytest.param({"or": [{"data.n": 8}, {"data.one": 1}]}, True, id="or"),
        pytest.param({"or": []}, False, id="or of nothing"),
        pytest.param({"and": []}, True, id="and of nothing"),
        pytest.param({"not": {"data.n": 7}}, False, id="not"),
        pytest.param({"not": {"or": [{"data.n": 8}, {"data.n": 9}]}}, True, id="not or"),
    ],
)
def test_what_holds(condition: dict[str, Any], holds: bool) -> None:
    assert compiled(condition)(FIELDS) is holds


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        pytest.param({"n": 7}, "'n' is no path of an event", id="no root"),
        pytest.param({"data.n": {"equals": 7}}, "'equals' is no operator", id="operator"),
        pytest.param({"data.n": {}}, "'data.n' has no operator", id="no operator"),
        pytest.param({"data.n": {"in": 7}}, "'in' takes a list, got 7", id="in"),
        pytest.param({"data.n": {"exists": 1}}, "'exists' takes true or false, got 1", id="exists"),
        pytest.param({"data.n": {"prefix": 1}}, "'prefix' takes a text, got 1", id="prefix"),
        pytest.param({"data.n": {"lt": []}}, "'lt' takes a number or a text", id="order"),
        pytest.param({"and": {"data.n": 7}}, "'and' takes a list of conditions", id="and"),
        pytest.param({"or": [7]}, "want an object, got 7", id="or"),
        pytest.param({"not": [1]}, r"want an object, got \[1\]", id="not"),
        pytest.param({"data.n": {"__class__": 1}}, "is no operator", id="python is not known"),
    ],
)
def test_what_is_no_condition(condition: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        compiled(condition)


def nested(depth: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"data.n": 7}
    for _ in range(depth):
        condition = {"not": condition}
    return condition


def test_depth_and_size_are_bounded() -> None:
    assert compiled(nested(MAX_DEPTH - 1))(FIELDS) in (True, False)
    with pytest.raises(InvalidData, match=f"deeper than {MAX_DEPTH}"):
        compiled(nested(MAX_DEPTH))
    many = [{"data.n": 7}] * (MAX_TESTS - 1)
    assert compiled({"or": many})(FIELDS)
    with pytest.raises(InvalidData, match=f"more than {MAX_TESTS} tests"):
        compiled({"or": [*many, {"data.n": 7}]})
    with pytest.raises(InvalidData, match=f"more than {MAX_TESTS} tests"):
        compiled({"or": [{"data.n": {"eq": 1, "ne": 2}}] * (MAX_TESTS // 2)})


def test_the_cost_of_a_long_list_is_linear() -> None:
    test = compiled({"data.tags": {"contains": {"k": 1}}})
    assert doubling(lambda n: test({"data": {"tags": [{"k": 2}] * n}}), 20_000) < LINEAR
