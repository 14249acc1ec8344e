from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint
from ksi_client.views.chat import Talk
from ksi_client.wire import Ending, Push
from ksi_daemon.events import CallRef, ErrorInfo, Event, Piece
from ksi_daemon.extraction import protocol

CALL = '{"event": "state:get", "data": {"key": "k"}}'


def talk(preset: str = "ksi") -> Talk:
    """An exchange that has begun: its request is r1."""
    begun = Talk("ada", "story", protocol(preset), Paint(False), 60)
    assert begun.take(event(1, "agent:send", id="r1", agent_id=None)) == ""
    return begun


def event(seq: int, name: str, data: Any = None, **fields: Any) -> Push:
    given = {"id": f"e{seq}", "agent_id": "ada", "correlation_id": "story", "status": "handled"}
    told = Event(
        seq=seq,
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        name=name,
        data=msgspec.Raw(msgspec.json.encode(data or {})),
        source="system",
        **{**given, **fields},
    )
    return Push(seq, event=told)


def reply(seq: int, text: str, turn: int = 1) -> Push:
    return event(seq, "completion:result", {"turn": turn, "text": text, "stop_reason": "stop"})


def piece(text: str, turn: int = 1, request: str = "r1", agent: str = "ada") -> Push:
    return Push(1, text=Piece(agent, request, turn, text))


def call(seq: int, status: str = "received", **fields: Any) -> Push:
    made = CallRef(f"k{seq}", "event", 0, 9)
    return event(seq, "state:get", {"key": "k"}, call=made, status=status, **fields)


@pytest.mark.parametrize(
    ("pushes", "shown"),
    [
        pytest.param(
            [piece("Hel"), piece("lo. "), piece("You?"), reply(2, "Hello. You?")],
            ["Hel", "lo.", " You?", "\n"],
            id="in pieces",
        ),
        pytest.param([reply(2, " Hello.\n")], ["Hello.\n"], id="whole"),
        pytest.param(
            [piece("Hel"), reply(2, "Hello.")], ["Hel", "lo.\n"], id="the last piece is missing"
        ),
        pytest.param(
            [piece("Hel"), piece("!"), reply(2, "Hello!")],
            ["Hel", "!", "\nHello!\n"],
            id="a piece between is missing",
        ),
        pytest.param(
            [piece("No", request="r0"), piece("No", agent="bob"), reply(2, "Yes")],
            ["", "", "Yes\n"],
            id="of another exchange",
        ),
        pytest.param(
            [
                piece("Look: " + CALL[:20]),
                piece(CALL[20:]),
                piece("\n\n\nSo."),
                reply(2, f"Look: {CALL}\n\n\nSo."),
            ],
            ["Look:", "", "\n\nSo.", "\n"],
            id="calls are taken out",
        ),
        pytest.param(
            [reply(2, "One."), piece("Two", turn=2), reply(3, "Two.", turn=2)],
            ["One.\n", "Two", ".\n"],
            id="turns",
        ),
        pytest.param([reply(2, "a\x1b[2Jb\rc")], ["a\\e[2Jb\\rc\n"], id="what moves the cursor"),
    ],
)
def test_text(pushes: list[Push], shown: list[str]) -> None:
    exchange = talk()
    assert [exchange.take(push) for push in pushes] == shown


def test_calls_are_shown_when_they_end() -> None:
    exchange = talk()
    denied = ErrorInfo("denied", "ada may not")
    assert exchange.take(piece("I look.")) == "I look."
    assert exchange.take(call(2)) == ""
    assert exchange.take(call(3, "denied", error=denied)) == "\n⊘ state:get  denied: ada may not\n"
    assert exchange.take(Push(2, outcome=Ending("handled", {"value": 7}))) == (
        '✓ state:get  {"value":7}\n'
    )
    assert exchange.take(Push(9, outcome=Ending("handled"))) == ""
    assert exchange.seen == 9


def test_a_block_that_is_no_call_is_told() -> None:
    error = ErrorInfo("malformed_block", "expected a key, got 'x'")
    rejected = event(2, "extraction:rejected", status="rejected", error=error)
    assert talk().take(rejected) == "✗ malformed_block: expected a key, got 'x'\n"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"agent_id": "bob"}, id="of another agent"),
        pytest.param({"correlation_id": "other"}, id="of another story"),
    ],
)
def test_what_others_do_is_not_shown(other: dict[str, str]) -> None:
    exchange = talk()
    assert exchange.take(call(2, "handled", **other)) == ""
    assert exchange.take(event(3, "completion:result", {"text": "x", "turn": 1}, **other)) == ""


def test_the_end_adds_what_was_not_shown() -> None:
    exchange = talk()
    exchange.take(call(2, "handled"))
    made = [
        {"id": "k2", "name": "state:get", "status": "handled"},
        {"id": "k3", "name": "state:set", "status": "handled", "result": {"version": 1}},
    ]
    answer = {"text": "Done.", "calls": made, "finish_reason": "stop", "turns": 2}
    assert exchange.end(answer) == 'Done.\n✓ state:set  {"version":1}\n'


def test_an_end_that_is_none_says_why() -> None:
    answer = {"finish_reason": "halted", "turns": 1, "error": {"message": "it took over 9 s"}}
    assert talk().end(answer) == "1 turn, halted: it took over 9 s\n"


def test_a_final_answer_is_shown_as_text() -> None:
    exchange = talk("json_action")
    assert exchange.take(reply(2, '{"final": {"content": "It is done."}}')) == "It is done.\n"
