"""Moments as people write them: a time with its zone, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

import click

from ksi_client.durations import duration
from ksi_daemon.events import now

__all__ = ["moment", "parse_time"]

_AGO: Final = re.compile(r"\d{1,6}(\.\d+)?[smhd]")


def moment(text: str) -> datetime:
    """Return the moment of RFC 3339 text, of seconds since 1970, or of ``90s`` ``2h`` ``7d`` ago.

    Raise ValueError.
    """
    if _AGO.fullmatch(text):
        return now() - timedelta(seconds=duration(text))
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return datetime.fromtimestamp(float(text), now().tzinfo)
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("without a zone it would mean another time elsewhere")
    return found


def parse_time(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    """Return the moment that an option names; a click callback."""
    if value is None:
        return None
    try:
        return moment(value)
    except (ValueError, OverflowError, OSError) as exc:
        raise click.BadParameter(
            f"{value!r} is no time: 2026-01-31T12:00:00Z, seconds since 1970, or 90s, 2h, 7d ago"
        ) from exc
