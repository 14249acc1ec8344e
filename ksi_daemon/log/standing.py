"""The rows of what acts by itself, routing rules and timers, for ``work.Statement``."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ksi_daemon.log.rows import microseconds
from ksi_daemon.work import Statement

__all__ = [
    "LoggedRule",
    "LoggedTimer",
    "rule",
    "rule_deleted",
    "rule_fired",
    "rules_at",
    "standing_ended",
    "timer",
    "timer_deleted",
    "timer_fired",
]


class LoggedRule(msgspec.Struct, frozen=True):
    """A rule as the log has it: it has seen all events up to *position*."""

    name: str
    spec: bytes
    agent_id: str | None
    made: datetime
    position: int
    fires: int


class LoggedTimer(msgspec.Struct, frozen=True):
    """A timer as the log has it; *event_id* is the event that set it."""

    name: str
    spec: bytes
    agent_id: str | None
    event_id: str
    due: datetime
    fires: int


def rule(name: str, spec: bytes, agent_id: str | None, made: datetime, position: int) -> Statement:
    """Enter a rule."""
    return (
        "INSERT INTO rules (name, spec, agent_id, made, position) VALUES (?, ?, ?, ?, ?)",
        (name, spec.decode(), agent_id, microseconds(made), position),
    )


def rule_fired(name: str) -> Statement:
    """Count a firing; committed together with the event that the rule submitted."""
    return "UPDATE rules SET fires = fires + 1 WHERE name = ?", (name,)


def rules_at(position: int) -> Statement:
    """Note that all rules have seen the events up to *position*."""
    return "UPDATE rules SET position = ? WHERE position < ?", (position, position)


def rule_deleted(name: str) -> Statement:
    """Delete a rule."""
    return "DELETE FROM rules WHERE name = ?", (name,)


def timer(name: str, spec: bytes, agent_id: str | None, event_id: str, due: datetime) -> Statement:
    """Enter a timer."""
    return (
        "INSERT INTO timers (name, spec, agent_id, event_id, due) VALUES (?, ?, ?, ?, ?)",
        (name, spec.decode(), agent_id, event_id, microseconds(due)),
    )


def timer_fired(name: str, due: datetime) -> Statement:
    """Count a firing and set the next; committed together with the event that was submitted."""
    return (
        "UPDATE timers SET fires = fires + 1, due = ? WHERE name = ?",
        (microseconds(due), name),
    )


def timer_deleted(name: str) -> Statement:
    """Delete a timer, because it has fired for the last time or was cancelled."""
    return "DELETE FROM timers WHERE name = ?", (name,)


def standing_ended(agent_id: str) -> list[Statement]:
    """Delete the rules and timers of an agent."""
    return [
        ("DELETE FROM rules WHERE agent_id = ?", (agent_id,)),
        ("DELETE FROM timers WHERE agent_id = ?", (agent_id,)),
    ]
