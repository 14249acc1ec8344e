"""monitor:subscribe: a client follows the log, first what it missed, then live.

No gap and no duplicate: the backlog is read page by page, nothing is held in memory, however far
the client was behind. Near its end the subscription joins the feed: what the feed tells from then
on waits in a queue while the last pages, up to the seq of the joining, are read and sent. Without
that, reading would never overtake those who write.

Live, a client that reads too slowly has that same queue, bounded in events and bytes. When it is
full the subscription ends with ``lagged`` and the seq to resume from: the others never wait, and
nothing is lost, because the log has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Annotated, Any, Final, Literal, Protocol

import anyio
import anyio.abc
import msgspec

from ksi_daemon.errors import InvalidData, KsiError, NotFound
from ksi_daemon.events import Event, Outcome, Piece
from ksi_daemon.log.model import EventFilter
from ksi_daemon.protocol import Push, encode
from ksi_daemon.router import Channel, Committed, Context, Router, Subscription, handles

__all__ = ["Subscriptions"]

PAGE: Final = 500


class Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    """*after_seq*: first send what was logged after it. *include* "outcomes": also how events
    ended that had not ended when they were sent; "text": also what models write, as they do."""

    patterns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=64)] = ("*",)
    after_seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    include: tuple[Literal["outcomes", "text"], ...] = ()


class Unsubscribe(msgspec.Struct, forbid_unknown_fields=True):
    subscription: str


class Reader(Protocol):
    """The part of the log that is read here."""

    async def events(self, wanted: EventFilter) -> list[Event]: ...


class Subscriptions:
    """The clients' subscriptions; *max_events* and *max_bytes* bound each one's queue."""

    def __init__(
        self,
        router: Router,
        reader: Reader,
        tasks: anyio.abc.TaskGroup,
        *,
        max_events: int,
        max_bytes: int,
    ) -> None:
        self._router = router
        self._reader = reader
        self._tasks = tasks
        self._limits = (max_events, max_bytes)
        self._numbers = count(1)
        self._followers: dict[str, _Follower] = {}

    @handles(
        "monitor:subscribe",
        effect="observe",
        inline=True,
        example={"patterns": ["agent:*"], "after_seq": 0},
    )
    def subscribe(self, data: Subscribe, ctx: Context) -> dict[str, Any]:
        """Push every event that matches to this connection, the missed ones first."""
        if ctx.channel is None:
            raise InvalidData("only a client with a connection can subscribe")
        name = f"s{next(self._numbers)}"
        last_seq = self._router.feed.last_seq
        follower = _Follower(name, data, self._router, ctx.channel, self._limits)
        self._followers[name] = follower
        follower.on_end = lambda: self._followers.pop(name, None)
        ctx.channel.on_closed(follower.end)
        if data.after_seq is None:
            follower.join()
        else:
            self._tasks.start_soon(follower.catch_up, self._reader)
        return {"subscription": name, "last_seq": last_seq}

    @handles("monitor:unsubscribe", effect="observe", inline=True, example={"subscription": "s1"})
    def unsubscribe(self, data: Unsubscribe, ctx: Context) -> dict[str, Any]:
        """End a subscription of this connection."""
        follower = self._followers.get(data.subscription)
        if follower is None or follower.channel is not ctx.channel:
            raise NotFound("subscription", data.subscription)
        follower.end()
        return {}

    @property
    def queued(self) -> int:
        """How many pushes wait for clients that do not keep up."""
        return sum(follower.queued for follower in self._followers.values())

    def close(self) -> None:
        """Tell every subscriber that the daemon stops, and from where to resume."""
        for follower in tuple(self._followers.values()):
            follower.last_word(closing=True)


class _Follower:
    """One subscription on its way through the log."""

    def __init__(
        self,
        name: str,
        wanted: Subscribe,
        router: Router,
        channel: Channel,
        limits: tuple[int, int],
    ) -> None:
        self.channel = channel
        self.on_end: Callable[[], object] = lambda: None
        self._name = name
        self._wanted = wanted
        self._router = router
        self._max_events, self._max_bytes = limits
        last_seq = router.feed.last_seq
        # Up to here the client has been sent what it wants.
        self._position = last_seq if wanted.after_seq is None else wanted.after_seq
        self._joined_at: int | None = None
        self._queue: deque[tuple[int, bytes]] = deque()  # seq, line
        self._queued_bytes = 0
        self._holding = False
        self._ended = False
        self._wake = anyio.Event()
        self._wants_outcomes = "outcomes" in wanted.include
        self._wants_text = "text" in wanted.include
        self._ends: dict[int, Outcome] = {}
        self._unsubscribe: Callable[[], None] = lambda: None
        # Pushes differ in their head only; the event is encoded once for all subscribers.
        self._head = b'{"subscription":' + msgspec.json.encode(name) + b',"seq":'

    @property
    def queued(self) -> int:
        """How many pushes wait for the client."""
        return len(self._queue)

    async def catch_up(self, reader: Reader) -> None:
        """Send what is in the log after the position, then what the feed tells."""
        if self._wants_outcomes:
            early = Subscription(self._wanted.patterns, _ignore, self._on_ended)
            self._unsubscribe = self._router.subscribe(early)
        try:
            while await self._send_page(reader) == PAGE:
                pass
            self._holding = True
            self.join()
            while await self._send_page(reader) == PAGE:
                pass
        except KsiError:
            self.last_word(lagged=True)
        self._holding = False
        self._send_queued()

    def join(self) -> None:
        """Follow the feed from now on."""
        if self._ended:
            return
        self._unsubscribe()
        self._joined_at = self._router.feed.last_seq
        ended = self._on_ended if self._wants_outcomes else None
        heard = self._on_heard if self._wants_text else None
        subscription = Subscription(self._wanted.patterns, self._on_committed, ended, heard)
        self._unsubscribe = self._router.subscribe(subscription)

    async def _send_page(self, reader: Reader) -> int:
        """Send the next page of the backlog; return how many events it has."""
        if self._ended:
            return 0
        # How an event ended is in what is read from here on, or is told while it is read.
        self._ends.clear()
        told = self._router.feed.last_seq if self._joined_at is None else self._joined_at
        page = await reader.events(
            EventFilter(
                patterns=self._wanted.patterns,
                after_seq=self._position,
                before_seq=told + 1,
                limit=PAGE,
            )
        )
        for event in page:
            await self._send_when_drained(Committed(event))
            outcome = self._ends.pop(event.seq, None)
            if outcome is not None and event.status == "received":
                self._on_ended(event, outcome)
        if len(page) < PAGE:
            self._position = max(self._position, told)
        return len(page)

    def end(self) -> None:
        """Stop following; nothing more is sent."""
        self._ended = True
        self._wake.set()
        self._unsubscribe()
        self._queue.clear()
        self.on_end()

    def last_word(self, *, lagged: bool = False, closing: bool = False) -> None:
        """Say why the subscription ends and from which seq to resume, and end it."""
        # An outcome that was not sent is older than the last event that was.
        resume = min((self._position, *(seq - 1 for seq, _ in self._queue)))
        push = Push(self._name, resume, lagged=lagged, closing=closing)
        self.channel.push(encode(push), always=True)
        self.end()

    def _on_committed(self, committed: Committed) -> None:
        seq = committed.event.seq
        if seq > self._position:
            self._send(seq, self._line(committed))

    def _on_ended(self, event: Event, outcome: Outcome) -> None:
        """Tell how an event ended, or keep it until the event itself is sent."""
        seq = event.seq
        if seq <= self._position or (self._joined_at is not None and seq > self._joined_at):
            self._send(seq, encode(Push(self._name, seq, outcome=outcome)))
        else:
            self._ends[seq] = outcome

    def _on_heard(self, piece: Piece) -> None:
        """Tell a piece of a reply, if there is room: the whole reply comes as an event."""
        if not self._queue and not self._holding:
            self.channel.push(encode(Push(self._name, self._position, text=piece)))

    def _line(self, committed: Committed) -> bytes:
        seq = str(committed.event.seq).encode()
        return self._head + seq + b',"event":' + committed.encoded + b"}\n"

    def _send(self, seq: int, line: bytes) -> None:
        if not self._queue and not self._holding:
            if self.channel.push(line):
                self._position = max(self._position, seq)
                return
            self.channel.on_drained(self._send_queued)
        self._queue.append((seq, line))
        self._queued_bytes += len(line)
        if len(self._queue) > self._max_events or self._queued_bytes > self._max_bytes:
            self.last_word(lagged=True)

    def _send_queued(self) -> None:
        while self._queue and self.channel.push(self._queue[0][1]):
            seq, line = self._queue.popleft()
            self._position = max(self._position, seq)
            self._queued_bytes -= len(line)
        if self._queue:
            self.channel.on_drained(self._send_queued)

    async def _send_when_drained(self, committed: Committed) -> None:
        line = self._line(committed)
        while not self._ended and not self.channel.push(line):
            self._wake = anyio.Event()
            self.channel.on_drained(self._wake.set)
            await self._wake.wait()
        self._position = committed.event.seq


def _ignore(committed: Committed) -> None:
    """Leave committed events to the pages of the backlog."""
