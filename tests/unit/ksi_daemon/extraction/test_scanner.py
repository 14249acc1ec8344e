"""Candidates, doomed and broken objects, and what the scanner costs."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.scanner import MAX_FAILURES, Block, Broken, Scanner, Whole, plan

KSI = ("ksi_tool_use", "event")
NOISE = "{! " * MAX_FAILURES


def walk(text: str) -> list[str]:
    """Return what the scanner finds, each as its kind and its text."""
    scanner = Scanner(text, plan(KSI))
    found, at = [], 0
    while (block := scanner.next(at)) is not None:
        at = scanner.end_of(block)[0] if isinstance(block, Broken) else block.end
        found.append(f"{type(block).__name__} {text[block.start : at]}")
    return found


@pytest.mark.parametrize("noise", [pytest.param("", id="clean"), pytest.param(NOISE, id="noisy")])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("no object", [], id="prose"),
        pytest.param('a {"x":1} b', ['Whole {"x":1}'], id="data"),
        pytest.param('{"name":{"y":1}}', ['Whole {"name":{"y":1}}'], id="nested is claimed"),
        pytest.param('{"x":"{\\"y\\":1}"}', ['Whole {"x":"{\\"y\\":1}"}'], id="string is claimed"),
        pytest.param('{ {"x":1}', ['Whole {"x":1}'], id="stray brace"),
        pytest.param('{"a": {"x":1}', ['Whole {"x":1}'], id="object that never closes"),
        pytest.param('{"a {"x":1}', ['Whole {"x":1}'], id="stray quote"),
        pytest.param('{"a":"b {"x":1} c', ['Whole {"x":1}'], id="in what seems a string"),
        pytest.param('[{"a":1, {"x":1} b', ['Whole {"x":1}'], id="array that never closes"),
        pytest.param('{"x":"\n"}', ['Block {"x":"\n"}'], id="control character"),
        pytest.param('{"event":"\n"}', ['Block {"event":"\n"}'], id="control character in a call"),
        pytest.param(
            '{"event":"a:b",} {"x":1}', ['Broken {"event":"a:b",}', 'Whole {"x":1}'], id="broken"
        ),
        pytest.param(
            '{"event":"a:b","data":{"x":[1,}}} y',
            ['Broken {"event":"a:b","data":{"x":[1,}}}'],
            id="brackets of the wrong kind",
        ),
        pytest.param('{"x":1,"y":} z', [], id="broken data is prose"),
        pytest.param(
            '{"x":1, {"event":"a:b",}', ['Broken {"event":"a:b",}'], id="broken call in prose"
        ),
        pytest.param(
            '{"a":{"event":"a:b","data":{}},"b":} c',
            ['Whole {"event":"a:b","data":{}}'],
            id="whole call in broken data",
        ),
    ],
)
def test_finds_objects_in_order(noise: str, text: str, found: list[str]) -> None:
    assert walk(noise + text) == found


CALL = '{"event":"a:c","data":{}}'


@pytest.mark.parametrize(
    ("broken", "rest"),
    [
        pytest.param('{"event":"a:b","data":{"x":1}', f"\n{CALL}", id="missing closer, new line"),
        pytest.param('{"event":"a:b","data":{"x":1} so ', CALL, id="missing closer, same line"),
        pytest.param('{"event":"a:b","data":{"x":1} so: ', CALL, id="colon of prose"),
        pytest.param('{"event":"a:b","data":{"x":"y', f"\n  {CALL}", id="open string, new line"),
        pytest.param('{"event":"a:b","data":{"x', f"\n{CALL}", id="open key, new line"),
        pytest.param('{"event":"a:b","data":{"x":"5" t"}} ok', f"\n{CALL}", id="odd quote"),
        pytest.param('{"event":"a:b","data":{"x":[1 2', f"\n{CALL}", id="open array"),
        pytest.param('{"event":"a:b","data":{"x":1}', "\n```\n", id="end of a fence"),
        pytest.param('{"event":"a:b","data":{"x":1 2', "\n```\n", id="end of a fence, later"),
        pytest.param(f'{{"event":"a:b" "data":{CALL}}}', " z", id="call as a value"),
        pytest.param(f'{{"event":"a:b" "data":\n{CALL}}}', " z", id="call as a value, new line"),
        pytest.param(f'{{"event":"a:b" "data":[1,\n{CALL}]}}', " z", id="call in an array"),
        pytest.param(f'{{"event":"a:b","data":{{"x":"s "q {CALL}" r"}}}}', " z", id="in a string"),
        pytest.param(f'{{event: "a:b", data: {CALL}}}', " z", id="behind a bare key"),
        pytest.param('{"event":"a:b","data":{"x":"y', "", id="end of the text"),
        pytest.param(f'{{"event":"a:b","data":{{"x":"y\n{CALL}\n"}}}}', " z", id="raw example"),
        pytest.param(f'{{"event":"a:b","data":{{"x":"\n{CALL} {{"}}}}', " z", id="brace behind it"),
        pytest.param(f'{{"event":"a:b","data":{{"x":1,\n{CALL}\n}}}}', " z", id="call as a member"),
    ],
)
def test_ends_a_broken_object_where_it_ends(broken: str, rest: str) -> None:
    text = broken + rest
    scanner = Scanner(text, plan(KSI))
    block = scanner.next(0)
    assert isinstance(block, Broken)
    end, _ = scanner.end_of(block)
    assert (block.start, text[:end].rstrip()) == (0, broken.rstrip())


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        pytest.param('{"event":"a:b",}', "event", id="event"),
        pytest.param('{"data":{},"event":"a:b",}', "event", id="data first"),
        pytest.param('{"event":"x", "data":{} z', "event", id="both keys"),
        pytest.param("{'event': 'a:b'}", "event", id="single quotes"),
        pytest.param("{“event”: “a:b”}", "event", id="smart quotes"),
        pytest.param('{event: "a:b"}', "event", id="bare key"),
        pytest.param('{"event" "a:b"}', "event", id="no colon"),
        pytest.param('{"event":: "a:b"}', "event", id="two colons"),
        pytest.param('{"event:" "a:b"}', "event", id="colon in the key"),
        pytest.param('{"event"":a:b"}', "event", id="quote before the colon"),
        pytest.param('{""event":"a:b"}', "event", id="two quotes before the key"),
        pytest.param('{event":"a:b"}', "event", id="no quote before the key"),
        pytest.param('{"event:"a:b"}', "event", id="no quote behind the key"),
        pytest.param('{"event":a:b"}', "event", id="no quote before the name"),
        pytest.param('{"event":"a:b,"data":{}}', "event", id="no quote behind the name"),
        pytest.param('{"type" "ksi_tool_use"}', "ksi_tool_use", id="tool use without a colon"),
        pytest.param('{"type":"ksi_tool_use,"id":""}', "ksi_tool_use", id="tool use, lost quote"),
        pytest.param('{ // say\n "event": "a:b"}', "event", id="comment first"),
        pytest.param('{/* say */ "event": "a:b"}', "event", id="block comment first"),
        pytest.param('{"type":"ksi_tool_use",}', "ksi_tool_use", id="tool use"),
        pytest.param("{'id': 'x', 'type': 'ksi_tool_use'}", "ksi_tool_use", id="id first"),
        pytest.param('{"event":"Birthday party","data":{},}', None, id="prose"),
        pytest.param('{"event":"click", x}', None, id="no event name, no data"),
        pytest.param('{"event" "click"}', None, id="no event name, no colon"),
        pytest.param("{event: a:b}", None, id="no quote at all"),
        pytest.param('{"type":"tool_use","id":"x",}', None, id="another type"),
        pytest.param('{"name":"a:b","input":{},}', None, id="name alone"),
    ],
)
def test_knows_a_broken_call(text: str, dialect: str | None) -> None:
    found = Scanner(text, plan(KSI)).next(0)
    assert (found.dialect.name if isinstance(found, Broken) else None) == dialect


def test_data_in_noise_is_not_read() -> None:
    text = NOISE + '{"x":1,"x":2}'
    assert Scanner(text, plan(KSI)).next(0) == Whole(len(NOISE), len(text), {})


def test_a_key_written_with_escapes_is_the_same_key() -> None:
    text = NOISE + '{"\\u0065vent":"a:b"}'
    found = Scanner(text, plan(KSI)).next(0)
    assert found == Whole(len(NOISE), len(text), {"event": "a:b"})


def test_an_odd_object_says_what_is_odd() -> None:
    found = Scanner('{"event":"a:b","data":{"x":"\n","x":"\t"}}', plan(KSI)).next(0)
    assert isinstance(found, Block)
    assert (found.value, found.repeated, found.control, found.depth) == (
        {"event": "a:b", "data": {"x": "\t"}},
        ("x",),
        True,
        2,
    )
