"""The form for long text: what it writes, which text it carries, what it teaches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, Diagnostic, Extraction, candidates, extract, protocol
from ksi_daemon.extraction.dialects import Draft, Reading
from ksi_daemon.extraction.dialects.ksi_body import BodyDialect, long_fields

KSI = protocol("ksi")
BODY = BodyDialect()
GREETER = """~~~ksi composition:create_component id=ksiu_01
{"name": "agents/greeter"}
--- content
raw Markdown, code, "quotes", {braces}, \\n: nothing is escaped
~~~"""
CONTENT = 'raw Markdown, code, "quotes", {braces}, \\n: nothing is escaped'
LINES = [
    "",
    "text",
    " ",
    "~~~",
    "~~~~",
    "   ~~~",
    "~~~ksi a:b",
    "~~~python",
    "--- content",
    "---- content",
    "  --- b",
    "---",
    "```",
    '{"event": "a:b", "data": {}}',
    "\r",
    "\0",
    "\u2028",
    "~~~\r",
    "--- content\r",
]
texts = st.lists(st.sampled_from(LINES), max_size=6).map("\n".join) | st.text(max_size=40)


def test_a_call_is_the_whole_block() -> None:
    args = {"name": "agents/greeter", "content": CONTENT}
    name = "composition:create_component"
    assert extract(f"Here:\n{GREETER}\nDone.", KSI) == Extraction(
        "Here:\n\nDone.", (Call(name, args, "ksiu_01", False, "ksi_body", 6, 6 + len(GREETER)),)
    )


def test_writes_only_delicate_text_below_its_name() -> None:
    args = {"name": "a", "n": 1, "content": "x\ny", "an-odd-key": "\n", "quote": '"'}
    assert BODY.write("a:b", args, "ksiu_01") == (
        '~~~ksi a:b id=ksiu_01\n{"name": "a", "n": 1, "an-odd-key": "\\n"}\n'
        '--- content\nx\ny\n--- quote\n"\n~~~'
    )


@pytest.mark.parametrize(
    ("args", "written"),
    [
        pytest.param({}, "~~~ksi a:b\n{}\n~~~", id="no arguments"),
        pytest.param({"c": "\n"}, "~~~ksi a:b\n--- c\n\n\n~~~", id="no object"),
        pytest.param({"c": "\n~~~~"}, "~~~~~ksi a:b\n--- c\n\n~~~~\n~~~~~", id="tildes"),
        pytest.param({"c": "--- x\n"}, "~~~ksi a:b\n---- c\n--- x\n\n~~~", id="dashes"),
        pytest.param(
            {"b": "\n", "c": "+++ x\n"},
            '~~~ksi a:b\n{"c": "+++ x\\n"}\n--- b\n\n\n~~~',
            id="a line like one of a diff's",
        ),
        pytest.param(
            {"c": "--- x\n---- y\n"}, "~~~ksi a:b\n----- c\n--- x\n---- y\n\n~~~", id="more dashes"
        ),
    ],
)
def test_marks_are_longer_than_those_in_the_text(args: dict[str, Any], written: str) -> None:
    assert BODY.write("a:b", args, "") == written


def read_alone(text: str) -> dict[str, Any] | None:
    opener = BODY.opener.match(text)
    framed = BODY.frame(text, opener, Reading(True, False, 64)) if opener else None
    assert framed is not None
    [piece] = framed.pieces
    assert (framed.start, framed.end) == (0, len(text))
    return piece.draft.args if isinstance(piece.draft, Draft) else None


@given(st.dictionaries(st.sampled_from(["a", "b", "content"]), texts, min_size=1))
def test_any_text_comes_back_as_it_was(args: dict[str, str]) -> None:
    assert read_alone(BODY.write("a:b", args, "ksiu_1")) == args


@given(st.text(st.characters(categories=("Cs", "Cc", "Po")), max_size=20))
def test_any_character_comes_back_as_it_was(text: str) -> None:
    assert read_alone(BODY.write("a:b", {"c": text}, "")) == {"c": text}


@given(texts, texts)
def test_nothing_of_a_text_is_found_beside_it(content: str, other: str) -> None:
    args = {"a": content, "b": other}
    found = extract(f"I write:\n{BODY.write('a:b', args, '')}\nThere.", KSI)
    assert [(call.name, call.args) for call in found.calls] == [("a:b", args)]
    assert (found.residual, found.rejected) == ("I write:\n\nThere.", ())


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        pytest.param("```python\n", "\n```", "fenced", id="fence of a program"),
        pytest.param("<think>\n", "\n</think>", "thought", id="thought"),
    ],
)
def test_what_is_shown_does_not_fire(before: str, after: str, how: str) -> None:
    found = extract(before + GREETER + after, KSI)
    note = f"a block of ksi_body is {how}, so it was not run"
    end = len(before) + len(GREETER)
    assert found == Extraction(
        before + GREETER + after, (), (), (Diagnostic("shown", note, len(before), end),)
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GREETER, id="bare"),
        pytest.param(f"```python\n{GREETER}\n```", id="fence"),
        pytest.param(f"<think>\n{GREETER}", id="thought"),
        pytest.param(f"{{\n{GREETER}", id="behind a brace"),
        pytest.param(f"{GREETER}\n~~~\nmore\n~~~", id="before a fence in doubt"),
    ],
)
def test_whoever_quotes_it_is_known(text: str) -> None:
    [call] = candidates(text, KSI)
    assert call.args == {"name": "agents/greeter", "content": CONTENT}


def test_a_quotation_in_a_string_is_known_without_a_brace() -> None:
    [call] = candidates('{"s": "~~~ksi a:b\\n--- c\\nx\\n~~~"}', KSI)
    assert (call.name, call.args) == ("a:b", {"c": "x"})


@pytest.mark.parametrize(
    ("id", "nonce"), [("ksiu_abcdefgh_1", "abcdefgh"), ("ksiu_01", None), ("x", None)]
)
def test_reads_the_nonce_in_the_id(id: str, nonce: str | None) -> None:
    [call] = extract(f"~~~ksi a:b id={id}\n{{}}\n~~~", KSI).calls
    assert (call.id, call.nonce) == (id, nonce)


@pytest.mark.parametrize("compact", [True, False])
def test_teaches_a_block_that_is_a_call(compact: bool) -> None:
    taught = BODY.taught(nonce="abcdefgh").teach(compact=compact)
    [call] = extract(taught, KSI).calls
    assert (call.name, call.args) == BODY.sample
    assert call.nonce == "abcdefgh"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param({"type": "string", "contentMediaType": "text/markdown"}, True, id="media"),
        pytest.param({"type": "string", "format": "text"}, True, id="format"),
        pytest.param({"type": "string", "maxLength": 1000}, True, id="length"),
        pytest.param({"anyOf": [{"type": "string", "format": "text"}]}, True, id="any of"),
        pytest.param({"type": ["string", "null"], "format": "markdown"}, True, id="or null"),
        pytest.param({"type": "string"}, False, id="plain"),
        pytest.param({"type": "string", "maxLength": 999}, False, id="short"),
        pytest.param({"type": "string", "format": "date"}, False, id="another format"),
        pytest.param({"type": "string", "enum": ["a"], "maxLength": 2000}, False, id="choice"),
        pytest.param(
            {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
            False,
            id="encoded",
        ),
        pytest.param({"type": "array", "maxLength": 2000}, False, id="no text"),
        pytest.param(True, False, id="no schema"),
    ],
)
def test_long_fields(field: Any, expected: bool) -> None:
    assert long_fields({"properties": {"c": field}}) == (("c",) if expected else ())


def test_long_fields_have_names_that_a_section_can_have() -> None:
    field = {"type": "string", "format": "text"}
    assert long_fields({"properties": {"a-b": field, "a_b": field}}) == ("a_b",)
    assert long_fields({}) == ()
