from __future__ import annotations

import re

import pytest

from ksi_daemon.extraction.growing import Doubt
from ksi_daemon.extraction.watch import LOOK, START, WORK, Watch

OBJECT = Doubt(0, None)


def woken_by(doubt: Doubt, open_text: str, *chunks: str) -> list[bool]:
    """Return for each of *chunks* whether it makes a look worth it, before any growth does."""
    watch = Watch()
    watch.turn(doubt, " " * 1000 + open_text)
    found = []
    for chunk in chunks:
        watch.see(chunk, 0)
        found.append(watch.may_look(1, 1))
    return found


@pytest.mark.parametrize(
    ("text", "chunks", "woken"),
    [
        pytest.param("{", ["}"], [True], id="closed"),
        pytest.param('{"a":', ["{", "}", "}"], [False, False, True], id="nested"),
        pytest.param('{"a":"', ['}"', "}"], [False, True], id="brace in a string"),
        pytest.param('{"a":"\\', ['"}', '"}'], [False, True], id="escaped over a cut"),
        pytest.param('{"a":"\\\\', ['"}'], [True], id="escaped backslash"),
        pytest.param("{", ['"a', "}\\", '"}', '"}'], [False] * 3 + [True], id="string in pieces"),
        pytest.param('{"a":[', ["1]", "x", "}"], [False, False, True], id="array"),
    ],
)
def test_wakes_when_an_object_ends(text: str, chunks: list[str], woken: list[bool]) -> None:
    assert woken_by(OBJECT, text, *chunks) == woken


def test_wakes_when_a_mark_comes_that_was_cut() -> None:
    doubt = Doubt(0, re.compile("</a>"))
    assert woken_by(doubt, "<a>", "x</", "a", ">") == [False, False, True]
    assert woken_by(doubt, "<a>", "x</a>") == [True]


def test_wakes_once_more_behind_a_mark() -> None:
    doubt = Doubt(0, re.compile("</a>"))
    assert woken_by(doubt, "<a></a>", "x") == [True]
    assert woken_by(doubt, "<a></a>x", "y") == [False]


def test_wakes_when_the_open_text_has_grown_by_half() -> None:
    watch = Watch()
    watch.turn(Doubt(0, re.compile("(?!)")), "x" * 100)
    for length, woken in ((101, False), (150, False), (151, True)):
        watch.see("x", length)
        assert watch.may_look(1, 1) is woken


def test_spends_no_more_than_what_came_buys() -> None:
    watch = Watch()
    looks = 0
    for come in range(1, 20_001):
        watch.wake()
        looks += watch.may_look(1000, come)
    assert looks == (START + WORK * 20_000) // (1000 + LOOK)


def test_is_idle_when_nothing_is_in_doubt_and_no_look_is_due() -> None:
    watch = Watch()
    assert watch.is_idle
    watch.wake()
    assert not watch.is_idle
    watch.turn(OBJECT, "{")
    assert not watch.is_idle
    watch.turn(None, "")
    assert watch.is_idle
