"""GLM and Hunyuan."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS

CODE = 'def f(x):\n    return {"a": x}  # <b> x\n'
GLM = (
    "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n"
    f"<arg_key>content</arg_key>\n<arg_value>{CODE}</arg_value>\n</tool_call>"
)
WRITTEN = ("write_file", {"path": "a.py", "content": CODE})


def found(text: str, **overrides: Any) -> Extraction:
    return extract(text, protocol("any", **overrides))


def told(result: Extraction) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in result.calls]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GLM, id="GLM 4.5"),
        pytest.param(GLM.replace(">\n<", "><").replace("file\n", "file"), id="GLM 4.7"),
        pytest.param(
            f"<tool_calls>{GLM.replace('file', 'file<tool_sep>', 1)}</tool_calls>", id="Hunyuan"
        ),
    ],
)
def test_reads_a_call(text: str, mode: str) -> None:
    result = found(f"Now: {text} done", mode=mode)
    assert (told(result), result.rejected, result.residual) == ([WRITTEN], (), "Now:  done")
    assert result.calls[0].repairs == ()


@pytest.mark.parametrize(
    ("text", "expected", "residual"),
    [
        pytest.param("<tool_call>ping</tool_call>", [("ping", {})], "", id="no arguments"),
        pytest.param(
            "So.\n<tool_call>ping\n</tool_call>\nOk.", [("ping", {})], "So.\n\nOk.", id="on lines"
        ),
        pytest.param(
            "</think><tool_call>ping</tool_call>", [("ping", {})], "</think>", id="behind a tag"
        ),
        pytest.param(
            "<tool_calls><tool_call>a<tool_sep></tool_call><tool_call>b<tool_sep></tool_call></tool_calls>",
            [("a", {}), ("b", {})],
            "",
            id="two in a wrapper",
        ),
        pytest.param(
            r"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>[{\"b\": 1}]</arg_value></tool_call>",
            [("f", {"a": [{"b": 1}]})],
            "",
            id="printed by a program",
        ),
        pytest.param(
            "Write <tool_call>name</tool_call> to call.",
            [],
            "Write <tool_call>name</tool_call> to call.",
            id="talk",
        ),
        pytest.param("<tool_call></tool_call>", [], "<tool_call></tool_call>", id="tags alone"),
        pytest.param(
            "<tool_call>two words</tool_call>", [], "<tool_call>two words</tool_call>", id="words"
        ),
    ],
)
def test_what_is_a_call(text: str, expected: list[Any], residual: str) -> None:
    result = found(text, dialects=("argument_tags",))
    assert (told(result), result.residual, result.rejected) == (expected, residual, ())


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        pytest.param(
            "<tool_call><arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
            "missing_name",
            "the tag must name a tool, got ''",
            id="no name",
        ),
        pytest.param(
            "<tool_call>f<arg_key>a</arg_key><arg_key>b</arg_key><arg_value>1</arg_value></tool_call>",
            "malformed_block",
            "expected a parameter or the end of the call, got '<arg_key>a</arg_key>' "
            "at line 1, column 13 of the block",
            id="a key without a value",
        ),
        pytest.param(
            "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>on",
            "unterminated_block",
            "the reply ends in the value of 'a', which has no closing tag",
            id="cut off in a value",
        ),
        pytest.param(
            "<tool_call>f\n<arg_key>a</arg_key>\n",
            "unterminated_block",
            "the reply ends within the call",
            id="cut off behind a key",
        ),
    ],
)
def test_what_looks_like_a_call_and_is_none_is_refused(text: str, code: str, message: str) -> None:
    [rejected] = found(text).rejected
    assert (rejected.code, rejected.message, rejected.dialect) == (code, message, "argument_tags")


def test_writes_what_the_models_template_writes() -> None:
    assert DIALECTS["argument_tags"].write("f", {"path": "a b", "n": 1}, "") == (
        "<tool_call>f\n<arg_key>path</arg_key>\n<arg_value>a b</arg_value>\n"
        "<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
    )
