from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon.events import EMPTY, Event, Outcome, Piece
from ksi_daemon.feed import Committed, Feed, Subscription


def event(name: str, seq: int = 1) -> Event:
    return Event(
        seq=seq,
        id=f"e{seq}",
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        name=name,
        data=EMPTY,
        source="system",
        correlation_id="e1",
        status="handled",
    )


class Ear:
    """A subscriber that keeps what it is told."""

    def __init__(self, *patterns: str) -> None:
        self.heard: list[tuple[str, int]] = []
        self.ends: list[tuple[str, str]] = []
        self.subscription = Subscription(patterns, self.committed, self.ended)

    def committed(self, committed: Committed) -> None:
        self.heard.append((committed.event.name, committed.event.seq))

    def ended(self, event: Event, outcome: Outcome) -> None:
        self.ends.append((event.name, outcome.status))


def raising(*args: Any) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("patterns", "heard"),
    [
        pytest.param(("*",), [("a:b", 1), ("a:c", 2), ("b:b", 3)], id="all"),
        pytest.param(("a:*",), [("a:b", 1), ("a:c", 2)], id="a namespace"),
        pytest.param(("a:c", "b:*"), [("a:c", 2), ("b:b", 3)], id="several"),
        pytest.param(("a:*", "*"), [("a:b", 1), ("a:c", 2), ("b:b", 3)], id="twice is once"),
        pytest.param(("c:*",), [], id="none"),
    ],
)
def test_a_subscriber_hears_what_it_wants_in_order(
    patterns: tuple[str, ...], heard: list[tuple[str, int]]
) -> None:
    feed, ear = Feed(), Ear(*patterns)
    feed.subscribe(ear.subscription)
    feed.publish([event("a:b", 1), event("a:c", 2), event("b:b", 3)])
    assert ear.heard == heard


def test_the_feed_knows_how_far_it_told_though_nobody_heard() -> None:
    feed = Feed()
    feed.publish([event("a:b", 7), event("a:b", 8)])
    assert feed.last_seq == 8


def test_outcomes_go_to_who_asked_for_them() -> None:
    feed, ear, deaf = Feed(), Ear("a:*"), Ear("a:*")
    feed.subscribe(ear.subscription)
    feed.subscribe(Subscription(("a:*",), deaf.committed))
    feed.ended(event("a:b"), Outcome("handled"))
    feed.ended(event("b:b"), Outcome("handled"))
    assert (ear.ends, deaf.ends) == ([("a:b", "handled")], [])


def test_who_comes_or_goes_later_is_heeded() -> None:
    feed, first, second = Feed(), Ear("a:*"), Ear("a:*")
    stop = feed.subscribe(first.subscription)
    feed.publish([event("a:b", 1)])
    feed.subscribe(second.subscription)
    feed.publish([event("a:b", 2)])
    stop()
    stop()
    feed.publish([event("a:b", 3)])
    assert first.heard == [("a:b", 1), ("a:b", 2)]
    assert second.heard == [("a:b", 2), ("a:b", 3)]
    feed.subscribe(Subscription(("*",), second.committed, inner=True))
    assert len(feed) == 1


def test_a_subscriber_may_leave_while_it_is_told() -> None:
    feed, other = Feed(), Ear("*")
    heard = []

    def once(committed: Committed) -> None:
        heard.append(committed.event.seq)
        stop()

    stop = feed.subscribe(Subscription(("*",), once))
    feed.subscribe(other.subscription)
    feed.publish([event("a:b", 1), event("a:b", 2)])
    assert (heard, other.heard) == ([1], [("a:b", 1), ("a:b", 2)])


def test_one_bad_subscriber_does_not_stop_the_others() -> None:
    feed, ear = Feed(), Ear("*")
    feed.subscribe(Subscription(("*",), raising, raising))
    feed.subscribe(ear.subscription)
    with capture_logs() as logs:
        feed.publish([event("a:b", 1), event("a:b", 2)])
        feed.ended(event("a:b"), Outcome("handled"))
    assert ear.heard == [("a:b", 1), ("a:b", 2)]
    assert ear.ends == [("a:b", "handled")]
    assert [entry["event"] for entry in logs] == ["subscriber_failed"] * 3


def test_an_event_is_encoded_once_for_all() -> None:
    feed = Feed()
    encoded = []
    for _ in range(3):
        feed.subscribe(Subscription(("*",), lambda committed: encoded.append(committed.encoded)))
    feed.publish([event("a:b")])
    assert encoded[0] is encoded[1] is encoded[2]
    assert msgspec.json.decode(encoded[0], type=Event) == event("a:b")


def test_names_of_strangers_are_not_kept_for_ever() -> None:
    feed, ear = Feed(), Ear("a:*")
    feed.subscribe(ear.subscription)
    numbers = count(1)
    feed.publish(event(f"n:{number}", number) for number in (next(numbers) for _ in range(5_000)))
    feed.publish([event("a:b", 5_001)])
    assert ear.heard == [("a:b", 5_001)]
    assert len(feed._wanted) < 5_000


def test_pieces_of_replies_go_to_those_who_listen() -> None:
    feed, ear = Feed(), Ear("*")
    feed.subscribe(ear.subscription)
    assert not feed.has_listeners
    heard: list[str] = []
    stop = feed.subscribe(
        Subscription(("a:*",), ear.committed, heard=lambda piece: heard.append(piece.text))
    )
    feed.subscribe(Subscription(("*",), ear.committed, heard=raising))
    assert feed.has_listeners
    with capture_logs() as logs:
        feed.heard(Piece("ada", "r1", 1, "Hel"))
    assert (heard, [log["event"] for log in logs]) == (["Hel"], ["subscriber_failed"])
    stop()
    with capture_logs():
        feed.heard(Piece("ada", "r1", 1, "lo"))
    assert (heard, feed.last_seq) == (["Hel"], 0)


def test_ends_are_counted() -> None:
    feed = Feed()
    given = {"handled": "a:b", "received": "a:c", "unknown": "made:up"}
    feed.publish(
        msgspec.structs.replace(event(name, n), status=status)
        for n, (status, name) in enumerate(given.items(), 1)
    )
    feed.ended(event("a:c", 2), Outcome("failed"))
    feed.publish([event("a:b", 4)])
    assert feed.ends == {("a:b", "handled"): 2, ("other", "unknown"): 1, ("a:c", "failed"): 1}
