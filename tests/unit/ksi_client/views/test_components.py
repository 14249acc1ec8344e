from __future__ import annotations

from typing import Any

import pytest

from ksi_client.text import Paint
from ksi_client.views import components as views

PLAIN = Paint(False)


def part(name: str, relation: str, chars: int, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "relation": relation, "text_chars": chars, "parts": list(parts)}


def test_the_list_is_sorted_and_says_what_is_broken() -> None:
    rows: list[dict[str, object]] = [
        {"name": "b", "component_type": "agent", "description": "Says hello.\x1b[2J"},
        {"name": "c", "component_type": "profile", "description": None},
        {"name": "a", "error": "'a': no YAML"},
        {"name": "d", "component_type": "agent", "draft": True},
    ]
    assert list(views.listed(rows, PLAIN, 80)) == [
        "component  type     what it is",
        "a          broken   'a': no YAML",
        r"b          agent    Says hello.\e[2J",
        "c          profile  -",
        "d          draft    -",
    ]


def test_no_components() -> None:
    assert list(views.listed([], PLAIN, 80)) == ["no components"]


@pytest.mark.parametrize(
    ("component", "lines"),
    [
        pytest.param(
            {"name": "a", "tools": ["x:*"], "text": "One.\n\tTwo\x07\n"},
            ["name   a", "tools  x:*", "", "One.\n    Two\\x07"],
            id="a file",
        ),
        pytest.param({"text": "One.\n"}, ["One."], id="rendered"),
        pytest.param(
            {"script": {"replies": ["a", "b"]}, "text": ""},
            ["script  2 replies; --json shows them", "", ""],
            id="a script",
        ),
        pytest.param(
            {"script": {"replies": ["a"]}, "text": ""},
            ["script  1 reply; --json shows them", "", ""],
            id="a script of one",
        ),
        pytest.param(
            {"script": {}, "text": ""},
            ["script  0 replies; --json shows them", "", ""],
            id="a script of none",
        ),
    ],
)
def test_one_component(component: dict[str, Any], lines: list[str]) -> None:
    assert list(views.shown(component, PLAIN)) == lines


def test_the_tree_and_where_fields_are_from() -> None:
    base = part("base", "extends", 5)
    again = part("base", "extends", 0)
    found = {
        "tree": part(
            "it", "itself", 3, part("facts", "dependency", 7, base), part("kind", "mixin", 9, again)
        ),
        "origins": {"profile": "base", "limits.turns": "kind", "variables.style": "it"},
        "component": {"profile": "team", "limits": {"turns": 4}, "variables": {"style": "dry"}},
    }
    assert list(views.inspected(found, PLAIN, 80)) == [
        "it  3 characters",
        "├─ depends on  facts  7 characters",
        "│  └─ extends  base  5 characters",
        "└─ mixes in  kind  9 characters",
        "   └─ extends  base  told above",
        "",
        "field            value  from",
        "limits.turns     4      kind",
        "profile          team   base",
        "variables.style  dry    it",
    ]


def test_a_component_of_one_part_without_fields() -> None:
    found = {"tree": part("it", "itself", 3), "origins": {}, "component": {}}
    assert list(views.inspected(found, PLAIN, 80)) == ["it  3 characters"]


PROBLEM = {"code": "unknown_event", "message": "no event fits 'a\x1b:b'", "part": "x"}


def test_what_is_wrong() -> None:
    checked = [
        {"name": "good", "valid": True, "problems": []},
        {"name": "bad", "valid": False, "problems": [PROBLEM, {**PROBLEM, "hint": "try a:c"}]},
    ]
    assert list(views.validated(checked, PLAIN, 40)) == [
        "✓ good",
        "✗ bad",
        r"    unknown_event: no event fits 'a\e:b'",
        r"    unknown_event: no event fits",
        r"    'a\e:b'; try a:c",
        "1 of 2 valid",
    ]


def test_what_was_written() -> None:
    result = {"name": "agents/x", "problems": [PROBLEM]}
    assert list(views.created(result, PLAIN, 80)) == [
        "written as agents/x",
        r"    unknown_event: no event fits 'a\e:b'",
    ]
