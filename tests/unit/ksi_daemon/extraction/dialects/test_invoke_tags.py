"""Anthropic, MiniMax, DeepSeek V3.2 and Step 3."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS

BODY = '# Title\n\n<b>{"x": "end of <i>"}</b>\n'
ARGS = {"path": "a.md", "content": BODY, "mode": 420}
CALL = (
    '<invoke name="write_file">\n<parameter name="path">a.md</parameter>\n'
    f'<parameter name="content">{BODY}</parameter>\n'
    '<parameter name="mode">420</parameter>\n</invoke>'
)
PING = '<invoke name="ping">\n</invoke>'


def within(tag: str, *calls: str) -> str:
    return "\n".join([f"<{tag}>", *calls, f"</{tag}>"])


def prefixed(prefix: str, text: str) -> str:
    """Put *prefix* before the name of each tag of a call."""
    return re.sub(r"<(/?)(invoke|parameter|function_calls)\b", rf"<\1{prefix}\2", text)


DSML = prefixed(
    "｜DSML｜",
    within(
        "function_calls",
        '<invoke name="f">',
        '<parameter name="a" string="true">5</parameter>',
        '<parameter name="b" string="false">{"c": [5]}</parameter>',
        '<parameter name="d" string="false">"text"</parameter>',
        "</invoke>",
    ),
)
STEP = (
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    f"{prefixed('steptml:', CALL)}<｜tool_call_end｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    f"{prefixed('steptml:', PING)}<｜tool_call_end｜><｜tool_calls_end｜>"
)
M3 = (
    "]<]minimax[>[".join(
        ["", "<tool_call>", '<invoke name="f">', "<a>one", "</a>", "<b>2", "</b>", "</invoke>", ""]
    )
    + "</tool_call>"
)


def found(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides))


def told(result: Extraction) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in result.calls]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CALL, id="bare"),
        pytest.param(within("function_calls", CALL), id="Anthropic"),
        pytest.param(
            prefixed("antml:", within("function_calls", CALL)), id="Anthropic with a prefix"
        ),
        pytest.param(within("minimax:tool_call", CALL), id="MiniMax M2"),
        pytest.param(prefixed("steptml:", CALL), id="Step 3"),
        pytest.param(prefixed("｜DSML｜", CALL), id="DeepSeek without the kinds"),
    ],
)
def test_reads_a_call(text: str, mode: str) -> None:
    result = found(f"Now:\n{text}\nDone.", mode=mode)
    assert (told(result), result.rejected) == ([("write_file", ARGS)], ())
    assert result.residual == "Now:\n\nDone."
    assert result.calls[0].span == (5, 5 + len(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(DSML, [("f", {"a": "5", "b": {"c": [5]}, "d": "text"})], id="DeepSeek V3.2"),
        pytest.param(M3, [("f", {"a": "one", "b": 2})], id="MiniMax M3"),
        pytest.param(STEP, [("write_file", ARGS), ("ping", {})], id="Step 3 with its marks"),
        pytest.param(
            within("function_calls", CALL, PING), [("write_file", ARGS), ("ping", {})], id="two"
        ),
        pytest.param('<invoke name="ping"/>', [("ping", {})], id="an empty element alone"),
        pytest.param(within("function_calls", '<invoke name="f"/>'), [("f", {})], id="empty tag"),
        pytest.param("<invoke name = 'f' ></invoke>", [("f", {})], id="spaces and other quotes"),
        pytest.param(
            '<invoke name="f"><parameter name="a" type="int">1</parameter></invoke>',
            [("f", {"a": 1})],
            id="another attribute of a parameter",
        ),
        pytest.param(
            '<invoke name="f">\n<parameter name="a">\nx\n</parameter></invoke>',
            [("f", {"a": "x"})],
            id="line breaks on both sides",
        ),
    ],
)
def test_reads_what_other_models_write(text: str, expected: list[Any]) -> None:
    result = found(text)
    assert (told(result), result.rejected, result.residual) == (expected, (), "")
    assert [call.repairs for call in result.calls] == [()] * len(expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('<invoke name="f" partnerLink="p"></invoke>', id="other attributes"),
        pytest.param('an <invoke name="f"/>', id="an empty element in a sentence"),
        pytest.param('<invoke name="f"/> is one', id="an empty element before words"),
        pytest.param('<invoke name="f"/></invoke>', id="an empty element before an end"),
        pytest.param('<invoke name="f">\n  <copy/>\n</invoke>', id="other elements"),
        pytest.param('<parameter name="a">1</parameter>', id="a parameter alone"),
        pytest.param("<function_calls>f(a=1) is not written</function_calls>", id="no call"),
    ],
)
def test_other_documents_are_prose(text: str) -> None:
    result = found(text, dialects=("invoke_tags",))
    assert (result.calls, result.rejected, result.residual) == ((), (), text)


def test_what_is_said_to_be_json_must_be() -> None:
    [rejected] = found(DSML.replace('"text"', "text")).rejected
    assert (rejected.code, rejected.message) == ("args_json", "'d': expected JSON, got 'text'")


def test_a_good_call_beside_a_bad_one_fires() -> None:
    bad = PING.replace("ping", "no name")
    result = found(within("function_calls", PING, bad, CALL))
    assert told(result) == [("ping", {}), ("write_file", ARGS)]
    assert [each.code for each in result.rejected] == ["missing_name"]


def test_the_closing_tag_of_another_parameter_ends_no_value() -> None:
    text = M3.replace("</a>", "</wrong>")
    assert [each.code for each in found(text).rejected] == ["malformed_block"]
    assert told(found(text)) == []


def test_writes_the_form_of_anthropic() -> None:
    written = DIALECTS["invoke_tags"].write("f", {"path": "a b", "n": 1, "text": "\nx\n"}, "")
    assert written == within(
        "function_calls",
        '<invoke name="f">',
        '<parameter name="path">a b</parameter>',
        '<parameter name="n">1</parameter>',
        '<parameter name="text">\n\nx\n\n</parameter>',
        "</invoke>",
    )
