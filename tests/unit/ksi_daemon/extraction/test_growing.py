from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings

from ksi_daemon.extraction import PRESETS, protocol
from ksi_daemon.extraction.growing import Growing, signs
from tests.properties.written import debris

EVENT = '{"event":"a:b","data":{}}'


def grown(text: str, preset: str = "ksi", **overrides: bool) -> Growing:
    numbers = count(1)
    growing = Growing(
        protocol(preset, **{"open_thought": False, **overrides}), None, lambda: f"g{next(numbers)}"
    )
    growing.extend(text)
    return growing


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        pytest.param("no brace", None, id="prose"),
        pytest.param("a {", 2, id="brace at the end"),
        pytest.param('a {"', 2, id="quote at the end"),
        pytest.param("a { b", None, id="brace in prose"),
        pytest.param('a {"b": c', None, id="no JSON"),
        pytest.param('a {"b": 1', 2, id="open object"),
        pytest.param('a {"b": 1.', 2, id="number that may go on"),
        pytest.param('a {"b": 1.x ', None, id="no number"),
        pytest.param('a {"b": {"c": 1.', 2, id="nested number that may go on"),
        pytest.param('a {"b": {"c": 1.x ' + "y" * 300, None, id="no nested number"),
        pytest.param('a {"b": nul', 2, id="word that may go on"),
        pytest.param('a {"b": 1} ', 2, id="a member may follow"),
        pytest.param('a {"b": 1} c', None, id="data"),
        pytest.param(f"a {EVENT}", 2, id="a brace may follow"),
        pytest.param(f"a {{ {EVENT}", None, id="a brace is expected"),
        pytest.param(f"a {EVENT} {EVENT}.", None, id="calls"),
        pytest.param('a {"event":"a:b",\'', 2, id="quote that may be mended"),
        pytest.param('a {"event":"a:b"} /', None, id="call without data"),
        pytest.param("a ~", 2, id="tilde"),
        pytest.param("a ~~~", 2, id="fence"),
        pytest.param("a ~~~ksi", 2, id="mark"),
        pytest.param("a ~~~ksit", None, id="another mark"),
    ],
)
def test_doubts_the_first_place_that_more_text_could_change(text: str, doubt: int | None) -> None:
    growing = grown(text)
    found = growing.advance()
    assert (found and found.place) == doubt
    assert growing.read_up_to == (len(text) if doubt is None else doubt)


def test_takes_nothing_twice() -> None:
    growing = grown(f"a {EVENT} b {EVENT}")
    growing.advance()
    assert len(growing.calls) == 1
    growing.extend(".")
    growing.advance()
    growing.advance()
    assert [call.id for call in growing.calls] == ["g1", "g2"]


def test_drops_what_is_read_and_keeps_the_layout() -> None:
    growing = grown("```python\n" + "x = 1\n" * 1000 + EVENT)
    assert growing.advance() is not None
    dropped = growing.shrink()
    assert 0 < growing.size < 1000 < dropped
    growing.extend(".")
    assert growing.advance() is None
    assert ([*growing.calls], [each.code for each in growing.diagnostics]) == ([], ["shown"])


def test_drops_no_line_that_is_open() -> None:
    growing = grown("> " + "x" * 5000 + EVENT + ".")
    assert growing.advance() is None
    assert growing.calls == []


def test_what_precedes_a_tag_that_only_closes_is_a_thought() -> None:
    growing = grown(f"hm </think>\n{EVENT}.", open_thought=True)
    assert growing.advance() is None
    assert len(growing.calls) == 1


def test_a_thought_that_ends_behind_a_call_takes_it_back() -> None:
    growing = grown(f"{EVENT}\n", open_thought=True)
    assert growing.advance() is not None
    growing.extend(f"</think>\n{EVENT}")
    growing.finish("stop")
    assert [call.start for call in growing.calls] == [len(EVENT) + 10]


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=100, deadline=None)
@given(text=debris)
def test_a_block_begins_with_a_lively_character(preset: str, text: str) -> None:
    """What tells that nothing begins in a piece is cheaper than the whole truth, and not less."""
    found = signs(PRESETS[preset].dialects)
    for place in range(len(text)):
        before = text[max(0, place - 1) : place]
        if found.suspect.match(text, place):
            assert found.lively.match(before + text[place:], len(before))
