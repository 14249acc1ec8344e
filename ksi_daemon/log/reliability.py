"""Reports of reliability: which counts they are made of, and their rows.

A report over whole hours is read from the roll-up, if there is a cube for its keys; what of its
time are parts of hours is scanned. A report by other keys, and one that is asked for as ``exact``,
is scanned as a whole.

rate = handled / (seen - quoted): of the blocks that were meant to fire, how many were handled. low
and high bound it with 95 % confidence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.log import counts
from ksi_daemon.log.counts import MOST_TURNS, Counts
from ksi_daemon.log.metrics import percentiles_ms, wilson
from ksi_daemon.log.rollup import DAY, HOUR, SIZES, cube_of, hours_from
from ksi_daemon.log.scan import SCANS, Key, scan_sql, scanned

__all__ = ["COUNTS", "gather", "reliability_rows"]

# The fields of a row that are counts, with their names in ``counts`` where these differ.
COUNTS: Final = (
    "seen",
    "strict",
    "repaired",
    "rejected",
    "invalid",
    "unknown",
    "denied",
    "handled",
    "failed",
    "corrected",
    "quoted",
)
_MORE: Final = ("refused", "interrupted", "errors", "cut_off", "echoed", "suspects", "lost")
_NAMED: Final = {"quoted": "held", "suspects": "suspect", "lost": "missed"}
_PERCENTILES: Final = ("p50_ms", "p95_ms", "p99_ms")
_PARTS: Final = (0.5, 0.95, 0.99)
_ENDS: Final = ("handled", "failed", "denied", "unknown", "refused", "interrupted")
_FAILURES: Final = ("failed", "denied", "unknown", "refused", "interrupted")
_SECOND: Final = 1_000_000
_MICROSECONDS: Final = HOUR * _SECOND
_BILLION: Final = 1_000_000_000
_FORMATS: Final = {"hour": "%Y-%m-%dT%H:00:00Z", "day": "%Y-%m-%d"}
_ORDER: Final = {name: n for n, (_, name) in enumerate(SIZES)}

_decode: Final = msgspec.json.Decoder(Counts).decode

Ask = Callable[..., Awaitable[list[tuple[Any, ...]]]]


class _Plan(NamedTuple):
    """How a report is made: of the days [day, last_day) and the hours [first, day) and [last_day,
    last), in seconds, and of scans over times in microseconds."""

    first: int
    day: int
    last_day: int
    last: int
    scans: tuple[tuple[int, int], ...]


async def gather(
    ask: Ask,
    queries: Mapping[str, str],
    group_by: Sequence[str],
    span: tuple[int, int],
    *,
    exact: bool = False,
) -> dict[Key, Counts]:
    """Return the counts of each group over a time in microseconds, its end excluded.

    *ask* returns the rows of an SQL query. Of a time from which the hours are forgotten, parts of
    days are scanned: what is pruned of them is missing.
    """
    cube = None if exact else cube_of(set(group_by) - {"hour", "day"})
    if cube is None:
        return await _scan(ask, queries, group_by, span)
    before = None
    groups: dict[Key, Counts] = {}
    # If a day ends meanwhile, hours of the plan may be gone.
    while before != (before := (await ask(queries["closed"]))[0][0]):
        plan = _plan(*span, before or 0, by_hour="hour" in group_by)
        groups = await _read(ask, queries, group_by, cube, plan)
    return groups


async def _read(
    ask: Ask, queries: Mapping[str, str], group_by: Sequence[str], cube: str, plan: _Plan
) -> dict[Key, Counts]:
    groups: dict[Key, Counts] = {}
    sql = queries["rolled"].format(keys=_rolled_keys(group_by))
    for *key, found in await ask(sql, {"cube": cube, **plan._asdict()}):
        _add(groups, tuple(key), _decode(found))
    for times in plan.scans:
        for group, sums in (await _scan(ask, queries, group_by, times)).items():
            _add(groups, group, sums)
    return groups


async def _scan(
    ask: Ask, queries: Mapping[str, str], group_by: Sequence[str], times: tuple[int, int]
) -> dict[Key, Counts]:
    answers = [await ask(scan_sql(queries[name], group_by), times) for name in SCANS]
    return scanned(len(group_by), *answers)


def reliability_rows(group_by: Sequence[str], groups: Mapping[Key, Counts]) -> list[dict[str, Any]]:
    """Return a row for each group, sorted by its keys, those that are none first."""
    keyed = sorted((tuple(map(_told, group_by, key)), found) for key, found in groups.items())
    return [
        {name: each.value for name, each in zip(group_by, key, strict=True)} | _row(found)
        for key, found in keyed
    ]


class _Told(NamedTuple):
    """A value of a key, *order* to sort by first."""

    order: tuple[bool, int]
    text: str
    value: str | None


def _told(name: str, value: Any) -> _Told:
    if name in _FORMATS:
        text = datetime.fromtimestamp(value, UTC).strftime(_FORMATS[name])
        return _Told((True, 0), text, text)
    order = _ORDER.get(value, 0) if name == "size" else 0
    return _Told((value != "", order), value, value or None)


def _row(found: Counts) -> dict[str, Any]:
    count = found.get
    meant = count("seen", 0) - count("held", 0)
    kinds = counts.kinds(found)
    histogram = {int(name): number for name, number in kinds.get("latency", {}).items()}
    tokens = count("input_tokens", 0), count("output_tokens", 0)
    priced = count("priced", 0)
    return {
        "completions": count("completions", 0),
        **{name: count(_NAMED.get(name, name), 0) for name in COUNTS},
        **_rate(count("handled", 0), meant),
        **dict(zip(_PERCENTILES, percentiles_ms(histogram, _PARTS), strict=True)),
        "tokens": sum(tokens),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "usd": count("cost_nusd", 0) / _BILLION if priced else None,
        "unpriced": count("completions", 0) - priced,
        **{name: count(_NAMED.get(name, name), 0) for name in _MORE},
        "open": count("strict", 0) + count("repaired", 0) - sum(count(name, 0) for name in _ENDS),
        "tries": _tries(found),
        "repairs": _ranked(kinds.get("repair", {})),
        "rejections": _ranked(kinds.get("rejected", {})),
        "failures": _ranked(counts.total(kinds.get(word, {}) for word in _FAILURES)),
        "provider_errors": _ranked(kinds.get("error", {})),
        "faults": counts.faults(found, kinds),
    }


def _tries(found: Counts) -> list[dict[str, Any]]:
    """Return how many first tries came to good at once, after one correction, two, three."""
    good = found.get("handled_first", 0)
    told = []
    for corrections in range(MOST_TURNS):
        good += found.get(f"recovered:{corrections}", 0)
        n = found.get("first", 0)
        told.append({"corrections": corrections, "n": n, "handled": good, **_rate(good, n)})
    return told


def _rate(good: int, trials: int) -> dict[str, float | None]:
    interval = wilson(min(good, trials), trials)
    return {
        "rate": good / trials if trials else None,
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
    }


def _ranked(kinds: Counts) -> Counts:
    """Return *kinds* with the most frequent first."""
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def _plan(since_us: int, until_us: int, before: int, *, by_hour: bool) -> _Plan:
    """Return how a time is read if *before* is the first day that has no row of its own."""
    first, last = -(-since_us // _MICROSECONDS) * HOUR, until_us // _MICROSECONDS * HOUR
    kept = hours_from(before)
    day = -(-first // DAY) * DAY
    last_day = min(last // DAY * DAY, before)
    if by_hour or day >= last_day:
        # Hours only.
        day = last_day = first = max(first, kept)
        if first >= last:
            return _Plan(0, 0, 0, 0, ((since_us, until_us),))
    else:
        first = first if first >= kept else day
        last = last if last_day >= kept else last_day
    edges = (since_us, first * _SECOND), (last * _SECOND, until_us)
    scans = tuple((start, end) for start, end in edges if start < end)
    return _Plan(first, day, last_day, last, scans)


def _rolled_keys(group_by: Iterable[str]) -> str:
    times = {"hour": "start AS hour", "day": f"start / {DAY} * {DAY} AS day"}
    return ", ".join(times.get(key, key) for key in group_by)


def _add(groups: dict[Key, Counts], key: Key, found: Counts) -> None:
    held = groups.setdefault(key, {})
    for name, number in found.items():
        held[name] = held.get(name, 0) + number
