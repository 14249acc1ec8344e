"""What is mended, with what words, and what is left alone because nobody can know."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.reader import Stop, trace
from ksi_daemon.extraction.repair import BUDGET, Mended, Mender

DIALECT: Final = DIALECTS["event"]
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def mend(
    text: str, *, complete: bool = False, keys: Collection[str] | None = frozenset()
) -> Mended | None:
    return Mender(text).mend(0, len(text), keys, complete=complete)


def applied(text: str, mended: Mended | None) -> Any:
    """Return what *text* says after the edits of *mended*, read by the standard library."""
    assert mended is not None
    pieces, at = [], 0
    for edit in mended.edits:
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return json.loads("".join([*pieces, text[at : mended.end]]), strict=False)


def event(data: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    text = f'{{"event":"a:b","data":{data}'
    return extract(text, protocol("ksi", **overrides), stop_reason=stop_reason)


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        pytest.param('{"x":1,}', {"x": 1}, ["trailing_comma"], id="comma in an object"),
        pytest.param('{"x":[1,2 , ]}', {"x": [1, 2]}, ["trailing_comma"], id="comma in an array"),
        pytest.param('{"x":1 // one\n}', {"x": 1}, ["comment"], id="comment behind a value"),
        pytest.param('{"x":1, # one\n"y":2}', {"x": 1, "y": 2}, ["comment"], id="hash"),
        pytest.param(
            '{"x": 1, /* one */ "y": [2,],}',
            {"x": 1, "y": [2]},
            ["comment", "trailing_comma"],
            id="commas behind a comment",
        ),
        pytest.param('{/* a\n* b */"x":1}', {"x": 1}, ["comment"], id="comment of two lines"),
        pytest.param('{\n// "y": 2,\n"x":1}', {"x": 1}, ["comment"], id="member commented out"),
        pytest.param(
            '{"x":1, // one\n}', {"x": 1}, ["comment", "trailing_comma"], id="comma and comment"
        ),
        pytest.param(
            '{"x":[True,False],"y":None}',
            {"x": [True, False], "y": None},
            ["python_literal"],
            id="literals of Python",
        ),
        pytest.param("{'x':'y'}", {"x": "y"}, ["single_quotes"], id="single quotes"),
        pytest.param("{'x':'a \"b\"'}", {"x": 'a "b"'}, ["single_quotes"], id="quotes within"),
        pytest.param(r"{'x':'it\'s\n'}", {"x": "it's\n"}, ["single_quotes"], id="escapes within"),
        pytest.param(
            r'{"x":"it\'s \\ \"so\""}', {"x": 'it\'s \\ "so"'}, ["escaped_apostrophe"], id="escaped"
        ),
        pytest.param(
            r'{"x":"a \'b\' \"c"}', {"x": "a 'b' \"c"}, ["escaped_apostrophe"], id="all escaped"
        ),
        pytest.param(
            r'{"x":"\"a\n\'b\"c\""}',
            {"x": '"a\n\'b"c"'},
            ["escaped_apostrophe"],
            id="pairs of quotes",
        ),
        pytest.param("{“x”:“y”}", {"x": "y"}, ["smart_quotes"], id="smart quotes"),
        pytest.param("{‘x’:„it's“}", {"x": "it's"}, ["smart_quotes"], id="other smart quotes"),
        pytest.param('{"x":1\n"y":2}', {"x": 1, "y": 2}, ["missing_comma"], id="two lines"),
        pytest.param(
            '{"x":[{"a":1}},{"b":2}]}', {"x": [{"a": 1}, {"b": 2}]}, ["extra_closer"], id="brace"
        ),
        pytest.param('{"x":[1,2}', {"x": [1, 2]}, ["missing_closer"], id="array not closed"),
        pytest.param(
            '{"x":[{"a":1,"b":2]}', {"x": [{"a": 1, "b": 2}]}, ["missing_closer"], id="object"
        ),
        pytest.param(
            '{"x":"a\nb",}', {"x": "a\nb"}, ["trailing_comma", "control_character"], id="newline"
        ),
    ],
)
def test_mends(text: str, value: dict[str, Any], repairs: list[str]) -> None:
    for reply in (text, f"{text}\nDone."):
        mended = mend(reply)
        assert mended == Mended(len(text), value, tuple(repairs), mended.edits if mended else ())
        assert applied(reply, mended) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"x":"a"', {"x": "a"}, id="string"),
        pytest.param('{"x":{"y":"a"}  \n', {"x": {"y": "a"}}, id="blanks behind"),
        pytest.param('{"x":[{"y":true', {"x": [{"y": True}]}, id="array"),
        pytest.param('{"x":{"a":1,"b":[2]', {"x": {"a": 1, "b": [2]}}, id="member of nothing else"),
        pytest.param('{"x":"a"\n```\n', {"x": "a"}, id="end of a fence"),
    ],
)
def test_closes_what_is_open_at_the_end_if_the_writer_stopped_there(
    text: str, value: dict[str, Any]
) -> None:
    end = len(text.removesuffix("\n```\n").rstrip())
    mended = mend(text, complete=True)
    assert mended == Mended(end, value, ("missing_closer",), mended.edits if mended else ())
    assert applied(text, mended) == value
    assert mend(text) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"x":"a', id="ends in a string"),
        pytest.param('{"x":', id="ends without a value"),
        pytest.param('{"x":1,', id="ends behind a comma"),
        pytest.param('{"x":12', id="ends in a number"),
        pytest.param('{"x":tru', id="ends in a literal"),
        pytest.param('{"x":{"y":{"a":1,"b":true', id="may have been closed before the last member"),
        pytest.param('{"x":[[1,2,[3]]}', id="the same of arrays"),
        pytest.param('{"x":[[1]}', id="bracket opened too often or not closed"),
        pytest.param('{"x":[1,2]]}', id="bracket closed or not opened"),
        pytest.param('{"x":["v"}}', id="wrong bracket"),
        pytest.param('{"x":[1,2},"y":1}', id="array not closed in the middle"),
        pytest.param('{"x":["a"\n"b"]}', id="strings side by side"),
        pytest.param('{"x":1 "y":2}', id="members on one line"),
        pytest.param('{"x":"a,"\n"y":2}', id="comma that may belong behind the quote"),
        pytest.param('{"x":["a]"}', id="bracket that may belong behind the quote"),
        pytest.param('{"x":"a}"', id="brace that may belong behind the quote, at the end"),
        pytest.param('{"x":{"y":"a}"}', id="brace that may belong behind the quote, further in"),
        pytest.param('{"x":["1] a"}', id="bracket that may belong before the quote"),
        pytest.param('{"x":[{"y":1\n}\n}]}', id="brace whose opening one is on a lost line"),
        pytest.param(r"""{"x":"f(\'\")"}""", id="quote that may be lost before an apostrophe"),
        pytest.param('{"x":1\n"y" 2}', id="no member on the next line"),
        pytest.param('{"x":}', id="no value"),
        pytest.param("{,}", id="a comma alone"),
        pytest.param('{"x":[1,,2]}', id="two commas"),
        pytest.param('{"x":[1,,]}', id="two commas at the end"),
        pytest.param('{"x":(1,2)}', id="tuple"),
        pytest.param('{"x":"a "b" c"}', id="quotes in a string"),
        pytest.param('{"x":"f(",})"}', id="code that looks like an end"),
        pytest.param("{'x':'don't'}", id="apostrophe in single quotes"),
        pytest.param("{'x':'a' 'b'}", id="strings that Python joins"),
        pytest.param(r"{'x':'\x41'}", id="escape of Python"),
        pytest.param(r'{"x":"\d"}', id="escape of nothing"),
        pytest.param('{“x”:“a"b”}', id="quotes of two kinds"),
        pytest.param('{"x":1 // }\n}', id="bracket in a comment"),
        pytest.param('{"x":[\n"a",\n// b"\n]}', id="a string that lacks a quote is no comment"),
        pytest.param('{"x":[\n// a\\"b",\n{"c":1}\n]}', id="nor one with a quote in it"),
        pytest.param('{"x":[{}', id="an empty object, or a bracket of the wrong kind"),
        pytest.param('{"x":[{"a":{"b":1},"c":2}}]}', id="a brace too many, and two places for it"),
        pytest.param('{"x":"a" // b"\n}', id="quote in a comment"),
        pytest.param('{"x":1, // one "y":2,\n"z":3}', id="member in a comment"),
        pytest.param('{"x":[ #fff,\n"b"]}', id="a colour is no comment"),
        pytest.param('{"x":[ //a.b,\n"b"]}', id="an address is no comment"),
        pytest.param('{"x":NaN,}', id="NaN"),
        pytest.param('{"x":1,"x":2,}', id="a key twice"),
        pytest.param("{x:1}", id="bare key"),
        pytest.param('{"x":nil}', id="another literal"),
        pytest.param('{"x":' + "[" * 9 + "," * 99, id="noise"),
        pytest.param('{"x":[' + "True," * 99 + "]}", id="more edits than make sense"),
    ],
)
def test_leaves_alone(text: str) -> None:
    assert mend(text, complete=True) is None


@pytest.mark.parametrize(
    "block",
    [
        pytest.param('{"a": 1,}', id="one slip"),
        pytest.param("{'a': {\"b\": [1,], 'c': None,}}", id="several slips"),
        pytest.param('{"a": [1, "b}', id="no end"),
        pytest.param('{"a": x}', id="beyond mending"),
    ],
)
@pytest.mark.parametrize("before", ["", "prose\n", '{"o": '])
def test_where_it_breaks_may_be_known(before: str, block: str) -> None:
    text, start = f"{before}{block}", len(before)
    stop = trace(text, 0 if before.startswith("{") else start)
    assert isinstance(stop, Stop)
    known, unknown = Mender(text), Mender(text)
    found = known.mend(start, len(text), None, complete=False, stop=stop)
    assert found == unknown.mend(start, len(text), None, complete=False)
    assert known.reached == unknown.reached


def test_a_member_that_the_outermost_has_may_be_its_own() -> None:
    text = '{"data":{"x":1,"id":"k"}'
    assert mend(text, complete=True, keys={"id"}) is None
    assert mend(text, complete=True, keys=None) is None
    assert mend(text, complete=True, keys={"event"}) is not None


def test_what_it_may_cost_is_limited() -> None:
    text = '{"x":"' + "y" * 60_000 + '",}'
    mender = Mender(text)
    found = [mender.mend(0, len(text), (), complete=False) is None for _ in range(40)]
    assert found == sorted(found)
    assert 8 <= found.index(True) <= BUDGET // 60_000


def test_S003_40_a_call_that_lacks_its_last_brackets() -> None:
    text = '{"tool":"run_code","arguments":{"code":"x"'
    prompted = protocol("prompt_tools")
    [call] = extract(text, prompted, stop_reason="stop").calls
    assert (call.name, call.args, call.repairs) == ("run_code", {"code": "x"}, ("missing_closer",))
    for reason in (None, "length"):
        found = extract(text, prompted, stop_reason=reason)
        assert ([block.code for block in found.rejected], found.calls) == (
            ["unterminated_block"],
            (),
        )


@pytest.mark.parametrize("overrides", [{"repair": "off"}, {"mode": "strict"}])
def test_repair_can_be_off(overrides: dict[str, Any]) -> None:
    assert [call.args for call in event('{"x":1,}}').calls] == [{"x": 1}]
    assert [block.code for block in event('{"x":1,}}', **overrides).rejected] == ["malformed_block"]


@pytest.mark.parametrize(
    ("preset", "text", "args"),
    [
        pytest.param("text_tagged", '~~~tool_call\n{"name":"t",}\n~~~', {}, id="tagged"),
        pytest.param(
            "text_tagged",
            '~~~tool_call\n{"name":"t","arguments":{"c":"x"\n~~~',
            {"c": "x"},
            id="the fence says that it is over",
        ),
        pytest.param("command", "@tool t {'c':'x'}", {"c": "x"}, id="command"),
    ],
)
def test_framed_calls_are_mended_too(preset: str, text: str, args: dict[str, Any]) -> None:
    [call] = extract(text, protocol(preset)).calls
    assert (call.name, call.args, len(call.repairs), call.span) == ("t", args, 1, (0, len(text)))
    assert extract(text, protocol(preset, repair="off")).calls == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"event":"a:b"} "data":{"x":1}}', id="brace in place of a comma"),
        pytest.param('{"event":"a:b","data":{"x":{}}},"y":1}}', id="members outside"),
        pytest.param('{"event":"a:b","data":{"p":{"q":{}},"r":1}}}', id="members a level up"),
        pytest.param('{\n"event":"a:b",\n"data":{\n"r":1\n}\n}\n}', id="line lost with a brace"),
        pytest.param('{"event":"a:b","data":{"r":{}},"data":{}}}', id="a key twice since"),
        pytest.param('a {b} {"event":"a:b","data":{"p":{}},"r":1}}', id="behind braces in prose"),
    ],
)
def test_a_brace_too_many_may_have_closed_an_object_too_early(text: str) -> None:
    found = extract(text, protocol("ksi"))
    assert ([block.code for block in found.rejected], found.calls) == (["malformed_block"], ())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"event":"a:b","data":{"x":1}}}}', id="braces"),
        pytest.param('{"event":"a:b","data":{"p":{"q":1},"r":{"s":{}}}}}', id="nothing behind"),
        pytest.param('{ {"event":"a:b","data":{},"y":1} }', id="within braces"),
    ],
)
def test_S003_39_a_brace_behind_a_call_does_no_harm(text: str) -> None:
    assert len(extract(text, protocol("ksi")).calls) == 1


scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab'“\n,}]", max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["p", "q", "r"]), values, min_size=1), st.data())
@settings(max_examples=400, deadline=None)
def test_one_slip_outside_of_strings_is_never_read_wrongly(
    args: dict[str, Any], data: st.DataObject
) -> None:
    block = DIALECT.write("a:b", args, "ksiu_1")
    places = outside(block)
    at = data.draw(st.sampled_from(places))
    slip = data.draw(st.sampled_from(["", block[at] * 2]))
    text = block[:at] + slip + block[at + 1 :]
    found = extract(text, protocol("ksi"), stop_reason="stop").calls
    assert [call.args for call in found] in ([], [args])


def outside(block: str) -> list[int]:
    """Return the places of brackets, commas and colons outside of strings."""
    blank = STRING.sub(lambda match: "s" * len(match[0]), block)
    return [at for at, character in enumerate(blank) if character in "{}[],:"]
