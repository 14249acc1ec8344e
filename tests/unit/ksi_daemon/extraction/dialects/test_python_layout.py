"""Where a list is one of calls, though nothing marks it."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.dialects.python_layout import (
    LOOK_BEHIND,
    is_class_name,
    is_meant,
    is_told,
    lead,
    stands_alone,
)

LONG = "and so on with many words " * 4


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param("", "reply", id="first"),
        pytest.param(" \n\t", "reply", id="behind blanks"),
        pytest.param("<think>x</think>\n\n", "reply", id="behind a thought"),
        pytest.param("x\n", "line", id="at the margin"),
        pytest.param("```json\n", "line", id="in a fence"),
        pytest.param("x\n    ", None, id="indented"),
        pytest.param("x\n\t", None, id="indented by a tab"),
        pytest.param(">>> f()\n", None, id="printed by Python"),
        pytest.param("... f()\n", None, id="printed by Python behind a line more"),
        pytest.param("Let me see: ", "sentence", id="a sentence"),
        pytest.param("x\nIt's so. ", "sentence", id="a sentence on a later line"),
        pytest.param("让我查一下：", "sentence", id="a sentence in another script"),
        pytest.param(f"{LONG}ends. ", "sentence", id="a long sentence"),
        pytest.param(f"{LONG}= x. ", None, id="long code"),
        pytest.param("Example: ", None, id="a word is no sentence"),
        pytest.param("let me see: ", None, id="a small letter"),
        pytest.param("for x in y: ", None, id="a statement"),
        pytest.param("Let x = 3. ", None, id="an assignment"),
        pytest.param("- A list. ", None, id="an item"),
        pytest.param("> Let me see: ", None, id="a quotation"),
        pytest.param("x = ", None, id="code"),
        pytest.param("Call `", None, id="a backtick"),
        pytest.param("Let me see ", None, id="no stop"),
    ],
)
def test_what_leads_to_a_list(before: str, expected: str | None) -> None:
    assert lead(before + "[f(a=1)]", len(before)) == expected


def test_no_more_is_looked_at_than_a_stream_keeps() -> None:
    before = "x" * 100 + "\n" + " " * (LOOK_BEHIND - 1) + "\n"
    assert lead(before + "[", len(before)) == lead(
        before[-LOOK_BEHIND - 1 :] + "[", LOOK_BEHIND + 1
    )


@pytest.mark.parametrize(
    ("after", "line", "sentence", "told"),
    [
        pytest.param("", True, True, False, id="the end"),
        pytest.param("  \nx", True, True, True, id="the end of the line"),
        pytest.param("\r\nx", True, True, True, id="in two characters"),
        pytest.param("<|eot|>", True, True, True, id="a token"),
        pytest.param("<", False, False, False, id="perhaps a token"),
        pytest.param(" Here it is.", True, False, True, id="a sentence"),
        pytest.param(" ", True, True, False, id="a blank"),
        pytest.param("(x)", False, False, True, id="a link"),
        pytest.param(" for x in y", False, False, True, id="code"),
        pytest.param(".x", False, False, True, id="an attribute"),
    ],
)
def test_what_may_follow_a_list(after: str, line: bool, sentence: bool, told: bool) -> None:
    assert stands_alone("]" + after, 1, "line") is line
    assert stands_alone("]" + after, 1, "sentence") is sentence
    assert is_told("]" + after, 1) is told


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Row", True),
        ("_Row", True),
        ("a.b.Row", True),
        ("row", False),
        ("getRow", False),
        ("Hotels_2_SearchHouse", False),
        ("Row.of", False),
    ],
)
def test_names_of_classes(name: str, expected: bool) -> None:
    assert is_class_name(name) is expected


@pytest.mark.parametrize(
    ("text", "line", "reply"),
    [
        ("[f(a=x)]", True, True),
        ("[f(a==x)]", False, False),
        ("[f('x')]", False, True),
        ("[f(x)]", False, False),
    ],
)
def test_what_was_meant_for_a_call(text: str, line: bool, reply: bool) -> None:
    assert (is_meant(text, 0, "line"), is_meant(text, 0, "reply")) == (line, reply)
