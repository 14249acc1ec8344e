"""A reply that must be one object."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.dialects import Fault
from ksi_daemon.extraction.whole import Sole, read_whole


@pytest.mark.parametrize(
    ("text", "sole"),
    [
        pytest.param('{"a": 1}', Sole(0, 8, {"a": 1}, ()), id="alone"),
        pytest.param('\n {"a": 1}\n', Sole(2, 10, {"a": 1}, ()), id="blanks around it"),
        pytest.param('{"a":1,"a":2}', Sole(0, 13, {"a": 2}, ("a",)), id="a key twice"),
    ],
)
def test_reads(text: str, sole: Sole) -> None:
    assert read_whole(text, None) == sole


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        pytest.param(" ", "not_json", "the reply is empty", 0, id="blank"),
        pytest.param(
            '{"a": }',
            "not_json",
            "expected a value, got '}' at line 1, column 7 of the block",
            6,
            id="broken",
        ),
        pytest.param('{"a":NaN}', "not_json", "NaN is not JSON", 0, id="NaN"),
        pytest.param(
            '{"a":"\n"}', "not_json", "a string holds a raw control character", 0, id="newline"
        ),
        pytest.param(
            "```json\n{}\n```",
            "extra_text",
            "the reply is one JSON object: no Markdown, no fence around it",
            0,
            id="fence",
        ),
        pytest.param("[1]", "not_object", "the reply must be an object, got '[1]'", 0, id="array"),
        pytest.param(
            "{} ok",
            "extra_text",
            "the reply is one JSON object, with nothing behind it, got 'ok'",
            3,
            id="text behind",
        ),
        pytest.param(
            "{}{}",
            "multiple_objects",
            "the reply holds more than one object; send one",
            2,
            id="two",
        ),
    ],
)
def test_says_what_else_it_is(text: str, code: str, message: str, place: int) -> None:
    assert read_whole(text, None) == (Fault(code, message), place)
