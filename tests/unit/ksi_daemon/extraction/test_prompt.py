"""What models are told: complete, and safe to read back."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import PRESETS, Tool, augment, corrections, extract, protocol, teach
from ksi_daemon.extraction.dialects import DIALECTS
from tests.schemas import schemas

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


@pytest.mark.conformance
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


@pytest.mark.conformance
def test_S003_12_no_tools_no_section() -> None:
    assert teach(protocol("prompt_tools")) == ""


@pytest.mark.conformance
def test_S004_22_tagged_tools_come_with_their_schema() -> None:
    text = teach(protocol("text_tagged"), [STATUS])
    assert "~~~tool_call\n" in text
    assert "**agent:status**: Say how you are." in text
    assert f"Arguments: {json.dumps(STATUS.schema)}" in text


@pytest.mark.conformance
def test_S004_25_tagged_tools_in_short() -> None:
    text = teach(protocol("text_tagged"), [STATUS], compact=True)
    assert "- agent:status(status: string, note?: string) — Say how you are." in text
    tools = [STATUS, CREATE] * 5
    full, short = (teach(protocol("text_tagged"), tools, compact=each) for each in (False, True))
    assert len(short) <= 0.8 * len(full)


@pytest.mark.conformance
def test_S000_40_the_action_form_states_its_rules_and_shows_both_shapes() -> None:
    text = teach(protocol("json_action"), [STATUS, CREATE])
    for rule in ("exactly one JSON object", "no Markdown", "no comments", "Never invent names"):
        assert rule in text
    action, final = (line for line in text.splitlines() if line.startswith("{"))
    assert [call.name for call in extract(action, protocol("json_action")).calls]
    assert extract(final, protocol("json_action")).final == {"status": "ok"}


@pytest.mark.conformance
def test_S000_41_42_the_action_form_lists_closed_schemas() -> None:
    text = teach(protocol("json_action"), [STATUS, CREATE])
    lines = [line.removeprefix("Arguments: ") for line in text.splitlines() if "Arguments" in line]
    assert [json.loads(line) for line in lines] == [
        {**tool.schema, "additionalProperties": False} for tool in (STATUS, CREATE)
    ]


@pytest.mark.conformance
def test_S000_40_the_call_that_is_shown_is_one_of_the_tools() -> None:
    text = teach(protocol("json_action"), [CREATE])
    assert "read_file" not in text
    assert '"action": {"tool": "composition:create_component"' in text


LONG = Tool(
    "notes:save",
    "Keep a note.",
    {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "body": {"type": "string", "contentMediaType": "text/markdown"},
        },
        "required": ["title", "body"],
    },
)


def test_who_reads_no_dialect_teaches_none() -> None:
    assert teach(protocol("ksi", dialects=()), [STATUS]) == ""


def test_the_direct_form_is_not_taught_where_it_is_rejected() -> None:
    assert '"event"' not in teach(protocol("ksi", legacy_event="reject"), [STATUS])


@pytest.mark.parametrize("compact", [False, True])
def test_the_form_for_long_text_is_taught_to_those_who_need_it(compact: bool) -> None:
    assert "~~~ksi" not in teach(KSI, [STATUS], compact=compact)
    text = teach(KSI, [STATUS, LONG], compact=compact)
    assert "~~~ksi notes:save" in text
    assert "--- body\n" in text


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("preset", ["ksi", "prompt_tools", "text_tagged"])
def test_with_a_nonce_each_call_that_is_shown_carries_it(preset: str, compact: bool) -> None:
    taught = protocol(preset)
    text = teach(taught, [STATUS, LONG], compact=compact, nonce="ABCDE234")
    calls = extract(text, taught).calls
    assert calls
    assert {call.nonce for call in calls} == {"ABCDE234"}
    assert text.count("key of this turn" if not compact else "Key of this turn") == 1


@pytest.mark.parametrize("preset", list(PRESETS))
def test_without_a_nonce_nothing_is_said_of_one(preset: str) -> None:
    text = teach(protocol(preset), [STATUS, LONG])
    assert "key of this turn" not in text
    assert "_k" not in text


def test_where_a_dialect_has_no_place_for_a_nonce_none_is_told() -> None:
    assert "ABCDE234" not in teach(protocol("json_action"), [STATUS], nonce="ABCDE234")


@pytest.mark.parametrize("nonce", ["", "short", "ABCDEFG1", 'ABC"EFGH', "ABCDEFGHI"])
def test_a_nonce_that_is_none_is_refused(nonce: str) -> None:
    with pytest.raises(KsiError) as caught:
        teach(KSI, nonce=nonce)
    assert caught.value.code == "bad_nonce"


@pytest.mark.conformance
@pytest.mark.parametrize("preset", list(PRESETS))
def test_S004_22_23_24_a_prompt_is_augmented_once(preset: str) -> None:
    taught = protocol(preset)
    once = augment("Be helpful.\n", taught, [STATUS])
    assert once == f"Be helpful.\n\n{teach(taught, [STATUS])}"
    assert augment(once, taught, [STATUS]) == once
    for nothing in (None, "", "  \n"):
        assert augment(nothing, taught, [STATUS]) == teach(taught, [STATUS])


@pytest.mark.conformance
def test_S003_11_the_section_stands_behind_the_instructions() -> None:
    text = augment("Do it.", protocol("prompt_tools"), [STATUS])
    assert text.startswith("Do it.\n\n## Available Tools\n\n**agent:status**\n")


@pytest.mark.conformance
def test_S003_12_without_tools_the_prompt_stays_as_it_was() -> None:
    assert augment("Do it.\n", protocol("prompt_tools")) == "Do it.\n"


@pytest.mark.conformance
def test_S000_42_a_schema_that_cannot_be_closed_stays_open() -> None:
    schema = {"type": "object", "required": ["a"], "minProperties": 2}
    text = teach(protocol("json_action"), [Tool("a:b", "", schema, {"a": 1, "b": 2})])
    assert f"Arguments: {json.dumps(schema)}" in text


def test_a_tool_whose_example_does_not_fit_is_shown_another() -> None:
    tool = Tool(STATUS.name, "", STATUS.schema, {"status": 5})
    [*_, call] = extract(teach(KSI, [tool]), KSI).calls
    assert call.args == {"status": "text"}


def test_a_tool_without_a_possible_example_is_only_described() -> None:
    schema = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    for preset in PRESETS:
        text = teach(protocol(preset), [Tool("a:b", "Does b.", schema)])
        assert "Does b." in text
        assert "a:b" not in [call.name for call in extract(text, protocol(preset)).calls]


def test_a_tool_that_is_no_event_is_shown_as_a_tool_use() -> None:
    text = teach(KSI, [Tool("run", "", {"type": "object"})])
    assert {call.dialect for call in extract(text, KSI).calls if call.name == "run"} == {
        "ksi_tool_use"
    }
    assert '"event": "run"' not in text


LIMITS = [pytest.param(preset, (), id=preset) for preset in PRESETS] + [
    pytest.param("any", (name,), id=name) for name in DIALECTS
]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(("preset", "dialects"), LIMITS)
def test_each_preset_and_dialect_shows_a_call_of_the_tool(
    preset: str, dialects: tuple[str, ...], compact: bool
) -> None:
    taught = protocol(preset, mode="lenient", **({"dialects": dialects} if dialects else {}))
    shown = extract(teach(taught, [STATUS], compact=compact), taught).calls
    assert STATUS.name in {call.name for call in shown}


@pytest.mark.conformance
@pytest.mark.parametrize(("preset", "dialects"), LIMITS)
@given(schema=schemas(), compact=st.booleans(), nonce=st.sampled_from([None, "ABCDE234"]))
@settings(max_examples=12, deadline=None)
def test_S003_8_each_example_is_a_valid_call_of_its_tool(
    preset: str, dialects: tuple[str, ...], schema: dict[str, Any], compact: bool, nonce: str | None
) -> None:
    taught = protocol(preset, mode="lenient", **({"dialects": dialects} if dialects else {}))
    tool = Tool("notes:save", "Keep a note.", schema)
    text = teach(taught, [tool], compact=compact, nonce=nonce)
    found = extract(text, taught, tools={tool.name: schema})
    assert found.rejected == ()
    own = [call for call in found.calls if call.name == tool.name]
    # What stands for any call is shown only where there is none of the tool.
    assert own == list(found.calls) or not own
    for call in own:
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(call.args)
        assert call.repairs == ()


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
