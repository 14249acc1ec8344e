from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ksi_client.following import Cursor, pauses
from ksi_client.wire import Answer, Ending, Frame, Push
from ksi_daemon.events import ErrorInfo, Event, Piece, Status


def event(seq: int, status: Status = "handled", error: ErrorInfo | None = None) -> Event:
    return Event(
        seq=seq,
        id=f"e{seq}",
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        name="a:b",
        data=msgspec.Raw(b"{}"),
        source="system",
        correlation_id="e1",
        status=status,
        error=error,
    )


def told(seq: int, status: Status = "handled") -> Frame:
    return Frame(seq=seq, subscription="s", event=event(seq, status))


def ended(seq: int, status: Status = "handled") -> Frame:
    return Frame(seq=seq, subscription="s", outcome=Ending(status))


def begun(last_seq: int) -> Answer:
    return Answer(msgspec.Raw(b'{"last_seq":%d}' % last_seq))


@pytest.mark.parametrize(
    ("patience", "expected"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(0.01, [0.01], id="shorter than the first pause"),
        pytest.param(0.1, [0.02, 0.04, 0.04], id="the last one is cut"),
        pytest.param(3, [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 0.74], id="doubling to a second"),
    ],
)
def test_pauses(patience: float, expected: list[float]) -> None:
    assert list(pauses(patience)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("after_seq", "frames", "resumes_after"),
    [
        pytest.param(None, [], None, id="live, before the first answer"),
        pytest.param(0, [], 0, id="from the beginning"),
        pytest.param(5, [told(7)], 7, id="after the last event"),
        pytest.param(5, [told(7), told(6)], 7, id="an older one does not set it back"),
        pytest.param(5, [told(6, "received"), told(7)], 5, id="before one that had not ended"),
        pytest.param(5, [told(6, "received"), told(7), ended(6)], 7, id="until its outcome came"),
    ],
)
def test_where_it_resumes(
    after_seq: int | None, frames: list[Frame], resumes_after: int | None
) -> None:
    cursor = Cursor("*", after_seq=after_seq, include=["outcomes"])
    for frame in frames:
        cursor.take(frame)
    assert cursor.data().get("after_seq") == resumes_after


@pytest.mark.parametrize(
    ("after_seq", "expected"),
    [
        pytest.param(None, 9, id="live: from where the daemon began"),
        pytest.param(4, 4, id="a place of its own is kept"),
    ],
)
def test_where_it_began(after_seq: int | None, expected: int) -> None:
    cursor = Cursor(["a:*"], after_seq=after_seq, include=[])
    cursor.begun(begun(9))
    assert cursor.data() == {"patterns": ("a:*",), "include": (), "after_seq": expected}


@pytest.mark.parametrize(
    ("include", "frames", "expected"),
    [
        pytest.param([], [told(1), told(1)], [Push(1, event(1))], id="an event comes once"),
        pytest.param(
            ["outcomes"],
            [told(1, "received"), told(1, "failed")],
            [Push(1, event(1, "received")), Push(1, outcome=Ending("failed"))],
            id="seen again after its end, it brings its outcome",
        ),
        pytest.param(
            ["outcomes"],
            [told(1, "received"), told(1, "failed"), ended(1, "failed")],
            [Push(1, event(1, "received")), Push(1, outcome=Ending("failed"))],
            id="an outcome comes once",
        ),
        pytest.param(
            ["outcomes"],
            [told(1, "received"), told(1, "received")],
            [Push(1, event(1, "received"))],
            id="seen again before its end",
        ),
        pytest.param(["outcomes"], [ended(1)], [], id="the outcome of an event that never came"),
        pytest.param(
            [],
            [told(1, "received"), told(1, "failed")],
            [Push(1, event(1, "received"))],
            id="outcomes that were not asked for",
        ),
        pytest.param(
            [],
            [Frame(seq=3, subscription="s", lagged=True), Frame(subscription="s", closing=True)],
            [],
            id="last words bring nothing",
        ),
    ],
)
def test_what_is_handed_on(include: list[str], frames: list[Frame], expected: list[Push]) -> None:
    cursor = Cursor("*", after_seq=0, include=include)
    taken = [cursor.take(frame) for frame in frames]
    assert [push for push in taken if push is not None] == expected


def test_pieces_of_text_have_no_place() -> None:
    cursor = Cursor("*", after_seq=5, include=["text"])
    piece = Piece("ada", "r1", 1, "Hel")
    assert cursor.take(Frame(seq=9, subscription="s", text=piece)) == Push(9, text=piece)
    assert cursor.data()["after_seq"] == 5
