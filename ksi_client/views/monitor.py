"""How a monitor looks: lines for the whole of a terminal, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from ksi_client.text import Paint, clip, pad, visible, width
from ksi_client.views.events import duration
from ksi_client.views.panes import (
    Look,
    Pane,
    Part,
    agents_pane,
    events_pane,
    joined,
    models_pane,
    span,
)
from ksi_client.watching import PANES, Watch

__all__ = ["screen"]

# From so many cells on the events stand beside the rest.
WIDE: Final = 140
# Of a pane that is not looked at: its title and some lines.
SMALL: Final = 5
# A queue that is longer is worth a look.
MANY: Final = 100
_KEYS: Final = (
    ("q", "quit"),
    ("p", "pause"),
    ("/", "filter"),
    ("!", "problems"),
    ("tab", "pane"),
    ("?", "help"),
)
_HELP: Final = (
    ("q", "quit"),
    ("p, blank", "let the events stand still, or go on; none is lost meanwhile"),
    ("/", "filter events by words or patterns:  agent:*  ada  denied"),
    ("!", "only what did not come to good"),
    ("c", "clear the filter"),
    ("tab", "the next pane, which gets the room there is"),
    ("up, down, k, j", "scroll; PgUp and PgDn further, g and G to the ends"),
    ("ctrl-l", "draw all anew"),
    ("?", "this, or away with it"),
)
_PANES: Final[Mapping[str, Callable[[Watch, Look, int], Pane]]] = MappingProxyType(
    {"agents": agents_pane, "events": events_pane, "models": models_pane}
)


def screen(
    watch: Watch, now: datetime, paint: Paint, cells: int, rows: int, *, text: bool
) -> list[str]:
    """Return exactly *rows* lines of at most *cells*; *text*: with what agents wrote."""
    look = Look(now, paint, cells, text)
    head = [_title(watch, look), _queues(watch, look)]
    body = max(1, rows - len(head) - 1)
    if watch.helping:
        lines = _help(look)
    elif cells >= WIDE:
        lines = _beside(watch, look, body)
    else:
        heights = _heights(watch, body)
        lines = [line for name in PANES for line in _pane(name, watch, look, heights[name])]
    whole = [*head, *_fitted(lines, body), _foot(watch, look)]
    return [line.rstrip() for line in whole[:rows]]


def _beside(watch: Watch, look: Look, body: int) -> list[str]:
    """Return the agents above the models at the left, and the events at the right."""
    left = max(72, look.cells * 2 // 5)
    models = min(body // 2, len(watch.models) + 3)
    narrow, wide = look._replace(cells=left), look._replace(cells=look.cells - left - 2)
    column = [
        *_pane("agents", watch, narrow, body - models),
        *_pane("models", watch, narrow, models),
    ]
    events = _pane("events", watch, wide, body)
    return [f"{_filled(a, left)}  {b}" for a, b in zip(column, events, strict=True)]


def _heights(watch: Watch, body: int) -> dict[str, int]:
    """Share the rows: what the panes need at least, the rest to the one that is looked at."""
    needs = {"agents": len(watch.agents) + 1, "models": len(watch.models) + 2, "events": body}
    heights = {name: min(SMALL, max(3, needs[name])) for name in PANES}
    left = body - sum(heights.values())
    wanted = [watch.pane, "events"]
    for name in wanted:
        more = min(max(left, 0), max(0, needs[name] - heights[name]))
        heights[name] += more
        left -= more
    return heights


def _pane(name: str, watch: Watch, look: Look, height: int) -> list[str]:
    told, lines = _PANES[name](watch, look, max(0, height - 1))
    title = f"{name}  {told}" if told else name
    focused = watch.pane == name
    # The one that is looked at shows without colours, too.
    stroke = "━" if focused else "─"
    line = clip(f"{stroke} {title} ", look.cells)
    rule = line + stroke * (look.cells - width(line))
    return _fitted([look.paint(rule, "cyan" if focused else "dim"), *lines], height)


def _title(watch: Watch, look: Look) -> str:
    health = watch.health
    if watch.lost is not None:
        parts = [
            Part("● gone", "red"),
            Part(f"waiting for it to come back: {visible(watch.lost)}"),
        ]
    else:
        parts = [
            Part("● up", "green"),
            Part(f"{span(float(health.get('uptime_s', 0)))}, pid {health.get('pid', '-')}"),
            Part(f"{watch.rate(look.now):.1f} events/s"),
            Part(f"answers in {duration(watch.answered_ms)}", "dim"),
        ]
    if watch.paused:
        parts.insert(0, Part("PAUSED", "yellow"))
    clock = f"{look.now.astimezone():%H:%M:%S}"
    left = joined([Part("ksi", "bold"), *parts], look.paint, look.cells - len(clock) - 2)
    return f"{_filled(left, look.cells - len(clock))}{look.paint(clock, 'dim')}"


def _queues(watch: Watch, look: Look) -> str:
    health = watch.health
    writer = health.get("writer") or {}
    depth = int(writer.get("depth", 0))
    lag = "-" if watch.lag_ms is None else duration(watch.lag_ms)
    parts = [
        Part(f"to write {depth}", "yellow" if depth > MANY else ""),
        Part(f"handlers {health.get('handlers_running', 0)}"),
        Part(f"to see {watch.behind}", "yellow" if watch.behind > MANY else ""),
        Part(f"lag {lag}"),
        Part(f"clients {health.get('connections', 0)}", "dim"),
        Part(f"subscribers {health.get('subscriptions', 0)}", "dim"),
        Part(f"log #{health.get('last_seq', 0)}", "dim"),
    ]
    return joined(parts, look.paint, look.cells)


def _foot(watch: Watch, look: Look) -> str:
    if watch.typed is not None:
        parts = [Part(f"/{visible(watch.typed)}▏"), Part("enter takes it, esc does not", "dim")]
        return joined(parts, look.paint, look.cells)
    return joined([Part(f"{key} {what}", "dim") for key, what in _KEYS], look.paint, look.cells)


def _help(look: Look) -> list[str]:
    keys = [(look.paint(pad(key, 16), "bold"), what) for key, what in _HELP]
    lines = [f"  {key}{clip(what, look.cells - 18)}" for key, what in keys]
    return ["", *lines, "", f"  {clip('Any key leads back.', look.cells - 2)}"]


def _fitted(lines: Sequence[str], height: int) -> list[str]:
    return [*lines[:height], *[""] * (height - len(lines))]


def _filled(line: str, cells: int) -> str:
    """Return *line*, which may hold colours, filled up to *cells*."""
    return line + " " * max(0, cells - width(_plain(line)))


def _plain(line: str) -> str:
    return "".join(_pieces(line))


def _pieces(line: str) -> Iterator[str]:
    """Yield what of *line* is not a colour."""
    first, *rest = line.split("\x1b[")
    yield first
    for piece in rest:
        yield piece.partition("m")[2]
