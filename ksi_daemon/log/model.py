"""What is asked of the log and what it answers, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ksi_daemon.events import Status
from ksi_daemon.work import Ended, Idempotency, Statement, Transaction, Work

__all__ = [
    "AgentUsage",
    "Attempt",
    "Durability",
    "Ended",
    "EventFilter",
    "Gauges",
    "GroupKey",
    "Idempotency",
    "LoggedAttempt",
    "LoggedCompletion",
    "LoggedState",
    "MessageKind",
    "PendingMessage",
    "Statement",
    "Stats",
    "Transaction",
    "Verdict",
    "Work",
]

# What an ack survives: "power" also a power cut, "process" the end of the process only.
Durability = Literal["power", "process"]
Verdict = Literal["strict", "repaired", "rejected", "held"]
MessageKind = Literal["message", "feedback", "reply"]
GroupKey = Literal["agent", "model", "provider", "dialect", "tool", "size", "hour", "day"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a completion that is a call or looks like one.

    *verdict*: ``strict`` (a call, as written), ``repaired`` (a call after the named *repairs*),
    ``rejected`` (not usable, *code* says why), ``held`` (a call that the guard held, *code* is
    echo or quoted). *event_id* is the event that it became, or the notice of its rejection.

    *size* is its length in characters, of a native call that of its arguments. *tries* is 1 for a
    first try, 2 for one after a correction, and so on. *suspect*: it fired though it may not have
    been meant. *complex*: its arguments are of the kind that models mangle in the direct form of
    events, None where they could not be read.
    """

    completion_id: str
    ordinal: int
    agent_id: str | None
    provider: str
    model: str
    dialect: str
    tool: str | None
    verdict: str
    code: str | None = None
    repairs: tuple[str, ...] = ()
    start: int
    end: int
    event_id: str | None = None
    size: int = 0
    tries: int = 1
    suspect: bool = False
    complex: bool | None = None


class LoggedAttempt(Attempt, frozen=True, kw_only=True):
    """An attempt as the log has it.

    *corrected* is after how many turns it was made good, 0 if it was not. *seq*, *status* and
    *error_code* are those of the event it led to; None while there is none.
    """

    ts: datetime
    corrected: int
    seq: int | None
    status: Status | None
    error_code: str | None


class LoggedCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model without its text, which is in the event of the same id.

    *state* is ``stored`` until all its calls have run, then ``done``.
    """

    id: str
    ts: datetime
    agent_id: str | None
    request_id: str | None
    turn: int
    provider: str
    model: str
    preset: str
    stop_reason: str | None
    latency_ms: float
    input_tokens: int
    output_tokens: int
    state: Literal["stored", "done"]
    extractor: int


class AgentUsage(msgspec.Struct, frozen=True):
    """What the *replies* to an agent have cost. *cached_tokens* are part of *input_tokens*; *usd*
    is the sum of what is known, None if nothing is, and *unpriced* counts the other replies."""

    replies: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usd: float | None
    unpriced: int


class PendingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose exchange has not ended. *taken*: it had begun when the daemon died.

    *unfinished_completion* is then the last completion whose calls may not all have run, *counts*
    what the exchange had used up and got wrong by its last completion, as JSON.
    """

    agent_id: str
    request_id: str
    content: str
    untrusted: bool
    taken: bool
    unfinished_completion: str | None
    counts: bytes | None = None
    tainted: bool = False


class LoggedState(msgspec.Struct, frozen=True):
    """A value that is kept under *key*; *version* grows with each write of that key.

    *tainted*: who wrote it had read untrusted text.
    """

    namespace: str
    key: str
    value: msgspec.Raw
    version: int
    ts: datetime
    tainted: bool = False


class EventFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events: all given conditions hold. *patterns*: one of them matches the name.

    *status* is the final one. Times are of [since, until). *words* are all in the texts of the
    event, in lower case (``log.search``). *reverse* begins with the newest.
    """

    patterns: tuple[str, ...] = ()
    after_seq: int | None = None
    before_seq: int | None = None
    agent_id: str | None = None
    correlation_id: str | None = None
    completion_id: str | None = None
    status: Status | None = None
    since: datetime | None = None
    until: datetime | None = None
    words: tuple[str, ...] = ()
    limit: int = 100
    reverse: bool = False


class Gauges(msgspec.Struct, frozen=True):
    """How the writer fares: units *depth* and *bytes* wait now, the rest counts since the start.

    *units* were committed in *batches*, *refused* were not; *last_batch* is the size of the last,
    and *batch_sizes* how many had at most 1, 2, 4, ... units, none counted twice.
    *wal_bytes* is what is still to be brought into the database, and grows while another program
    reads an old state of it.
    """

    depth: int
    bytes: int
    batches: int
    units: int
    refused: int
    last_batch: int
    batch_sizes: tuple[int, ...]
    last_seq: int
    wal_bytes: int


class Stats(msgspec.Struct, frozen=True):
    """What the log holds: events by name and final status, rows by table, bytes on disk."""

    events: dict[str, dict[str, int]]
    rows: dict[str, int]
    last_seq: int
    bytes: int
    wal_bytes: int
