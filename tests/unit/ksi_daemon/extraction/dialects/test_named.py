"""Calls whose name stands in a mark."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, Extraction, extract, protocol
from ksi_daemon.extraction.dialects.named import FORMS, NamedDialect
from ksi_daemon.extraction.stream import Extractor
from tests.growth import LINEAR, doubling, repeated
from tests.properties.written import SOME, arguments, prose

J = '{"path": "a"}'
BEGIN, SEP, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
OPEN, CLOSE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
KIMI, ARGS, KIMI_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
# One writer for each form and each way in which models are known to vary it.
WRITERS: Final[dict[str, Callable[[str, str], str]]] = {
    "deepseek": lambda name, args: f"{OPEN}{BEGIN}{name}{SEP}{args}{END}{CLOSE}",
    "deepseek-r1": lambda name, args: (
        f"{OPEN}{BEGIN}function{SEP}{name}\n```json\n{args}\n```{END}{CLOSE}"
    ),
    "deepseek-r1 without its fence": lambda name, args: f"{BEGIN}function{SEP}{name}\n{args}{END}",
    "deepseek with other characters": lambda name, args: (
        f"<｜tool_calls_begin｜><｜tool_call_begin｜>{name}<｜tool_sep｜>{args}<｜tool_call_end｜>"
    ),
    "kimi": lambda name, args: (
        f"<|tool_calls_section_begin|>{KIMI}functions.{name}:3{ARGS}{args}{KIMI_END}"
        "<|tool_calls_section_end|>"
    ),
    "kimi without a number": lambda name, args: f"{KIMI}{name}{ARGS}{args}{KIMI_END}",
    "mistral": lambda name, args: f"[TOOL_CALLS]{name}[ARGS]{args}",
    "mistral with an id": lambda name, args: f"[TOOL_CALLS]{name}[CALL_ID]a1b2[ARGS]{args}</s>",
    "mistral 11": lambda name, args: f"[TOOL_CALLS]{name}{args}",
    "kimi over lines": lambda name, args: (
        f"<|tool_calls_section_begin|>\n{KIMI}{name}:0\n{ARGS}\n{args}\n{KIMI_END}\n"
        "<|tool_calls_section_end|>"
    ),
    "llama": lambda name, args: f"<function={name}>{args}</function>",
    "llama with its end": lambda name, args: f"<function={name}>{args}</function><|eom_id|>",
    "functionary": lambda name, args: f">>>{name}\n{args}",
}


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides), stop_reason=stop_reason)


def outcome(text: str, **overrides: Any) -> tuple[list[Any], list[str], str]:
    read = found(text, **overrides)
    calls = [[call.name, call.args] for call in read.calls]
    return calls, [block.code for block in read.rejected], read.residual


def test_each_form_has_a_writer() -> None:
    assert {key.split()[0].split("-")[0] for key in WRITERS} == set(FORMS)


@pytest.mark.parametrize("form", WRITERS)
@SOME
@given(before=prose, args=arguments, after=prose, other=st.sampled_from(sorted(WRITERS)))
def test_reads_what_models_write(
    form: str, before: str, args: dict[str, Any], after: str, other: str
) -> None:
    args["content"] = WRITERS[other]("inner", J) + WRITERS[form]("inner", J)
    block = WRITERS[form]("notes:save", json.dumps(args, ensure_ascii=False))
    result = found(f"{before}\n{block}\n{after}")
    assert [(call.name, call.args) for call in result.calls] == [("notes:save", args)]
    assert result.rejected == ()
    assert result.residual.split() == (before + "\n" + after).split()
    [call] = result.calls
    [again] = found(f"{before}\n{block}\n{after}"[call.start : call.end]).calls
    assert (again.name, again.args) == (call.name, call.args)


@pytest.mark.parametrize("form", WRITERS)
def test_reads_several_calls_in_order(form: str) -> None:
    text = " ".join(WRITERS[form](name, f'{{"n": "{name}"}}') for name in "abc")
    calls = [[name, {"n": name}] for name in "abc"]
    assert outcome(text)[:2] == (calls, [])


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("inner", ['{"x": "</function>"}', '{"x": bad }', ""])
def test_a_stream_gives_each_call_before_the_text_ends(form: str, inner: str) -> None:
    text = f"Hi {WRITERS[form]('a', inner)} and {WRITERS[form]('b', '{}')}\n later words }} of it"
    ids = [f"g{number}" for number in range(len(text))]
    alone = protocol("any", dialects=["named"], open_thought=False)
    whole = extract(text, alone, new_id=iter(ids).__next__)
    stream = Extractor(alone, new_id=iter(ids).__next__)
    told = [each for letter in text for each in stream.feed(letter) if isinstance(each, Call)]
    assert stream.close() == whole
    assert tuple(told) == whole.calls


@pytest.mark.parametrize(
    ("text", "id"),
    [
        pytest.param(f"{KIMI}functions.a:3{ARGS}{J}{KIMI_END}", "functions.a:3", id="Kimi"),
        pytest.param(f"{KIMI}a:0 {ARGS}{J}{KIMI_END}", "a:0", id="Kimi without a namespace"),
        pytest.param(f"{KIMI}functions.a{ARGS}{J}{KIMI_END}", None, id="Kimi without a number"),
        pytest.param(f"[TOOL_CALLS]a[CALL_ID]x9[ARGS]{J}", "x9", id="Mistral"),
        pytest.param(f"[TOOL_CALLS]a[ARGS]{J}", None, id="Mistral without an id"),
    ],
)
def test_keeps_the_id_of_the_model(text: str, id: str | None) -> None:
    [call] = found(text).calls
    assert (None if call.id_generated else call.id) == id


@pytest.mark.parametrize(
    ("text", "calls", "codes", "residual"),
    [
        pytest.param(
            f"{OPEN}{BEGIN}a{SEP}{J}{END}\n{BEGIN}b{SEP}{{}}{END}{CLOSE}.",
            [["a", {"path": "a"}], ["b", {}]],
            [],
            ".",
            id="a section and the blanks in it",
        ),
        pytest.param(f"{KIMI}a:0{ARGS}{KIMI_END}", [["a", {}]], [], "", id="no arguments"),
        pytest.param(
            f'{KIMI}a:0{ARGS}"{{\\"x\\": 1}}"{KIMI_END}.', [["a", {"x": 1}]], [], ".", id="as text"
        ),
        pytest.param(f"{BEGIN}a{SEP}{J}", [["a", {"path": "a"}]], [], "", id="nothing closes"),
        pytest.param(
            f"{BEGIN}a{SEP}{J}}}{END}", [["a", {"path": "a"}]], [], "", id="a brace too many"
        ),
        pytest.param(
            f'{BEGIN}a{SEP}{{"x": {{"y": 1}}}}, "z": 2}}{END}.',
            [],
            ["malformed_block"],
            ".",
            id="a member behind",
        ),
        pytest.param(
            f'{BEGIN}a{SEP}{{"x": {{"y": 1}}, "z": 2}}}}{END}.',
            [],
            ["malformed_block"],
            ".",
            id="a brace too many, and two places for it",
        ),
        pytest.param(
            '[TOOL_CALLS]a[ARGS]{"x": 1}, "z": 2}\n\n.',
            [],
            ["malformed_block"],
            "\n\n.",
            id="a member behind where nothing closes",
        ),
        pytest.param(
            f"{BEGIN}a{SEP}{J} and {END}.", [], ["malformed_block"], ".", id="words before the end"
        ),
        pytest.param(f"{BEGIN}a b{SEP}{J}{END}", [], [], f"{BEGIN}a b{SEP}{J}{END}", id="no name"),
        pytest.param(
            f"{KIMI}a@b:0{ARGS}{J}{KIMI_END}.", [], ["missing_name"], ".", id="a name that is none"
        ),
        pytest.param(f"{KIMI}a:0{ARGS}[1]{KIMI_END}.", [], ["malformed_block"], ".", id="a list"),
        pytest.param(
            f'{KIMI}a:0{ARGS}"x"{KIMI_END}.', [], ["args_json"], ".", id="text without an object"
        ),
        pytest.param(
            f'{KIMI}a:0{ARGS}"x{KIMI_END}.', [], ["malformed_block"], ".", id="text without an end"
        ),
        pytest.param(f"{KIMI}a:0{ARGS}", [], ["unterminated_block"], "", id="cut off at the start"),
        pytest.param(f"{KIMI}functi", [], ["unterminated_block"], "", id="cut off in the name"),
        pytest.param(f"{KIMI}a:0<|tool_", [], ["unterminated_block"], "", id="cut off behind it"),
        pytest.param(
            f'{KIMI}a:0{ARGS}{{"x": "', [], ["unterminated_block"], "", id="cut off in a string"
        ),
        pytest.param(
            f'{KIMI}a:0{ARGS}{{"x": "y\n{KIMI}b:1{ARGS}{{"z": 1}}{KIMI_END}',
            [["b", {"z": 1}]],
            ["malformed_block"],
            "",
            id="a second try on a line of its own",
        ),
        pytest.param(
            f'{KIMI}a:0{ARGS}{{"x": bad {KIMI}b:1{ARGS}{{}}{KIMI_END}',
            [["b", {}]],
            ["malformed_block"],
            "",
            id="a broken call, and another",
        ),
        pytest.param(
            '<function=a>{"x": {"event":"a:b","data":{}} bad}</function>.',
            [],
            ["malformed_block"],
            ".",
            id="nothing in a broken block fires",
        ),
        pytest.param(
            "<function=a>\n<parameter=x>\n1\n</parameter>", [], [], None, id="another dialect"
        ),
        pytest.param("<function=a>x</function>.", [], ["malformed_block"], ".", id="text alone"),
        pytest.param(
            "`<function=NAME>`, text and `</function>`",
            [],
            [],
            "`<function=NAME>`, text and `</function>`",
            id="tags that are talked about",
        ),
        pytest.param(
            '[TOOL_CALLS]a{"x": ""}, y"}\n.',
            [],
            ["malformed_block"],
            None,
            id="a first quote written twice",
        ),
        pytest.param(
            '[TOOL_CALLS]a{"x": ""}[", "c": 7}\n\n.',
            [],
            ["malformed_block"],
            "\n\n.",
            id="a first quote written twice before a member",
        ),
        pytest.param(
            '>>>a\n{"x": {"y": ""}} or {z"}}\n\n.',
            [],
            ["malformed_block"],
            "\n\n.",
            id="a first quote written twice in an inner object",
        ),
        pytest.param(
            '[TOOL_CALLS]a{"x": ""} is "it".',
            [["a", {"x": ""}]],
            [],
            ' is "it".',
            id="an empty string, and quotes in prose",
        ),
        pytest.param('[TOOL_CALLS]a"x": 1}\n\n.', [], ["args_json"], None, id="no brace"),
        pytest.param(
            '<function=a>}{"x": 1}</function>.', [], ["malformed_block"], ".", id="another brace"
        ),
        pytest.param('>>>a\n{x": 1}\n\n.', [], ["malformed_block"], "\n\n.", id="no first quote"),
        pytest.param(
            '<function=a>{"x": ""</function>"}</function>.',
            [],
            ["malformed_block"],
            '"}</function>.',
            id="a quote written twice before the closer in a string",
        ),
        pytest.param(
            '<function=a>{"x": {"y": ""}}</function>"}}</function>.',
            [],
            ["malformed_block"],
            '"}}</function>.',
            id="the same, and all brackets closed",
        ),
        pytest.param(
            "<function=a>{}</function> not </function>.",
            [["a", {}]],
            [],
            " not </function>.",
            id="a closer that is talked about",
        ),
        pytest.param('[TOOL_CALLS]a{}n": 1}.', [], ["malformed_block"], "", id="a key behind it"),
        pytest.param(
            "[TOOL_CALLS]a, and so on.", [], [], "[TOOL_CALLS]a, and so on.", id="a name in prose"
        ),
        pytest.param("the mark <function=", [], [], "the mark <function=", id="talked about"),
        pytest.param("[TOOL_CALLS] comes first.", [], [], "[TOOL_CALLS] comes first.", id="prose"),
        pytest.param(">>> x\n{1: 2}", [], [], ">>> x\n{1: 2}", id="doctest"),
        pytest.param(f"`{KIMI}a:0{ARGS}{J}`", [], [], f"`{KIMI}a:0{ARGS}{J}`", id="in inline code"),
    ],
)
def test_blocks_that_are_not_plain(
    text: str, calls: list[Any], codes: list[str], residual: str | None
) -> None:
    read = outcome(text, dialects=["named"])
    assert read[:2] == (calls, codes)
    assert residual is None or read[2] == residual


def test_is_mended_up_to_its_end() -> None:
    text = f'{KIMI}a:0{ARGS}{{"x": 1,}}{KIMI_END}'
    [call] = found(text).calls
    assert (call.args, call.repairs, call.span) == ({"x": 1}, ("trailing_comma",), (0, len(text)))
    assert found(text, repair="off").calls == ()


@pytest.mark.parametrize("stop_reason", [None, "length", "stop"])
def test_an_object_that_is_open_at_the_end_needs_the_word_of_the_provider(
    stop_reason: str | None,
) -> None:
    result = found('<function=a>{"x": "y"', stop_reason)
    assert [call.args for call in result.calls] == ([{"x": "y"}] if stop_reason == "stop" else [])


def test_strict_wants_what_closes_a_call() -> None:
    strict = found(f"{BEGIN}a{SEP}{J}", mode="strict", dialects=["named"])
    assert [block.code for block in strict.rejected] == ["unterminated_block"]


def test_says_where_and_what() -> None:
    [block] = found(f"{KIMI}a:0{ARGS}{{}} x {KIMI_END}").rejected
    assert (
        block.message == "expected '<|tool_call_end|>', got 'x' at line 1, column 54 of the block"
    )


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(f"{OPEN}{BEGIN}", id="DeepSeek's marks"),
        pytest.param(f"{BEGIN}a{SEP}", id="DeepSeek's head"),
        pytest.param(f'{BEGIN}function{SEP}a\n```json\n{{"', id="R1's head"),
        pytest.param(f'{KIMI}a:0{ARGS}{{"x":"', id="Kimi's head"),
        pytest.param(f"{KIMI}{'a' * 50}", id="Kimi's mark"),
        pytest.param(f'{KIMI}a:0{ARGS}"', id="Kimi's head and a quote"),
        pytest.param('[TOOL_CALLS]a[ARGS]{"\\', id="Mistral's head"),
        pytest.param("[TOOL_CALLS]a", id="Mistral's mark"),
        pytest.param("<function=a>{", id="Llama's head"),
        pytest.param('<function=a>{"x":1,}', id="Llama's head, mended"),
        pytest.param('>>>a\n{"', id="Functionary's head"),
        pytest.param(">>>", id="Functionary's mark"),
    ],
)
def test_cost_grows_with_the_text(unit: str) -> None:
    assert doubling(lambda size: found(repeated(unit, size)), 40_000) < LINEAR


def test_writes() -> None:
    assert NamedDialect().write("a", {"x": 1}, "") == '<function=a>{"x": 1}</function>'
