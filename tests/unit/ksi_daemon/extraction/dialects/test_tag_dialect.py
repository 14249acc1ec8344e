"""What holds for every dialect of tags with parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Extraction, Protocol, candidates, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.dialects.base import Reading
from ksi_daemon.extraction.dialects.tag_dialect import TagDialect, padded
from tests.growth import LINEAR, doubling, repeated

TAGS = [each for each in DIALECTS.values() if isinstance(each, TagDialect)]
NAMES = [each.name for each in TAGS]
TEXTS = {"f": {"additionalProperties": {"type": "string"}}}
# Pieces of markup of each dialect, and what stands between them.
MARKS: dict[str, list[str]] = {
    "function_tags": [
        "<tool_call>",
        "</tool_call>",
        "<function=g>",
        "</function>",
        "<parameter=x>",
        "<parameter=a>",
        "</parameter>",
    ],
    "invoke_tags": [
        "<function_calls>",
        "</function_calls>",
        '<invoke name="g">',
        "</invoke>",
        '<parameter name="x">',
        '<parameter name="a">',
        "</parameter>",
    ],
    "argument_tags": [
        "<tool_calls>",
        "<tool_call>g",
        "</tool_call>",
        "<arg_key>x</arg_key>",
        "<arg_key>a</arg_key>\n<arg_value>",
        "<arg_value>",
        "</arg_value>",
    ],
}


def only(name: str, **overrides: Any) -> Protocol:
    return protocol("any", dialects=(name,), **overrides)


def told(result: Extraction) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in result.calls]


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """The name of a dialect, and texts for it full of its own tags."""
    name = draw(st.sampled_from(NAMES))
    pieces = st.sampled_from([*MARKS[name], "text", "\n", "\r\n", " "])
    texts = st.lists(pieces, max_size=6).map("".join)
    return name, draw(st.dictionaries(st.sampled_from("abc"), texts, max_size=3))


@given(marked())
def test_texts_full_of_tags_are_read_as_they_were_written_or_cannot_be_written(
    drawn: tuple[str, dict[str, str]],
) -> None:
    name, args = drawn
    try:
        text = DIALECTS[name].taught(schemas=TEXTS).write("f", args, "")
    except ValueError:
        return
    result = extract(f"So:\n{text}\nDone.", only(name), tools=TEXTS)
    assert (told(result), result.rejected) == ([("f", args)], ())
    assert result.residual == "So:\n\nDone."


@given(marked())
def test_texts_full_of_tags_are_never_read_in_a_way_that_is_written_otherwise(
    drawn: tuple[str, dict[str, str]],
) -> None:
    """A call that fires says in its own tags what stands there, if nothing was refused."""
    name, args = drawn
    dialect = DIALECTS[name]
    assert isinstance(dialect, TagDialect)
    text = dialect.laid_out("f", args)
    result = extract(text, only(name), tools=TEXTS)
    if result.calls and not result.rejected:
        [call] = result.calls
        again = dialect.laid_out("f", call.args)
        assert len(call.args) < len(args) or again.split() == text.split()


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_a_text_that_breaks_off_is_no_call(dialect: TagDialect) -> None:
    text = dialect.write("f", {"path": "a.txt", "content": "one\ntwo"}, "")
    ends = [at for at in range(len(text)) if text.startswith("</", at)]
    for at in range(len(text)):
        result = extract(text[:at], only(dialect.name), stop_reason="length")
        # Once the call has its own end, only what stands around it can be missing.
        assert not result.calls or (at > ends[-2] and result.calls[0].args["content"] == "one\ntwo")
    for at in range(text.index("path"), ends[-2]):
        assert extract(text[:at], only(dialect.name), stop_reason="length").rejected


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_several_calls_are_several_calls(dialect: TagDialect) -> None:
    one, two = dialect.write("f", {"n": 1}, ""), dialect.write("g", {}, "")
    result = extract(f"{one}\n{two}{one}", only(dialect.name))
    assert told(result) == [("f", {"n": 1}), ("g", {}), ("f", {"n": 1})]
    assert [call.repairs for call in result.calls] == [(), (), ()]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_a_parameter_that_is_given_twice(dialect: TagDialect) -> None:
    once = dialect.laid_out("f", {"a": "1"})
    start = once.index("<parameter" if "<parameter" in once else "<arg_key>")
    closing = "</parameter>" if "<parameter" in once else "</arg_value>"
    given = once[start : once.index(closing) + len(closing)]
    same = extract(once.replace(given, f"{given}\n{given}"), only(dialect.name))
    assert told(same) == [("f", {"a": 1})]
    assert [(note.code, note.message) for note in same.diagnostics] == [
        ("duplicate_keys", "the last value counts of 'a'")
    ]
    other = given.replace("1", "2")
    differing = extract(once.replace(given, f"{given}\n{other}"), only(dialect.name))
    assert [(each.code, each.message) for each in differing.rejected] == [
        ("malformed_block", "'a' is given twice, with two values")
    ]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_ends_that_come_twice_refuse_the_call(dialect: TagDialect) -> None:
    text = dialect.laid_out("f", {"a": "1"})
    rest = text[text.index("</parameter>" if "</parameter>" in text else "</arg_value>") :]
    result = extract(f"{text}\nmore of the value{rest}\nprose", only(dialect.name))
    assert told(result) == []
    assert [each.code for each in result.rejected] == ["malformed_block"]
    assert "stands here once more" in result.rejected[0].message
    assert result.residual.strip().endswith("prose")


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_the_guard_holds_for_what_is_shown(dialect: TagDialect) -> None:
    text = dialect.write("f", {"a": "1"}, "")
    for shown in (f"```xml\n{text}\n```", f"<think>\n{text}\n</think>"):
        assert told(extract(shown, only(dialect.name))) == []
    assert told(extract(f"```\n{text}\n```", only(dialect.name))) == [("f", {"a": "1"})]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_the_survey_finds_what_a_text_hides(dialect: TagDialect) -> None:
    text = dialect.write("f", {"a": "x"}, "")
    unfinished = dialect.laid_out("g", {"b": ""})[:-20]
    for each in (
        f"> {text}",
        dialect.laid_out("g", {"b": text}),
        json.dumps({"s": [text]}),
        unfinished + text,
    ):
        found = candidates(each, only(dialect.name))
        assert ("f", {"a": "x"}) in [(call.name, call.args) for call in found], each


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_a_call_that_is_repaired_at_the_end_is_found_by_the_survey_wherever_it_stands(
    dialect: TagDialect,
) -> None:
    text = dialect.laid_out("f", {"a": "x"})
    closing = "</parameter>" if "</parameter>" in text else "</arg_value>"
    broken = text.replace(closing, "").replace("x\n", "x")
    [call] = extract(broken, only(dialect.name), stop_reason="stop").calls
    assert (call.args, call.repairs) == ({"a": "x"}, ("missing_closer",))
    found = candidates(f"{broken}\n{dialect.laid_out('g', {'b': '1'})}", only(dialect.name))
    assert ("f", {"a": "x"}) in [(each.name, each.args) for each in found]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_strict_wants_both_tags_around_a_call_or_none(dialect: TagDialect) -> None:
    text = dialect.write("f", {"a": "x"}, "")
    strict = only(dialect.name, mode="strict")
    assert told(extract(text, strict)) == [("f", {"a": "x"})]
    if dialect.name == "argument_tags":
        text = f"<tool_calls>{text}</tool_calls>"
    first, last = text.index(">") + 1, text.rindex("</")
    assert told(extract(text[first:last], strict)) == [("f", {"a": "x"})]
    for half, code in ((text[:last], "unterminated_block"), (text[first:], "malformed_block")):
        assert [each.code for each in extract(half, strict).rejected] == [code]
        assert told(extract(half, only(dialect.name))) == [("f", {"a": "x"})]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_values_are_read_by_the_schema(dialect: TagDialect) -> None:
    args = {"s": "5", "n": "5", "l": "[1]", "other": "x"}
    properties = {"s": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"}}
    text = dialect.laid_out("f", args)
    result = extract(text, only(dialect.name), tools={"f": {"properties": properties}})
    assert told(result) == [("f", {"s": "5", "n": 5, "l": [1], "other": "x"})]


@pytest.mark.parametrize("dialect", TAGS, ids=NAMES)
def test_a_value_that_cannot_be_read_is_refused_at_its_place(dialect: TagDialect) -> None:
    text = dialect.laid_out("f", {"l": "[1, }"})
    tools = {"f": {"properties": {"l": {"type": "array"}}}}
    [rejected] = extract(text, only(dialect.name), tools=tools).rejected
    assert rejected.code == "args_json"
    assert rejected.message.startswith("'l': expected JSON, but expected a value, got '}'")
    assert "[1, }" in rejected.excerpt


def test_a_text_that_no_reader_could_tell_the_end_of_is_not_written() -> None:
    dialect = DIALECTS["function_tags"]
    content = "</parameter>\n<parameter=b>\n"
    with pytest.raises(ValueError, match="the tags of function_tags cannot hold these arguments"):
        dialect.write("f", {"a": content}, "")
    with pytest.raises(ValueError, match="cannot hold"):
        dialect.write("f", {"a key > b": 1}, "")
    with pytest.raises(ValueError, match="cannot hold"):
        dialect.write("no name", {}, "")


def test_a_call_is_settled_when_another_one_begins() -> None:
    dialect = DIALECTS["function_tags"]
    assert isinstance(dialect, TagDialect)
    reading = Reading(strict=False, repairs=True, max_depth=64)
    text = dialect.laid_out("f", {"a": "1"})
    for behind, settled in (("", False), (" prose", False), ("\n<function=g></function>", True)):
        opener = dialect.opener.search(text + behind)
        assert opener is not None
        framed = dialect.frame(text + behind, opener, reading)
        assert dialect.settled(text + behind, opener, framed, reading) is settled


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("x", "x", id="none"),
        pytest.param("\n", "\n", id="nothing else"),
        pytest.param("\nx", "\nx", id="on one side"),
        pytest.param("\nx\n", "\n\nx\n\n", id="on both sides"),
        pytest.param("\r\nx\r\n", "\n\r\nx\r\n\n", id="of two characters"),
    ],
)
def test_line_breaks_of_a_text_are_kept_by_more_of_them(text: str, written: str) -> None:
    assert padded(text) == written


HEADS = {
    "function_tags": "<function=f>\n<parameter=a>\n",
    "invoke_tags": '<function_calls>\n<invoke name="f">\n<parameter name="a">',
    "argument_tags": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>",
}
UNITS = [
    *((name, HEADS[name], unit) for name in NAMES for unit in MARKS[name]),
    *((name, "", HEADS[name]) for name in NAMES),
    ("function_tags", '<function name="f">', '<param name="a"><![CDATA[</param>'),
    *((name, "", HEADS[name] + "1") for name in NAMES),
    *((name, "", DIALECTS[name].write("f", {"a": 1}, "")) for name in NAMES),
]


@pytest.mark.parametrize("search", [extract, candidates], ids=["extract", "survey"])
@pytest.mark.parametrize(("name", "head", "unit"), UNITS)
def test_hostile_text_costs_twice_for_twice_the_length(
    name: str, head: str, unit: str, search: Any
) -> None:
    settings = only(name)

    def cost(size: int) -> None:
        search(head + repeated(unit, size), settings)

    assert doubling(cost, 30_000) < LINEAR
