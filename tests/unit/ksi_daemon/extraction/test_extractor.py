"""Which blocks fire, what is said of those that do not, and what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import (
    Call,
    Extraction,
    Rejected,
    extract,
    new_call_id,
    protocol,
)
from ksi_daemon.extraction.dialects import DIALECTS
from tests.growth import LINEAR, doubling, repeated

KSI = protocol("ksi")
EVENT = '{"event":"a:b","data":{"x":1}}'
USE = '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":1}}'


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"ksiu_g{next(numbers)}"


def read(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    chosen = protocol("ksi", **overrides)
    return extract(text, chosen, stop_reason=stop_reason, new_id=counted())


def test_returns_calls_with_their_places() -> None:
    assert read(f"First {USE} then {EVENT}.") == Extraction(
        "First  then .",
        (
            Call("a:b", {"x": 1}, "ksiu_1", False, "ksi_tool_use", 6, 72),
            Call("a:b", {"x": 1}, "ksiu_g1", True, "event", 78, 108),
        ),
    )


def test_rejects_a_broken_block_with_its_place() -> None:
    assert read('Now {"event":"a:b",\n "data":{"q":}} ok') == Extraction(
        "Now  ok",
        (),
        (
            Rejected(
                "malformed_block",
                "expected a value, got '}' at line 2, column 14 of the block",
                "event",
                4,
                35,
                '{"event":"a:b",\n "data":{"q":}}',
            ),
        ),
    )


def test_the_excerpt_is_cut_to_the_place_in_question() -> None:
    [rejected] = read('{"event":"a:b","data":{"x":"%s","q":}}' % ("m" * 500)).rejected
    assert rejected.excerpt == "m" * 54 + '","q":}}'


@pytest.mark.parametrize(
    ("begun", "stop_reason", "events"),
    [
        pytest.param('{"event":"a:b","data":{"x":"So:\n', "length", [], id="in a document"),
        pytest.param('{"event":"a:b","data":{"x":"So:\n', None, ["a:b"], id="a second try"),
        pytest.param(
            '{"event":"a:b","data":{"x":1\n', "length", ["a:b"], id="a second try outside a string"
        ),
    ],
)
def test_an_example_in_a_document_that_was_cut_off_does_not_fire(
    begun: str, stop_reason: str | None, events: list[str]
) -> None:
    result = read(f'{begun}{{"event":"a:b","data":{{}}}}\nand mo', stop_reason)
    assert [call.name for call in result.calls] == events
    assert len(result.rejected) == 1


@pytest.mark.parametrize(
    ("text", "stop_reason", "message"),
    [
        pytest.param(
            '{"event":"a:b","data":{"x":1',
            "length",
            "the reply was cut off where ',' or '}' was expected; the block still lacks '}}'",
            id="cut off",
        ),
        pytest.param(
            '{"event":"a:b","data":{"x":["y',
            None,
            "the reply ends where the end of a string was expected; the block still lacks ']}}'",
            id="ends in a string",
        ),
        pytest.param(
            f'{{"event":"a:b","data":{{"x":1}}\n{USE}',
            "stop",
            "another block begins before this one ends",
            id="another block",
        ),
    ],
)
def test_says_why_a_block_does_not_end(text: str, stop_reason: str | None, message: str) -> None:
    [rejected] = read(text, stop_reason).rejected
    assert (rejected.code, rejected.message) == ("unterminated_block", message)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param('{"event":"a:b","data":{"x":}}', id="malformed"),
        pytest.param('{"event":"a:b","data":{"x":1', id="unterminated"),
        pytest.param('{"event":"a:b","data":[1]}', id="args"),
        pytest.param('{"event":"a:b","data":{"x":NaN}}', id="odd"),
    ],
)
@pytest.mark.parametrize("around", ["> {}\n", "```python\n{}\n```\n", "<think>{}</think>\n"])
def test_what_is_shown_is_not_rejected_and_hides_nothing(block: str, around: str) -> None:
    result = read(around.replace("{}", block) + USE)
    assert result.rejected == ()
    assert [call.id for call in result.calls] == ["ksiu_1"]


@pytest.mark.parametrize(
    ("text", "calls", "codes"),
    [
        pytest.param(f"{EVENT}\n</think>\n{USE}", ["ksiu_1"], ["shown"], id="lone closing tag"),
        pytest.param(f"hm</think>{USE}", ["ksiu_1"], [], id="nothing in the thought"),
        pytest.param(f"{USE}\n</think>\n{USE}", ["ksiu_1"], ["shown"], id="thought of, and said"),
        pytest.param(f'{USE} "</think>"\n', ["ksiu_1"], [], id="tag in quotes"),
        pytest.param(f"{USE} the </think> tag", ["ksiu_1"], [], id="tag in a sentence"),
        pytest.param(f"{USE}\n```\n</think>\n```", ["ksiu_1"], [], id="tag in a fence"),
        pytest.param(
            '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":"</think>\n"}}'.replace(
                "\n", "\\n"
            ),
            ["ksiu_1"],
            [],
            id="tag in the string of a call",
        ),
        pytest.param(
            f"<think>a</think>{USE}\n</think>\n",
            ["ksiu_1"],
            [],
            id="after an opened thought",
        ),
    ],
)
def test_what_stands_before_a_lone_closing_tag_is_a_thought(
    text: str, calls: list[str], codes: list[str]
) -> None:
    result = read(text, open_thought=True)
    assert [call.id for call in result.calls] == calls
    assert [note.code for note in result.diagnostics] == codes


def test_a_lone_closing_tag_is_prose_where_no_reply_begins_in_a_thought() -> None:
    result = read(f"{USE}\n</think>\n", open_thought=False)
    assert [call.id for call in result.calls] == ["ksiu_1"]
    assert result.diagnostics == ()


def test_enters_data_if_told() -> None:
    text = f'{{"list":[{EVENT},{{"deep":{USE}}}]}} and {{"s":"{{\\"event\\":1}}"}}'
    assert [call.dialect for call in read(text, descend=True).calls] == ["event", "ksi_tool_use"]


def test_raw_control_characters_are_a_named_repair() -> None:
    text = '{"event":"a:b","data":{"c":"one\ntwo\t"}}'
    assert [(call.args, call.repairs) for call in read(text).calls] == [
        ({"c": "one\ntwo\t"}, ("control_character",))
    ]
    for overrides in ({"mode": "strict"}, {"repair": "off"}):
        [rejected] = read(text, **overrides).rejected
        assert (rejected.code, rejected.message) == (
            "malformed_block",
            "a string holds a raw control character at line 1, column 32 of the block",
        )


names = st.sampled_from(["a:b", "agent:status", "composition:create_component", "x.y:z-1"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=20),
    st.floats(allow_nan=False, allow_infinity=False),
)
args = st.dictionaries(
    st.text(max_size=6),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=8,
    ),
    max_size=4,
)
prose = st.text(st.characters(exclude_characters="{}>`~<", exclude_categories=["Cs"]), max_size=40)
# Those that may stand within a line.
dialects = st.sampled_from(["event", "ksi_tool_use"])
calls = st.tuples(dialects, names, args)
fragments = st.sampled_from(
    [
        *"{}[]:,\"\\'\n /#",
        "\ud800",
        "\0",
        "```",
        "```json\n",
        "```py\n",
        "> ",
        "<think>",
        "</think>",
        '{"',
        '{"event":',
        '"event"',
        '"a:b"',
        '"data":',
        "{'event':",
        '{"type":"ksi_tool_use",',
        '"id":"ksiu_1",',
        '"name":"a:c",',
        '"input":{}',
        EVENT,
        USE,
        "NaN",
        "1e999",
        "é",
        '\n{"event":"a:b",',
        "// x\n",
    ]
)
noise = st.lists(fragments, max_size=24).map("".join)


def render(call: tuple[str, str, dict[str, Any]], number: int = 1) -> str:
    dialect, name, data = call
    return DIALECTS[dialect].write(name, data, f"ksiu_{number:02}")


@given(prose, calls, prose)
@settings(max_examples=300, deadline=None)
def test_reads_what_it_writes_in_any_prose(
    before: str, call: tuple[str, str, dict[str, Any]], after: str
) -> None:
    text = before + render(call) + after
    for mode in ("strict", "lenient"):
        result = read(text, mode=mode)
        assert [(c.dialect, c.name, c.args) for c in result.calls] == [call]
        assert (result.residual, result.rejected) == (before + after, ())


@given(noise)
@settings(max_examples=600, deadline=None)
def test_any_text_has_exact_disjoint_spans(text: str) -> None:
    result = read(text)
    spans = sorted([c.span for c in result.calls] + [r.span for r in result.rejected])
    assert all(start < end for start, end in spans)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))
    assert [c.start for c in result.calls] == sorted(c.start for c in result.calls)
    for call in result.calls:
        [again] = read(text[call.start : call.end]).calls
        assert (again.name, again.args, again.repairs) == (call.name, call.args, call.repairs)


@given(noise)
@settings(max_examples=300, deadline=None)
def test_what_strict_accepts_lenient_accepts(text: str) -> None:
    strict, lenient = read(text, mode="strict"), read(text)
    accepted = [(c.name, c.args, c.start) for c in lenient.calls]
    assert [c for c in strict.calls if (c.name, c.args, c.start) not in accepted] == []


@given(st.lists(calls, max_size=6))
@settings(max_examples=200, deadline=None)
def test_keeps_the_order_of_dialects_mixed(wanted: list[tuple[str, str, dict[str, Any]]]) -> None:
    text = "\n".join(render(call, number) for number, call in enumerate(wanted))
    assert [(c.dialect, c.name, c.args) for c in read(text).calls] == wanted


@given(calls, calls, st.sampled_from(["", "```json\n", "\n", "say "]))
@settings(max_examples=200, deadline=None)
def test_nothing_in_a_string_fires(
    outer: tuple[str, str, dict[str, Any]], inner: tuple[str, str, dict[str, Any]], before: str
) -> None:
    dialect, name, data = outer
    loaded = (dialect, name, {**data, "content": before + render(inner)})
    assert [(c.dialect, c.name, c.args) for c in read(render(loaded)).calls] == [loaded]


@given(st.text('{}[]:,"\\ x1', max_size=40))
@settings(max_examples=400, deadline=None)
def test_stray_brackets_and_quotes_hide_no_call(stray: str) -> None:
    assert [call.id for call in read(f"{stray}\n{USE}").calls] == ["ksiu_1"]


UNITS = [
    "{",
    '{"',
    '{"a":',
    '{"a":"',
    '{"a": {"b" ',
    '{"event":"',
    '{"event":"a:b",',
    '{"event":"a:b","data":{',
    '{"event":"x","data":{"c":"x\n',
    '\n{"event":"a:b","data":{"c":"x',
    '{"type":"ksi_tool_use",',
    "[{",
    '{"a":[',
    '{"a":[{"b":1},',
    '{"a":{"event":"a:b","data":{}},',
    "`",
    "```\n",
    "```a\n",
    "~~~\n```x\n",
    "~~~\n",
    "``` ",
    "> ",
    "<think>",
    "<think>\n</think>\n",
    '\\"',
    "}{",
    "{'",
    "{'event':",
    "{//",
    "{ // x\n",
    "{}",
    '{"a":1}',
    '{"a":NaN}',
    '{"a":"\n"}',
    '{"a":"\\',
    '{"a":"\\"',
    '{"a":"{\\"b\\":',
    "<think>\n",
    '> {"event":"a:b","data":{}}\n',
    '{"event":"a:b","data":{"x":"\n"}}',
    "{" + " " * 50,
]


def growth(unit: str, length: int) -> float:
    """Return how much more twice *length* of *unit* repeated costs."""
    # The call at the end has the layout before it read.
    return doubling(lambda size: extract(repeated(unit, size) + USE, KSI), length)


@pytest.mark.parametrize(
    ("head", "dialect"),
    [
        pytest.param('"event": "a:b", "data": ', "event", id="event"),
        pytest.param('"event": "a:b",\n  "data": ', "event", id="two lines"),
        pytest.param(
            '"type":"ksi_tool_use","id":"x","name":"a:b","input":', "ksi_tool_use", id="tool use"
        ),
        pytest.param('he said "event": "a:b", "data": ', None, id="in the middle of a line"),
        pytest.param('"event": "party", "x": ', None, id="no event name"),
        pytest.param("data: ", None, id="prose"),
    ],
)
def test_a_call_that_lost_its_first_brace_is_rejected(head: str, dialect: str | None) -> None:
    found = extract(f'So:\n{head}{{"event":"c:d","data":{{}}}}\n', protocol("ksi"))
    if dialect is None:
        assert [call.name for call in found.calls] == ["c:d"]
        return
    [block] = found.rejected
    assert (block.dialect, block.code, found.calls) == (dialect, "malformed_block", ())
    assert block.message == f"a {dialect} block lacks the '{{' before its first key"


def test_a_second_try_within_an_open_bracket_is_no_member_of_it() -> None:
    call = '{"event":"a:b","data":{"x":[1]}}'
    found = extract(f'{{"event":"a:b","data":{{"x":[\n{call}', protocol("ksi"), stop_reason="stop")
    assert (found.calls, [block.code for block in found.rejected]) == ((), ["unterminated_block"])


@pytest.mark.conformance
@pytest.mark.parametrize("unit", UNITS)
def test_S002_46_hostile_text_costs_twice_for_twice_the_length(unit: str) -> None:
    assert growth(unit, 60_000) < LINEAR


@given(st.lists(fragments, min_size=1, max_size=6).map("".join))
@settings(max_examples=25, deadline=None)
def test_S002_46_any_repeated_text_stays_linear(unit: str) -> None:
    assert growth(unit, 20_000) < LINEAR


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a":' * 100_000 + "}" * 100_000, id="depth 100,000"),
        pytest.param('{"a":' * 100_000 + USE + "}" * 99_000, id="depth, not closed"),
        pytest.param('{"event":"a:b","data":' * 5000 + "}" * 5000, id="calls in calls"),
        pytest.param('{"event":"a:b","data":{"x":' + "1" * 500_000 + "}}", id="500,000 digits"),
        pytest.param(('{"a":' + "1" * 5000 + "}") * 100, id="long integers"),
        pytest.param('{"event":"a:b","data":{"x":"' + '\\"' * 200_000, id="escaped quotes"),
    ],
)
def test_survives(text: str) -> None:
    assert len(extract(text, KSI).calls) <= 1


def test_new_ids_are_unique() -> None:
    ids = {new_call_id() for _ in range(10_000)}
    assert len(ids) == 10_000


@pytest.mark.parametrize("text", ["prose only", f"{EVENT} {USE}", '{"event":"a:b","data":{bad'])
def test_the_same_text_gives_the_same_result(text: str) -> None:
    assert read(text) == read(text)


@pytest.mark.parametrize("text", ['{"tool": "a", "arguments": {}}', "{" * 5_000_000], ids=len)
def test_without_dialects_everything_is_prose(text: str) -> None:
    assert extract(text, protocol("any", dialects=())) == Extraction(text)
