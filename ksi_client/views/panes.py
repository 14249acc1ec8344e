"""The panes of a monitor: agents, events and models, each a title and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from ksi_client.text import Color, Paint, clip, pad, visible, width
from ksi_client.views.events import duration, mark, summary
from ksi_client.watching import AgentRow, Entry, Watch

__all__ = ["Look", "Pane", "Part", "agents_pane", "events_pane", "joined", "models_pane", "span"]

BAR: Final = 10
_SIGNS: Final[Mapping[str, tuple[str, Color]]] = MappingProxyType(
    {"running": ("●", "yellow"), "idle": ("○", "green")}
)


class Part(NamedTuple):
    """A piece of a line and its colour."""

    text: str
    color: Color = ""


class Look(NamedTuple):
    """How it is looked at: when, in which colours and width, with what agents wrote or without."""

    now: datetime
    paint: Paint
    cells: int
    text: bool


class Pane(NamedTuple):
    """What stands in a pane's title, and its lines."""

    title: str
    lines: list[str]


def agents_pane(watch: Watch, look: Look, height: int) -> Pane:
    """Return the agents in at most *height* lines."""
    rows = watch.rows()
    running = sum(row.state == "running" for row in rows)
    told = f"{len(rows)}, {running} at work" if rows else "none; ksi spawn brings one to life"
    at, more = watch.offsets["agents"], ""
    name = min(20, max([width(visible(row.agent_id)) for row in rows], default=5) + 1)
    lines = [_agent(row, look, name) for row in rows[at : at + height]]
    if len(rows) > height:
        more = f", from the {_ordinal(at + 1)}" if at else ", the first of them"
    return Pane(told + more, lines)


def _agent(row: AgentRow, look: Look, name: int) -> str:
    sign, color = _SIGNS.get(row.state, ("·", "dim"))
    if row.doing is not None:
        doing = f"{row.doing} {_age(row.since, look.now)}"
    elif row.state == "running":
        doing = f"asks {row.model or 'its model'}" + (f", turn {row.turn}" if row.turn else "")
    else:
        doing = row.said if look.text and row.said else "-"
    age = f"{_age(row.spawned, look.now):>4} old" if row.spawned else ""
    last = f"{_age(row.last_at, look.now):>4}  {row.last}" if row.last else ""
    parts = [
        Part(pad(clip(visible(row.agent_id), name), name), "bold"),
        Part(pad(clip(visible(doing), 24), 24), color if row.state == "running" else "dim"),
        Part(pad(f"{_short(row.tokens)} tok", 9, right=True)),
        Part(pad(age, 8), "dim"),
        Part(visible(last), "dim"),
    ]
    return f"{look.paint(sign, color)} " + joined(parts, look.paint, look.cells - 2)


def events_pane(watch: Watch, look: Look, height: int) -> Pane:
    """Return the events in at most *height* lines."""
    entries = watch.events()
    at = min(watch.offsets["events"], max(0, len(entries) - height))
    shown = entries[max(0, len(entries) - height - at) : len(entries) - at]
    told = []
    if watch.filter:
        told.append(f"filter {visible(watch.filter)}")
    if watch.problems:
        told.append("only what went wrong")
    if watch.paused:
        told.append("standing still")
    if at:
        told.append(f"{at} newer below")
    return Pane(", ".join(told), [_event(each, look) for each in shown])


def _event(entry: Entry, look: Look) -> str:
    event, paint = entry.event, look.paint
    clock = f"{event.ts.astimezone():%H:%M:%S}"
    parts = [
        Part(pad(clip(visible(event.name), 22), 22), "bold"),
        Part(pad(clip(visible(event.agent_id or event.source), 14), 14), "cyan"),
        Part(visible(_end(entry, look.now)), "red" if entry.wrong else "dim"),
    ]
    if look.text:
        parts.append(Part(summary(event), "dim"))
    where = f"{paint(pad(f'#{event.seq}', 7, right=True), 'dim')} {paint(clock, 'dim')} "
    return where + f"{mark(entry.status, paint)} " + joined(parts, look.paint, look.cells - 19)


def _end(entry: Entry, now: datetime) -> str:
    """Return how an event ended, of a reply how long it took; nothing of what an agent wrote."""
    event = entry.event
    if entry.status == "received":
        return f"since {_age(event.ts, now)}"
    if entry.wrong:
        return entry.status if entry.code in (None, entry.status) else f"{entry.code}"
    if event.name == "completion:result":
        reply = msgspec.json.decode(event.data, type=_Reply)
        return f"{duration(reply.latency_ms)}, {reply.usage.output_tokens} tokens"
    return "" if entry.duration_ms is None else duration(entry.duration_ms)


class _Usage(msgspec.Struct, frozen=True):
    output_tokens: int = 0


class _Reply(msgspec.Struct, frozen=True):
    """What of a reply is told: what it cost, not what it says."""

    latency_ms: float = 0.0
    usage: _Usage = _Usage()


def models_pane(watch: Watch, look: Look, height: int) -> Pane:
    """Return the models in at most *height* lines."""
    rows = [row for row in watch.models if row.get("seen") or row.get("completions")]
    if not rows:
        return Pane("no replies yet", [])
    head = ("model", "dialect", "calls", "came to good", "95 %", "p50", "tokens")
    columns = [head, *(_model(row) for row in rows)]
    sizes = [max(width(row[n]) for row in columns) for n in range(len(head))]
    sizes[0] = min(sizes[0], max(10, look.cells - sum(sizes[1:]) - 2 * len(sizes)))
    at = min(watch.offsets["models"], max(0, len(rows) - max(1, height - 1)))
    lines = [look.paint(_columns(head, sizes, look.cells), "dim")]
    for row, told in list(zip(rows, columns[1:], strict=True))[at:]:
        rate = row.get("rate")
        color: Color = "dim" if rate is None else "green" if rate >= 0.9 else "yellow"
        lines.append(look.paint(_columns(told, sizes, look.cells), color))
    ways = f"{len(rows)} ways" if len(rows) > 1 else "one way"
    return Pane(f"{ways} to write calls", lines)


def _model(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate, low, high = (row.get(name) for name in ("rate", "low", "high"))
    p50 = row.get("p50_ms")
    return (
        visible(str(row.get("model") or "-")),
        visible(str(row.get("dialect") or "-")),
        str(row.get("seen", 0)),
        "-" if rate is None else f"{_bar(rate)} {rate:4.0%}",
        "-" if low is None or high is None else f"{low * 100:.0f}-{high * 100:.0f}",
        "-" if p50 is None else duration(p50),
        _short(int(row.get("tokens") or 0)),
    )


def _columns(row: Sequence[str], sizes: Sequence[int], cells: int) -> str:
    text = "  ".join(
        pad(clip(each, size), size, right=n in (2, 5, 6))
        for n, (each, size) in enumerate(zip(row, sizes, strict=True))
    )
    return clip(text, cells).rstrip()


def joined(parts: Sequence[Part], paint: Paint, cells: int) -> str:
    """Return *parts* in a line; the ones that do not fit are clipped or left out."""
    told: list[str] = []
    left = cells
    for part in parts:
        if left <= 1 or not part.text:
            continue
        text = clip(part.text, left)
        told.append(paint(text, part.color))
        left -= width(text) + 2
    return "  ".join(told)


def span(seconds: float) -> str:
    """Return a time as a person says it: 12s, 3m, 2h, 5d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def _bar(rate: float) -> str:
    full = round(rate * BAR)
    return "█" * full + "░" * (BAR - full)


def _age(since: datetime | None, now: datetime) -> str:
    return "-" if since is None else span(max(0.0, (now - since).total_seconds()))


def _short(count: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _ordinal(number: int) -> str:
    return f"{number}."
