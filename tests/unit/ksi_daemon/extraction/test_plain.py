"""What a glance takes of a reply, where it leaves, and that a closer look finds the same."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ksi_daemon.extraction import PRESETS, Extraction, Protocol, extract, protocol
from ksi_daemon.extraction.extractor import read_closely
from ksi_daemon.extraction.plain import read_plain
from tests.growth import LINEAR, doubling, repeated

KSI, ANY = protocol("ksi"), protocol("any")
EVENT = '{"event": "a:b", "data": {"x": 1}}'
USE = '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":1}}'
PRETTY = json.dumps(json.loads(EVENT), indent=2)
INDENTED = PRETTY.replace("\n", "\n   ")


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"ksiu_g{next(numbers)}"


def taken(text: str, known: Protocol = KSI) -> str:
    """Say how much of *text* is taken at a glance: "all", or so many calls."""
    found = read_plain(text, known, counted())
    return "all" if isinstance(found, Extraction) else str(len(found))


def agree(text: str, known: Protocol, stop: str | None = None) -> bool:
    """Say whether a glance, and what follows it, finds what a closer look finds."""
    glanced = extract(text, known, stop_reason=stop, new_id=counted())
    return glanced == read_closely(text, known, stop, None, counted())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("No call in sight: 3 > 2, [x].", id="prose"),
        pytest.param(EVENT, id="a call alone"),
        pytest.param(f"Now.\n\n{EVENT}\n\nAnd {USE}\nDone.", id="calls on lines"),
        pytest.param(f"Here: {EVENT} and so on", id="a call within a line"),
        pytest.param(f"```json\n{PRETTY}\n```\n\n```json\n{EVENT}\n```\n", id="in fences"),
        pytest.param(f"1. this:\n\n   {INDENTED}\n", id="written on several lines"),
        pytest.param(f"As `said`, a -> b, [x]:\n{EVENT}\n", id="behind code, arrows, brackets"),
        pytest.param(f'I "do" this.\n{EVENT}\n"Done".', id="among quotes"),
        pytest.param('{"event":"a:b","data":{"s":"\\u00e9 \\" {\\\\"}}', id="escapes"),
        pytest.param('{"data":{"s":"~~~ksi a:b <think>"},"event":"a:b"}', id="marks in a string"),
    ],
)
def test_takes_what_is_plain(text: str) -> None:
    assert (taken(text), agree(text, KSI)) == ("all", True)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param(f"{EVENT}\n{EVENT[:-1]}", "1", id="a call that breaks"),
        pytest.param(f"{EVENT}\n~~~ksi a:b\n{{}}\n~~~", "1", id="a block between marks"),
        pytest.param(f"{EVENT}\n```python\n{EVENT}\n```", "1", id="a fence of code"),
        pytest.param(f"{EVENT}\n> {EVENT}", "1", id="a block quote"),
        pytest.param(
            f"`x`\n```json\n{EVENT}\n```\n\n{EVENT}\n````python\n```\n{EVENT}",
            "2",
            id="a longer fence behind plain ones",
        ),
        pytest.param(f"<think>\n{EVENT}\n</think>\n{EVENT}", "0", id="a thought"),
        pytest.param(f"so `{EVENT}`", "0", id="code within a line"),
        pytest.param(f"{EVENT}}}", "0", id="a brace too many"),
        pytest.param(f'{EVENT}, "y": 1}}', "0", id="a member behind it"),
        pytest.param(f'"event": "a:b", "data": {EVENT}', "0", id="a call without its brace"),
        pytest.param(f'{EVENT}\n{{"a": 1}}', "1", id="data"),
        pytest.param(f"{USE}\n{USE}", "1", id="an id for the second time"),
        pytest.param('{"event":"a:b","data":{"x":1,"x":2}}', "0", id="a repeated key"),
        pytest.param(
            '{"event":"a:b","data":{"a":"","b":"\\u0022\\u0022","a":""}}',
            "0",
            id="a repeated key behind escaped quotes",
        ),
        pytest.param('{"event":"a:b","data":{"s":"\\ud800"}}', "0", id="half a surrogate pair"),
        pytest.param('{"event":"a:b","data":{"s":"\ud800"}}', "0", id="half a pair as it is"),
        pytest.param('{"event":"a:b","data":{"x":1e400}}', "0", id="a number out of range"),
        pytest.param('{"event":"a:b","data":{"x":NaN}}', "0", id="no number"),
        pytest.param('{"event":"a:b","data":[[[[[[[]]]]]]]}', "0", id="deep data"),
        pytest.param('{"event":"a:b","data":{},"note":1}', "0", id="a field that is not known"),
        pytest.param('{"event":"a:b"}', "all", id="no data"),
    ],
)
def test_leaves_the_rest_to_a_closer_look(text: str, calls: str) -> None:
    assert (taken(text), agree(text, KSI)) == (calls, True)


@pytest.mark.parametrize(
    ("settings", "calls"),
    [
        pytest.param({"max_calls": 1}, "1", id="a limit of calls"),
        pytest.param({"max_calls": 0}, "0", id="no calls"),
        pytest.param({"max_reply_chars": 40}, "0", id="a limit of length"),
        pytest.param({"max_block_chars": 20}, "0", id="a limit of the block's length"),
        pytest.param({"max_depth": 2}, "0", id="a limit of depth"),
        pytest.param({"legacy_event": "warn"}, "0", id="a rule for events"),
        pytest.param({"dedupe": True}, "1", id="calls that repeat are one"),
        pytest.param({"dialects": ("ksi_body",)}, "0", id="no dialect in JSON"),
        pytest.param({"dialects": ()}, "0", id="no dialect"),
    ],
)
def test_keeps_to_the_settings(settings: dict[str, Any], calls: str) -> None:
    text, known = f"{EVENT}\n{EVENT}", protocol("ksi", **settings)
    assert (taken(text, known), agree(text, known)) == (calls, True)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param('{"name": "x", "arguments": {}}', "all", id="a provider's form"),
        pytest.param("Take action now, a_b.", "all", id="prose"),
        pytest.param(f"Action: x\nAction Input: {EVENT}", "0", id="a head before the object"),
        pytest.param(f"<tool_call>{EVENT}</tool_call>", "0", id="a tag"),
        pytest.param('{"tool_calls":[{"event":"a:b"}],"tool":"x"}', "0", id="a list of calls"),
        pytest.param(f"{EVENT}\n@tool x\n", "1", id="a command behind"),
        pytest.param(f"we think</think>\n{EVENT}", "0", id="an open thought"),
        pytest.param('{"action":{"tool":"x","args":{}},"thought":"t"}', "0", id="with a thought"),
    ],
)
def test_sees_the_marks_of_any_dialect(text: str, calls: str) -> None:
    assert (taken(text, ANY), agree(text, ANY)) == (calls, True)


PIECES = (
    *("", " ", "\n", "\n\n", "\r\n", "\t", "é", "日本", "\x00", "\ud800", "\u2028"),
    *(
        "Prose.\n\n",
        "Sure: ",
        "it's ",
        '"said" ',
        "`code` ",
        "a -> b ",
        "[x](y) ",
        "} ",
        "{",
        "{x}",
    ),
    *("```json\n", "\n```\n", "```\n", "```python\n", "````json\n", "```json \n", "x```json\n"),
    *("\n> ", "> ", "<think>", "</think>\n", "[THINK]", "`", "``", "~~~\n", "//", "/*", "},", ","),
    *('"event": "a:b", "data": ', '\n"event": ', '"x"', ":", '{"a":1}', "{}", "]"),
    *("~~~ksi a:b\n", "```ksi a:b\n", "@tool x ", "\n@tool x\n", "Action: x\nAction Input: "),
    *(
        "functools",
        "<tool_call>",
        "[f(a=1)]",
        "to=functions.x <|channel|>",
        ">>>x\n",
        "[TOOL_CALLS]",
    ),
)
VALUES = (
    *("1", '"s"', '"a\\"b"', '"\\\\"', '"\\u0022"', '"\\u00e9"', '"\\ud800"', "1e5", "1e400", "-0"),
    *("NaN", "123456789012345678901", "[]", "{}", '{"a":1,"a":2}', '{"a":"","a":"\\u0022\\u0022"}'),
    *(
        '"```json"',
        '"</think>"',
        '"}"',
        '"~~~ksi x"',
        '"\n"',
        "[[[[[[1]]]]]]",
        "01",
        '"\\x"',
        '"open',
    ),
)


def test_finds_what_a_closer_look_finds() -> None:
    """Texts are put together from what replies are made of; half of their calls are plain."""
    known = [*PRESETS.values(), protocol("any", dedupe=True), protocol("ksi", mode="strict")]
    sorts = set[str]()
    for seed in range(400):
        rng = random.Random(f"plain/{seed}")
        text = "".join(_piece(rng) for _ in range(rng.randrange(1, 7)))
        sorts.add(taken(text))
        assert [each.name for each in known if not agree(text, each, "stop")] == [], text
    assert {"all", "0", "1"} <= sorts


def _piece(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(PIECES)
    value: Any = rng.choice([{}, {"s": 'a"\n}', "o": {"l": [1, None]}}, {"é": True}])
    named = rng.choice(["a:b", "read_file"])
    call = rng.choice(
        [
            {"event": named, "data": value},
            {
                "type": "ksi_tool_use",
                "id": f"ksiu_{rng.randrange(3)}",
                "name": named,
                "input": value,
            },
            {"tool": named, "arguments": value},
            {"name": named, "arguments": value},
            {"action": {"tool": named, "args": value}},
        ]
    )
    spaces: Any = rng.choice([{}, {"indent": 2}, {"separators": (",", ":")}])
    text = json.dumps(call, ensure_ascii=rng.random() < 0.5, **spaces)
    if rng.random() < 0.3:
        odd = f'"odd":{rng.choice(VALUES)}'
        text = text.replace("{}", f"{{{odd}}}").replace("true", rng.choice(VALUES))
    return text + rng.choice(["", "\n", "\n\n"])


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(f"{EVENT}\n", id="calls on lines"),
        pytest.param(EVENT, id="calls on one line"),
        pytest.param("{\n", id="braces on lines"),
        pytest.param(f"`a`{EVENT}\n", id="calls behind code"),
    ],
)
def test_costs_no_more_than_the_length(unit: str) -> None:
    text = repeated(unit, 200_000)
    assert doubling(lambda size: read_plain(text[:size], KSI, counted()), 100_000) < LINEAR
