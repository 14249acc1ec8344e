"""Attempts that went wrong: their rows for ``work.Statement``, and what of them is asked.

An attempt is known by the seq of the event that it became: the call as it was refused or failed,
or the notice that the block was rejected. It is ``open`` until it is ``resolved``, by the agent
in a later turn or by a person's fix that came to good, or ``dismissed`` by a person.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ksi_daemon.events import ErrorInfo, Status
from ksi_daemon.log.rows import microseconds
from ksi_daemon.work import Statement

__all__ = [
    "AttemptFilter",
    "AttemptKind",
    "AttemptState",
    "BadAttempt",
    "Fix",
    "FixKind",
    "correction",
    "fix",
    "manner",
    "read_by",
]

AttemptState = Literal["open", "resolved", "dismissed"]
# rejected: not readable; held: maybe only quoted; invalid: the data did not fit; unknown: no such
# event; denied: no such right, or a limit; failed: the handler did not come to its end.
AttemptKind = Literal["rejected", "held", "invalid", "unknown", "denied", "failed"]
FixKind = Literal["again", "edited", "dismissed"]


class AttemptFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts: all given conditions hold. Those held are left out unless asked for."""

    agent_id: str | None = None
    model: str | None = None
    code: str | None = None
    kind: AttemptKind | None = None
    state: AttemptState | None = None
    since: datetime | None = None
    until: datetime | None = None
    before_seq: int | None = None
    limit: int = 100


class Fix(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person did about an attempt: *seq*, *status* and *error* are those of the event that
    was submitted in its place, None for a dismissal."""

    number: int
    kind: FixKind
    source: str
    ts: datetime
    reason: str = ""
    event_id: str | None = None
    seq: int | None = None
    status: Status | None = None
    error: ErrorInfo | None = None


class BadAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A call that went wrong. *seq* is its event's; *completion_id*, *start* and *end* say where
    it was written; *corrected* is after how many turns the agent made it good, 0 if it did not.

    *correction* is what the agent was told of it, None if it was told nothing.
    """

    seq: int
    event_id: str
    event: str
    ts: datetime
    state: AttemptState
    kind: AttemptKind
    code: str
    error: ErrorInfo | None
    agent_id: str | None
    provider: str
    model: str
    dialect: str
    tool: str | None
    repairs: tuple[str, ...]
    completion_id: str
    ordinal: int
    start: int
    end: int
    corrected: int
    correction: str | None


def manner(digest: bytes, protocol: bytes, tools: bytes, *, native: bool) -> Statement:
    """Enter how replies are read; the same again is left as it is."""
    return (
        "INSERT OR IGNORE INTO manners (id, protocol, tools, native) VALUES (?, ?, ?, ?)",
        (digest, protocol.decode(), tools.decode(), int(native)),
    )


def read_by(completion_id: str, digest: bytes) -> Statement:
    """Note by which manner a completion was read."""
    return "INSERT INTO readings (completion_id, manner) VALUES (?, ?)", (completion_id, digest)


def correction(completion_id: str, ordinal: int, text: str) -> Statement:
    """Enter what an agent was told of a call that went wrong; told again after a crash, the last
    counts."""
    return (
        "INSERT OR REPLACE INTO corrections (completion_id, ordinal, text) VALUES (?, ?, ?)",
        (completion_id, ordinal, text),
    )


def fix(
    attempt: BadAttempt,
    number: int,
    kind: FixKind,
    *,
    event_id: str | None,
    source: str,
    reason: str,
    ts: datetime,
) -> Statement:
    """Enter what a person does about *attempt*; a second one of the same *number* fails, and with
    it all that is committed together."""
    return (
        "INSERT INTO fixes (completion_id, ordinal, number, kind, event_id, source, reason, ts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            attempt.completion_id,
            attempt.ordinal,
            number,
            kind,
            event_id,
            source,
            reason,
            microseconds(ts),
        ),
    )
