from __future__ import annotations

import pytest

from ksi_client.comparing import Reply, compared
from ksi_client.text import Paint, width
from ksi_client.views.compared import compared as shown
from ksi_daemon.extraction import PRESETS

PLAIN = Paint(False)
TWO = (
    '{"event": "a:b", "data": {}} {"event": "a:b", "data": {"n": 1,}} {"event": "a:b", "data": {x}}'
)


def test_one_reply() -> None:
    assert list(shown(compared([Reply(TWO)], ["ksi", "command"]), PLAIN, 90)) == [
        "preset   calls  mended  rejected  finals  text left  why",
        "ksi          2       1         1       0          0  trailing_comma, malformed_block",
        "command      0       0         0       0         94",
    ]


def test_several_replies_side_by_side() -> None:
    replies = [Reply(TWO), Reply('{"final": {"content": 1}}'), Reply("prose")]
    lines = list(shown(compared(replies, ["ksi", "json_action"]), PLAIN, 80))
    assert lines[-5:] == [
        "reply  ksi  json_action",
        "    1  ✓~✗  ✗",
        "    2  ·    =",
        "    3  ·    ✗",
        "✓ call  ~ call, mended  ✗ rejected  = final answer  · nothing",
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_all_presets_fit_a_terminal(count: int) -> None:
    lines = shown(compared([Reply(TWO)] * count, PRESETS), PLAIN, 80)
    assert max(map(width, lines)) <= 80


def test_no_replies() -> None:
    assert len(list(shown(compared([], ["ksi"]), PLAIN, 80))) == 2
