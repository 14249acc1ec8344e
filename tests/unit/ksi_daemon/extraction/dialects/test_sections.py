"""Blocks of long text: where they end, what their sections say, why they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import Rejected, extract, protocol
from ksi_daemon.extraction.dialects.sections import MAX_FENCES
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling

HEAD = "~~~ksi a:b\n"
EVENT = '{"event":"c:d","data":{}}'


def outcome(text: str, **overrides: Any) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    stop_reason = overrides.pop("stop_reason", None)
    found = extract(text, protocol("ksi", **overrides), stop_reason=stop_reason)
    calls = [(call.name, call.args) for call in found.calls]
    return calls, [block.code for block in found.rejected]


@pytest.mark.conformance
@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    ("text", "content"),
    [
        pytest.param(f"{HEAD}--- c\nx\n~~~", "x", id="as written"),
        pytest.param("~~~ksi a:b\r\n--- c\r\nx\r\ny\r\n~~~\r\n", "x\r\ny", id="CR LF"),
        pytest.param("~~~ksi a:b\r\n--- c\r\n\r\n~~~\r\n", "", id="CR LF, empty"),
        pytest.param(f"{HEAD}--- c\nx\r\n~~~", "x\r", id="CR of the text"),
        pytest.param("~~~ksi a:b \t\n--- c \t\nx\n~~~ \t\n", "x", id="blanks behind"),
        pytest.param("   ~~~ksi a:b\n   --- c\n   x\n   ~~~", "   x", id="three spaces before"),
        pytest.param("~~~ ksi a:b\n--- c\nx\n~~~", "x", id="space before the label"),
        pytest.param("~~~~~ksi a:b\n--- c\n~~~\n~~~~~", "~~~", id="five tildes"),
        pytest.param(f"{HEAD}--- c\nx\n~~~~", "x", id="longer closing fence"),
        pytest.param(f"{HEAD}\n\n--- c\nx\n~~~", "x", id="empty lines"),
        pytest.param(f"{HEAD}--- c\n~~~", "", id="empty text"),
        pytest.param(f"{HEAD}--- c\n\n~~~", "", id="empty line"),
        pytest.param(f"{HEAD}--- c\n\n\n~~~", "\n", id="line end"),
        pytest.param(f"{HEAD}--- c\n    ~~~\n~~~", "    ~~~", id="indented fence in the text"),
        pytest.param(f"{HEAD}--- c\nx ~~~\n~~~", "x ~~~", id="fence behind text"),
        pytest.param(f"{HEAD}--- c\n{EVENT}\n```\n~~~", f"{EVENT}\n```", id="call in the text"),
        pytest.param(f"{HEAD}--- c\n--- a b\n---\n~~~", "--- a b\n---", id="no mark of a section"),
        pytest.param(f"{HEAD}---- c\n--- d\nx\n~~~", "--- d\nx", id="fewer dashes"),
        pytest.param(f"{HEAD}--- c\n+++ x\n~~~", "+++ x", id="a line like one of a diff's"),
        pytest.param(f"{HEAD}---- c\n--- d\n+++ d\n~~~", "--- d\n+++ d", id="diff, more dashes"),
        pytest.param(f"{HEAD}--- c\n---- d\nx\n~~~", "---- d\nx", id="more dashes"),
    ],
)
def test_S004_10_S004_11_fences_and_texts(text: str, content: str, mode: str) -> None:
    assert outcome(text, mode=mode) == ([("a:b", {"c": content})], [])


def test_an_object_and_several_sections() -> None:
    text = f'{HEAD}{{"x": {{"y": [1]}},\n"z": 2}}\n--- c\n1\n\n--- d\n--- e\n2\n~~~'
    args = {"x": {"y": [1]}, "z": 2, "c": "1\n", "d": "", "e": "2"}
    assert outcome(text) == ([("a:b", args)], [])


def test_an_object_is_enough() -> None:
    assert outcome(f'{HEAD}{{"x": 1}}\n~~~') == ([("a:b", {"x": 1})], [])
    assert outcome(f"{HEAD}{{}}\n~~~") == ([("a:b", {})], [])


@pytest.mark.conformance
def test_S004_17_tildes_in_a_string_close_nothing() -> None:
    [call] = extract(f'{HEAD}{{"x": "\n~~~\n--- c\n"}}\n--- c\ny\n~~~', protocol()).calls
    assert (call.args, call.repairs) == ({"x": "\n~~~\n--- c\n", "c": "y"}, ("control_character",))


def test_an_object_is_mended_as_elsewhere() -> None:
    text = f'{HEAD}{{"x": 1, // one\n}}\n--- c\ny\n~~~'
    [call] = extract(text, protocol()).calls
    assert (call.args, call.repairs) == ({"x": 1, "c": "y"}, ("comment", "trailing_comma"))
    assert outcome(text, mode="strict") == ([], ["malformed_block"])


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(f"so {HEAD}--- c\n{EVENT}\n~~~", "fence_not_alone", id="S004_8 text before"),
        pytest.param(f"so {HEAD}{{}}\n--- c\n{EVENT}\n~~~", "fence_not_alone", id="and an object"),
        pytest.param(f"~~~ksi a:b {EVENT} ~~~", "fence_not_alone", id="S004_19 one line"),
        pytest.param(f"so ~~~ksi a:b {EVENT} ~~~", "fence_not_alone", id="in a line"),
        pytest.param(f"~~~ksi a:b c\n--- c\n{EVENT}\n~~~", "fence_not_alone", id="two words"),
        pytest.param("~~~ksi a:b id=1 id=2\n{}\n~~~", "fence_not_alone", id="two ids"),
        pytest.param(f"{HEAD}--- c\n{EVENT}\n~~~ x", "unterminated_block", id="S004_9 text behind"),
        pytest.param(f"{HEAD}--- c\n{EVENT}", "unterminated_block", id="S004_14 cut off"),
        pytest.param(f'{HEAD}{{"x": 1}}', "unterminated_block", id="object at the end"),
        pytest.param(f'{HEAD}{{"x": "{EVENT}', "malformed_block", id="cut off in a string"),
        pytest.param(f"~~~~ksi a:b\n--- c\n{EVENT}\n~~~", "unterminated_block", id="S004_11 short"),
        pytest.param(f"{HEAD}~~~", "empty_block", id="S004_16 empty"),
        pytest.param(f"{HEAD}\n\n", "unterminated_block", id="empty at the end"),
        pytest.param(f"{HEAD}{{bad {EVENT}\n~~~", "malformed_block", id="S004_12 bad JSON"),
        pytest.param(f"{HEAD}text\n{EVENT}\n~~~", "malformed_block", id="no name of a section"),
        pytest.param(f"{HEAD}{{}}\n{{}}\n~~~", "malformed_block", id="S004_18 two objects"),
        pytest.param(f"{HEAD}[1]\n~~~", "malformed_block", id="array"),
        pytest.param(f'{HEAD}{{"c": 1}}\n--- c\nx\n~~~', "malformed_block", id="name in both"),
        pytest.param(f"{HEAD}--- c\nx\n--- c\ny\n~~~", "malformed_block", id="name twice"),
        pytest.param(
            f"{HEAD}--- c\n--- Makefile\n+++ Makefile\n@@ -1 +1 @@\n{EVENT}\n~~~",
            "malformed_block",
            id="a diff in the text",
        ),
        pytest.param(f"~~~ksi\n--- c\n{EVENT}\n~~~", "missing_name", id="S004_21 no name"),
        pytest.param(f"~~~ksi\n{{}}\n--- c\n{EVENT}\n~~~", "missing_name", id="and an object"),
        pytest.param(f"~~~ksi 5\n{EVENT}\n~~~", "missing_name", id="no name of an event"),
        pytest.param(f"```ksi a:b\n--- c\n{EVENT}\n```", "malformed_block", id="backticks"),
        pytest.param(f"    {HEAD}--- c\n{EVENT}\n    ~~~", "malformed_block", id="indented"),
        pytest.param(
            f"{HEAD}--- c\n~~~python\n~~~\n{EVENT}\n~~~", "malformed_block", id="labelled fence"
        ),
        pytest.param(f"{HEAD}--- c\n~~~\n{EVENT}\n~~~", "malformed_block", id="fence in the text"),
        pytest.param(
            f"{HEAD}--- c\nTitle\n~~~~~\n{EVENT}\nTitle\n~~~~~\n~~~", "malformed_block", id="titles"
        ),
        pytest.param(
            f"{HEAD}--- c\n{HEAD}{{}}\n~~~\n{EVENT}\n~~~", "malformed_block", id="block in a block"
        ),
        pytest.param(
            HEAD + "--- c\n" + HEAD * MAX_FENCES + "{}\n~~~", "unterminated_block", id="many fences"
        ),
    ],
)
def test_S004_8_to_21_blocks_that_are_not_right(text: str, code: str) -> None:
    assert outcome(text) == ([], [code])
    assert outcome(text, mode="strict") == ([], [code])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A `~~~ksi a:b` block is for text.", id="inline code"),
        pytest.param("Begin with ~~~ksi a:b and end it.", id="talked about"),
        pytest.param(f"Begin with {HEAD}and so on.", id="at the end of a line"),
        pytest.param("~~~ksiu a:b\n--- c\nx\n~~~", id="another label"),
        pytest.param("~~~ksi\nnothing\n~~~", id="fence around no call"),
    ],
)
def test_prose(text: str) -> None:
    assert outcome(text) == ([], [])


def test_a_fence_without_a_name_presents_the_events_in_it() -> None:
    assert outcome(f"~~~ksi\n{EVENT}\n~~~") == ([("c:d", {})], [])


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("first", "repairs", "codes"),
    [
        pytest.param('{"x": 1}\n', ("missing_closer",), [], id="only an object"),
        pytest.param("--- c\ntext\n", None, ["unterminated_block"], id="text"),
    ],
)
def test_S004_15_a_block_ends_where_the_next_begins(
    first: str, repairs: tuple[str, ...] | None, codes: list[str]
) -> None:
    found = extract(f"{HEAD}{first}\n~~~ksi c:d\n{{}}\n~~~", protocol())
    assert [call.name for call in found.calls] == (["a:b"] if repairs else []) + ["c:d"]
    assert found.calls[0].repairs == (repairs or ())
    assert [block.code for block in found.rejected] == codes


def test_nothing_fires_behind_a_text_that_was_cut_off() -> None:
    text = f"{HEAD}--- c\ntext\n~~~ksi c:d\n{{}}\n~~~"
    assert outcome(text, stop_reason="length") == ([], ["unterminated_block"])


def test_a_closing_fence_is_not_needed_where_the_model_stopped_behind_an_object() -> None:
    assert outcome(f'{HEAD}{{"x": 1}}\n', stop_reason="stop") == ([("a:b", {"x": 1})], [])
    assert outcome(f"{HEAD}--- c\nx\n", stop_reason="stop") == ([], ["unterminated_block"])


def test_a_block_of_its_own_behind_makes_no_doubt() -> None:
    block = f"{HEAD}--- c\nx\n~~~\n"
    assert outcome(f"{block}~~~python\n~~~\n{block}")[1] == []
    assert len(outcome(block * 9)[0]) == 9


def test_a_rejected_block_says_where_and_what_to_do() -> None:
    text = f"so:\n{HEAD}--- c\nTitle\n~~~~~\ntext\n~~~\nend"
    message = (
        "at line 6, column 1 of the block is a fence as long as the block's: "
        "put more tildes around the block"
    )
    [block] = extract(text, protocol()).rejected
    excerpt = "~~~ksi a:b\n--- c\nTitle\n~~~~~\ntext\n~~~"
    assert block == Rejected("malformed_block", message, "ksi_body", 4, 41, excerpt)


UNITS = [
    HEAD,
    f"{HEAD}--- c\n",
    f"{HEAD}{{}}\n",
    f"{HEAD}{{}}\n~~~\n",
    f"{HEAD}{{\n",
    f'{HEAD}{{"\n',
    f'{HEAD}{{"a": "\n',
    f'{HEAD}{{"a": [\n',
    "~~~ksi a b\n",
    "~~~ksi a:b ",
    "~~~ksi\n",
    "~~~ksi\n{\n",
    "~~~ksi x {\n",
    'so ~~~ksi a:b {"a":"\n',
    "~",
    "~~~ ",
    "~~~\n",
    "--- c\n",
    "~~~ksi a:b\n--- c\n~~~x\n~~~\n",
    f"{HEAD}--- c\n~~~\n~~~\n",
]


@pytest.mark.parametrize("unit", UNITS)
def test_twice_the_text_costs_twice(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    before = f"{HEAD}--- c\n"

    def cost(size: int) -> object:
        return [extract(each + text[:size], protocol()) for each in ("", before)]

    assert doubling(cost, 50_000) < LINEAR


pieces = st.sampled_from(
    [
        *UNITS,
        f"{HEAD}--- c\nx\n~~~\n",
        "```ksi a:b\n",
        "   ~~~ksi a:b\n",
        "~~~~ksi a:b\n",
        '{"x": 1}\n',
        '"',
        "}",
        "text",
        "\n",
        "\r\n",
        f"{EVENT}\n",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join), st.integers(1, 7))
@settings(max_examples=200)
def test_pieces_give_what_the_whole_gives(text: str, size: int) -> None:
    settings = protocol("ksi")
    extractor = Extractor(settings, new_id=lambda: "new")
    for at in range(0, len(text), size):
        extractor.feed(text[at : at + size])
    assert extractor.close() == extract(text, settings, new_id=lambda: "new")


@given(st.lists(pieces, max_size=12).map("".join))
@settings(max_examples=200)
def test_the_span_of_a_call_holds_it(text: str) -> None:
    for call in extract(text, protocol("ksi")).calls:
        [again] = extract(text[call.start : call.end], protocol(), stop_reason="stop").calls
        assert (again.name, again.args) == (call.name, call.args)


def test_a_call_is_certain_when_another_begins() -> None:
    extractor = Extractor(protocol("ksi"))
    block = f"{HEAD}--- c\nx\n~~~\n"
    assert extractor.feed(block) == ()
    assert [type(each).__name__ for each in extractor.feed(HEAD)] == ["Call", "Text"]
