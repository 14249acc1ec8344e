"""What models are told: complete, and safe to read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import Tool, corrections, extract, protocol, teach
from ksi_daemon.extraction.dialects import DIALECTS

KSI = protocol("ksi")
STATUS = Tool(
    "agent:status",
    "Say how you are.",
    {
        "type": "object",
        "properties": {"status": {"type": "string"}, "note": {"type": "string"}},
        "required": ["status"],
    },
    {"status": "ready"},
)
CREATE = Tool(
    "composition:create_component",
    "Write a component.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"enum": ["agent", "tool"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "content": {"type": "string", "description": "Its\ntext."},
        },
        "required": ["name", "kind"],
    },
    {"name": "a", "kind": "agent", "content": 'two lines\nand "quotes"'},
)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("dialects", [("ksi_tool_use", "event"), ("event",), ("ksi_tool_use",)])
def test_every_example_extracts(dialects: tuple[str, ...], compact: bool) -> None:
    settings = protocol("ksi", mode="strict", dialects=dialects)
    found = extract(teach(settings, [STATUS, CREATE], compact=compact), settings)
    assert found.rejected == ()
    assert {call.dialect for call in found.calls} == set(dialects)
    assert {call.name for call in found.calls} <= {STATUS.name, CREATE.name}


def test_teaches_both_methods_and_when_to_use_which() -> None:
    text = teach(KSI)
    methods = ["### Method 1", '"event"', "### Method 2", '"ksi_tool_use"', "Use method 2 when"]
    places = [text.index(part) for part in methods]
    assert places == sorted(places)
    for reason in ("more than one line", "special characters", "JSON within JSON"):
        assert reason in text


def test_lists_the_events_with_an_example_each() -> None:
    text = teach(KSI, [STATUS, CREATE])
    assert "**agent:status**: Say how you are." in text
    assert "- status (string, required)" in text
    assert '- kind ("agent" or "tool", required)' in text
    assert "- tags (list of string)" in text
    assert "- content (string): Its text." in text
    shown = extract(text[text.index("## Events that you may emit") :], KSI).calls
    assert [(call.dialect, call.name, call.args) for call in shown] == [
        ("event", STATUS.name, STATUS.example),
        ("ksi_body", CREATE.name, CREATE.example),
    ]


def test_compact_is_shorter() -> None:
    tools = [STATUS, CREATE] * 5
    assert len(teach(KSI, tools, compact=True)) < 0.8 * len(teach(KSI, tools))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("preset", ["prompt_tools", "text_tagged", "json_action", "command"])
def test_each_preset_teaches_its_own_dialect(preset: str, compact: bool) -> None:
    taught = protocol(preset, mode="lenient")
    found = extract(teach(taught, [STATUS, CREATE], compact=compact), taught)
    assert found.rejected == ()
    assert {call.dialect for call in found.calls} == {taught.dialects[0]}


def test_every_dialect_can_be_taught_alone() -> None:
    for name in DIALECTS:
        alone = protocol("any", dialects=(name,))
        found = extract(teach(alone, [STATUS]), alone)
        assert ({call.dialect for call in found.calls}, found.rejected) == ({name}, ())


def test_S003_6_prompted_tools_are_described_by_signature() -> None:
    example = '{"tool": "agent:status", "arguments": {"status": "ready"}}'
    assert teach(protocol("prompt_tools"), [STATUS]) == (
        "## Available Tools\n\n"
        "**agent:status**\nSay how you are.\nParameters:\n"
        "  - status (str) (required)\n  - note (str) (optional)\n"
        f"\nTo use: Output JSON in this format:\n{example}\n\n"
        "**Important:** To call a tool, output valid JSON with this structure:\n"
        f"{example}\n"
    )


def test_S003_12_no_tools_no_section() -> None:
    assert teach(protocol("prompt_tools")) == ""


def test_S004_22_tagged_tools_come_with_their_schema() -> None:
    text = teach(protocol("text_tagged"), [STATUS])
    assert "~~~tool_call\n" in text
    assert "**agent:status**: Say how you are." in text
    assert f"Arguments: {json.dumps(STATUS.schema)}" in text


def test_S004_25_tagged_tools_in_short() -> None:
    text = teach(protocol("text_tagged"), [STATUS], compact=True)
    assert "- agent:status(status: string, note?: string) — Say how you are." in text
    tools = [STATUS, CREATE] * 5
    full, short = (teach(protocol("text_tagged"), tools, compact=each) for each in (False, True))
    assert len(short) <= 0.8 * len(full)


def test_S000_40_the_action_form_states_its_rules_and_shows_both_shapes() -> None:
    text = teach(protocol("json_action"), [STATUS, CREATE])
    for rule in ("exactly one JSON object", "no Markdown", "no comments", "Never invent names"):
        assert rule in text
    action, final = (line for line in text.splitlines() if line.startswith("{"))
    assert [call.name for call in extract(action, protocol("json_action")).calls]
    assert extract(final, protocol("json_action")).final == {"status": "ok"}


def test_S000_41_42_the_action_form_lists_closed_schemas() -> None:
    text = teach(protocol("json_action"), [STATUS, CREATE])
    lines = [line.removeprefix("Arguments: ") for line in text.splitlines() if "Arguments" in line]
    assert [json.loads(line) for line in lines] == [
        {**tool.schema, "additionalProperties": False} for tool in (STATUS, CREATE)
    ]


def test_corrections_name_code_place_and_text() -> None:
    rejected = extract('{"event":"a:b","data":{"q":}}', KSI).rejected
    text = corrections(rejected)
    for part in ("malformed_block", "event", "expected a value, got '}' at line 1, column 28"):
        assert part in text
    assert corrections(()) == ""


pieces = st.sampled_from(
    [
        '{"event":"a:b",',
        '{"type":"ksi_tool_use",',
        "{'event': 'a:b', ",
        '"data":{"x":1}',
        "}",
        "\n",
        '"input":[]',
        "{event: 'a:b'}",
        "\\",
        '"',
        "x",
        "```",
        '{"event":"a:b","data":5}',
        '{"event":"a:b","data":{}}',
    ]
)


@given(st.lists(pieces, max_size=10).map("".join))
@settings(max_examples=300, deadline=None)
def test_nothing_in_corrections_extracts(text: str) -> None:
    again = extract(corrections(extract(text, KSI).rejected), KSI)
    assert (again.calls, again.rejected) == ((), ())
