"""The one-line form."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol
from ksi_daemon.extraction.dialects.command import CommandDialect


def found(text: str, mode: str = "lenient") -> Extraction:
    return extract(text, protocol("command", mode=mode))


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        pytest.param('@tool echo {"text":"hi"}', "echo", {"text": "hi"}, id="object"),
        pytest.param("@tool ping", "ping", {}, id="nothing"),
        pytest.param("hello\n@tool ping\nbye", "ping", {}, id="between lines"),
        pytest.param(
            '  @tool k.m.v1.s {"q":{"t":"e"}}\r\n', "k.m.v1.s", {"q": {"t": "e"}}, id="dots"
        ),
        pytest.param(r'@tool a:b {"t":"a } \"q\" { b"}', "a:b", {"t": 'a } "q" { b'}, id="braces"),
        pytest.param('@tool echo {"a":\n1}\n', "echo", {"a": 1}, id="two lines"),
        pytest.param('@tool echo: {"a":1}', "echo", {"a": 1}, id="colon"),
        pytest.param('@tool a:b: {"a":1}\n', "a:b", {"a": 1}, id="colon behind an event"),
        pytest.param('@tool echo({"a":1})', "echo", {"a": 1}, id="parentheses"),
        pytest.param('@tool echo( {"a":\n1} ) \n', "echo", {"a": 1}, id="in several lines"),
        pytest.param("@tool ping()\n", "ping", {}, id="empty parentheses"),
    ],
)
def test_reads(text: str, name: str, args: dict[str, Any]) -> None:
    read = found(text)
    assert [(call.name, call.args) for call in read.calls] == [(name, args)]
    assert (read.rejected, read.residual.strip()) == ((), "hello\n\nbye" if "bye" in text else "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("@tool echo {text:hi}", "args_json", id="no JSON"),
        pytest.param('@tool echo {"text":"hi\n@tool', "args_json", id="open string"),
        pytest.param('@tool echo {"text":"hi', "unterminated_block", id="cut off"),
        pytest.param("@tool echo [1]", "args_type", id="array"),
        pytest.param('@tool echo {"a":1} please', "extra_text", id="text behind"),
        pytest.param("@tool echo(a=1)", "args_type", id="keywords in parentheses"),
        pytest.param('@tool echo({"a":1}', "malformed_block", id="open parenthesis"),
        pytest.param('@tool echo({"a":1}) now', "extra_text", id="text behind parentheses"),
        pytest.param("@tool ping() now", "extra_text", id="text behind empty parentheses"),
        pytest.param('@tool echo({"a":', "unterminated_block", id="cut off in parentheses"),
        pytest.param('@tool echo {"a":NaN}', "malformed_block", id="NaN"),
    ],
)
def test_says_what_is_wrong(text: str, code: str) -> None:
    read = found(text)
    assert ([block.code for block in read.rejected], read.calls) == ([code], ())
    assert read.residual in ("", "\n@tool")


@pytest.mark.parametrize(
    "text",
    [
        'use @tool echo {"text":"x"} please',
        "@tool users like it",
        "@tool\ndef f(): ...",
        "@tools ping",
        "@tool é",
        "@tool ping: it works",
        "@tool ping(s) are fine",
        "@tool ping(",
        "```python\n@tool ping\n```",
    ],
)
def test_prose_stays_prose(text: str) -> None:
    read = found(text)
    assert (read.residual, read.calls, read.rejected) == (text, (), ())


def test_S000_34_strict_wants_one_line() -> None:
    assert [b.code for b in found('@tool echo {"a":\n1}', "strict").rejected] == ["malformed_block"]


@pytest.mark.parametrize("text", ['@tool echo: {"a":1}', '@tool echo({"a":1})', "@tool ping()"])
def test_strict_wants_nothing_but_the_object(text: str) -> None:
    assert [block.code for block in found(text, "strict").rejected] == ["malformed_block"]


@pytest.mark.parametrize(
    ("args", "text"), [({}, "@tool ping"), ({"x": "é"}, '@tool ping {"x": "é"}')]
)
def test_writes(args: dict[str, Any], text: str) -> None:
    assert CommandDialect().write("ping", args, "") == text
