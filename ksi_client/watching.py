"""What a monitor knows of a daemon: pushes, polls and keys go in, a picture comes out. Pure.

Events are kept as they come, the last KEPT of them. What agents wrote is in them; whether it is
shown is for the view to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from ksi_client.wire import Push
from ksi_daemon.events import Event, matches

__all__ = ["PANES", "AgentRow", "Entry", "Polled", "Watch"]

KEPT: Final = 2_000
PANES: Final = ("agents", "events", "models")
# Over so many seconds the rate of events is told.
RATE_S: Final = 5.0
PAGE: Final = 10
_STEPS: Final[Mapping[str, int]] = {
    "up": 1,
    "k": 1,
    "down": -1,
    "j": -1,
    "pgup": PAGE,
    "pgdn": -PAGE,
}
_FAR: Final = 1_000_000
_ANNOUNCED: Final = "extraction:call"


class Polled(msgspec.Struct, frozen=True):
    """What was asked of the daemon at one time, and how long it took to say how it is."""

    health: dict[str, Any]
    agents: Sequence[Mapping[str, Any]]
    running: Sequence[Mapping[str, Any]]
    answered_ms: float
    models: Sequence[Mapping[str, Any]] | None = None
    tokens: Mapping[str, int] | None = None
    spawned: Mapping[str, datetime] | None = None


class Entry:
    """One event with its end, which may come later."""

    __slots__ = ("code", "duration_ms", "event", "status")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.status = event.status
        self.code = event.error.code if event.error else None
        self.duration_ms = event.duration_ms

    @property
    def wrong(self) -> bool:
        """Whether it did not come to good."""
        return self.status not in ("received", "handled")


class AgentRow(msgspec.Struct):
    """One agent as it stands: *doing* is the call that runs since *since*."""

    agent_id: str
    state: str = "idle"
    model: str = ""
    said: str = ""
    spawned: datetime | None = None
    turn: int | None = None
    tokens: int = 0
    doing: str | None = None
    since: datetime | None = None
    last: str = ""
    last_at: datetime | None = None


class Watch:
    """The state of a monitor. ``take``, ``poll`` and ``gone`` tell it news, ``press`` a key.

    *began* is when it was started: what happened before says nothing about lag.
    """

    def __init__(self, began: datetime, filter_text: str = "") -> None:
        self._began = began
        self.entries: deque[Entry] = deque(maxlen=KEPT)
        self.agents: dict[str, AgentRow] = {}
        self.models: Sequence[Mapping[str, Any]] = ()
        self.health: dict[str, Any] = {}
        self.answered_ms = 0.0
        self.lag_ms: float | None = None
        self.lost: str | None = None
        self.filter = filter_text
        self.typed: str | None = None
        self.problems = False
        self.pane = "events"
        self.offsets = dict.fromkeys(PANES, 0)
        self.helping = False
        self.done = False
        self._frozen: list[Entry] | None = None
        self._open: dict[int, Entry] = {}
        self._times: deque[datetime] = deque(maxlen=10_000)
        self._last_seq = 0

    @property
    def paused(self) -> bool:
        """Whether the events stand still; they are kept all the same."""
        return self._frozen is not None

    @property
    def behind(self) -> int:
        """How many events the daemon has that did not come yet."""
        return max(0, int(self.health.get("last_seq", 0)) - self._last_seq)

    def take(self, push: Push, now: datetime) -> None:
        """Take a push of a subscription at the time *now*."""
        if push.event is not None:
            self._event(push.event, now)
        elif push.outcome is not None and (entry := self._open.pop(push.seq, None)) is not None:
            entry.status, entry.duration_ms = push.outcome.status, push.outcome.duration_ms
            entry.code = push.outcome.error.code if push.outcome.error else None
            agent = self.agents.get(entry.event.agent_id or "")
            if agent is not None and agent.doing == entry.event.name:
                agent.doing = agent.since = None

    def poll(self, polled: Polled) -> None:
        """Take what was asked of the daemon."""
        self.lost = None
        self.health, self.answered_ms = polled.health, polled.answered_ms
        if polled.models is not None:
            self.models = polled.models
        turns = {each.get("agent_id"): each for each in polled.running}
        listed = {str(each["agent_id"]): each for each in polled.agents}
        self.agents = {name: self._agent(name, each) for name, each in listed.items()}
        for name, row in self.agents.items():
            row.turn = turns[name].get("turn") if name in turns else None
            if polled.tokens is not None:
                row.tokens = polled.tokens.get(name, 0)
            if polled.spawned is not None:
                row.spawned = polled.spawned.get(name, row.spawned)

    def gone(self, why: str) -> None:
        """Take note that the daemon is gone; it may come back."""
        self.lost = why

    def rate(self, now: datetime) -> float:
        """Return how many events came in a second, lately."""
        begin = now - timedelta(seconds=RATE_S)
        while self._times and self._times[0] < begin:
            self._times.popleft()
        return len(self._times) / RATE_S

    def rows(self) -> list[AgentRow]:
        """Return the agents: those at work first, then by what they did last."""

        def order(row: AgentRow) -> tuple[bool, float, str]:
            last = row.last_at.timestamp() if row.last_at else 0.0
            return row.state != "running", -last, row.agent_id

        return sorted(self.agents.values(), key=order)

    def events(self) -> list[Entry]:
        """Return the events that the filter lets through, the oldest first."""
        entries: Iterable[Entry] = self.entries if self._frozen is None else self._frozen
        terms = self.filter.split()
        return [each for each in entries if self._is_wanted(each, terms)]

    def press(self, key: str) -> None:
        """Do what *key* means."""
        if self.typed is not None:
            self._type(key)
        elif key == "q":
            self.done = True
        elif key in ("?", "h"):
            self.helping = not self.helping
        elif self.helping:
            self.helping = False
        elif key in ("p", " "):
            self._frozen = None if self.paused else list(self.entries)
        elif key == "/":
            self.typed = self.filter
        elif key == "c":
            self.filter, self.problems = "", False
        elif key == "!":
            self.problems = not self.problems
        elif key in ("tab", "backtab"):
            step = 1 if key == "tab" else -1
            self.pane = PANES[(PANES.index(self.pane) + step) % len(PANES)]
        else:
            self._scroll(key)

    def _type(self, key: str) -> None:
        """Take a key of the line in which the filter is written."""
        text = self.typed or ""
        if key == "enter":
            self.filter, self.typed = text, None
        elif key == "esc":
            self.typed = None
        elif key == "backspace":
            self.typed = text[:-1]
        elif len(key) == 1:
            self.typed = text + key

    def _scroll(self, key: str) -> None:
        # Events stand at their end, the rest at its beginning: up leads away from the newest.
        steps = {**_STEPS, "home": _FAR, "g": _FAR, "end": -_FAR, "G": -_FAR}.get(key, 0)
        step = steps if self.pane == "events" else -steps
        limits = {
            "agents": len(self.agents),
            "events": len(self.entries),
            "models": len(self.models),
        }
        limit = max(0, limits[self.pane] - 1)
        self.offsets[self.pane] = min(limit, max(0, self.offsets[self.pane] + step))

    def _event(self, event: Event, now: datetime) -> None:
        self._last_seq = max(self._last_seq, event.seq)
        if event.name == _ANNOUNCED:
            return  # the call itself follows
        entry = Entry(event)
        if len(self.entries) == KEPT:
            self._open.pop(self.entries[0].event.seq, None)
        self.entries.append(entry)
        self._times.append(event.ts)
        if event.ts >= self._began:
            self.lag_ms = max(0.0, (now - event.ts).total_seconds() * 1000)
        if event.status == "received":
            self._open[event.seq] = entry
        row = self.agents.get(event.agent_id or "")
        if row is not None:
            row.last, row.last_at = event.name, event.ts
            if event.status == "received" and event.call is not None:
                row.doing, row.since = event.name, event.ts

    def _agent(self, name: str, told: Mapping[str, Any]) -> AgentRow:
        row = self.agents.get(name) or AgentRow(name)
        row.state = str(told.get("state", "idle"))
        row.model = str(told.get("model") or told.get("provider") or "")
        row.said = str(told.get("status") or "")
        if row.state != "running":
            row.doing = row.since = None
        if not row.last:
            mine = (each for each in reversed(self.entries) if each.event.agent_id == name)
            newest = next(mine, None)
            if newest is not None:
                row.last, row.last_at = newest.event.name, newest.event.ts
        return row

    def _is_wanted(self, entry: Entry, terms: Sequence[str]) -> bool:
        if self.problems and not entry.wrong:
            return False
        event = entry.event
        words = (event.name, event.agent_id or event.source, entry.status, entry.code or "")
        return all(any(_fits(term, word) for word in words) for term in terms)


def _fits(term: str, word: str) -> bool:
    return matches(term, word) if "*" in term else term in word
