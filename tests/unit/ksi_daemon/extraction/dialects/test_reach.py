"""How far a block goes."""

from __future__ import annotations

import re

import pytest

from ksi_daemon.extraction.dialects.reach import Reach, reach


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<a x</a> y", Reach(8, 4), id="closed"),
        pytest.param("<a x <a y</a>", Reach(5, None), id="another begins before"),
        pytest.param("<a x\n\ny <a", Reach(4, None), id="a blank line before another"),
        pytest.param("<a x\n\ny</a>", Reach(11, 7), id="closed behind a blank line"),
        pytest.param("<a x", Reach(4, None), id="the text ends"),
    ],
)
def test_reach(text: str, expected: Reach) -> None:
    assert reach(text, 2, re.compile("<a"), "</a>") == expected


def test_a_blank_line_ends_no_string() -> None:
    text = "<a x\n\ny <a"
    assert reach(text, 2, re.compile("<a"), "</a>", in_string=True) == Reach(8, None)
