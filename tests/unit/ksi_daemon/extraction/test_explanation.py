"""Explanations: of the same reading that calls fire by, with a rule for everything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ksi_daemon.extraction
from ksi_daemon.extraction import PRESETS, Call, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.explanation import RULES, explain, findings_json, recognise
from tests.growth import LINEAR, doubling

EVENT = '{"event": "a:b", "data": {"x": 1}}'
TOOL = '{"type": "ksi_tool_use", "id": "ksiu_1", "name": "a:b", "input": {}}'
OTHER = TOOL.replace("{}", '{"x": 1}')
HERMES = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
PACKAGE = Path(ksi_daemon.extraction.__file__).parent


def seen(text: str, preset: str = "ksi", **settings: Any) -> list[tuple[str, str, int]]:
    """Return of each finding its kind, its name or code, and where it begins."""
    found = explain(text, protocol(preset, **settings)).findings
    return [
        (
            each.kind,
            each.outcome.name if isinstance(each.outcome, Call) else each.outcome.code,
            each.outcome.start,
        )
        for each in found
    ]


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        pytest.param("prose { and } braces", [], id="prose"),
        pytest.param(f"{EVENT} {TOOL}", [("call", "a:b", 0), ("call", "a:b", 35)], id="calls"),
        pytest.param(f"> {EVENT}", [("shown", "shown", 2)], id="quoted"),
        pytest.param(f"```python\n{EVENT}\n```", [("shown", "shown", 10)], id="fenced"),
        pytest.param(
            f'{{"list": [{EVENT}]}}', [("inner", "nested_call", 0)], id="within other data"
        ),
        pytest.param(HERMES, [("unread", "a", 0)], id="another preset's"),
        pytest.param(EVENT[:-1], [("rejected", "unterminated_block", 0)], id="broken"),
        pytest.param(
            f"{TOOL} {OTHER}",
            [("call", "a:b", 0), ("call", "a:b", 69), ("note", "duplicate_id", 69)],
            id="a note",
        ),
        pytest.param(
            '{"event": "a:b", "data": {"t": "{\\"event\\": \\"c:d\\"}"}}',
            [("call", "a:b", 0), ("inner", "c:d", 0)],
            id="within a string of a call",
        ),
        pytest.param(
            '{"t": "{\\"event\\": \\"c:d\\"}"}', [("inner", "c:d", 0)], id="within a string of data"
        ),
    ],
)
def test_what_is_seen(text: str, findings: list[tuple[str, str, int]]) -> None:
    assert seen(text) == findings


def test_it_is_told_in_what_an_inner_call_stands() -> None:
    inner = '"t": "{\\"event\\": \\"c:d\\"}"'
    for text, rule in (
        (f'{{"event": "a:b", "data": {{{inner}}}}}', "Only the outermost call runs"),
        (f"{{{inner}}}", "Data that holds a call is data."),
    ):
        last = explain(text, protocol("ksi")).findings[-1]
        assert (last.kind, last.rule.startswith(rule)) == ("inner", True)


def test_a_block_that_two_dialects_know_is_one_finding() -> None:
    assert seen(HERMES, "any") == [("call", "a", 0)]


def test_what_has_its_finding_is_not_told_as_unread() -> None:
    text = '{"event": "a:b", "data": {"tool": "x", "arguments": {}}}'
    assert seen(text, "prompt_tools") == [("inner", "nested_call", 0)]


def test_a_repair_is_told_with_its_place() -> None:
    text = 'So {"event": "a:b", "data": {"x": True,}}'
    [finding] = explain(text, protocol("ksi")).findings
    assert [(edit.name, text[edit.start : edit.end], edit.text) for edit in finding.edits] == [
        ("python_literal", "True", "true"),
        ("trailing_comma", ",", ""),
    ]


def test_as_json_with_lines_and_columns() -> None:
    text = f"a\n\n b {EVENT}"
    [found] = findings_json(text, explain(text, protocol("ksi")))
    assert {key: found[key] for key in ("kind", "line", "column", "name", "dialect", "start")} == {
        "kind": "call",
        "line": 3,
        "column": 4,
        "name": "a:b",
        "dialect": "event",
        "start": 6,
    }
    assert found["rule"].startswith("The direct form: ")


def test_every_code_has_a_rule() -> None:
    """The codes are the literals that stand where faults and notes are made."""
    made = re.compile(
        r'(?:Fault|_reject|_note|_refuse_odd|_refused?)\(\s*(?:[a-z_]+, )*"([a-z_]+)"'
    )
    pairs = re.compile(r'\(\("([a-z_]+)", f?"')
    codes = {
        code
        for path in PACKAGE.rglob("*.py")
        if path.name not in ("examples.py", "schemas.py")
        for pattern in (made, pairs)
        for code in pattern.findall(path.read_text("utf-8"))
    }
    assert {"malformed_block", "id_generated", "nested_call"} <= codes
    assert codes - {*RULES} == set()


@pytest.mark.parametrize("name", list(DIALECTS))
def test_the_form_of_each_dialect_is_told_in_a_sentence(name: str) -> None:
    text = DIALECTS[name].write("a:b", {"x": 1}, "ksiu_1")
    [finding] = [
        each
        for each in explain(text, protocol("any", dialects=(name,))).findings
        if each.kind == "call"
    ]
    assert 20 < len(finding.rule) < 200
    assert finding.rule.endswith(".")


PIECES = st.sampled_from(
    [
        EVENT,
        TOOL,
        HERMES,
        EVENT[:-1],
        "\n",
        "```",
        "```python\n",
        "> ",
        "{",
        '"',
        "prose ",
        '{"a": ',
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from([*PRESETS]))
@settings(max_examples=150, deadline=None)
def test_an_explanation_is_of_the_same_reading(text: str, preset: str) -> None:
    expected = extract(text, protocol(preset))
    found = explain(text, protocol(preset))
    told = [each.outcome for each in found.findings if each.kind == "call"]
    assert [(call.name, call.span) for call in told if isinstance(call, Call)] == [
        (call.name, call.span) for call in expected.calls
    ]
    assert [each.outcome for each in found.findings if each.kind == "rejected"] == list(
        expected.rejected
    )
    assert len(findings_json(text, found)) == len(found.findings)


@pytest.mark.parametrize(
    ("text", "preset", "dialects"),
    [
        pytest.param(EVENT, "ksi", {"event": 1}, id="event"),
        pytest.param(f"{EVENT}\n{TOOL}", "ksi", {"event": 1, "ksi_tool_use": 1}, id="both"),
        pytest.param(HERMES, "any", {"headed": 1}, id="headed"),
        pytest.param(f"{EVENT}\n{HERMES}", "any", {"event": 1, "headed": 1}, id="mixed"),
        pytest.param(
            '{"tool": "a", "arguments": {}}', "prompt_tools", {"prompt_json": 1}, id="prompted"
        ),
        pytest.param(
            '{"action": {"tool": "a", "args": {}}}', "json_action", {"json_action": 1}, id="action"
        ),
        pytest.param('{"final": {"content": null}}', "json_action", {"json_action": 1}, id="final"),
        pytest.param(
            'So: {"action": {"tool": "a", "args": {}}}',
            "any",
            {"json_action": 1},
            id="an action that is not alone",
        ),
        pytest.param(
            'So: {"final": {"content": 1}}',
            "any",
            {"json_action": 1},
            id="a final that is not alone",
        ),
        pytest.param("@tool a {}", "command", {"command": 1}, id="command"),
        pytest.param(
            '~~~tool_call\n{"name": "a", "arguments": {}}\n~~~',
            "text_tagged",
            {"text_tagged": 1},
            id="tagged",
        ),
        pytest.param("Nothing { here }.", "ksi", {}, id="prose"),
        pytest.param("@tool a [1]", "command", {}, id="a broken one"),
    ],
)
def test_recognises(text: str, preset: str, dialects: dict[str, int]) -> None:
    found = recognise(text)
    assert (found.preset, found.dialects) == (preset, dialects)


def test_recognises_under_settings() -> None:
    text = EVENT.replace("1}", "1,}")
    assert recognise(text).dialects == {"event": 1}
    assert recognise(text, mode="strict").dialects == {}


@pytest.mark.parametrize("unit", [f"{EVENT}\n", f"> {EVENT}\n", '{"event": "a:b",', HERMES])
def test_explaining_is_linear(unit: str) -> None:
    def cost(size: int) -> None:
        explain(unit * size, protocol("ksi"))

    assert doubling(cost, 500) < LINEAR
