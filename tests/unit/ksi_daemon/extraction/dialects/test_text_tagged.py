"""The fenced form: fences, what is between them, what is behind them."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Call, Extraction, Rejected, extract, protocol
from ksi_daemon.extraction.dialects.text_tagged import TaggedDialect

A = '{"name":"a","arguments":{"x":1}}'
B = '{"name":"b","arguments":{}}'


def found(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("text_tagged", **overrides), new_id=lambda: "new")


def outcome(text: str, **overrides: Any) -> tuple[list[str], list[str]]:
    read = found(text, **overrides)
    return [call.name for call in read.calls], [block.code for block in read.rejected]


def test_a_call_is_the_whole_block() -> None:
    text = f"Now\n~~~tool_call\n{A}\n~~~\nthen"
    assert found(text) == Extraction(
        "Now\n\nthen", (Call("a", {"x": 1}, "new", True, "text_tagged", 4, 53),)
    )
    assert text[4:53] == f"~~~tool_call\n{A}\n~~~"


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"~~~tool_call\r\n{A}\r\n~~~\r\n", id="CR LF"),
        pytest.param(f"~~~tool_call \t\n{A}\n~~~  \n", id="blanks behind"),
        pytest.param(f"   ~~~tool_call\n   {A}\n   ~~~", id="three spaces before"),
        pytest.param(f"~~~ tool_call\n{A}\n~~~", id="space before the label"),
        pytest.param(f"~~~~~tool_call\n{A}\n~~~~~", id="five tildes"),
        pytest.param(f"~~~tool_call\n{A}\n~~~~", id="longer closing fence"),
        pytest.param(f"~~~tool_call\n\n{A}\n\n~~~", id="empty lines"),
    ],
)
def test_fences(text: str, mode: str) -> None:
    assert outcome(text, mode=mode) == (["a"], [])


@pytest.mark.parametrize(
    ("text", "names", "codes"),
    [
        pytest.param(f"x ~~~tool_call\n{A}\n~~~", [], ["fence_not_alone"], id="text before"),
        pytest.param(f"~~~tool_call {A} ~~~", [], ["fence_not_alone"], id="one line"),
        pytest.param(f"~~~tool_call\n{A}\n~~~ thanks", [], ["fence_not_alone"], id="text behind"),
        pytest.param(f"~~~~tool_call\n{A}\n~~~\n", [], ["malformed_block"], id="shorter fence"),
        pytest.param("~~~tool_call\n~~~", [], ["empty_block"], id="empty"),
        pytest.param("~~~tool_call\n \n", [], ["empty_block"], id="empty at the end"),
        pytest.param("~~~tool_call\nrun a\n~~~", [], ["malformed_block"], id="no object"),
        pytest.param(f"~~~tool_call\n[{A}]\n~~~", [], ["malformed_block"], id="array"),
        pytest.param("~~~tool_call\n{bad\n~~~", [], ["malformed_block"], id="bad JSON"),
        pytest.param('~~~tool_call\n{"name":"a', [], ["unterminated_block"], id="cut off"),
        pytest.param("~~~tool_call\n{}\n~~~", [], ["missing_name"], id="no name"),
        pytest.param(
            '~~~tool_call\n{"name":"a","args":{"x":1}}\n~~~',
            [],
            ["args_type"],
            id="arguments under another name",
        ),
        pytest.param('~~~tool_call\n{"name":5}\n~~~', [], ["missing_name"], id="number for name"),
        pytest.param(f"~~~tool_call\n{A}\n{B}\n~~~", ["a"], ["malformed_block"], id="two objects"),
        pytest.param(f"~~~tool_call\n{A}\nand\n~~~", [], ["malformed_block"], id="prose within"),
        pytest.param(
            f"~~~tool_call\n{{bad\n~~~tool_call\n{B}\n~~~", ["b"], ["malformed_block"], id="again"
        ),
        pytest.param(
            f'~~~tool_call\n{{"name":"a\n~~~tool_call\n{B}\n~~~',
            ["b"],
            ["malformed_block"],
            id="open string",
        ),
        pytest.param("A `~~~tool_call` block is for calls.", [], [], id="talked about"),
        pytest.param(f"~~~tool_caller\n{A}\n~~~", [], [], id="another label"),
        pytest.param(f"```python\n~~~tool_call\n{A}\n~~~\n```", [], [], id="shown"),
    ],
)
def test_blocks_that_are_not_right(text: str, names: list[str], codes: list[str]) -> None:
    assert outcome(text) == (names, codes)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param(f"~~~tool_call\n{A}\n", ["unterminated_block"], id="no closing fence"),
        pytest.param(f"~~~tool_call\n{A}\n{B}\n~~~", ["malformed_block"], id="two objects"),
        pytest.param(f"    ~~~tool_call\n    {A}\n    ~~~", [], id="indented code"),
    ],
)
def test_strict_is_stricter(text: str, codes: list[str]) -> None:
    assert outcome(text, mode="strict") == ([], codes)


def test_a_block_ends_where_the_next_begins() -> None:
    read = found(f"~~~tool_call\n{A}\n\n~~~tool_call\n{B}\n~~~")
    assert [(call.name, call.repairs) for call in read.calls] == [
        ("a", ("missing_closer",)),
        ("b", ()),
    ]


@pytest.mark.parametrize(
    ("content", "repairs"),
    [
        pytest.param(r"a\n~~~\nb", (), id="escaped"),
        pytest.param("a\n~~~\nb", ("control_character",), id="raw"),
        pytest.param(r"```json\n{}\n```", (), id="a fence within"),
    ],
)
def test_fences_in_strings_close_nothing(content: str, repairs: tuple[str, ...]) -> None:
    [call] = found(f'~~~tool_call\n{{"name":"w","arguments":{{"c":"{content}"}}}}\n~~~').calls
    assert (call.args["c"], call.repairs) == (content.replace(r"\n", "\n"), repairs)


def test_a_rejected_block_is_cut_out_whole() -> None:
    text = "a\n~~~tool_call\n{bad\n~~~\nz"
    message = "expected a key in double quotes, got 'b' at line 1, column 2 of the block"
    assert found(text) == Extraction(
        "a\n\nz",
        (),
        (Rejected("malformed_block", message, "text_tagged", 2, 23, "~~~tool_call\n{bad\n~~~"),),
    )


def test_S004_44_results_are_hidden() -> None:
    read = found(f"a\n~~~tool_result\n{A}\n~~~\nz")
    assert (read.residual, read.calls, read.rejected) == ("a\n\nz", (), ())
    assert [note.code for note in read.diagnostics] == ["shown"]


def test_an_id_is_kept() -> None:
    [call] = found('~~~tool_call\n{"name":"a","id":"x","arguments":{},"note":1}\n~~~').calls
    assert (call.id, call.id_generated) == ("x", False)


def test_writes() -> None:
    assert TaggedDialect().write("a", {"x": 1}, "") == (
        '~~~tool_call\n{"name": "a", "arguments": {"x": 1}}\n~~~'
    )
