from __future__ import annotations

from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import (
    PRESETS,
    Call,
    Diagnostic,
    Extractor,
    Protocol,
    Rejected,
    Text,
    extract,
    protocol,
)
from tests.growth import LINEAR, doubling
from tests.streaming import fed, streams_soundly, whole

EVENT: Final = '{"event":"a:b","data":{"x":"}{"}}'
USE: Final = '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":[1,{"y":2}]}}'
TAGGED: Final = '~~~tool_call\n{"name":"f","arguments":{"x":"~~~"}}\n~~~\n'
HERMES: Final = '<tool_call>\n{"name":"f","arguments":{"x":1}}\n</tool_call>'

# A reply may not begin in a thought here, or no call would be certain before the end.
OPEN: Final = {
    name: msgspec.structs.replace(preset, open_thought=False) for name, preset in PRESETS.items()
}


def at_ends(text: str, settings: Protocol) -> list[tuple[str, int]]:
    """Return what comes out of *text* a character at a time: its kind, and how much had come."""
    extractor = Extractor(settings)
    return [
        (type(each).__name__, place)
        for place, character in enumerate(text, start=1)
        for each in extractor.feed(character)
        if not isinstance(each, Text)
    ]


@pytest.mark.parametrize(
    ("preset", "text", "marked"),
    [
        pytest.param("ksi", f"So: {EVENT}|.", ["Call"], id="call before text"),
        pytest.param("ksi", f"So: {EVENT}\n\n|. More", ["Call"], id="call before a paragraph"),
        pytest.param("ksi", f"```json\n{USE}\n|```\n", ["Call"], id="call in a fence"),
        pytest.param("ksi", f"{EVENT}|{EVENT}|.", ["Call", "Call"], id="call behind a call"),
        pytest.param("ksi", f"a {{ b {EVENT}|.", ["Call"], id="behind a stray brace"),
        pytest.param("ksi", f'a "{{ {EVENT}|.', ["Call"], id="behind a stray quote and brace"),
        pytest.param("ksi", f'{{"a":1}} {{}} {EVENT}|.', ["Call"], id="behind data"),
        pytest.param(
            "ksi", '{"event":"a:b","data":{"x":1,}}\n\no|k', ["Call"], id="mended, with its line"
        ),
        pytest.param(
            "ksi", '{"event":"a:b","data":{"x" 1}}\nI|', ["Rejected"], id="broken, with its line"
        ),
        pytest.param("ksi", "```python\n" + EVENT + "\n|`", ["Diagnostic"], id="shown"),
        pytest.param("prompt_tools", '{"tool":"f","arguments":{}}.|', ["Call"], id="prompted"),
        pytest.param("text_tagged", TAGGED + "|", ["Call"], id="tagged, with its last line"),
        pytest.param("command", '@tool f {"x":1}\n|', ["Call"], id="command, with its line"),
        pytest.param("any", f"{HERMES}\n|and", ["Call"], id="between marks, with its line"),
    ],
)
def test_what_is_certain_comes_at_once(preset: str, text: str, marked: list[str]) -> None:
    """A bar stands where each outcome must have come, up to two characters before it at most."""
    pieces = text.split("|")
    found = at_ends("".join(pieces), OPEN[preset])
    assert [kind for kind, _ in found] == marked
    place = 0
    for (_, came), piece in zip(found, pieces, strict=False):
        place += len(piece)
        assert place - 2 <= came <= place + 1


@pytest.mark.parametrize(
    ("preset", "text"),
    [
        pytest.param("ksi", EVENT, id="a member may follow"),
        pytest.param("ksi", EVENT + "\n\n ", id="a member may follow the blanks"),
        pytest.param("ksi", EVENT + ',"', id="a member may have begun"),
        pytest.param("ksi", EVENT[:-1] + "\n and more text\n", id="bracket missing"),
        pytest.param("text_tagged", TAGGED[:-1], id="the closing line may go on"),
        pytest.param("text_tagged", TAGGED[:-5], id="the closing line is missing"),
        pytest.param("text_tagged", "~~~tool_call\nhm\n~~~\n", id="a dialect that is not sure"),
        pytest.param("command", '@tool f {"x":1}', id="the line may go on"),
        pytest.param("json_action", '{"action":{"tool":"f","args":{}}}\n', id="the whole reply"),
        pytest.param("any", f"Hm. {EVENT} Then.", id="the reply may have begun in a thought"),
    ],
)
def test_what_is_in_doubt_waits_for_the_end(preset: str, text: str) -> None:
    found, result = fed(text, PRESETS[preset], range(1, len(text)))
    assert [each for each in found if not isinstance(each, Text)] == []
    assert result == whole(text, PRESETS[preset])
    assert result.calls or result.rejected


def test_a_thought_that_was_opened_and_closed_leaves_no_doubt() -> None:
    text = f"<think>hm</think>\n{EVENT}."
    assert at_ends(text, PRESETS["any"]) == [("Call", len(text))]


def test_outcomes_come_in_the_order_of_the_text() -> None:
    text = f'Hi {EVENT} and {{"event":"a:b","data":[]}} then {USE}.'
    found, _ = fed(text, OPEN["ksi"], [])
    assert [(type(each), text[each.start : each.end]) for each in found] == [
        (Text, "Hi "),
        (Call, EVENT),
        (Text, " and "),
        (Rejected, '{"event":"a:b","data":[]}'),
        (Text, " then "),
        (Call, USE),
        (Text, "."),
    ]


def test_notes_come_with_their_block() -> None:
    found, _ = fed(f"```py\n{EVENT}\n```\n", OPEN["ksi"], [])
    assert [type(each) for each in found] == [Text, Diagnostic]


def test_ids_that_were_given_stay() -> None:
    extractor = Extractor(protocol("ksi"))
    [told] = [each for each in extractor.feed(f"{EVENT}. ") if isinstance(each, Call)]
    assert extractor.close().calls == (told,)


@pytest.mark.conformance
def test_S004_43_visible_text_has_no_markup() -> None:
    text = f"First\n{TAGGED}then ~~~tool_caller\nand\n~~~tool_call\n{{"
    found, result = fed(text, PRESETS["text_tagged"], range(1, len(text)))
    shown = "".join(each.text for each in found if isinstance(each, Text))
    assert shown == result.residual == "First\n\nthen ~~~tool_caller\nand\n"


def test_prose_comes_as_it_is_fed() -> None:
    extractor = Extractor(protocol("any"))
    pieces = ["It's ", "a fine", " day,\n", "isn't ", "it?"]
    assert [extractor.feed(each) for each in pieces] == [
        (Text("It's ", 0, 5),),
        (Text("a fine", 5, 11),),
        (Text(" day,\n", 11, 17),),
        (Text("isn't ", 17, 23),),
        (Text("it?", 23, 26),),
    ]


def test_close_gives_the_same_result_again_and_ends_the_text() -> None:
    extractor = Extractor(protocol("ksi"))
    extractor.feed(EVENT)
    assert extractor.close("stop") is extractor.close()
    with pytest.raises(ValueError, match="the text is closed"):
        extractor.feed("x")


def test_the_stop_reason_counts() -> None:
    text = EVENT[:-1]
    for reason, calls in (("stop", 1), ("length", 0), (None, 0)):
        _, result = fed(text, protocol("ksi"), range(1, len(text)), reason)
        assert len(result.calls) == calls


def test_the_schemas_of_tools_are_used() -> None:
    tools = {"f": {"properties": {"x": {"type": "string"}}}}
    text = "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>"
    extractor = Extractor(protocol("any"), tools=tools)
    for character in text:
        extractor.feed(character)
    [call] = extractor.close().calls
    assert call.args == {"x": "1"}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_text_that_is_too_long_is_refused_from_where_it_was_not_told(size: int) -> None:
    settings = protocol("ksi", max_reply_chars=100)
    text = f"Hi {EVENT}. " + "x" * 200
    found, result = fed(text, settings, range(size, len(text), size))
    [block] = result.rejected
    told = [each for each in found if isinstance(each, Call)]
    assert list(result.calls) == told
    assert len(told) == (size < 100)
    assert (block.code, block.end) == ("size_limit", len(text))
    assert block.start == max((each.end for each in found), default=0)
    assert result.residual == "".join(each.text for each in found if isinstance(each, Text))


@pytest.mark.parametrize(
    "block", [EVENT, '{"event":"a:b","data":{bad}}', TAGGED], ids=["calls", "broken", "tagged"]
)
def test_reading_ends_where_that_of_the_whole_text_does(block: str) -> None:
    text = f"{block}\n" * 1_200
    streams_soundly(text, OPEN["any"], range(0, len(text), 997))


def test_too_long_at_once_is_what_the_whole_text_gives() -> None:
    settings = protocol("ksi", max_reply_chars=100)
    text = EVENT * 10
    assert fed(text, settings, [])[1] == extract(text, settings)


GOLDEN: Final = [
    "",
    "x",
    "{",
    EVENT,
    f"a {EVENT} b {USE}\n",
    f"> {EVENT}\n```json\n{EVENT}\n```\n```py\n{EVENT}\n```\n{EVENT}",
    f"`{EVENT}` and `x` {EVENT}",
    f"<think>\n{EVENT}\n</think>{EVENT}",
    f"{EVENT}\n</think>\n{EVENT}",
    f'{EVENT}}}{EVENT[:-1]}\n{EVENT},"x":1}}',
    '{"event":"a:b","data":{"x":1,/* c */}}\n\n{"event":"a:b","data":{\'x\':True}}\n',
    '{"event":"a:b","data":{"x":"cut\n{"event":"c:d","data":{}}\nmore',
    '{"event":"a:b","data":{"x":"cut\\',
    '"event": "a:b", "data": {"x":1}}\n{"event" "a:b"}',
    f'{{"a":{EVENT}}} {{"a":1.5e+3,"b":nul}} {{ x }} {{}}',
    TAGGED + TAGGED + "~~~tool_caller\n~~~tool_result\nx\n~~~\n",
    "~~~tool_call\r\n{}\r\n~~~\r\n~~~~tool_call\n{\n~~~\n~~~~\nx",
    'a\n  @tool f\n@tool f {"x":[1]}\n@tool users like it\n@tool f {x}\n',
    f'{HERMES}\n{HERMES} a <tool_call> b\n[TOOL_CALLS] [{{"name":"f","arguments":{{}}}}] c',
    "~~~ksi a:b id=ksiu_1\n{}\n--- x\nraw {\n~~~\nafter\n~~~ksi a:b\n{}\n~~~\n",
    "<function=f>\n<parameter=x>\n{\n</parameter>\n</function>\nand\n<function=g></function>",
    '[f(a=1), g(b="]")]\nThought: x\nAction: f\nAction Input: {"x": 1}\nObservation: y\n',
    "<|channel|>analysis<|message|>hm<|end|><|channel|>commentary to=functions.f"
    ' <|constrain|>json<|message|>{"x":1}<|call|>',
    '{"event":"a:b","data":{"x":"{"c":""\n```\n\\"x\n{"event":"a:b","data":{"x":"unclosed\n","e',
    '{"thought":"t","action":{"tool":"f","args":{}}}',
    '{"final":{"content":1}}',
]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("text", GOLDEN)
def test_any_split_gives_what_the_whole_text_gives(text: str, preset: str, mode: str) -> None:
    for thought in (True, False):
        chosen = protocol(preset, mode=mode, open_thought=thought)
        streams_soundly(text, chosen, range(1, len(text)))
        for place in range(1, len(text)):
            streams_soundly(text, chosen, [place], "stop")


_SCRAPS: Final = st.sampled_from(
    [
        *GOLDEN,
        *'{}[]":,\\`~<>\n /*',
        "\n\n",
        "text ",
        "```\n",
        "```json\n",
        "~~~",
        "'",
        "\\'",
        '"k": 1',
        '"event": ',
        '{"event": "a:b", "data": {"x": ',
        '{"event":"a:b","data":{"x":"',
        "}}",
        ",}",
        '",',
        "tool_call",
        "@tool ",
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "[f(",
        "Action: ",
        "\r\n",
        "1.",
        "-",
        "nul",
        "é",
        "\u2028",
        "\ud800",
    ]
)


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(_SCRAPS, max_size=10).map("".join),
    data=st.data(),
    mode=st.sampled_from(["lenient", "strict"]),
    repair=st.sampled_from(["on", "off"]),
    descend=st.booleans(),
    open_thought=st.booleans(),
    stop=st.sampled_from([None, "stop", "length"]),
)
def test_scraps_of_calls_in_any_pieces_give_what_the_whole_text_gives(
    preset: str,
    text: str,
    data: st.DataObject,
    mode: str,
    repair: str,
    descend: bool,
    open_thought: bool,
    stop: str | None,
) -> None:
    chosen = protocol(preset, mode=mode, repair=repair, descend=descend, open_thought=open_thought)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5).map(sorted))
    streams_soundly(text, chosen, cuts, stop)
    streams_soundly(text, chosen, range(1, len(text)), stop)


UNITS: Final = [
    "x",
    "x\n",
    " ",
    "{",
    "{ ",
    '"',
    "`",
    "~",
    "\\",
    "[",
    "<",
    "{}",
    '{"a":',
    '{"a":1}',
    '{"event":"',
    '{"event":"a:b",',
    '{"event":"a:b","data":{"x":1,}}\n',
    '{"event":"a:b","data":{"x":"}\n',
    EVENT,
    "```\n",
    "> ",
    "<think>\n",
    "</think>\n",
    TAGGED,
    "~~~tool_call\n",
    "~~~ksi a:b\n",
    "@tool a ",
    HERMES,
    "<tool_call>",
    "[TOOL_CALLS]",
    "<function=f>",
    "<parameter=a>",
    "[f(",
    "[f(a='",
    "Action: f\n",
    "<|channel|>",
]


@pytest.mark.parametrize("preset", ["ksi", "text_tagged", "any"])
@pytest.mark.parametrize("unit", UNITS)
def test_a_character_at_a_time_costs_twice_for_twice_the_length(unit: str, preset: str) -> None:
    def cost(size: int) -> None:
        extractor = Extractor(OPEN[preset])
        for character in (unit * (size // len(unit) + 1))[:size]:
            extractor.feed(character)
        extractor.close()

    assert doubling(cost, 8_000) < LINEAR


def test_the_text_of_what_is_over_is_dropped() -> None:
    extractor = Extractor(OPEN["any"])
    for _ in range(2_000):
        extractor.feed("Some words in a line.\n")
        extractor.feed(f"{EVENT} and so on.\n")
        assert extractor.kept < 20_000
