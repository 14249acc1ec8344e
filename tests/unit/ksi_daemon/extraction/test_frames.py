"""Blocks with marks around them, among objects; and what they cost."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import PRESETS, candidates, extract, protocol
from ksi_daemon.extraction.beginnings import beginning_or_match
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect, Reading
from ksi_daemon.extraction.frames import frames, may_begin, present
from tests.growth import LINEAR, doubling, repeated

ANY = protocol("any")
EVENT = '{"event":"a:b","data":{"x":1}}'
TAGGED = '~~~tool_call\n{"name":"t","arguments":{"x":1}}\n~~~'
BLOCKS = [
    DIALECTS[name].write("a:b", {"x": 1, "s": "}\n~~~\n@tool x"}, f"ksiu_{name}")
    for name in ANY.dialects
]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param(f"{EVENT}\n{TAGGED}\n{EVENT}", ["a:b", "t", "a:b"], id="in order"),
        pytest.param(f"{TAGGED}\n@tool c\n{TAGGED}", ["t", "c", "t"], id="two dialects"),
        pytest.param(
            f'{{"event":"a:b","data":{{"s":"\n{TAGGED}\n', ["t"], id="behind a broken one"
        ),
        pytest.param(
            f'{{"event":"a:b","data":{{"s":"\n{TAGGED}\n"}}}}', [], id="quoted by a broken one"
        ),
        pytest.param(
            '{"event":"a:b","data":{"s":"\n@tool c"}}', ["a:b"], id="within a string of an event"
        ),
        pytest.param(
            '~~~tool_call\n{"name":"t","arguments":{"event":"a:b","data":{}}}\n~~~',
            ["t"],
            id="around an event",
        ),
    ],
)
def test_any_reads_all_in_order(text: str, calls: list[str]) -> None:
    assert [call.name for call in extract(text, ANY).calls] == calls


@given(
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=5, unique=True),
    st.sampled_from(["\n", "\nso\n"]),
)
@settings(max_examples=100, deadline=None)
def test_reads_what_is_written_in_any_dialect(blocks: list[str], between: str) -> None:
    found = extract(between.join(blocks), ANY)
    expected = [("a:b", {"x": 1, "s": "}\n~~~\n@tool x"})] * len(blocks)
    assert [(call.name, call.args) for call in found.calls] == expected
    assert (found.rejected, found.residual.split()) == ((), between.split() * (len(blocks) - 1))


@pytest.mark.parametrize("block", BLOCKS)
def test_the_survey_finds_it_wherever_it_hides(block: str) -> None:
    for text in (block, f"```python\n{block}\n```", f"{{\n{block}", f'{{"a": "\n{block}'):
        assert "a:b" in [call.name for call in candidates(text, ANY)]


UNITS = [
    "~~~tool_call\n",
    "~~~tool_call\n{",
    '~~~tool_call\n{"',
    '~~~tool_call\n{"a":"',
    '~~~tool_call\n{"a":[',
    '~~~tool_call {"a":',
    "~~~tool_call {",
    "~~~tool_result\n",
    "~~~~~tool_call\n{}\n~~~\n",
    "~",
    "~~~ ",
    "<tool_call>",
    "<tool_call>{",
    '<tool_call>{"',
    '<tool_call>{"a":"',
    '[TOOL_CALLS] [{"name":"a"},',
    '<tool_call>{"name":"a"}',
    '{"name":"a"}\n',
    "@tool x {\n",
    '@tool x {"\n',
    '@tool x {"a":"\n',
    "@tool x\n",
    "@tool ",
    "\n   ",
    '{"tool":"x","arguments":{',
    '{"tool":"',
    '{"action":{"tool":"',
    '{"thought":"x","action":',
    "{'tool':",
    TAGGED + "\n",
]
# Every kind of block is sought only where its mark stands in the text.
TAIL = '\n~~~tool_call\n{"name":"t"}\n~~~\n@tool x\n{"tool":"x"}<tool_call>{"name":"t"}'


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - {"ksi"}))
@pytest.mark.parametrize("unit", UNITS)
def test_P7_hostile_text_costs_twice_for_twice_the_length(unit: str, preset: str) -> None:
    def cost(size: int) -> None:
        extract(repeated(unit, size) + TAIL, PRESETS[preset])

    assert doubling(cost, 30_000) < LINEAR


fragments = st.sampled_from(
    [*'{}[]:,"\\\n ~@', "~~~", "tool_call", "@tool x ", '{"', '"tool":"x"', '"arguments":', "```\n"]
)


@given(st.lists(fragments, min_size=1, max_size=6).map("".join))
@settings(max_examples=25, deadline=None)
def test_any_repeated_text_stays_linear(unit: str) -> None:
    def cost(size: int) -> None:
        extract(repeated(unit, size) + TAIL, PRESETS["any"])

    assert doubling(cost, 20_000) < LINEAR


FRAMED = tuple(each for each in DIALECTS.values() if isinstance(each, FramedDialect))
marks = st.sampled_from([mark for each in FRAMED for mark in each.markers] + [*"<|[~`>_@ \n"])


@given(st.lists(marks, max_size=4).map("".join))
@example("[TOOL_CALLS]")
@example("functools")
@example("<|action_start|><|plugin|>")
def test_knows_the_dialects_whose_markers_stand_in_a_text(text: str) -> None:
    said = [each for each in FRAMED if any(marker in text for marker in each.markers)]
    assert present(text, FRAMED) == said


# One at least of these passes any look behind.
BEFORE = tuple("\n a_0.,:;!?\"'`~@#|/\\<>(){}[]=-*é")


@pytest.mark.parametrize("dialect", FRAMED, ids=lambda each: each.name)
def test_a_dialect_tells_what_its_opener_begins_with(dialect: FramedDialect) -> None:
    begun = beginning_or_match(dialect.opener)
    characters = {*map(chr, range(128)), *dialect.opener.pattern}
    found = {each for each in characters if any(begun.match(before + each, 1) for before in BEFORE)}
    untold = any(each.isspace() or each.isalnum() for each in found)
    assert set(dialect.begins) == (set() if untold else found)


@pytest.mark.parametrize("dialect", FRAMED, ids=lambda each: each.name)
@given(st.lists(marks | st.sampled_from([*BLOCKS, "a", "é"]), max_size=6).map("".join))
@example("to=functions.f<|channel|>")
@settings(max_examples=20, deadline=None)
def test_a_block_begins_wherever_its_opener_does(dialect: FramedDialect, text: str) -> None:
    reading = Reading(strict=False, repairs=True, max_depth=64)
    for around in (text, f"{'plain prose. ' * 40}{text}"):  # full of marks, and nearly without
        openers = [*dialect.opener.finditer(around)] if present(around, (dialect,)) else []
        expected = [dialect.frame(around, opener, reading) for opener in openers]
        found = [framed for _, framed in frames(around, (dialect,), reading)]
        assert found == [framed for framed in expected if framed is not None]
        for opener in openers:
            assert may_begin(around, opener.start(), opener.end(), (dialect,))


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        pytest.param("prose", False, id="no mark"),
        pytest.param("a < b, [1], `code`", False, id="marks of something else"),
        pytest.param("<" * 99, True, id="too many to look at"),
        pytest.param("so: [f(a=1)]", True, id="a list of calls"),
        pytest.param("<tool_call>", True, id="a tag that may go on"),
        pytest.param("<|message_model|> <tool_call>{", True, id="a mark before its own"),
        pytest.param("  @tool", True, id="a command, perhaps"),
        pytest.param("to=functions.f<|channel|>", True, id="at the start of the text"),
    ],
)
def test_says_where_a_block_may_begin(text: str, begins: bool) -> None:
    framed = tuple(each for each in FRAMED if each.name in ANY.dialects)
    assert may_begin(text, 0, len(text), framed) is begins


@given(st.lists(fragments, max_size=30).map("".join), st.sampled_from(sorted(PRESETS)))
@settings(max_examples=300, deadline=None)
def test_never_raises_and_every_span_holds(text: str, preset: str) -> None:
    found = extract(text, PRESETS[preset])
    spans = [call.span for call in found.calls] + [block.span for block in found.rejected]
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    for call in found.calls:
        [again] = extract(text[call.start : call.end], PRESETS[preset]).calls
        assert (again.name, again.args) == (call.name, call.args)
