"""Rates over time as a chart of text: a point for each hour or day, a bar for its 95 % interval.

A chart is as wide as the terminal; where there are more points than cells, the last ones are shown.
Its scale begins at what the lowest point needs, in steps of a tenth, and ends at 100 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from ksi_client.text import Paint, clip, visible
from ksi_client.views.reliability import rated

__all__ = ["MAX_CHARTS", "charts"]

Row = Mapping[str, Any]

MAX_CHARTS: Final = 8
HEIGHT: Final = 6
# What stands at the left of a chart: "100.0 ┤".
_LEFT: Final = 7
_BARS: Final = "▁▂▃▄▅▆▇█"
_STEPS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_SHOWN: Final = {"hour": "%m-%d %H:00", "day": "%Y-%m-%d"}


class Point(NamedTuple):
    """Of *n* calls at a time, *rate* came to good, within *low* and *high*."""

    n: int
    rate: float
    low: float
    high: float


def charts(group_by: Sequence[str], rows: Sequence[Row], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a chart for each group of the *rows* of a report by *group_by* and one of time.

    The key of time is ``hour`` or ``day`` and comes last.
    """
    *keys, step = group_by
    groups = _groups(keys, step, rows)
    if not groups:
        yield "no calls in this time"
        return
    times = _times(step, groups)
    room = max(cells - _LEFT, 10)
    shown = times[-room:]
    for number, (name, points) in enumerate(groups[:MAX_CHARTS]):
        if number:
            yield ""
        yield paint(clip(visible(name), cells), "bold")
        yield from _chart([points.get(at) for at in shown], paint)
        yield " " * _LEFT + _axis(shown, step, room)
    yield from _notes(len(groups), len(times) - len(shown), step)


def _groups(
    keys: Sequence[str], step: str, rows: Sequence[Row]
) -> list[tuple[str, dict[datetime, Point]]]:
    """Return the points of each group by its name, the group with the most calls first."""
    found: dict[str, dict[datetime, Point]] = {}
    for row in rows:
        n = row["seen"] - row["quoted"]
        if n:
            name = "  ".join(str(row[key]) for key in keys if row[key] is not None) or "all"
            at = datetime.fromisoformat(row[step].replace("Z", "+00:00"))
            point = Point(n, row["rate"], row["low"], row["high"])
            found.setdefault(name, {})[at] = point
    return sorted(found.items(), key=lambda group: (-_calls(group[1].values()), group[0]))


def _calls(points: Any) -> int:
    return sum(point.n for point in points)


def _times(step: str, groups: Sequence[tuple[str, Mapping[datetime, Point]]]) -> list[datetime]:
    """Return all times from the first point to the last one, also those without a point."""
    known = [at for _, points in groups for at in points]
    first, last = min(known), max(known)
    count = (last - first) // _STEPS[step]
    return [first + n * _STEPS[step] for n in range(count + 1)]


def _chart(points: Sequence[Point | None], paint: Paint) -> Iterator[str]:
    lowest = min((point.rate for point in points if point), default=1.0)
    floor = min(int(lowest * 10) / 10, 0.9)
    step = (1 - floor) / (HEIGHT - 1)
    for level in reversed(range(HEIGHT)):
        line = "".join(_cell(point, level, floor, step, paint) for point in points)
        yield f"{(floor + level * step) * 100:5.1f} ┤{line}".rstrip()
    yield f"calls │{_bars([point.n if point else 0 for point in points])}".rstrip()


def _cell(point: Point | None, level: int, floor: float, step: float, paint: Paint) -> str:
    """Return what stands at a *level*: levels are a *step* apart, from *floor* on."""
    if point is None:
        return " "
    low, rate, high = (
        round((value - floor) / step) for value in (point.low, point.rate, point.high)
    )
    if level == rate:
        return paint("●", rated(point.rate))
    return paint("│", "dim") if low <= level <= high else " "


def _bars(numbers: Sequence[int]) -> str:
    most = max(numbers, default=0) or 1
    return "".join(_BARS[(n * len(_BARS) - 1) // most] if n else " " for n in numbers)


def _axis(times: Sequence[datetime], step: str, room: int) -> str:
    """Return the first time at the left and the last at the right, as far as there is room."""
    first, last = (at.strftime(_SHOWN[step]) for at in (times[0], times[-1]))
    gap = len(times) - len(first) - len(last)
    if gap >= 1:
        return f"{first}{' ' * gap}{last}"
    both = f"{first} to {last}" if len(times) > 1 else first
    return both if len(both) <= room else first


def _notes(groups: int, times: int, step: str) -> Iterator[str]:
    if groups > MAX_CHARTS:
        yield f"{groups - MAX_CHARTS} groups with fewer calls are left out; --json has all"
    if times:
        yield f"{times} earlier {step}s are left out; --json has all"
