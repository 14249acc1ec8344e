"""How a monitor looks: lines for the whole of a terminal, whatever its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from ksi_client.text import Color, Paint, clip, pad, visible, width
from ksi_client.views.events import duration, mark, summary
from ksi_client.watching import PANES, AgentRow, Entry, Watch

__all__ = ["screen"]

# From so many cells on the events stand beside the rest.
WIDE: Final = 140
# Of a pane that is not looked at: its title and some lines.
SMALL: Final = 5
BAR: Final = 10
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
_SIGNS: Final[Mapping[str, tuple[str, Color]]] = MappingProxyType(
    {"running": ("●", "yellow"), "idle": ("○", "green")}
)


class _Part(NamedTuple):
    """A piece of a line and its colour."""

    text: str
    color: Color = ""


def screen(
    watch: Watch, now: datetime, paint: Paint, cells: int, rows: int, *, text: bool
) -> list[str]:
    """Return exactly *rows* lines of at most *cells*; *text*: with what agents wrote."""
    head = [_title(watch, now, paint, cells), _queues(watch, now, paint, cells)]
    body = max(1, rows - len(head) - 1)
    if watch.helping:
        lines = _fitted(_help(paint, cells), body)
    elif cells >= WIDE:
        lines = _beside(watch, now, paint, cells, body, text=text)
    else:
        heights = _heights(watch, body)
        lines = [
            line
            for name in PANES
            for line in _pane(name, watch, now, paint, cells, heights[name], text=text)
        ]
    return [line.rstrip() for line in (*head, *_fitted(lines, body), _foot(watch, paint, cells))][
        :rows
    ]


def _beside(
    watch: Watch, now: datetime, paint: Paint, cells: int, body: int, *, text: bool
) -> list[str]:
    """Return the agents above the models at the left, and the events at the right."""
    left = max(72, cells * 2 // 5)
    models = min(body // 2, len(watch.models) + 3)
    column = [
        *_pane("agents", watch, now, paint, left, body - models, text=text),
        *_pane("models", watch, now, paint, left, models, text=text),
    ]
    events = _pane("events", watch, now, paint, cells - left - 2, body, text=text)
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


def _pane(
    name: str, watch: Watch, now: datetime, paint: Paint, cells: int, height: int, *, text: bool
) -> list[str]:
    draw = {"agents": _agents, "events": _events, "models": _models}[name]
    told, lines = draw(watch, now, paint, cells, max(0, height - 1), text)
    title = f"{name}  {told}" if told else name
    focused = watch.pane == name
    # The one that is looked at shows without colours, too.
    stroke = "━" if focused else "─"
    line = clip(f"{stroke} {title} ", cells)
    rule = line + stroke * (cells - width(line))
    return _fitted([paint(rule, "cyan" if focused else "dim"), *lines], height)


def _agents(
    watch: Watch, now: datetime, paint: Paint, cells: int, height: int, text: bool
) -> tuple[str, list[str]]:
    rows = watch.rows()
    running = sum(row.state == "running" for row in rows)
    told = f"{len(rows)}, {running} at work" if rows else "none; ksi spawn brings one to life"
    at, more = watch.offsets["agents"], ""
    name = min(20, max([width(visible(row.agent_id)) for row in rows], default=5) + 1)
    lines = [_agent(row, now, paint, cells, name, text=text) for row in rows[at : at + height]]
    if len(rows) > height:
        more = f", from the {_ordinal(at + 1)}" if at else ", the first of them"
    return told + more, lines


def _agent(row: AgentRow, now: datetime, paint: Paint, cells: int, name: int, *, text: bool) -> str:
    sign, color = _SIGNS.get(row.state, ("·", "dim"))
    if row.doing is not None:
        doing = f"{row.doing} {_age(row.since, now)}"
    elif row.state == "running":
        doing = f"asks {row.model or 'its model'}" + (f", turn {row.turn}" if row.turn else "")
    else:
        doing = row.said if text and row.said else "-"
    age = f"{_age(row.spawned, now):>4} old" if row.spawned else ""
    last = f"{_age(row.last_at, now):>4}  {row.last}" if row.last else ""
    parts = [
        _Part(pad(clip(visible(row.agent_id), name), name), "bold"),
        _Part(pad(clip(visible(doing), 24), 24), color if row.state == "running" else "dim"),
        _Part(pad(f"{_short(row.tokens)} tok", 9, right=True)),
        _Part(pad(age, 8), "dim"),
        _Part(visible(last), "dim"),
    ]
    return f"{paint(sign, color)} " + _line(parts, paint, cells - 2)


def _events(
    watch: Watch, now: datetime, paint: Paint, cells: int, height: int, text: bool
) -> tuple[str, list[str]]:
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
    return ", ".join(told), [_event(each, now, paint, cells, text=text) for each in shown]


def _event(entry: Entry, now: datetime, paint: Paint, cells: int, *, text: bool) -> str:
    event = entry.event
    clock = f"{event.ts.astimezone():%H:%M:%S}"
    parts = [
        _Part(pad(clip(visible(event.name), 22), 22), "bold"),
        _Part(pad(clip(visible(event.agent_id or event.source), 14), 14), "cyan"),
        _Part(visible(_end(entry, now)), "red" if entry.wrong else "dim"),
    ]
    if text:
        parts.append(_Part(summary(event), "dim"))
    where = f"{paint(pad(f'#{event.seq}', 7, right=True), 'dim')} {paint(clock, 'dim')} "
    return where + f"{mark(entry.status, paint)} " + _line(parts, paint, cells - 19)


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


def _models(
    watch: Watch, now: datetime, paint: Paint, cells: int, height: int, text: bool
) -> tuple[str, list[str]]:
    rows = [row for row in watch.models if row.get("seen") or row.get("completions")]
    if not rows:
        return "no replies yet", []
    head = ("model", "dialect", "calls", "came to good", "95 %", "p50", "tokens")
    columns = [head, *(_model(row) for row in rows)]
    sizes = [max(width(row[n]) for row in columns) for n in range(len(head))]
    sizes[0] = min(sizes[0], max(10, cells - sum(sizes[1:]) - 2 * len(sizes)))
    at = min(watch.offsets["models"], max(0, len(rows) - max(1, height - 1)))
    lines = [paint(_columns(head, sizes, cells), "dim")]
    for row, told in list(zip(rows, columns[1:], strict=True))[at:]:
        rate = row.get("rate")
        color: Color = "dim" if rate is None else "green" if rate >= 0.9 else "yellow"
        lines.append(paint(_columns(told, sizes, cells), color))
    ways = f"{len(rows)} ways" if len(rows) > 1 else "one way"
    return f"{ways} to write calls", lines


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


def _title(watch: Watch, now: datetime, paint: Paint, cells: int) -> str:
    health = watch.health
    if watch.lost is not None:
        parts = [
            _Part("● gone", "red"),
            _Part(f"waiting for it to come back: {visible(watch.lost)}"),
        ]
    else:
        parts = [
            _Part("● up", "green"),
            _Part(f"{_span(float(health.get('uptime_s', 0)))}, pid {health.get('pid', '-')}"),
            _Part(f"{watch.rate(now):.1f} events/s"),
            _Part(f"answers in {duration(watch.answered_ms)}", "dim"),
        ]
    if watch.paused:
        parts.insert(0, _Part("PAUSED", "yellow"))
    clock = f"{now.astimezone():%H:%M:%S}"
    left = _line([_Part("ksi", "bold"), *parts], paint, cells - len(clock) - 2)
    return f"{_filled(left, cells - len(clock))}{paint(clock, 'dim')}"


def _queues(watch: Watch, now: datetime, paint: Paint, cells: int) -> str:
    health = watch.health
    writer = health.get("writer") or {}
    depth = int(writer.get("depth", 0))
    lag = "-" if watch.lag_ms is None else duration(watch.lag_ms)
    parts = [
        _Part(f"to write {depth}", "yellow" if depth > MANY else ""),
        _Part(f"handlers {health.get('handlers_running', 0)}"),
        _Part(f"to see {watch.behind}", "yellow" if watch.behind > MANY else ""),
        _Part(f"lag {lag}"),
        _Part(f"clients {health.get('connections', 0)}", "dim"),
        _Part(f"subscribers {health.get('subscriptions', 0)}", "dim"),
        _Part(f"log #{health.get('last_seq', 0)}", "dim"),
    ]
    return _line(parts, paint, cells)


def _foot(watch: Watch, paint: Paint, cells: int) -> str:
    if watch.typed is not None:
        parts = [_Part(f"/{visible(watch.typed)}▏"), _Part("enter takes it, esc does not", "dim")]
        return _line(parts, paint, cells)
    return _line([_Part(f"{key} {what}", "dim") for key, what in _KEYS], paint, cells)


def _help(paint: Paint, cells: int) -> list[str]:
    lines = [
        "",
        *(f"  {paint(pad(key, 16), 'bold')}{clip(what, cells - 18)}" for key, what in _HELP),
    ]
    return [*lines, "", f"  {clip('Any key leads back.', cells - 2)}"]


def _line(parts: Sequence[_Part], paint: Paint, cells: int) -> str:
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


def _bar(rate: float) -> str:
    full = round(rate * BAR)
    return "█" * full + "░" * (BAR - full)


def _age(since: datetime | None, now: datetime) -> str:
    return "-" if since is None else _span(max(0.0, (now - since).total_seconds()))


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _short(count: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _ordinal(number: int) -> str:
    return f"{number}."
