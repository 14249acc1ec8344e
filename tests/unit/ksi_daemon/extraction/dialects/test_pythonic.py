"""Calls in the syntax of Python, between marks and without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.pythonic import MARKS, PythonicDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated

ALONE = protocol("any", dialects=("pythonic",), open_thought=False)
LFM2 = "<|tool_call_start|>", "<|tool_call_end|>"
FENCE = "```tool_code\n", "\n```"


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    settings = protocol("any", dialects=("pythonic",), **overrides)
    return extract(text, settings, stop_reason=stop_reason)


def outcome(text: str, **settings: Any) -> tuple[list[Any], list[str], str]:
    read = found(text, **settings)
    calls = [(call.name, call.args) for call in read.calls]
    return calls, [block.code for block in read.rejected], read.residual


@pytest.mark.parametrize("mark", sorted(MARKS))
def test_reads_calls_between_each_pair_of_marks(mark: str) -> None:
    closer = MARKS[mark]
    opening, closing = (mark + "\n", "\n" + closer) if mark.startswith("`") else (mark, closer)
    two = [("f", {"a": 1}), ("g", {})]
    assert outcome(f"So: {opening}[f(a=1), g()]{closing} ok") == (two, [], "So:  ok")
    assert outcome(f"So: {opening}f(a=1)\ng(){closing} ok") == (two, [], "So:  ok")
    assert outcome(f"So: {opening}[f(a=1)]\n[g()]{closing} ok") == (two, [], "So:  ok")
    assert outcome(f"So: {opening}{closing} ok") == ([], [], "So:  ok")


@pytest.mark.parametrize(
    ("text", "calls", "codes", "residual"),
    [
        pytest.param("[f(a=1)]", ["f"], [], "", id="a reply"),
        pytest.param("[GetX(a=1)]", ["GetX"], [], "", id="a class as a reply"),
        pytest.param("Hi.\n[f(a=1)]\nBye", ["f"], [], "Hi.\n\nBye", id="a line"),
        pytest.param("Hi.\n[GetX(a=1)]", [], [], "Hi.\n[GetX(a=1)]", id="a class on a line"),
        pytest.param("Let me see: [f(a=1)]", ["f"], [], "Let me see: ", id="behind a sentence"),
        pytest.param("[f(a=1)] Here it is.", ["f"], [], " Here it is.", id="before a sentence"),
        pytest.param("[f(a=1)] [g(b=2)]", ["f", "g"], [], "", id="two lists on a line"),
        pytest.param("Hi.\n[f()], [g()]\nBye", ["f", "g"], [], "Hi.\n\nBye", id="and a comma"),
        pytest.param("[f()] [0]", [], [], "[f()] [0]", id="an index"),
        pytest.param("[f(a=1)](u)", [], [], "[f(a=1)](u)", id="a link"),
        pytest.param("x = [f(a=1)]", [], [], "x = [f(a=1)]", id="an assignment"),
        pytest.param("x\n    [f(a=1)]", [], [], "x\n    [f(a=1)]", id="indented"),
        pytest.param("[f(a=1) for a in b]", [], [], "[f(a=1) for a in b]", id="a comprehension"),
        pytest.param("x\n[str(x)]", [], [], "x\n[str(x)]", id="positional on a line"),
        pytest.param("[f('x')]", [], ["args_type"], "", id="positional in a reply"),
        pytest.param("[f(a=x)]", [], ["malformed_block"], "", id="a name for a value"),
        pytest.param("[f(a=1", [], ["unterminated_block"], "", id="cut off in a call"),
        pytest.param("[f(a=1)", [], ["unterminated_block"], "", id="cut off behind a call"),
        pytest.param("[f(a=1), g(b=", ["f"], ["unterminated_block"], "", id="cut off in a second"),
        pytest.param("[f(a='x\n[g(a='x')]", ["g"], ["malformed_block"], "\n", id="a second try"),
        pytest.param(
            '[f(a="""x\n\n{"event": "a:b", "data": {}}\n[g(a=1)]\ny',
            [],
            ["unterminated_block"],
            "",
            id="cut off behind examples in a long string",
        ),
        pytest.param("[f(a='it's')]\nok", [], ["malformed_block"], "\nok", id="a quote too many"),
        pytest.param("[f(a=1, a=2)]", [], ["malformed_block"], "", id="an argument twice"),
        pytest.param("[f(a='x'\n\nok", [], ["malformed_block"], "\n\nok", id="up to a blank line"),
        pytest.param("[a-(b=1)]", ["a-"], [], "", id="a name that is no name of Python"),
        pytest.param("[a/:b(c=1)]", [], ["missing_name"], "", id="no name of a tool"),
        pytest.param("[f(a=1) g(b=1)]", [], ["malformed_block"], "", id="a comma missing"),
        pytest.param("> [f(a=1)]", [], [], "> [f(a=1)]", id="a quotation"),
        pytest.param(
            "```python\n[f(a=1)]\n```", [], [], "```python\n[f(a=1)]\n```", id="a program"
        ),
        pytest.param("```\n[f(a=1)]\n```", ["f"], [], "```\n\n```", id="a fence without a label"),
    ],
)
def test_lists_without_marks(text: str, calls: list[str], codes: list[str], residual: str) -> None:
    read = outcome(text)
    assert ([name for name, _ in read[0]], *read[1:]) == (calls, codes, residual)


@pytest.mark.parametrize(
    ("body", "calls", "codes"),
    [
        pytest.param("[f(a=1) g(b=2)]", [], ["malformed_block"], id="a comma missing"),
        pytest.param("[f(a=1), g(b=x)]", ["f"], ["malformed_block"], id="a name for a value"),
        pytest.param("[f(a=1<", [], ["malformed_block"], id="a bracket missing in a call"),
        pytest.param("[f(1)]", [], ["args_type"], id="positional"),
        pytest.param("f(a=1) + g(b=2)", [], ["malformed_block"], id="an operator"),
        pytest.param("[1, 2]", [], ["malformed_block"], id="no calls"),
        pytest.param("[]", [], [], id="an empty list"),
        pytest.param('[{"name": "f"}]', [], [], id="JSON"),
        pytest.param("[f(**{'a': 1}), ]", ["f"], [], id="stars and a trailing comma"),
    ],
)
def test_blocks_that_are_not_right(body: str, calls: list[str], codes: list[str]) -> None:
    read = outcome(f"{LFM2[0]}{body}{LFM2[1]}ok")
    assert ([name for name, _ in read[0]], read[1]) == (calls, codes)
    assert read[2].endswith("ok")


@pytest.mark.parametrize(
    ("body", "calls", "codes"),
    [
        pytest.param("print(f(a=1))", ["f"], [], id="printed"),
        pytest.param("x = f(a=1)", [], ["malformed_block"], id="an assignment"),
        pytest.param("f(a='```')", ["f"], [], id="a fence in a string"),
        pytest.param("f(a=1)\nx = 2", [], ["malformed_block"], id="more code"),
        pytest.param('{"a": 1}', [], [], id="JSON is only shown"),
    ],
)
def test_the_fence_of_gemma(body: str, calls: list[str], codes: list[str]) -> None:
    read = outcome(f"{FENCE[0]}{body}{FENCE[1]}\nok")
    assert ([name for name, _ in read[0]], read[1]) == (calls, codes)


def test_a_mark_that_is_talked_about_is_prose() -> None:
    text = "The marks `<|python_start|>` and `<function_calls>` open it, ```tool_code too."
    assert outcome(text) == ([], [], text)


def test_tools_of_llama_have_one_method() -> None:
    text = "<|python_tag|>brave_search.call(query='x')<|eom_id|>"
    assert outcome(text) == ([("brave_search", {"query": "x"})], [], "")


@pytest.mark.parametrize(
    ("text", "settings", "repairs"),
    [
        ("[f(a='x\ny')]", {}, ("control_character",)),
        ("<|python_start|>[f(a=1)<|python_end|>", {}, ("missing_closer",)),
        ("<|python_start|>[f(a=1)", {}, ("missing_closer",)),
        ("[f(a=1)", {"stop_reason": "stop"}, ("missing_closer",)),
    ],
)
def test_repairs_are_named_and_can_be_switched_off(
    text: str, settings: dict[str, Any], repairs: tuple[str, ...]
) -> None:
    [call] = found(text, **settings).calls
    assert call.repairs == repairs
    for off in ({"repair": "off"}, {"mode": "strict"}):
        read = found(text, **settings, **off)
        assert (read.calls, len(read.rejected)) == ((), 1)


def test_strict_wants_the_closing_mark() -> None:
    text = "<|python_start|>[f(a=1)]"
    assert [call.name for call in found(text).calls] == ["f"]
    assert [block.code for block in found(text, mode="strict").rejected] == ["unterminated_block"]


def test_a_known_tool_may_have_the_name_of_a_class() -> None:
    text = "Hi.\n[GetX(a=1)]"
    [call] = extract(text, ALONE, tools={"GetX": {}}).calls
    assert (call.name, text[call.start : call.end]) == ("GetX", "[GetX(a=1)]")


def test_one_call_has_the_span_of_its_marks() -> None:
    text = f"x {LFM2[0]}[f(a=1)]{LFM2[1]} y"
    [call] = found(text).calls
    assert text[call.start : call.end] == text[2:-2]
    [first, second] = found("[f(a=1), g()]").calls
    assert (first.span, second.span) == ((1, 7), (9, 12))


@pytest.mark.conformance
def test_S003_48_nothing_is_evaluated_and_nothing_warns() -> None:
    hostile = "foo(x=[c for c in ().__class__.__base__.__subclasses__()][0]('touch P'))"
    for text in (
        f"[{hostile}]",
        f"{LFM2[0]}[{hostile}]{LFM2[1]}",
        f"{FENCE[0]}{hostile}{FENCE[1]}",
    ):
        assert outcome(text)[0] == []
    assert outcome("[f(a='\\d\\,')]")[0] == [("f", {"a": "\\d\\,"})]


def test_writes() -> None:
    args = {"a": "it's", "b": [1, None, True], "c d": {"e": 0.5}}
    written = PythonicDialect().write("f", args, "")
    assert written == """[f(a="it's", b=[1, None, True], **{'c d': {'e': 0.5}})]"""
    assert outcome(written) == ([("f", args)], [], "")


def streamed(text: str, step: int) -> tuple[list[int], Extraction]:
    """Return how much had come when each call was given out, and the result."""
    reader, told = Extractor(ALONE), []
    for at in range(0, len(text), step):
        chunk = text[at : at + step]
        told += [at + len(chunk) for each in reader.feed(chunk) if isinstance(each, Call)]
    return told, reader.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Hi.\n[f(a=1)]\nMore of it.", 13),
        (f"{LFM2[0]}[f(a=1)]{LFM2[1]} more", 45),
        (f"{FENCE[0]}f(a=1){FENCE[1]}\nmore", 25),
        ("x[0] and [str(x)] or f[a(b)]\n[f(a=1)]\nmore", 38),
    ],
)
def test_a_stream_gives_a_call_out_when_it_is_certain(text: str, told: int) -> None:
    [come] = streamed(text, 1)[0]
    assert come <= told


_PIECES = [*MARKS, *MARKS.values(), "[f(a=1)]", "f(a=1)", "[", "]", "(", ")", "'", '"', "'''"]
_PIECES += ["a=", ",", "\n", "\n\n", " ", "\\", "print(", "Let me see: ", "ok", "\nok ", "{", "r"]


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
        "[a(",
        "\n[f(a='",
        "\n[f(a='''",
        "\n[f(a=\"'\", b='\"',",
        "\n[f(a=[",
        "\n[f(a=1) for",
        "[f(a=1)]\n",
        "<function_calls>f(a='",
        "<|tool_call_start|>[f(a=1)",
        "```tool_code\nf(a='",
        "<|python_start|>",
    ],
)
def test_twice_the_text_costs_twice(unit: str) -> None:
    assert doubling(lambda size: extract(repeated(unit, size), ALONE), 40_000) < LINEAR
