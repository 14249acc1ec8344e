from __future__ import annotations

import pytest

from ksi_client.text import Paint, width
from ksi_client.views.explained import explained
from ksi_daemon.extraction import protocol
from ksi_daemon.extraction.explanation import explain

TEXT = """\
So: {"event": "a:b", "id": "ksiu_1", "data": {"x": 1,}} and
> {"event": "a:b", "data": {}}
{"event": "a:c", "data": {"x":}}
"""


def lines(text: str, *, paint: Paint | None = None, cells: int = 80) -> list[str]:
    return list(explained(text, explain(text, protocol("ksi")), paint or Paint(False), cells))


def test_the_text_is_marked_and_each_finding_has_its_place_and_rule() -> None:
    assert lines(TEXT) == [
        '1 ✓ So: {"event": "a:b", "id": "ksiu_1", "data": {"x": 1,}} and',
        f"        {'^' * 51}",
        '2 ○ > {"event": "a:b", "data": {}}',
        f"      {'^' * 28}",
        '3 ✗ {"event": "a:c", "data": {"x":}}',
        "",
        "✓ 1:5  a:b  call, event",
        '    = {"x":1}',
        "    mended 1:53: trailing_comma, ',' taken out",
        "    id ksiu_1",
        '    The direct form: {"event": "namespace:action", "data": {...}}.',
        "",
        "○ 2:3  shown  not run",
        f"    {explain(TEXT, protocol('ksi')).findings[1].outcome.message}",  # type: ignore[union-attr]
        "    What is in code, in a quotation or in a thought is shown, not said.",
        "",
        "✗ 3:1  malformed_block  rejected, event",
        "    expected a value, got '}' at line 1, column 31 of the block",
        "    A call must be JSON, or almost, with one way only to mend it.",
        "",
        "preset ksi, lenient: 1 call, 1 rejected, 1 shown",
    ]


def test_what_only_other_presets_read() -> None:
    shown = lines('<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>')
    assert shown[2] == "? 1:1  a  not read, headed"
    assert shown[-1] == "preset ksi, lenient: 0 calls, 0 rejected, 1 not read"


def test_what_stands_in_a_call() -> None:
    shown = lines(
        r'{"event": "a:b", "id": "ksiu_1", "data": {"t": "{\"event\": \"c:d\", \"data\": {}}"}}'
    )
    assert "· 1:1  c:d  inside, not run, event" in shown


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        pytest.param('{"x": True}', "python_literal, 'True' read as 'true'", id="replaced"),
        pytest.param('{"x": [{"y": 1]}', "missing_closer, '}' put in", id="put in"),
        pytest.param('{"x": "a\nb"}', "mended: control_character", id="without a place"),
    ],
)
def test_what_was_edited(slip: str, told: str) -> None:
    assert told in " ".join(lines(f'{{"event": "a:b", "data": {slip}}}'))


def test_prose_is_shown_as_it_is() -> None:
    assert lines("Nothing.") == ["1   Nothing.", "", "preset ksi, lenient: 0 calls, 0 rejected"]


@pytest.mark.parametrize("cells", [40, 80])
def test_nothing_is_wider_than_the_terminal(cells: int) -> None:
    long = TEXT.replace('"x": 1', f'"x": "{"深い " * 90}"').replace("a:b", f"a:{'b' * 90}")
    assert max(map(width, lines(long, cells=cells))) <= cells


def test_colours_mark_the_stretches() -> None:
    shown = "\n".join(lines(TEXT, paint=Paint(True)))
    assert '\x1b[32m{"event": "a:b", "id"' in shown
    assert '\x1b[33m{"event": "a:b"' in shown
    assert '\x1b[35m{"event": "a:c"' in shown


def test_a_final_answer_is_told() -> None:
    text = '{"thought": "t", "final": {"content": null}}'
    shown = list(explained(text, explain(text, protocol("json_action")), Paint(False), 80))
    assert shown[2:] == [
        "thought  t",
        "final  null",
        "preset json_action, strict: 0 calls, 0 rejected",
    ]
