from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.security.conditions import Bound, Situation, Where, described, filled, fixed

KIDS = {"ada": ["bob", "eve"], "boss": ["ada"]}
AT = Situation("ada", "boss", "s1", lambda agent_id: KIDS.get(agent_id, []))
ROOT = Situation("boss", None, None, lambda agent_id: KIDS.get(agent_id, []))


def where(condition: Any) -> Where:
    return msgspec.convert({"f": condition}, Where)


@pytest.mark.parametrize(
    ("condition", "value", "fits"),
    [
        pytest.param("self", "ada", True, id="its own id"),
        pytest.param("self", "bob", False, id="another's id"),
        pytest.param("self", "self", False, id="the word itself is no id"),
        pytest.param({"equals": "self"}, "self", True, id="unless it is meant"),
        pytest.param("parent", "boss", True, id="its parent"),
        pytest.param("parent", "ada", False, id="not itself"),
        pytest.param("children", "eve", True, id="a child"),
        pytest.param("children", "ada", False, id="no child of its own"),
        pytest.param("children", ["bob", "eve"], True, id="each of a list"),
        pytest.param("children", ["bob", "boss"], False, id="one of a list is not"),
        pytest.param("children", {"a": 1}, False, id="an object is nobody"),
        pytest.param(["children", "parent"], "boss", True, id="one of several"),
        pytest.param(["children", "parent"], "ada", False, id="none of several"),
        pytest.param("story", "s1", True, id="the story that it is in"),
        pytest.param("story", "s2", False, id="another story"),
        pytest.param({"prefix": "{self}/"}, "ada/x", True, id="below its own name"),
        pytest.param({"prefix": "{self}/"}, "adam/x", False, id="below a longer name"),
        pytest.param({"prefix": "{self}/"}, "ada/../bob/x", False, id="climbing out"),
        pytest.param({"prefix": "{self}/"}, "ada/a..b", True, id="two dots in a name"),
        pytest.param({"prefix": "a"}, 1, False, id="a number begins with nothing"),
        pytest.param({"children_of": "boss"}, "ada", True, id="a child of another"),
        pytest.param("x", "x", True, id="a value"),
        pytest.param("x", "X", False, id="another value"),
        pytest.param(1, 1, True, id="a number"),
        pytest.param(1, True, False, id="true is not 1"),
        pytest.param(True, 1, False, id="1 is not true"),
        pytest.param(False, 0, False, id="0 is not false"),
        pytest.param(1, "1", False, id="a text is no number"),
        pytest.param(None, "x", False, id="what must be absent is there"),
        pytest.param([], "x", False, id="none of nothing"),
    ],
)
def test_a_value_fits_a_condition(condition: Any, value: Any, fits: bool) -> None:
    assert filled(where(condition), {"f": value, "other": 1}, AT) == ({} if fits else None)


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        pytest.param("self", {"f": "ada"}, id="its own id"),
        pytest.param(["self"], {"f": "ada"}, id="in a list of one"),
        pytest.param("parent", {"f": "boss"}, id="its parent"),
        pytest.param("story", {"f": "s1"}, id="its story"),
        pytest.param("x", {"f": "x"}, id="a value"),
        pytest.param({"equals": "self"}, {"f": "self"}, id="a value that is a word"),
        pytest.param(None, {}, id="what must be absent stays so"),
        pytest.param("children", None, id="which child cannot be known"),
        pytest.param(["self", "parent"], None, id="nor which of two"),
        pytest.param({"prefix": "a"}, None, id="nor how a text goes on"),
    ],
)
@pytest.mark.parametrize("data", [{}, {"f": None}, {"f": []}], ids=["absent", "null", "empty"])
def test_what_is_absent_is_filled_in_where_one_value_would_do(
    condition: Any, given: Any, data: dict[str, Any]
) -> None:
    assert filled(where(condition), data, AT) == given


@pytest.mark.parametrize("word", ["parent", "story"])
@pytest.mark.parametrize("data", [{}, {"f": "x"}, {"f": None}])
def test_a_word_that_means_nobody_fits_nothing(word: str, data: dict[str, Any]) -> None:
    assert filled(where(word), data, ROOT) is None


@pytest.mark.parametrize(
    ("condition", "bound"),
    [
        pytest.param("self", Bound(equals="ada"), id="self"),
        pytest.param("parent", Bound(equals="boss"), id="parent"),
        pytest.param("children", Bound(children_of="ada"), id="children"),
        pytest.param("story", "story", id="a story is that of the event"),
        pytest.param(["self", "x"], (Bound(equals="ada"), "x"), id="in a list"),
        pytest.param({"prefix": "{self}/"}, Bound(prefix="ada/"), id="a prefix"),
        pytest.param({"equals": "self"}, Bound(equals="self"), id="a value that is a word"),
    ],
)
def test_words_keep_their_meaning_in_other_hands(condition: Any, bound: Any) -> None:
    assert fixed(where(condition), "ada", "boss") == {"f": bound}


def test_who_has_no_parent_passes_on_a_right_that_nothing_fits() -> None:
    assert fixed(where("parent"), "boss", None) == {"f": ()}
    assert fixed(where(["parent", "self"]), "boss", None) == {"f": (Bound(equals="boss"),)}


def test_an_agent_whose_name_is_a_word_keeps_its_meaning_too() -> None:
    bound = fixed(where("self"), "children", None)
    assert filled(bound, {"f": "children"}, AT) == {}
    assert filled(bound, {"f": "bob"}, AT) is None


def test_a_condition_in_words() -> None:
    narrow = msgspec.convert(
        {"to": ["children", "parent"], "key": {"prefix": "n/"}, "n": 1, "pattern": None}, Where
    )
    assert described(narrow) == (
        "to is the id of a child of its own or the id of its parent"
        " and key is a text that begins with 'n/' and n is 1 and pattern is not given"
    )
