"""An EventFilter as SQL. Pure.

The pattern language has one wildcard, GLOB has three; and GLOB tries every way of placing its
wildcards, so a pattern of many costs a hostile amount. Patterns of one or two wildcards become
GLOBs, which SQLite evaluates by itself; the others call ``events.matches``, which is linear, as
the SQL function ``matches(pattern, name)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.rows import microseconds
from ksi_daemon.log.search import search_condition

__all__ = ["condition", "is_narrow", "name_condition"]

Condition = tuple[str, tuple[Any, ...]]

GLOB_WILDCARDS: Final = 2
GLOB_LENGTH: Final = 1_000  # SQLite refuses patterns of 50,000 bytes


def condition(wanted: EventFilter) -> Condition:
    """Return what events ``e`` with outcomes ``o`` must fulfil, but for their seqs."""
    parts = list(_conditions(wanted))
    return (
        " AND ".join(["TRUE", *(sql for sql, _ in parts)]),
        tuple(value for _, values in parts for value in values),
    )


def is_narrow(wanted: EventFilter) -> bool:
    """Say whether an index leads to the events, so that not all between two seqs are read."""
    return any((wanted.agent_id, wanted.correlation_id, wanted.completion_id))


def name_condition(column: str, pattern: str) -> Condition:
    """Return the condition that *column* matches *pattern*."""
    pattern = re.sub(r"\*+", "*", pattern)
    wildcards = pattern.count("*")
    if not wildcards:
        return f"{column} = ?", (pattern,)
    if pattern == "*":
        return "TRUE", ()
    # A GLOB ends at a NUL, as it does for the names, which hold none.
    if wildcards > GLOB_WILDCARDS or len(pattern) > GLOB_LENGTH or "\0" in pattern:
        return f"matches(?, {column})", (pattern,)
    return f"{column} GLOB ?", (re.sub(r"[\[?]", r"[\g<0>]", pattern),)


def _conditions(wanted: EventFilter) -> Iterator[Condition]:
    for column, value in (
        ("e.agent_id", wanted.agent_id),
        ("e.correlation_id", wanted.correlation_id),
        ("e.completion_id", wanted.completion_id),
        ("coalesce(o.status, e.status)", wanted.status),
    ):
        if value is not None:
            yield f"{column} = ?", (value,)
    if wanted.since is not None:
        yield "e.ts >= ?", (microseconds(wanted.since),)
    if wanted.until is not None:
        yield "e.ts < ?", (microseconds(wanted.until),)
    if wanted.patterns:
        parts = [name_condition("e.name", pattern) for pattern in wanted.patterns]
        names = " OR ".join(sql for sql, _ in parts)
        yield f"({names})", tuple(value for _, values in parts for value in values)
    # Last: it costs most, and SQLite asks in this order.
    if wanted.words:
        yield search_condition(wanted.words)
