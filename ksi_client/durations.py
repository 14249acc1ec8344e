"""Lengths of time as people write them: ``90``, ``90s``, ``4m``, ``2h``, ``1.5d``."""

from __future__ import annotations

from math import inf
from typing import Final

import click

__all__ = ["duration", "spoken"]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(written: str) -> float:
    """Return what was *written* on the command line, in seconds, or raise BadParameter."""
    number, unit = written, 1
    if written[-1:] in _SECONDS:
        number, unit = written[:-1], _SECONDS[written[-1]]
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise click.BadParameter(f"{written!r} is no length of time; want 90, 90s, 4m, 2h or 1d")
    return seconds


def spoken(seconds: float) -> str:
    """Return a length of time in its largest unit, as a person says it."""
    for unit in ("d", "h", "m"):
        if round(seconds) >= _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.3g} {'min' if unit == 'm' else unit}"
    return f"{max(seconds, 0):.3g} s"
