from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint
from ksi_client.views.stories import Story
from ksi_daemon.events import CallRef, ErrorInfo, Event

pytestmark = pytest.mark.usefixtures("utc")

PLAIN = Paint(False)
BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
CALL = '{"event": "state:set", "data": {"key": "list",}}'
REPLY = f"I store it.\n{CALL}\nDone."
START = REPLY.index("{")


def event(seq: int, name: str, data: Any, *, id: str = "", **fields: Any) -> Event:
    given = {"source": "system", "status": "handled", "correlation_id": "story"}
    return Event(
        seq=seq,
        id=id or f"e{seq}",
        ts=BEGIN + timedelta(seconds=seq),
        name=name,
        data=msgspec.Raw(msgspec.json.encode(data)),
        **{**given, **fields},
    )


def reply(seq: int, text: str, **data: Any) -> Event:
    told = {"turn": 1, "provider": "scripted", "model": "m", "stop_reason": "stop"}
    data = {**told, "latency_ms": 12, "text": text, **data}
    return event(seq, "completion:result", data, cause_id="e1", agent_id="ada")


SENT = event(1, "agent:send", {"message": "save the list,\nplease"}, source="client:0")
REPLIED = reply(2, REPLY)
ANNOUNCED = event(3, "extraction:call", {}, id="e2.1.call", cause_id="e2")
CALLED = event(
    4,
    "state:set",
    {"key": "list"},
    id="e2.1",
    cause_id="e2",
    agent_id="ada",
    completion_id="e2",
    call=CallRef("k1", "event", START, START + len(CALL), ("trailing_comma",)),
    duration_ms=2.0,
)
EFFECT = event(5, "list:saved", {"n": 1}, cause_id="e2.1", source="handler:lists")
AGAIN = reply(6, "All done.", turn=2)
STORY = Story("story", [SENT, REPLIED, ANNOUNCED, CALLED, EFFECT, AGAIN])


def test_tree() -> None:
    assert list(STORY.tree(PLAIN, 80)) == [
        "story story  6 events  5.0 s  2026-01-31 12:00:01",
        r"✓ #1  agent:send  client:0  save the list,\nplease",
        r'├─ ✓ #2  completion:result  ada  I store it.\n{"event": "state:set", "data": {"…',
        '│  └─ ✓ #4  state:set  ada  2.0 ms  {"key":"list"}',
        '│     └─ ✓ #5  list:saved  handler:lists  {"n":1}',
        "└─ ✓ #6  completion:result  ada  All done.",
    ]


def test_a_call_whose_event_is_missing_is_shown_by_its_announcement() -> None:
    story = Story("story", [SENT, REPLIED, ANNOUNCED])
    assert list(story.tree(PLAIN, 90))[-1] == "   └─ ✓ #3  extraction:call  system"


def test_what_caused_it_may_be_in_another_story() -> None:
    assert list(Story("s", [EFFECT]).tree(PLAIN, 90))[1:] == [
        '✓ #5  list:saved  handler:lists  {"n":1}'
    ]


def test_why_a_call_fired() -> None:
    assert list(STORY.why(CALLED, PLAIN, 90)) == [
        "✓ #1  agent:send  client:0",
        "│   save the list,",
        "│   please",
        "└─ ✓ #2  completion:result  ada",
        "   │   turn 1, scripted m, 12 ms",
        "   │     I store it.",
        f"   │   > {CALL}",
        "   │     Done.",
        "   │   characters 12-60, dialect event, repaired: trailing_comma",
        '   └─ ✓ #4  state:set  ada  2.0 ms  {"key":"list"}',
        '      └─ ✓ #5  list:saved  handler:lists  {"n":1}',
    ]


def test_why_a_story_began() -> None:
    lines = list(Story("story", [SENT]).why(SENT, PLAIN, 90))
    assert lines == ["✓ #1  agent:send  client:0", "    save the list,", "    please"]


def test_why_shows_a_long_reason_in_full_and_what_to_do() -> None:
    error = ErrorInfo("unknown_event", "no handler for event 'agent:" + "x" * 60 + "'", "look")
    lost = event(2, "agent:x", {}, agent_id="ada", status="unknown", error=error)
    told = list(Story("story", [SENT, lost]).why(lost, PLAIN, 80))
    assert "hint: look" in told[-1]
    assert "x" * 40 in "".join(told[1:-1]).replace(" ", "")


def test_why_a_block_was_rejected() -> None:
    rejected = event(
        3,
        "extraction:rejected",
        {"text": "{"},
        cause_id="e2",
        agent_id="ada",
        status="rejected",
        error=ErrorInfo("unterminated", "no end"),
        call=CallRef("", "event", 0, 1),
    )
    story = Story("story", [SENT, reply(2, "{", stop_reason="length"), rejected])
    assert list(story.why(rejected, PLAIN, 90))[3:] == [
        "└─ ✓ #2  completion:result  ada",
        "   │   turn 1, scripted m, 12 ms, ended by length",
        "   │   > {",
        "   │   characters 0-1, dialect event",
        "   └─ ✗ #3  extraction:rejected  ada  rejected, unterminated: no end  {",
    ]


def test_a_long_message_is_shortened() -> None:
    long = event(1, "agent:send", {"message": "\n".join("abcdefghij")})
    assert list(Story("story", [long]).why(long, PLAIN, 90))[-2:] == ["    f", "    ⋮ 4 lines"]


def test_causes_that_go_round_come_to_an_end() -> None:
    one = event(1, "a:b", {}, cause_id="e2")
    two = event(2, "a:b", {}, cause_id="e1")
    assert Story("s", [one, two]).chain(one) == [two, one]


@pytest.mark.parametrize(
    ("reference", "found"),
    [(4, CALLED), ("e2.1", CALLED), (40, None), ("e9", None)],
)
def test_find(reference: str | int, found: Event | None) -> None:
    assert STORY.find(reference) is found


@pytest.mark.parametrize("cells", [40, 60, 100])
def test_nothing_a_model_wrote_reaches_the_terminal_as_it_is(cells: int) -> None:
    evil = "\x1b]0;owned\x07\u202e\x9b2J\n" * 5
    sent = event(1, "agent:send", {"message": evil}, source=evil, agent_id=evil)
    replied = reply(2, evil + CALL, model=evil, stop_reason=evil)
    called = event(
        4, evil, {evil: evil}, id="e2.1", cause_id="e2", completion_id="e2", call=CALLED.call
    )
    story = Story(evil, [sent, replied, called])
    for line in [*story.tree(PLAIN, cells), *story.why(called, PLAIN, cells)]:
        assert line.isprintable()
