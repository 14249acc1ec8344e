"""The two readers agree, and the slow one says exactly where and why it stopped."""

from __future__ import annotations

import json
from json import JSONDecoder
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ksi_daemon.extraction.reader import (
    KEY,
    Closed,
    Odd,
    Stop,
    control_place,
    depth_exceeds,
    read_any,
    read_object,
    read_odd,
    scan,
    trace,
    unsound,
)

PIECES = (
    *'{}[]:,"\\ ',
    '"a"',
    '"b"',
    "\n",
    '\\"',
    "\\u00e9",
    "\\ud800",
    "1",
    "-",
    "0",
    ".5",
    "1e3",
    "1e999",
    "null",
    "true",
    "tru",
    "NaN",
    "-Infinity",
    "é",
    '{"a":1}',
    '"a":',
)
soup = st.lists(st.sampled_from(PIECES), max_size=14).map(lambda pieces: "{" + "".join(pieces))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)  # fmt: skip


def loosely(text: str) -> int | None:
    """Return where the standard library says that the object ends."""
    try:
        end: int = JSONDecoder(strict=False).scan_once(text, 0)[1]  # type: ignore[attr-defined]
    except (StopIteration, ValueError):
        return None
    return end


@given(soup)
@example('{"a":"\n"}')
@example('{"a":{},"b":[ ]}')
@example("{ }")
@settings(max_examples=600, deadline=None)
def test_both_readers_end_at_the_same_place(text: str) -> None:
    found = trace(text, 0)
    assert (found.end if isinstance(found, Closed) else None) == loosely(text)


@given(values, st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_reads_what_json_writes(value: Any, indent: int) -> None:
    text = json.dumps({"a": value}, indent=indent or None, ensure_ascii=bool(indent % 2))
    assert scan(f"x{text}}}", 1) == ({"a": value}, len(text) + 1)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        pytest.param("{", 1, KEY, id="nothing after the brace"),
        pytest.param("{a", 1, KEY, id="bare key"),
        pytest.param('{"a"', 4, "':' after the key", id="no colon"),
        pytest.param('{"a":', 5, "a value", id="no value"),
        pytest.param('{"a":x}', 5, "a value", id="no such value"),
        pytest.param('{"a":1 "b"', 7, "',' or '}'", id="no comma"),
        pytest.param('{"a":1,}', 7, KEY, id="trailing comma"),
        pytest.param('{"a":[1 2]}', 8, "',' or ']'", id="no comma in an array"),
        pytest.param('{"a":[1,]}', 8, "a value", id="trailing comma in an array"),
        pytest.param('{"a":{} x', 8, "',' or '}'", id="after an object"),
        pytest.param('{"a":"b', 7, "the end of a string", id="open string"),
        pytest.param('{"a":"\\x"}', 6, "a valid escape", id="bad escape"),
        pytest.param('{"a":"\\u12"}', 6, "a valid escape", id="short escape"),
        pytest.param('{"a":tru', 8, "a value", id="cut literal"),
    ],
)
def test_stops_where_the_grammar_breaks(text: str, at: int, expected: str) -> None:
    stop = trace(text, 0)
    assert isinstance(stop, Stop)
    assert (stop.at, stop.expected) == (at, expected)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        pytest.param('{"a":1', True, id="after a number"),
        pytest.param('{"a":-', True, id="within a number"),
        pytest.param('{"a":"b\\', True, id="within an escape"),
        pytest.param('{"a":{"b":[1, ', True, id="within an array"),
        pytest.param('{"a":1 done', False, id="prose follows"),
        pytest.param('{"a":x', False, id="not a value at all"),
    ],
)
def test_knows_whether_the_text_ended(text: str, ended: bool) -> None:
    stop = trace(text, 0)
    assert isinstance(stop, Stop)
    assert stop.ended is ended


def test_names_the_objects_that_are_open_and_what_they_told() -> None:
    stop = trace('{"a":1,"b":[{"a":"x"},{"c":2,"a":', 0, {'"a"', '"b"'})
    assert isinstance(stop, Stop)
    assert [(frame.start, frame.array, frame.head) for frame in stop.frames] == [
        (0, False, {'"a"': "1", '"b"': "["}),
        (11, True, None),
        (22, False, None),
    ]


def test_traces_deeper_than_the_stack() -> None:
    text = '{"a":' * 5000 + "1" + "}" * 5000
    assert trace(text, 0) == Closed(len(text), None, 5000)


@pytest.mark.parametrize(
    ("piece", "odd"),
    [
        pytest.param('{"a":"\n"}', Odd({"a": "\n"}, None, (), True), id="control character"),
        pytest.param('{"a":1,"a":2}', Odd({"a": 2}, None, ("a",), False), id="repeated key"),
        pytest.param(
            '{"a":1,"a":"\t"}', Odd({"a": "\t"}, None, ("a",), True), id="repeated and control"
        ),
        pytest.param('{"a":NaN}', Odd(None, "NaN is not JSON", (), False), id="NaN"),
        pytest.param(
            '{"a":-Infinity}', Odd(None, "-Infinity is not JSON", (), False), id="Infinity"
        ),
        pytest.param('{"a":1e999}', Odd(None, "a number is out of range", (), False), id="1e999"),
        pytest.param(
            '{"a":' + "1" * 5000 + "}",
            Odd(None, "an integer has too many digits", (), False),
            id="digits",
        ),
        pytest.param(
            '{"a":' * 9000 + "1" + "}" * 9000,
            Odd(None, "it is nested too deeply", (), False),
            id="depth",
        ),
    ],
)
def test_reads_odd_objects(piece: str, odd: Odd) -> None:
    assert read_odd(piece) == odd


MANY = ", ".join(f'{{"n": {n}}}' for n in range(9))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a":1,"a":2}', id="few objects"),
        pytest.param(f'{{"a":[{MANY}],"a":2}}', id="many objects"),
        pytest.param(f'{{"a":[{MANY}],"b":1,"b":1,"s":"\\u0022\\u0022"}}', id="quotes made up for"),
        pytest.param(f'{{"a":[{MANY}],"b":NaN}}', id="constant"),
        pytest.param(f'{{"a":[{MANY}],"b":1e999}}', id="out of range"),
    ],
)
def test_scan_refuses_what_is_not_plain(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any message will do
        scan(text, 0)


def test_scan_reads_many_objects() -> None:
    text = f'{{"a":[{MANY}],"q":"\\"{{"}}'
    assert scan(text, 0) == (json.loads(text), len(text))


def test_finds_the_first_control_character() -> None:
    assert control_place('{"a":\n"b\tc"}') == 8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(' {"a": 1}\n', {"a": 1}, id="object"),
        pytest.param('{"a": 1} x', None, id="something beside it"),
        pytest.param("[1]", None, id="array"),
        pytest.param("", None, id="nothing"),
        pytest.param('{"a": NaN}', None, id="not plain"),
    ],
)
def test_reads_a_text_that_is_an_object(text: str, value: Any) -> None:
    assert read_object(text) == value


@pytest.mark.parametrize(
    ("piece", "value"),
    [
        pytest.param('{"a":"\n"}', {"a": "\n"}, id="control character"),
        pytest.param('{"a":1e999}', {"a": float("inf")}, id="infinite"),
        pytest.param('{"a":' + "1" * 5000 + "}", {"a": float("inf")}, id="digits"),
        pytest.param('{"a":' * 9000 + "1" + "}" * 9000, None, id="too deep"),
    ],
)
def test_reads_anything(piece: str, value: Any) -> None:
    assert read_any(piece) == value


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 == 0 and level < depth - 1 else {"a": value}
    return {"a": value} if isinstance(value, list) else dict(value)


def true_depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value
    inner = [true_depth(child) for child in children if isinstance(child, dict | list)]
    return 1 + max(inner, default=0)


@given(values.map(lambda value: {"a": value}), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_measures_depth(value: dict[str, Any], limit: int) -> None:
    assert depth_exceeds(value, limit) is (true_depth(value) > limit)
    assert (unsound(value, limit) == "depth") is (true_depth(value) > limit)


@pytest.mark.parametrize(
    ("args", "flaw"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param({"a": "b", "c": 1}, None, id="flat"),
        pytest.param({"a": "é😀", "é": 1.5}, None, id="beyond ASCII"),
        pytest.param({"a": [[{"b": "]"}]]}, None, id="bracket in a string"),
        pytest.param({"a": "\ud800"}, "surrogate", id="lone surrogate"),
        pytest.param({"\udfff": 1}, "surrogate", id="lone surrogate in a key"),
        pytest.param({"a": [["\ud800"]]}, "surrogate", id="lone surrogate within"),
        pytest.param(nested(64), None, id="64 levels"),
        pytest.param(nested(65), "depth", id="65 levels"),
        pytest.param(nested(900), "depth", id="900 levels"),
        pytest.param(nested(900) | {"s": "\ud800"}, "depth", id="both"),
    ],
)
def test_tells_what_cannot_be_stored(args: dict[str, Any], flaw: str | None) -> None:
    assert unsound(args, 64) == flaw
