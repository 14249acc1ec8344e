"""Lengths of time as people write them: ``90``, ``90s``, ``4m``, ``2h``, ``1.5d``."""

from __future__ import annotations

from math import inf
from typing import Any, Final

import click

__all__ = ["DURATION", "Duration", "spoken"]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Duration(click.ParamType):
    """A length of time on the command line; its value is in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return *value* in seconds, or fail with how it is to be written."""
        number, unit = str(value), 1
        if number[-1:] in _SECONDS:
            number, unit = number[:-1], _SECONDS[number[-1]]
        try:
            seconds = float(number) * unit
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < inf:
            self.fail(f"{value!r} is no length of time; want 90, 90s, 4m, 2h or 1d", param, ctx)
        return seconds


DURATION: Final = Duration()


def spoken(seconds: float) -> str:
    """Return a length of time in its largest unit, as a person says it."""
    for unit in ("d", "h", "m"):
        if round(seconds) >= _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.3g} {'min' if unit == 'm' else unit}"
    return f"{max(seconds, 0):.3g} s"
