"""Where the text of a value ends."""

from __future__ import annotations

import re

import pytest

from ksi_daemon.extraction.dialects.base import Reading
from ksi_daemon.extraction.dialects.tags import MAX_NESTED, Ended, Family, Forms, Walk, last_end

LENIENT = Reading(strict=False, repairs=True, max_depth=64)
STRICT = Reading(strict=True, repairs=False, max_depth=64)
STOPPED = Reading(strict=False, repairs=True, max_depth=64, stop_reason="stop")
# A family of one letter a tag, so that the rows can be read at a glance.
FORMS = Forms(
    call=r"<c:(?P<name>\w*+)>",
    parameter=r"<p:(?P<key>\w*+)>",
    parameter_end="</p>",
    call_end="</c>",
    call_mark="<c:",
    parameter_mark="<p:",
    wrappers=(("<w>", "</w>"),),
)
IN_A_LINE = Family(FORMS)
ON_LINES = Family(
    Forms(
        call=FORMS.call,
        parameter=FORMS.parameter,
        parameter_end="</p>",
        call_end="</c>",
        call_mark="<c:",
        parameter_mark="<p:",
        wrappers=FORMS.wrappers,
        lines=True,
    )
)


def read(text: str, reading: Reading = LENIENT, family: Family = IN_A_LINE) -> Ended:
    call = family.call.match(text)
    assert call is not None
    return Walk(family, text, 0, reading).read(call.end())


def texts(text: str, ended: Ended) -> list[tuple[str, str]]:
    return [(each.key, text[each.start : each.end]) for each in ended.texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<c:f></c>", [], id="no parameter"),
        pytest.param("<c:f> <p:a>1</p>\n<p:b>2</p> </c>", [("a", "1"), ("b", "2")], id="two"),
        pytest.param("<c:f><p:a></p></c>", [("a", "")], id="empty"),
        pytest.param("<c:f><p:a>x</p>y</p></c>", [("a", "x</p>y")], id="closing tag"),
        pytest.param("<c:f><p:a></p></p></c>", [("a", "</p>")], id="nothing but a closing tag"),
        pytest.param("<c:f><p:a>x</c>y</p></c>", [("a", "x</c>y")], id="end of a call"),
        pytest.param("<c:f><p:a><w><x></w></p></c>", [("a", "<w><x></w>")], id="other tags"),
        pytest.param("<c:f><p:a><p:b>1</p></p></c>", [("a", "<p:b>1</p>")], id="a parameter"),
        pytest.param(
            "<c:f><p:a><p:b>1</p><p:c>2</p></p></c>", [("a", "<p:b>1</p><p:c>2</p>")], id="two more"
        ),
        pytest.param(
            "<c:f><p:a>x<c:g><p:b>1</p></c>y</p><p:d>2</p></c>",
            [("a", "x<c:g><p:b>1</p></c>y"), ("d", "2")],
            id="a call",
        ),
        pytest.param(
            "<c:f><p:a><c:g><p:b><c:h></c></p></c></p></c>",
            [("a", "<c:g><p:b><c:h></c></p></c>")],
            id="a call in a call",
        ),
        pytest.param("<c:f><p:a>the tag <c:g> is</p></c>", [("a", "the tag <c:g> is")], id="talk"),
    ],
)
def test_a_value_may_hold_tags(text: str, expected: list[tuple[str, str]]) -> None:
    for reading in (LENIENT, STRICT):
        ended = read(text, reading)
        assert (texts(text, ended), ended.end, ended.repairs) == (expected, len(text), ())


def test_where_tags_stand_on_lines_one_within_a_line_opens_nothing() -> None:
    text = "<c:f>\n<p:a>\nthe tag <p:b> opens\n</p>\n</c>"
    assert texts(text, read(text, family=ON_LINES)) == [("a", "\nthe tag <p:b> opens\n")]
    assert read(text, family=IN_A_LINE).fault is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<c:f><p:a>1</c>", [("a", "1")], id="of a value of one line"),
        pytest.param("<c:f><p:a>1</p></w>", [("a", "1")], id="of the call, before its wrapper's"),
        pytest.param("<c:f><p:a>1</p>", [("a", "1")], id="of the call, at the end"),
    ],
)
def test_a_closing_tag_that_is_missing_is_put_in_where_that_is_certain(
    text: str, expected: list[tuple[str, str]]
) -> None:
    ended = read(text, STOPPED)
    assert (texts(text, ended), ended.repairs, ended.fault) == (
        expected,
        ("missing_closer",),
        None,
    )
    assert read(text, STRICT).fault is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("<c:f><p:a>1</c>", "the value of 'a' has no closing tag", id="of a value"),
        pytest.param("<c:f><p:a>1</p>", "the end of the call is missing", id="of the call"),
    ],
)
def test_without_repairs_such_a_call_is_refused_and_takes_no_more_of_the_text(
    text: str, message: str
) -> None:
    ended = read(text + "</w>", STRICT)
    assert ended.fault is not None
    assert (ended.fault.message, ended.end) == (message, len(text))


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        pytest.param(
            "<c:f><p:a>1",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>1",
            id="in a value",
        ),
        pytest.param(
            "<c:f><p:a>1</p>",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>1</p>",
            id="behind a value",
        ),
        pytest.param(
            "<c:f><p:a>1</p><p:b",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>",
            id="in a tag behind a value",
        ),
        pytest.param(
            "<c:f><p:", "unterminated_block", "the reply ends within the call", "<p:", id="in a tag"
        ),
        pytest.param("<c:f>", "unterminated_block", "the reply ends within the call", "", id="tag"),
        pytest.param(
            "<c:f>one</c> two",
            "malformed_block",
            "expected a parameter or the end of the call, got 'one</c> two' "
            "at line 1, column 6 of the block",
            "one",
            id="text in place of a parameter",
        ),
        pytest.param(
            "<c:f><p:a>1<p:b>2</p></c>",
            "malformed_block",
            "in the value of 'a' another parameter begins at line 1, column 12 of the block, "
            "so where the value ends is not certain",
            "<p:b>",
            id="no closing tag before a parameter",
        ),
        pytest.param(
            "<c:f><p:a>1</c> and <c:g><p:a>1</p></c>",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>1</c>",
            id="no closing tag, and one behind",
        ),
        pytest.param(
            "<c:f><p:a>one\ntwo</c>",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>one",
            id="no closing tag of a value of two lines",
        ),
        pytest.param(
            "<c:f><p:a>one <c:g><p:b>1</p></w>",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>one",
            id="in a value with a call that is mended",
        ),
        pytest.param(
            "<c:f><p:a>one <c:g><p:b>1</p>?</c></p></c>",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            "<p:a>one",
            id="a call that takes the end of the one around it",
        ),
        pytest.param(
            "<c:f><p:a>" * (MAX_NESTED + 1),
            "depth_limit",
            f"calls are nested in its values deeper than {MAX_NESTED} levels",
            "<c:f><p:a>",
            id="too many calls in calls",
        ),
    ],
)
def test_refuses_what_does_not_end(text: str, code: str, message: str, place: str) -> None:
    ended = read(text)
    assert ended.fault is not None
    assert (ended.fault.code, ended.fault.message) == (code, message)
    assert text[ended.place :].startswith(place)


def test_the_end_of_a_refused_call_is_its_closing_tag() -> None:
    assert read("<c:f>one</c> two").end == len("<c:f>one</c>")
    assert read("<c:f>one <c:g></c>").end == len("<c:f>")


def test_tells_that_the_reply_was_cut_off() -> None:
    cut = Reading(strict=False, repairs=True, max_depth=64, stop_reason="length")
    fault = read("<c:f><p:a>1", cut).fault
    assert fault is not None
    assert fault.message.startswith("the reply was cut off in the value of 'a'")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("prose, </p> and </c>", "", id="tags alone"),
        pytest.param(" x </p></c> y </p> <p:b> z", " x </p></c> y </p> <p:b>", id="ends"),
        pytest.param("<c:g><p:a></p></c>", "", id="the ends of another call"),
    ],
)
def test_finds_what_ends_a_call_behind_its_end(text: str, end: str) -> None:
    assert last_end(IN_A_LINE, text, 0) == (len(end) or -1)


def test_a_section_of_cdata_is_the_value_as_it_stands() -> None:
    forms = Forms(
        call=FORMS.call,
        parameter=FORMS.parameter,
        parameter_end="</p>",
        call_end="</c>",
        call_mark="<c:",
        parameter_mark="<p:",
        quotes=True,
    )
    text = "<c:f><p:a> <![CDATA[</p></c>\n]]></p><p:b><![CDATA[x</p></c>"
    ended = read(text, family=Family(forms))
    assert texts(text, ended) == [("a", "</p></c>\n"), ("b", "<![CDATA[x")]
    assert [each.quoted for each in ended.texts] == [True, False]


def test_the_closing_tag_may_name_its_parameter() -> None:
    forms = Forms(
        call=FORMS.call,
        parameter=r"<(?P<key>[ab])>",
        parameter_end=r"</(?P<of>[ab])>",
        call_end="</c>",
        call_mark="<c:",
        parameter_mark="<[ab]>",
    )
    text = "<c:f><a>1</b></a><b></a></b></c>"
    assert texts(text, read(text, family=Family(forms))) == [("a", "1</b>"), ("b", "</a>")]


def test_openers_have_no_names_that_could_meet_others() -> None:
    assert all("?P<" not in opener for opener in IN_A_LINE.openers)
    assert re.compile("|".join(IN_A_LINE.openers * 2)).groups == 0
