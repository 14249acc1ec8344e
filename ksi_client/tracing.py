"""A story as a Chrome trace, for ``chrome://tracing`` and ui.perfetto.dev. Pure.

Each agent, and each other source, is a thread. An event is a complete slice (phase ``X``) from
when it was taken in for as long as its handler ran; a reply of a model is one that ends when the
reply was there. From a cause to each of its effects goes an arrow (phases ``s`` and ``f``).

Slices of one thread may lie inside each other and must not overlap otherwise, or a viewer shows
them wrongly: whatever would overlap goes to a second lane of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.events import Event

__all__ = ["chrome_trace"]

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
    slices = sorted(map(_slice, events), key=lambda each: (each.start, -each.end))
    lanes = _Lanes()
    placed = {each.event.id: (each, lanes.place(each)) for each in slices}
    drawn = [_drawn(each, lane) for each, lane in placed.values()]
    arrows = [part for each, lane in placed.values() for part in _arrow(each, lane, placed)]
    return {"traceEvents": [*lanes.named(), *drawn, *arrows], "displayTimeUnit": "ms"}


class _Lanes:
    """The threads of a trace: for each source one lane, and more where slices would overlap."""

    def __init__(self) -> None:
        # Of each lane the ends of the slices that are open at the latest start, the inmost last.
        self._open: dict[tuple[str, int], list[int]] = {}
        self._numbers: dict[tuple[str, int], int] = {}

    def place(self, each: _Slice) -> int:
        """Return the number of the first lane that takes *each*; slices come by their start."""
        who = each.event.agent_id or each.event.source
        lane = 0
        while not self._takes((who, lane), each):
            lane += 1
        self._open.setdefault((who, lane), []).append(each.end)
        return self._numbers.setdefault((who, lane), len(self._numbers) + 1)

    def named(self) -> Iterator[dict[str, Any]]:
        """Yield the metadata that name the process and the lanes."""
        yield _metadata("process_name", 0, "ksi")
        for (who, lane), number in self._numbers.items():
            yield _metadata("thread_name", number, f"{who} ({lane + 1})" if lane else who)

    def _takes(self, lane: tuple[str, int], each: _Slice) -> bool:
        ends = self._open.get(lane, [])
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


def _arrow(
    each: _Slice, lane: int, placed: Mapping[str, tuple[_Slice, int]]
) -> Iterator[dict[str, Any]]:
    """Yield the two ends of the arrow from the cause of *each*, nothing if it is not there."""
    found = placed.get(each.event.cause_id or "")
    if found is None:
        return
    cause, from_lane = found
    # An arrow is bound to the slice around its end, so it leaves its cause before that is over.
    left = max(cause.start, min(each.start, cause.end - _LEAST_US))
    arrow = {"name": "causes", "cat": "causes", "id": each.event.seq, "pid": _PROCESS}
    yield {**arrow, "ph": "s", "ts": left, "tid": from_lane}
    yield {**arrow, "ph": "f", "bp": "e", "ts": max(each.start, left), "tid": lane}


def _metadata(name: str, lane: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": _PROCESS, "tid": lane, "args": {"name": value}}


def _data(event: Event) -> Mapping[str, Any]:
    data = msgspec.json.decode(event.data)
    return data if isinstance(data, Mapping) else {}
