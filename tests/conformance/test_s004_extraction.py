"""Source 004 where it needs no daemon: calls between lines of tildes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.extraction import Extraction, extract, protocol

pytestmark = pytest.mark.conformance

T = "~~~"
FENCE = "```"
READ = '{"name": "read_file", "arguments": {"path": "/tmp/foo"}}'
LIST = '{"name": "list_files", "arguments": {}}'
FOO = ("read_file", {"path": "/tmp/foo"})


def block(body: str = READ, tildes: str = T) -> str:
    return f"{tildes}tool_call\n{body}\n{tildes}"


def read(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    return extract(text, protocol("text_tagged", **overrides), stop_reason=stop_reason)


def calls(text: str, **overrides: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in read(text, **overrides).calls]


def codes(text: str, **overrides: Any) -> list[str]:
    return [rejected.code for rejected in read(text, **overrides).rejected]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_S004_5_a_block(mode: str) -> None:
    assert calls(block(), mode=mode) == [FOO]


def test_S004_6_several_blocks() -> None:
    result = read(f"One\n{block()}\nand two\n{block(LIST)}\nend")
    assert [call.name for call in result.calls] == ["read_file", "list_files"]
    assert result.residual == "One\n\nand two\n\nend"


def test_S004_7_the_id_is_optional() -> None:
    [first, second] = read(f"{block()}\n{block(LIST)}").calls
    assert (first.id_generated, second.id_generated) == (True, True)
    assert first.id != second.id
    [kept] = read(block('{"name": "ping", "id": "x"}')).calls
    assert (kept.id, kept.id_generated) == ("x", False)


def test_S004_8_the_opening_fence_is_alone() -> None:
    text = f"please {block()}"
    assert (calls(text), codes(text)) == ([], ["fence_not_alone"])


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_S004_9_the_closing_fence_is_alone(mode: str) -> None:
    text = f"{T}tool_call\n{READ}\n{T} thanks"
    assert (calls(text, mode=mode), codes(text, mode=mode)) == ([], ["fence_not_alone"])


@pytest.mark.parametrize(
    "text",
    [
        f"{T}tool_call  \t\n{READ}\n{T} \t",
        f"{T}tool_call\r\n{READ}\r\n{T}\r\n",
        f"   {T}tool_call\n   {READ}\n   {T}",
        f" {T}tool_call\n{READ}\n  {T}",
    ],
    ids=["blanks behind", "CR LF", "three spaces", "uneven"],
)
def test_S004_10_blanks_around_fences(text: str) -> None:
    assert calls(text, mode="strict") == [FOO]
    assert calls(text) == [FOO]


def test_S004_10_an_indented_block() -> None:
    text = f"    {T}tool_call\n    {READ}\n    {T}"
    assert (calls(text), calls(text, mode="strict")) == ([FOO], [])


def test_S004_11_longer_fences() -> None:
    content = json.dumps({"name": "w", "arguments": {"c": f"a\n{T}\nb"}})
    assert calls(block(content, T + T)) == [("w", {"c": f"a\n{T}\nb"})]
    assert calls(f"{T}~tool_call\n{READ}\n{T}~~~") == [FOO]
    assert calls(f"{T}~tool_call\n{READ}\n{T}") == []


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_S004_12_malformed_json(mode: str) -> None:
    assert (calls(block("{bad"), mode=mode), codes(block("{bad"), mode=mode)) == (
        [],
        ["malformed_block"],
    )


def test_S004_13_other_blocks_still_run() -> None:
    text = f"{block('{bad')}\n{block()}\n{block('nonsense')}\n{block(LIST)}"
    assert [name for name, _ in calls(text)] == ["read_file", "list_files"]
    assert codes(text) == ["malformed_block", "malformed_block"]


def test_S004_14_unterminated_at_the_end() -> None:
    text = f"{T}tool_call\n{READ}"
    [call] = read(text).calls
    assert ((call.name, call.args), call.repairs) == (FOO, ("missing_closer",))
    assert codes(text, mode="strict") == ["unterminated_block"]


def test_S004_15_an_unclosed_block_and_another() -> None:
    text = f"{T}tool_call\n{READ}\n\n{block(LIST)}"
    assert [name for name, _ in calls(text)] == ["read_file", "list_files"]


def test_S004_16_an_empty_block() -> None:
    text = f"{T}tool_call\n{T}"
    assert (calls(text), codes(text)) == ([], ["empty_block"])


def test_S004_17_tildes_in_content() -> None:
    escaped = json.dumps({"name": "w", "arguments": {"c": f"\n{T}\n"}})
    assert calls(block(escaped), mode="strict") == [("w", {"c": f"\n{T}\n"})]
    [call] = read(block(escaped.replace(r"\n", "\n"))).calls
    assert (call.args, call.repairs) == ({"c": f"\n{T}\n"}, ("control_character",))


def test_S004_18_two_objects_in_one_block() -> None:
    text = block(f"{READ}\n{LIST}")
    assert (calls(text, mode="strict"), codes(text, mode="strict")) == ([], ["malformed_block"])
    assert (calls(text), codes(text)) == ([FOO], ["malformed_block"])


def test_S004_19_a_block_in_one_line() -> None:
    text = f"{T}tool_call {READ} {T}"
    assert (calls(text), codes(text)) == ([], ["fence_not_alone"])


@pytest.mark.parametrize("inner", [f"{T}json\n{{}}\n{T}", f"{FENCE}\nx\n{FENCE}", block()])
def test_S004_20_fences_in_arguments(inner: str) -> None:
    body = json.dumps({"name": "w", "arguments": {"c": inner}})
    assert calls(block(body)) == [("w", {"c": inner})]


@pytest.mark.parametrize("name", ["", '"name": "",', '"name": 5,'], ids=["no", "empty", "number"])
def test_S004_21_missing_name(name: str) -> None:
    text = block(f'{{{name} "arguments": {{}}}}')
    assert (calls(text), codes(text)) == ([], ["missing_name"])


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        pytest.param('{"path": "/tmp/foo"}', {"path": "/tmp/foo"}, id="S004-31 object"),
        pytest.param('"{\\"path\\": 1}"', {"path": 1}, id="S004-32 text"),
        pytest.param('" {\\"a\\": 1}\\n"', {"a": 1}, id="S004-32 text and blanks"),
        pytest.param('""', {}, id="S004-33 empty"),
        pytest.param('"  \\n"', {}, id="S004-33 blank"),
        pytest.param("null", {}, id="S004-33 null"),
    ],
)
def test_S004_31_32_33_arguments(arguments: str, args: dict[str, Any]) -> None:
    assert calls(block(f'{{"name": "r", "arguments": {arguments}}}')) == [("r", args)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param("[1]", "args_type", id="array"),
        pytest.param("1", "args_type", id="number"),
        pytest.param("true", "args_type", id="boolean"),
        pytest.param('"[1]"', "args_type", id="array as text"),
        pytest.param('"3"', "args_type", id="number as text"),
        pytest.param('"{bad"', "args_json", id="broken text"),
    ],
)
def test_S004_32_34_other_arguments(arguments: str, code: str) -> None:
    text = f'{block(f"""{{"name": "r", "arguments": {arguments}}}""")}\n{block()}'
    assert (calls(text), codes(text)) == ([FOO], [code])


@pytest.mark.parametrize("text", [f"{T}tool_caller\n{READ}\n{T}", f"the {T}tool_call fence"])
def test_S004_43_other_labels_are_visible(text: str) -> None:
    assert read(text) == Extraction(text)


def test_S004_43_the_visible_text_has_no_markup() -> None:
    result = read(f"Before\n{block()}\nbetween\n{T}tool_call\n{{bad")
    assert result.residual.split() == ["Before", "between"]
