"""Arguments behind a name, and what may follow them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ksi_daemon.extraction.dialects import Draft, Fault, Reading
from ksi_daemon.extraction.dialects.arguments import (
    Ends,
    Named,
    is_settled,
    past_surplus,
    read_arguments,
)

ENDS = Ends(re.compile("<<"), re.compile(">>"))
OPEN = Ends(re.compile("<<"))
LENIENT = Reading(strict=False, repairs=True, max_depth=64)


def told(text: str) -> Named:
    return Named("f", None, 0, text.index("@") + 1)


@pytest.mark.parametrize(
    ("behind", "value", "keys", "end"),
    [
        pytest.param("", {"a": 1}, None, 0, id="nothing"),
        pytest.param(" words", {"a": 1}, None, 0, id="words"),
        pytest.param(" }\n} words", {"a": 1}, None, 5, id="braces"),
        pytest.param("}", {"a": {"b": 1}}, None, 1, id="the last member is an object"),
        pytest.param("}", {"a": {"b": 1}, "c": 2}, None, None, id="an object before another"),
        pytest.param("}", {"a": [{"b": 1}], "c": 2}, None, 1, id="an object in an array"),
        pytest.param("}", {"x": {"a": {}, "c": 2}}, None, None, id="the same further within"),
        pytest.param("}", {"args": {"a": 1}, "id": 2}, ["args", "id"], 1, id="a key of its own"),
        pytest.param("}", {"args": {"a": 1}, "c": 2}, ["args", "id"], None, id="another key"),
        pytest.param(', "c": 2}', {"a": 1}, None, None, id="a member"),
        pytest.param('}, "c": 2}', {"a": 1}, None, None, id="a member behind a brace"),
        pytest.param(' "c" and', {"a": 1}, None, 0, id="a word in quotes"),
    ],
)
def test_knows_what_a_brace_too_many_could_have_cut_off(
    behind: str, value: dict[str, Any], keys: list[str] | None, end: int | None
) -> None:
    assert past_surplus(behind, 0, value, keys) == end


@pytest.mark.parametrize(
    ("text", "ends", "outcome", "length"),
    [
        pytest.param('f@{"x": 1}>> more', ENDS, {"x": 1}, 12, id="closed"),
        pytest.param('f@{"x": 1} more', ENDS, {"x": 1}, 10, id="not closed"),
        pytest.param('f@{"x": 1} <<g@{}>>', ENDS, {"x": 1}, 10, id="another before it is closed"),
        pytest.param("f@ >> more", ENDS, {}, 5, id="nothing"),
        pytest.param('f@"{}" >>', ENDS, {}, 9, id="text that holds an object"),
        pytest.param("f@", ENDS, "unterminated_block", 2, id="the text is over"),
        pytest.param("f@[] >> more", ENDS, "malformed_block", 7, id="no object"),
        pytest.param("f@[] <<", ENDS, "malformed_block", 5, id="no object before another block"),
        pytest.param('f@{"x": y} >> more', ENDS, "malformed_block", 13, id="broken and closed"),
        pytest.param(
            'f@{"x": y}\n\nmore', ENDS, "malformed_block", 10, id="broken, to the blank line"
        ),
        pytest.param(
            'f@{"x": "y\n<<g@{"z": 1}',
            ENDS,
            "malformed_block",
            11,
            id="an open string",
        ),
        pytest.param('f@{"x": NaN}>>', ENDS, "malformed_block", 14, id="whole, and no JSON"),
        pytest.param('f@{"x": 1}>>', OPEN, {"x": 1}, 10, id="what nothing closes"),
    ],
)
def test_reads_up_to_the_end_of_the_block(
    text: str, ends: Ends, outcome: dict[str, Any] | str, length: int
) -> None:
    piece = read_arguments(text, told(text), ends, LENIENT)
    found = piece.draft.args if isinstance(piece.draft, Draft) else piece.draft.code
    assert (found, piece.start, piece.end) == (outcome, 0, length)


def test_a_name_that_is_none_is_refused_with_the_whole_block() -> None:
    piece = read_arguments("{}>>", Named("a b", None, 0, 0), ENDS, LENIENT)
    assert piece.draft == Fault("missing_name", "the block must name a tool, got 'a b'")
    assert piece.end == 4


@pytest.mark.parametrize(
    ("text", "ends", "settled"),
    [
        pytest.param('f@{"x": 1}>> and\n', ENDS, True, id="closed"),
        pytest.param('f@{"x": 1}>> and', ENDS, False, id="closed, but the line goes on"),
        pytest.param('f@{"x": 1}>><<', ENDS, True, id="closed, and another began"),
        pytest.param('f@{"x": 1} and', ENDS, False, id="may be closed yet"),
        pytest.param('f@{"x": 1} <<', ENDS, True, id="another began"),
        pytest.param('f@{"x": ">>', ENDS, False, id="in a string"),
        pytest.param('f@{"x": ">>\n', ENDS, False, id="in a string that goes on"),
        pytest.param('f@{"x": 1', ENDS, False, id="in an object"),
        pytest.param('f@{"x": bad >>\n', ENDS, True, id="broken and closed"),
        pytest.param('f@{"x": bad\n\nmore', ENDS, False, id="broken"),
        pytest.param("f@", ENDS, False, id="nothing yet"),
        pytest.param("f@>>\n", ENDS, True, id="nothing"),
        pytest.param('f@"{}"', ENDS, False, id="text"),
        pytest.param('f@"{}">>\n', ENDS, True, id="text, closed"),
        pytest.param('f@"{}>>', ENDS, False, id="in text"),
        pytest.param('f@{"x": 1}', OPEN, False, id="what nothing closes"),
        pytest.param('f@{"x": 1} a', OPEN, True, id="what nothing closes, and a word"),
        pytest.param('f@{"x": 1} }', OPEN, False, id="what nothing closes, and a brace"),
        pytest.param('f@{"x": bad', OPEN, False, id="broken, and nothing closes"),
        pytest.param('f@{"x": bad\n\nmore', OPEN, True, id="broken, and a blank line"),
    ],
)
def test_is_settled_when_no_more_text_can_change_it(text: str, ends: Ends, settled: bool) -> None:
    assert is_settled(text, told(text), ends) is settled
