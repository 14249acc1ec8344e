"""Patterns: matched as ``re`` matches them, met by what is made for them, cheap when hostile."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction.patterns import MAX_TEXT, matches, matching, parsed

ATOMS = st.sampled_from(
    ["a", "b", ".", r"\d", r"\W", "[a-c]", "[^a]", "[ab-]", r"\.", r"\n", r"\x41"]
)
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,}", "{0,3}", "*?"])
PIECES = st.recursive(
    st.builds("{}{}".format, ATOMS, COUNTS),
    lambda inner: st.one_of(
        st.builds("({}){}".format, inner, COUNTS),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=5,
)
PATTERNS = st.builds(
    "{}{}{}".format, st.sampled_from(["", "^"]), PIECES, st.sampled_from(["", "$"])
)


@given(PATTERNS, st.text("ab1.A\n-é ", max_size=6))
@settings(max_examples=150, deadline=None)
def test_finds_what_re_finds(pattern: str, text: str) -> None:
    node = parsed(pattern)
    assert node is not None
    # ECMA's $ is the very end, and its classes are ASCII.
    expected = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert matches(node, text) == (expected.search(text) is not None)


@given(PATTERNS, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_what_is_made_for_a_pattern_meets_it(pattern: str, least: int) -> None:
    node = parsed(pattern)
    assert node is not None
    made = matching(node, least=least, most=20)
    if made is not None:
        assert least <= len(made) <= 20
        assert re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(made)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("^[a-z]{3}$", "aaa", id="counted"),
        pytest.param(r"^\d{4}-\d{2}-\d{2}$", "1111-11-11", id="digits"),
        pytest.param("^(red|green)$", "red", id="alternatives"),
        pytest.param("^(?<year>[0-9]+)$", "1", id="named group"),
        pytest.param(r"^#[0-9a-fA-F]{6}$", "#aaaaaa", id="colour"),
        pytest.param(r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", "a@a.aa", id="address"),
        pytest.param("^[\\u0430-\\u044f]$", "а", id="code points"),
        pytest.param("^$", "", id="empty"),
    ],
)
def test_makes(pattern: str, text: str) -> None:
    node = parsed(pattern)
    assert node is not None
    assert matching(node) == text


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=a)a",
        r"(?<!a)b",
        r"(a)\1",
        r"\bword",
        r"\p{L}",
        "(a",
        "a)",
        "[a",
        "*a",
        "a**",
        "[z-a]",
        "^*",
        "\\",
        "(" * 50 + ")" * 50,
    ],
)
def test_of_others_nothing_is_said(pattern: str) -> None:
    assert parsed(pattern) is None


def test_no_text_where_none_can_be() -> None:
    node = parsed("^a{3}$")
    assert node is not None
    assert matching(node, least=4) is None
    assert matching(node, most=2) is None


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^((a*)*)*b$", "(a|aa)+$", "^" + "(" * 12 + "a*" + ")*" * 12 + "c$"],
)
def test_hostile_patterns_cost_little(pattern: str) -> None:
    node = parsed(pattern)
    assert node is not None
    # With a backtracking engine this would end after the universe.
    matches(node, "a" * MAX_TEXT + "!")
    matches(node, "a" * (MAX_TEXT - 1) + "!")


def test_a_product_of_counts_is_not_made() -> None:
    node = parsed("^((a{999}){999}){999}$")
    assert node is not None
    assert matching(node) is None


def test_what_is_too_much_to_tell_counts_as_found() -> None:
    node = parsed("^((((a?){50}){50}){50}){50}c$")
    assert node is not None
    assert matches(node, "a" * MAX_TEXT)
