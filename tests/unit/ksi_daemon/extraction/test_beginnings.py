from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction.beginnings import beginning, beginning_or_match, either
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect
from ksi_daemon.extraction.extractor import AFTERMATH
from ksi_daemon.extraction.presets import PRESETS
from ksi_daemon.extraction.scanner import plan
from tests.properties.written import debris

PATTERNS: Final = {
    "aftermath": AFTERMATH,
    **{each.name: each.opener for each in DIALECTS.values() if isinstance(each, FramedDialect)},
    **{
        f"{name} of {preset}": getattr(plan(PRESETS[preset].dialects), name)
        for preset in ("ksi", "any")
        for name in ("candidate", "restart", "line_restart")
    },
}


@pytest.mark.parametrize(
    ("pattern", "begun", "not_begun"),
    [
        pytest.param("ab+c", ["", "a", "ab", "abb"], ["abc", "abbc", "b", "ac"], id="sequence"),
        pytest.param("ab*", ["a", "abb"], ["abc", "x"], id="a match that may grow"),
        pytest.param("ab{2,3}c", ["abb", "abbb"], ["abbbb", "abbc"], id="counted"),
        pytest.param("a|bc|bd", ["", "b"], ["a", "bc", "x"], id="branches"),
        pytest.param("(?P<x>a(?:bc)+)d", ["ab", "abcb", "abc"], ["abcd", "abd"], id="groups"),
        pytest.param(r"a\s*+\{", ["a", "a \n"], ["a{", "a x"], id="possessive"),
        pytest.param("(?>ab|a)c", ["a", "ab"], ["abc", "ac", "ax"], id="atomic"),
        pytest.param("[^ab-d]x", ["", "e"], ["a", "c", "ex"], id="class"),
        pytest.param("[^a]x|.y", ["b"], ["a\n", "bx"], id="negated"),
        pytest.param("a(?=b+c)", ["a", "abb"], ["abbc", "ax"], id="looks ahead"),
        pytest.param("a(?!bc)", ["a", "ab"], ["abc", "ax"], id="must not follow"),
        pytest.param(r"(?<!x)a\b", ["a"], ["a.", "ab"], id="end of a word"),
        pytest.param("a$", ["a"], ["ab", "b"], id="end"),
        pytest.param(r"a\Z", ["a"], ["ab"], id="end of the text"),
        pytest.param("(?m)^a(?=\r?$)", ["a", "a\r"], ["a\n", "ab", "a\r\n", "a\rb"], id="line"),
        pytest.param("a??b", ["", "a"], ["b", "ab", "aa"], id="lazy"),
    ],
)
def test_says_whether_more_text_could_matter(
    pattern: str, begun: list[str], not_begun: list[str]
) -> None:
    found = beginning(re.compile(pattern))
    assert [text for text in begun + not_begun if found.match(text)] == begun


def test_allows_for_anything_where_a_pattern_refers_to_a_group() -> None:
    found = beginning(re.compile(r"(a+)x\1"))
    assert found.match("aax")
    assert found.match("aaxa")


def test_a_pattern_or_its_beginning() -> None:
    found = beginning_or_match(re.compile("(a)bc"))
    assert [text for text in ("a", "ab", "abc", "abcd", "x") if found.match(text)] == [
        "a",
        "ab",
        "abc",
        "abcd",
    ]
    assert found.groups == 0


def test_either_keeps_the_flags_of_each() -> None:
    found = either([re.compile("^a", re.MULTILINE), re.compile("b.", re.DOTALL), re.compile("c.")])
    assert [found.search(text) is not None for text in ("\na", "b\n", "c\n", "cc")] == [
        True,
        True,
        False,
        True,
    ]
    assert either([]).search("") is None


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=100, deadline=None)
@given(text=debris, data=st.data())
def test_where_nothing_is_begun_more_text_changes_nothing(
    name: str, text: str, data: st.DataObject
) -> None:
    pattern, begun = PATTERNS[name], beginning(PATTERNS[name])
    part = text[: data.draw(st.integers(0, len(text)))]
    for place in range(len(part)):
        if begun.match(part, place):
            continue
        early, late = pattern.match(part, place), pattern.match(text, place)
        assert (early and early.groupdict()) == (late and late.groupdict())
        assert (early and early.span()) == (late and late.span())
