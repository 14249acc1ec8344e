"""Reliability from counts: rates with their uncertainty, latencies, one row a group. Pure.

rate = handled / (seen - quoted): of the blocks that were meant to fire, how many were handled.
low and high bound it with 95 % confidence (Wilson's score interval, which stays honest for few
trials and for rates near 0 and 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["COUNTS", "percentile", "reliability_rows", "wilson"]

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
_Z: Final = 1.959963984540054  # the standard normal distribution's 97.5 % point


def wilson(good: int, trials: int) -> tuple[float, float] | None:
    """Return the 95 % interval of the rate of which *good* of *trials* are a sample."""
    if trials <= 0:
        return None
    rate, square = good / trials, _Z * _Z
    centre = rate + square / (2 * trials)
    margin = _Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def percentile(values: Sequence[float], part: float) -> float | None:
    """Return the smallest of the sorted *values* that *part* of them do not exceed."""
    if not values:
        return None
    return values[max(0, math.ceil(part * len(values)) - 1)]


def reliability_rows(
    group_by: Sequence[str],
    attempts: Iterable[Sequence[Any]],
    completions: Iterable[Sequence[Any]],
) -> list[dict[str, Any]]:
    """Return a row for each group, sorted by its keys.

    *attempts*: the group's keys, then COUNTS. *completions*: the group's keys, then id, latency
    in microseconds, tokens; each completion once a group.
    """
    width = len(group_by)
    counts = {tuple(row[:width]): dict(zip(COUNTS, row[width:], strict=True)) for row in attempts}
    replies: dict[tuple[Any, ...], list[tuple[int, int]]] = {key: [] for key in counts}
    for row in completions:
        replies.setdefault(tuple(row[:width]), []).append((row[width + 1], row[width + 2]))
    keys = sorted(replies, key=lambda key: tuple((part is not None, part) for part in key))
    none = dict.fromkeys(COUNTS, 0)
    return [
        dict(zip(group_by, key, strict=True)) | _row(counts.get(key, none), replies[key])
        for key in keys
    ]


def _row(counts: Mapping[str, int], replies: Sequence[tuple[int, int]]) -> dict[str, Any]:
    trials = counts["seen"] - counts["quoted"]
    interval = wilson(counts["handled"], trials)
    latencies = sorted(latency / 1000 for latency, _ in replies)
    return {
        "completions": len(replies),
        **counts,
        "rate": counts["handled"] / trials if trials else None,
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
        "p50_ms": percentile(latencies, 0.5),
        "p95_ms": percentile(latencies, 0.95),
        "tokens": sum(tokens for _, tokens in replies),
    }
