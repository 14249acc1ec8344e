"""Objects at a known place."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.dialects import Fault, Reading
from ksi_daemon.extraction.dialects.framing import Body, Unread, mend_body, past_space, read_body

LENIENT = Reading(strict=False, repairs=True, max_depth=3)
STRICT = Reading(strict=True, repairs=False, max_depth=3)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        pytest.param('x{"a":1}y', Body(8, {"a": 1}), id="plain"),
        pytest.param('x{"a":"\n"}', Body(10, {"a": "\n"}, ("control_character",)), id="newline"),
        pytest.param('x{"a":1,"a":2}', Body(14, {"a": 2}, (), ("a",)), id="a key twice"),
        pytest.param(
            'x{"a":[[[1]]]}',
            Unread(14, Fault("depth_limit", "the block is nested deeper than 3 levels"), 1),
            id="deep",
        ),
        pytest.param(
            'x{"a":NaN}', Unread(10, Fault("malformed_block", "NaN is not JSON"), 1), id="NaN"
        ),
    ],
)
def test_reads(text: str, body: Body | Unread) -> None:
    assert read_body(text, 1, LENIENT) == body


def test_strict_takes_no_control_character() -> None:
    message = "a string holds a raw control character at line 1, column 7 of the block"
    assert read_body('{"a":"\n"}', 0, STRICT) == Unread(9, Fault("malformed_block", message), 6)


def test_says_where_it_stops() -> None:
    found = read_body('{"a": }', 0, LENIENT)
    assert isinstance(found, Unread)
    assert found.stop is not None
    message = "expected a value, got '}' at line 1, column 7 of the block"
    assert (found.fault, found.place) == (Fault("malformed_block", message), 6)


def test_mends_only_what_fills_the_frame() -> None:
    text = '{"a":1,} \n~~~'
    found = mend_body(text, 0, 10, LENIENT, keys=None, complete=True)
    assert found == Body(8, {"a": 1}, ("trailing_comma",))
    assert mend_body(text, 0, 13, LENIENT, keys=None, complete=True) is None
    assert mend_body(text, 0, 10, STRICT, keys=None, complete=True) is None


def test_passes_over_space() -> None:
    assert [past_space("a \n b", at) for at in (0, 1, 5)] == [0, 4, 5]
