"""Events as a Chrome trace, for ``chrome://tracing`` and ui.perfetto.dev. Pure.

Each agent, and each other source, is a thread. An event is a complete slice (phase ``X``) from
when it was taken in for as long as its handler ran; a reply of a model is one that ends when the
reply was there. From a cause to each of its effects goes an arrow (phases ``s`` and ``f``).

Slices of one thread may lie inside each other and must not overlap otherwise, or a viewer shows
them wrongly: whatever would overlap goes to a second lane of the same name.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.events import Event

__all__ = ["WINDOW", "chrome_trace", "trace_events"]

# Slices that are kept in mind; memory must not grow with the log.
WINDOW: Final = 20_000

_PROCESS: Final = 1
_REPLY: Final = "completion:result"
# The unit of the format. A slice of nothing is not drawn, and no arrow can begin at it.
_LEAST_US: Final = 1
_SHOWN: Final = 500  # characters of the data of an event


class _Slice(NamedTuple):
    event: Event
    start: int
    end: int


def chrome_trace(events: Iterable[Event]) -> dict[str, Any]:
    """Return *events* as the object that a Chrome trace file holds."""
    return {"traceEvents": list(trace_events(events)), "displayTimeUnit": "ms"}


def trace_events(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a trace of *events*, however many these are.

    They come in the order of the log, which is nearly that of their starts. Two that stand further
    apart in it than WINDOW have no arrow between them.
    """
    yield _metadata("process_name", 0, "ksi")
    lanes, placed = _Lanes(), _Placed()
    for each in _by_start(map(_slice, events)):
        lane = lanes.place(each)
        if lane.is_new:
            yield _metadata("thread_name", lane.number, lane.name)
        yield _drawn(each, lane.number)
        for cause, effect in placed.add(each, lane.number):
            yield from _arrow(cause, effect)


def _by_start(slices: Iterable[_Slice]) -> Iterator[_Slice]:
    """Yield *slices* in the order of their starts, those that hold others before them."""
    waiting: list[tuple[int, int, int, _Slice]] = []
    for number, each in enumerate(slices):
        heapq.heappush(waiting, (each.start, -each.end, number, each))
        if len(waiting) > WINDOW:
            yield heapq.heappop(waiting)[3]
    while waiting:
        yield heapq.heappop(waiting)[3]


class _Drawn(NamedTuple):
    """Where a slice was drawn."""

    seq: int
    start: int
    end: int
    lane: int


class _Placed:
    """The latest slices by their events' ids, to lead arrows from causes to effects."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Drawn] = OrderedDict()
        # Effects that were drawn before their cause.
        self._early: OrderedDict[str, list[_Drawn]] = OrderedDict()

    def add(self, each: _Slice, lane: int) -> Iterator[tuple[_Drawn, _Drawn]]:
        """Yield the pairs of cause and effect that *each* completes."""
        event = each.event
        drawn = _Drawn(event.seq, each.start, each.end, lane)
        self._known[event.id] = drawn
        cause = self._known.get(event.cause_id or "")
        if cause is not None:
            yield cause, drawn
        elif event.cause_id is not None:
            self._early.setdefault(event.cause_id, []).append(drawn)
        for effect in self._early.pop(event.id, ()):
            yield drawn, effect
        for kept in (self._known, self._early):
            if len(kept) > WINDOW:
                kept.popitem(last=False)


class _Lane(NamedTuple):
    number: int
    name: str
    is_new: bool


class _Lanes:
    """The threads of a trace: for each source one lane, and more where slices would overlap."""

    def __init__(self) -> None:
        # Of each lane the ends of the slices that are open at the latest start, the inmost last.
        self._open: dict[tuple[str, int], list[int]] = {}
        self._latest: dict[tuple[str, int], int] = {}
        self._numbers: dict[tuple[str, int], int] = {}

    def place(self, each: _Slice) -> _Lane:
        """Return the first lane that takes *each*."""
        # A client has a source of its own for each connection.
        who = each.event.agent_id or each.event.source.partition("/")[0]
        lane = 0
        while not self._takes((who, lane), each):
            lane += 1
        self._open.setdefault((who, lane), []).append(each.end)
        self._latest[who, lane] = each.start
        is_new = (who, lane) not in self._numbers
        number = self._numbers.setdefault((who, lane), len(self._numbers) + 1)
        return _Lane(number, f"{who} ({lane + 1})" if lane else who, is_new)

    def _takes(self, lane: tuple[str, int], each: _Slice) -> bool:
        ends = self._open.get(lane, [])
        if each.start < self._latest.get(lane, each.start):
            return False
        while ends and ends[-1] <= each.start:
            ends.pop()
        return not ends or each.end <= ends[-1]


def _slice(event: Event) -> _Slice:
    at = round(event.ts.timestamp() * 1_000_000)
    if event.name == _REPLY:
        latency = _data(event).get("latency_ms")
        took = round(latency * 1000) if isinstance(latency, (int, float)) else 0
        return _Slice(event, at - max(took, _LEAST_US), at)
    return _Slice(event, at, at + max(round((event.duration_ms or 0) * 1000), _LEAST_US))


def _drawn(each: _Slice, lane: int) -> dict[str, Any]:
    event = each.event
    told: dict[str, Any] = {"seq": event.seq, "id": event.id, "status": event.status}
    if event.error is not None:
        told["error"] = f"{event.error.code}: {event.error.message}"
    if event.call is not None:
        told["call"] = msgspec.to_builtins(event.call)
    told["source"] = event.source
    told["data"] = bytes(event.data).decode(errors="replace")[:_SHOWN]
    return {
        "name": event.name,
        "cat": event.name.partition(":")[0],
        "ph": "X",
        "ts": each.start,
        "dur": each.end - each.start,
        "pid": _PROCESS,
        "tid": lane,
        "args": told,
    }


def _arrow(cause: _Drawn, effect: _Drawn) -> Iterator[dict[str, Any]]:
    """Yield the two ends of the arrow from *cause* to *effect*."""
    # An arrow is bound to the slice around its end, so it leaves its cause before that is over.
    left = max(cause.start, min(effect.start, cause.end - _LEAST_US))
    arrow = {"name": "causes", "cat": "causes", "id": effect.seq, "pid": _PROCESS}
    yield {**arrow, "ph": "s", "ts": left, "tid": cause.lane}
    yield {**arrow, "ph": "f", "bp": "e", "ts": max(effect.start, left), "tid": effect.lane}


def _metadata(name: str, lane: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": _PROCESS, "tid": lane, "args": {"name": value}}


def _data(event: Event) -> Mapping[str, Any]:
    data = msgspec.json.decode(event.data)
    return data if isinstance(data, Mapping) else {}
