"""Qwen3-Coder, Seed-OSS and MiniCPM5."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS

QWEN = """<tool_call>
<function=write_file>
<parameter=path>
src/app.py
</parameter>
<parameter=content>
def f(x):
    return {"a": [x]}  # } ] "

print("</function>")
</parameter>
<parameter=mode>
420
</parameter>
</function>
</tool_call>"""
CONTENT = 'def f(x):\n    return {"a": [x]}  # } ] "\n\nprint("</function>")'
WRITTEN = ("write_file", {"path": "src/app.py", "content": CONTENT, "mode": 420})
PING = "<function=ping>\n</function>"


def found(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides), stop_reason=stop_reason)


def told(result: Extraction) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in result.calls]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(QWEN, id="Qwen3-Coder"),
        pytest.param(QWEN.replace("tool_call>", "seed:tool_call>"), id="Seed-OSS"),
        pytest.param(QWEN.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"), id="bare"),
        pytest.param(QWEN.replace("\n", "\r\n").replace("{\r\n", "{\n"), id="CR LF"),
        pytest.param(f"I will write it.\n\n{QWEN}\n\nDone.", id="in prose"),
    ],
)
def test_reads_a_call(text: str, mode: str) -> None:
    result = found(text, mode=mode, dialects=("function_tags",))
    [call] = result.calls
    args = {
        key: value.replace("\r\n", "\n") if isinstance(value, str) else value
        for key, value in call.args.items()
    }
    assert ((call.name, args), call.repairs, result.rejected) == (WRITTEN, (), ())
    assert told(found(text[call.start : call.end], mode=mode)) == told(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("\n    indented\n", "    indented", id="one line break on either side"),
        pytest.param("\n\nx\n\n", "\nx\n", id="only one"),
        pytest.param("x", "x", id="in a line"),
        pytest.param("x\n", "x", id="only behind"),
        pytest.param("\n", "", id="an empty line"),
        pytest.param("\n\n", "", id="between two line breaks"),
    ],
)
def test_the_line_breaks_of_the_tags_are_no_part_of_a_value(text: str, value: str) -> None:
    reply = f"<function=f><parameter=a>{text}</parameter></function>"
    assert told(found(reply)) == [("f", {"a": value})]


@pytest.mark.parametrize(
    ("text", "expected", "residual"),
    [
        pytest.param(PING, [("ping", {})], "", id="no arguments"),
        pytest.param(f"{PING}\n</tool_call> ok", [("ping", {})], " ok", id="opener left out"),
        pytest.param(
            f"a {QWEN}{QWEN} z", [WRITTEN, WRITTEN], "a  z", id="two calls in a line of prose"
        ),
        pytest.param(
            f"<tool_call>\n{PING}\n{PING}\n</tool_call>",
            [("ping", {}), ("ping", {})],
            "",
            id="two calls in one wrapper",
        ),
        pytest.param("<function=f>{}</function>", [("f", {})], "", id="JSON is of another dialect"),
        pytest.param("Write `<function=f>` first.", [], "Write `<function=f>` first.", id="talk"),
        pytest.param("<function=f> is a tag", [], "<function=f> is a tag", id="a tag alone"),
        pytest.param("</parameter></function>", [], "</parameter></function>", id="ends alone"),
    ],
)
def test_what_is_a_call(text: str, expected: list[Any], residual: str) -> None:
    result = found(text)
    assert (told(result), result.residual, result.rejected) == (expected, residual, ())


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        pytest.param(
            "<tool_call>\n<function=f>\nno tags\n</function>\n</tool_call>",
            "malformed_block",
            "expected a parameter or the end of the call, got 'no tags\\n</function>\\n' "
            "at line 2, column 1 of the block",
            id="no parameters in the tags",
        ),
        pytest.param(
            "<tool_call>\n<function=get_wea",
            "unterminated_block",
            "the reply ends in the tag that names the tool",
            id="cut off in the name",
        ),
        pytest.param(
            "<function=a b><parameter=x>1</parameter></function>",
            "missing_name",
            "the tag must name a tool, got 'a b'",
            id="no name",
        ),
    ],
)
def test_what_looks_like_a_call_and_is_none_is_refused(text: str, code: str, message: str) -> None:
    [rejected] = found(text).rejected
    assert (rejected.code, rejected.message, rejected.dialect) == (code, message, "function_tags")


def test_the_tag_around_a_call_may_be_missing_at_its_end() -> None:
    [call] = found(f"<tool_call>\n{PING}\n\nIt is done.").calls
    assert (call.name, call.repairs) == ("ping", ("missing_closer",))


@pytest.mark.parametrize(
    ("text", "args"),
    [
        pytest.param('<param name="a">x</param>', {"a": "x"}, id="text"),
        pytest.param('\n  <param name="a">[1]</param>\n', {"a": [1]}, id="JSON"),
        pytest.param(
            '<param name="a"><![CDATA[<b>\n&</param>]]></param>',
            {"a": "<b>\n&</param>"},
            id="CDATA",
        ),
        pytest.param('<param name="a"><![CDATA[5]]></param>', {"a": "5"}, id="CDATA is a text"),
        pytest.param("", {}, id="no arguments"),
    ],
)
def test_reads_the_form_of_minicpm(text: str, args: dict[str, Any]) -> None:
    reply = f'Now.\n<function name="f">{text}</function>\nDone.'
    assert told(found(reply)) == [("f", args)]


def test_cdata_is_read_by_the_schema() -> None:
    text = '<function name="f"><param name="a"><![CDATA[5]]></param></function>'
    tools = {"f": {"properties": {"a": {"type": "integer"}}}}
    assert extract(text, protocol("any"), tools=tools).calls[0].args == {"a": 5}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('<api>\n  <function name="f"></function>\n</api>', id="indented"),
        pytest.param('see <function name="f"></function>', id="in a line"),
        pytest.param('<function name="f" type="t"></function>', id="other attributes"),
        pytest.param('<function name="f">\n  <return/>\n</function>', id="other elements"),
    ],
)
def test_an_xml_document_about_functions_is_prose(text: str) -> None:
    result = found(text)
    assert (result.calls, result.rejected, result.residual) == ((), (), text)


def test_writes_what_the_models_template_writes() -> None:
    written = DIALECTS["function_tags"].write("f", {"path": "a b", "n": 1, "l": [True]}, "")
    assert written == (
        "<tool_call>\n<function=f>\n<parameter=path>\na b\n</parameter>\n"
        "<parameter=n>\n1\n</parameter>\n<parameter=l>\n[true]\n</parameter>\n"
        "</function>\n</tool_call>"
    )


def test_a_text_that_looks_like_a_number_is_written_as_its_schema_wants_it() -> None:
    dialect = DIALECTS["function_tags"]
    assert '\n"5"\n' in dialect.write("f", {"a": "5"}, "")
    schemas = {"f": {"properties": {"a": {"type": "string"}}}}
    assert "\n5\n" in dialect.taught(schemas=schemas).write("f", {"a": "5"}, "")
