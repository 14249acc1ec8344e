"""The live feed: committed events to whoever subscribed, in the order of the log.

Delivery is a plain call on the event loop; a subscriber that needs time keeps a queue of its own
and bounds it. The feed keeps no events: what was missed is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

import msgspec
import structlog

from ksi_daemon.events import Event, Outcome, Piece, Status, matches_any

__all__ = ["OTHER", "Committed", "Feed", "Subscription"]

OTHER: Final = "other"

_encode = msgspec.json.Encoder().encode


class Committed:
    """An event that is in the log, encoded at most once however many are told of it."""

    def __init__(self, event: Event) -> None:
        self.event = event

    @cached_property
    def encoded(self) -> bytes:
        return _encode(self.event)


class Subscription(msgspec.Struct, frozen=True, eq=False):
    """What one subscriber wants: *committed* for each event, *ended* for each later outcome,
    *heard* for each piece of the replies of all agents while they are written."""

    patterns: tuple[str, ...]
    committed: Callable[[Committed], None]
    ended: Callable[[Event, Outcome], None] | None = None
    heard: Callable[[Piece], None] | None = None
    # A part of the daemon, which is not counted among those who listen.
    inner: bool = False


class Feed:
    """The subscriptions, and the seq up to which they were told."""

    def __init__(self) -> None:
        self.last_seq = 0
        # How many events of each name ended how; names that there are not are one, OTHER.
        # A dict and not a Counter, which takes twice the time for what each event pays.
        self.ends: dict[tuple[str, str], int] = {}
        self._subscriptions: dict[Subscription, None] = {}
        # Names are few and patterns cost: who wants a name is worked out once.
        self._wanted: dict[str, tuple[Subscription, ...]] = {}

    def __len__(self) -> int:
        return sum(not subscription.inner for subscription in self._subscriptions)

    def subscribe(self, subscription: Subscription) -> Callable[[], None]:
        """Add *subscription*; the function that is returned takes it away again."""
        self._subscriptions[subscription] = None
        self._wanted.clear()

        def unsubscribe() -> None:
            self._subscriptions.pop(subscription, None)
            self._wanted.clear()

        return unsubscribe

    def publish(self, events: Iterable[Event]) -> None:
        """Tell the subscribers of *events*, which were committed just now, in seq order."""
        for event in events:
            self.last_seq = event.seq
            if event.status != "received":
                self._count(event.name, event.status)
            wanted = self._who_wants(event.name)
            if wanted:
                committed = Committed(event)
                for subscription in wanted:
                    _tell(subscription.committed, committed)

    def ended(self, event: Event, outcome: Outcome) -> None:
        """Tell the subscribers who asked for outcomes how *event* ended."""
        self._count(event.name, outcome.status)
        for subscription in self._who_wants(event.name):
            if subscription.ended is not None:
                _tell(subscription.ended, event, outcome)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody wants to hear replies while they are written."""
        return any(each.heard is not None for each in self._subscriptions)

    def heard(self, piece: Piece) -> None:
        """Tell those who listen of a *piece* of a reply."""
        for subscription in tuple(self._subscriptions):
            if subscription.heard is not None:
                _tell(subscription.heard, piece)

    def _count(self, name: str, status: Status) -> None:
        key = (OTHER if status == "unknown" else name, status)
        self.ends[key] = self.ends.get(key, 0) + 1

    def _who_wants(self, name: str) -> tuple[Subscription, ...]:
        wanted = self._wanted.get(name)
        if wanted is None:
            if len(self._wanted) > 4096:  # names may come from strangers
                self._wanted.clear()
            wanted = tuple(s for s in self._subscriptions if matches_any(s.patterns, name))
            self._wanted[name] = wanted
        return wanted


def _tell(call: Callable[..., None], *args: object) -> None:
    try:
        call(*args)
    except Exception:  # noqa: BLE001 - one bad subscriber must not stop the others
        structlog.get_logger().exception("subscriber_failed")
