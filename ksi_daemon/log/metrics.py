"""The figures of a report: rates with their uncertainty, times as a histogram. Pure.

A histogram of times counts them in bins, each GROWTH times as wide as the one before, so that two
of them add up to one and a percentile is known without the times themselves: the value that is
told for a bin is at most LATENCY_ERROR off, whichever time of the bin was meant.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

__all__ = [
    "LATENCY_ERROR",
    "latency_bin",
    "latency_ms",
    "percentiles_ms",
    "trials_to_tell",
    "wilson",
]

LATENCY_ERROR: Final = 0.02
GROWTH: Final = (1 + LATENCY_ERROR) / (1 - LATENCY_ERROR)
_Z: Final = 1.959963984540054  # the standard normal distribution's 97.5 % point
_POWER_Z: Final = 0.8416212335729143  # its 80 % point


def wilson(good: int, trials: int) -> tuple[float, float] | None:
    """Return the 95 % interval of the rate of which *good* of *trials* are a sample.

    Wilson's score interval, which stays honest for few trials and for rates near 0 and 1.
    """
    if trials <= 0:
        return None
    rate, square = good / trials, _Z * _Z
    centre = rate + square / (2 * trials)
    margin = _Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def trials_to_tell(one: float, other: float) -> int | None:
    """Return of how many trials each two rates are likely (four in five) told apart.

    None if they are the same.
    """
    if one == other:
        return None
    spread = one * (1 - one) + other * (1 - other)
    return max(1, math.ceil((_Z + _POWER_Z) ** 2 * spread / (one - other) ** 2))


def latency_bin(latency_us: int) -> int:
    """Return the bin of a time in microseconds; 0 holds all up to one."""
    return max(0, math.ceil(math.log(latency_us) / math.log(GROWTH))) if latency_us > 1 else 0


def latency_ms(number: int) -> float:
    """Return the time in milliseconds that stands for all of a bin."""
    return round(2 * GROWTH**number / (GROWTH + 1) / 1000, 3) if number else 0.001


def percentiles_ms(histogram: Mapping[int, int], parts: Sequence[float]) -> list[float | None]:
    """Return for each of *parts* the time that such a part of those in *histogram* do not exceed.

    *histogram* counts times by bin. Without any, there is no such time.
    """
    if not histogram:
        return [None] * len(parts)
    bins = sorted(histogram)
    seen = list(accumulate(histogram[number] for number in bins))
    wanted = (max(1, math.ceil(part * seen[-1])) for part in parts)
    return [latency_ms(bins[bisect_left(seen, number)]) for number in wanted]
