"""Calls of Gemma 4 and FunctionGemma."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.gemma import FORMS, GemmaDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated

ALONE = protocol("any", dialects=("gemma",), open_thought=False)
Q = '<|"|>'
OPEN, CLOSE = "<|tool_call>call:", "<tool_call|>"


def found(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", dialects=("gemma",), **overrides))


def outcome(text: str, **overrides: Any) -> tuple[list[Any], list[str], str]:
    read = found(text, **overrides)
    calls = [(call.name, call.args) for call in read.calls]
    return calls, [block.code for block in read.rejected], read.residual


@pytest.mark.parametrize("mark", FORMS)
def test_reads_both_forms(mark: str) -> None:
    form = FORMS[mark]
    text = f"{form.quote}a {{}},:[]\"'\\n\n{form.quote}"
    block = f"{mark}call:f{{a:{text},b:[1,-2.5e3,true,false,null],c:{{d:{{}},e:[]}}}}{form.closer}"
    args = {
        "a": "a {},:[]\"'\\n\n",
        "b": [1, -2500.0, True, False, None],
        "c": {"d": {}, "e": []},
    }
    assert outcome(f"So: {block} ok") == ([("f", args)], [], "So:  ok")


@pytest.mark.parametrize(
    ("body", "args"),
    [
        pytest.param("f{}", {}, id="nothing in it"),
        pytest.param("f", {}, id="nothing at all"),
        pytest.param(' f { "a b" : "x\\ny" }', {"a b": "x\ny"}, id="as JSON writes it"),
        pytest.param(f"f{{{Q}a b{Q}:1}}", {"a b": 1}, id="a key in tokens"),
        pytest.param("f{a:1,}", {"a": 1}, id="a trailing comma"),
        pytest.param(f"f{{a:{Q}{CLOSE}{Q}}}", {"a": CLOSE}, id="the closing mark in a string"),
    ],
)
def test_reads_arguments(body: str, args: dict[str, Any]) -> None:
    assert outcome(f"<|tool_call>call:{body}{CLOSE}") == ([("f", args)], [], "")


@pytest.mark.parametrize(
    ("text", "names", "codes", "residual"),
    [
        pytest.param(f"{OPEN}f{{a:x}}{CLOSE}y", [], ["malformed_block"], "y", id="no quotes"),
        pytest.param(f"{OPEN}f{{a:1{CLOSE}y", [], ["malformed_block"], "y", id="a brace missing"),
        pytest.param(
            f"{OPEN}f{{a:{{}}}},b:1}}{CLOSE}y", [], ["malformed_block"], "y", id="a brace too many"
        ),
        pytest.param(f"{OPEN}f{{a:1}},b:1}}", [], ["malformed_block"], "", id="and no mark"),
        pytest.param(f"{OPEN}f{{a:007}}{CLOSE}", [], ["malformed_block"], "", id="zeros"),
        pytest.param(f"{OPEN}f{{a:1e999}}{CLOSE}", [], ["malformed_block"], "", id="infinite"),
        pytest.param(f'{OPEN}f{{a:"\\q"}}{CLOSE}', [], ["malformed_block"], "", id="an escape"),
        pytest.param(f"{OPEN}f(a=1){CLOSE}", [], ["malformed_block"], "", id="brackets"),
        pytest.param(f"{OPEN}{{a:1}}{CLOSE}", [], ["missing_name"], "", id="no name"),
        pytest.param(f"{OPEN}f{{a:1", [], ["unterminated_block"], "", id="cut off"),
        pytest.param(f"{OPEN}f{{a:{Q}x", [], ["unterminated_block"], "", id="cut off in a string"),
        pytest.param(f'{OPEN}f{{a:"x', [], ["unterminated_block"], "", id="the same in JSON"),
        pytest.param(
            f'{OPEN}f{{a:{Q}x\n\n{{"event": "a:b", "data": {{}}}}\n\ny',
            [],
            ["unterminated_block"],
            "",
            id="cut off behind an example in a string",
        ),
        pytest.param("<|tool_call>ca", [], ["unterminated_block"], "", id="cut off at once"),
        pytest.param(
            f"{OPEN}f{{a:{Q}x}}{CLOSE}{OPEN}g{{a:{Q}y{Q}}}{CLOSE}",
            ["g"],
            ["malformed_block"],
            "",
            id="a second try",
        ),
        pytest.param("a <|tool_call> b", [], [], "a <|tool_call> b", id="talked about"),
        pytest.param(f"{OPEN}f{{}} and", ["f"], [], " and", id="no closing mark"),
    ],
)
def test_blocks_that_are_not_right(
    text: str, names: list[str], codes: list[str], residual: str
) -> None:
    read = outcome(text)
    assert ([name for name, _ in read[0]], *read[1:]) == (names, codes, residual)


def test_a_thought_is_hidden_and_nothing_in_it_runs() -> None:
    text = f"<|channel>thought\nhm {OPEN}f{{}}{CLOSE}<channel|>{OPEN}g{{}}{CLOSE}"
    read = found(text)
    assert [call.name for call in read.calls] == ["g"]
    assert (read.thought, read.residual) == (f"hm {OPEN}f{{}}{CLOSE}", "")
    assert [call.name for call in found(text.replace("<channel|>", "")).calls] == ["f", "g"]


def test_a_raw_line_end_in_json_is_a_repair() -> None:
    text = f'{OPEN}f{{a:"x\ny"}}{CLOSE}'
    [call] = found(text).calls
    assert (call.args, call.repairs) == ({"a": "x\ny"}, ("control_character",))
    assert found(text, repair="off").calls == ()


def test_a_repeated_key_is_noted_and_strict_wants_the_closing_mark() -> None:
    read = found(f"{OPEN}f{{a:1,a:2}}{CLOSE}")
    assert (read.calls[0].args, [each.code for each in read.diagnostics]) == (
        {"a": 2},
        ["duplicate_keys"],
    )
    assert outcome(f"{OPEN}f{{}}", mode="strict") == ([], ["unterminated_block"], "")


def test_writes() -> None:
    args = {"a": f"x{Q}y", "b c": ["z\n", {"d": None}], "e": 1.5}
    written = GemmaDialect().write("f", args, "")
    assert written == (
        '<|tool_call>call:f{a:"x<|\\"|>y","b c":[<|"|>z\n<|"|>,{d:null}],e:1.5}<tool_call|>'
    )
    assert outcome(written) == ([("f", args)], [], "")


def streamed(text: str, step: int) -> tuple[list[int], Extraction]:
    """Return how much had come when each call was given out, and the result."""
    reader, told = Extractor(ALONE), []
    for at in range(0, len(text), step):
        chunk = text[at : at + step]
        told += [at + len(chunk) for each in reader.feed(chunk) if isinstance(each, Call)]
    return told, reader.close()


def test_a_stream_gives_a_call_out_behind_its_mark() -> None:
    call = f"{OPEN}f{{a:1}}{CLOSE}"
    [come] = streamed(f"{call} more of it", 1)[0]
    assert come <= len(call) + 1


_PIECES = [*FORMS, *(form.closer for form in FORMS.values()), Q, "<escape>", "call:", "f", "{"]
_PIECES += ["}", "[", "]", ",", "a:", '"', "1", "true", "\n\n", " ", f"{OPEN}f{{a:1}}{CLOSE}"]
_PIECES += ["<|channel>thought", "<channel|>", f"{OPEN}f{{"]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join), st.integers(1, 5))
def test_a_stream_finds_what_is_found_at_once(text: str, step: int) -> None:
    whole, parts = extract(text, ALONE), streamed(text, step)[1]
    assert [(each.name, each.args, each.span) for each in parts.calls] == [
        (each.name, each.args, each.span) for each in whole.calls
    ]
    assert (parts.rejected, parts.residual) == (whole.rejected, whole.residual)


@pytest.mark.parametrize(
    "unit",
    [
        "<|tool_call>",
        f"{OPEN}f{{a:{Q}",
        f"{OPEN}f{{a:",
        f"{OPEN}f{{}}{CLOSE}",
        f'{OPEN}f{{a:"',
        "<|channel>thought",
        "<start_function_call>call:f{a:<escape>",
    ],
)
def test_twice_the_text_costs_twice(unit: str) -> None:
    assert doubling(lambda size: extract(repeated(unit, size), ALONE), 40_000) < LINEAR
