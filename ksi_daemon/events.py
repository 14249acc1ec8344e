"""The vocabulary that every layer shares: events, their names, their ids, their patterns.

An event is a fact or a request named ``namespace:action`` with an object as data. Everything
here is a value; nothing here knows a socket, a database or a handler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeGuard

import msgspec

__all__ = [
    "EMPTY",
    "EVENT_NAME",
    "MAX_NAME",
    "CallRef",
    "ErrorInfo",
    "Event",
    "Outcome",
    "Piece",
    "Status",
    "is_event_name",
    "is_tool_name",
    "matches",
    "matches_any",
    "now",
]

MAX_NAME: Final = 128
# ASCII on purpose: a name of look-alike letters must not pass for a registered one.
EVENT_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[A-Za-z0-9][A-Za-z0-9_.-]*")
# Tools are named without a namespace too. ASCII for the same reason.
_TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*+")
# The same few names are asked for again and again.
_event_name: Final = lru_cache(maxsize=1024)(EVENT_NAME.fullmatch)
EMPTY: Final = msgspec.Raw(b"{}")

Status = Literal[
    "received",  # logged, not finished yet
    "handled",  # the handler returned, or there is nothing to do (a notice)
    "failed",  # the handler raised
    "timeout",  # the handler overran its time limit
    "denied",  # the principal may not, or a limit was reached
    "unknown",  # no handler of that name
    "rejected",  # the data does not fit, or a block of a completion is not a usable call
    "lost",  # dispatched when the daemon died: whether the handler finished is not known
]


class CallRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where in its completion an event was written.

    *start* and *end* are offsets in characters of the completion's text.
    """

    id: str
    dialect: str
    start: int
    end: int
    repairs: tuple[str, ...] = ()


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it goes over the wire and into the log; *code* is stable."""

    code: str
    message: str
    hint: str | None = None
    # A factory, because msgspec leaves out what equals a plain default and this is always told.
    retryable: bool = msgspec.field(default_factory=bool)
    details: dict[str, Any] | None = None


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event as clients, handlers and the log's readers see it.

    *seq* is its place in the log, 0 while it is not committed. *source* is stamped by the
    daemon. *correlation_id* names the whole story, *cause_id* the event that led to this one,
    *hop* how many causes lie between this event and the story's first.
    """

    seq: int = 0
    id: str
    ts: datetime
    name: str = msgspec.field(name="event")
    data: msgspec.Raw
    source: str
    correlation_id: str
    cause_id: str | None = msgspec.field(default_factory=lambda: None)
    hop: int = 0
    agent_id: str | None = None
    completion_id: str | None = None
    call: CallRef | None = None
    status: Status
    error: ErrorInfo | None = None
    duration_ms: float | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one event ended: the handler's *result* as JSON, or an error."""

    status: Status
    result: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    duration_ms: float | None = None


class Piece(msgspec.Struct, frozen=True):
    """A piece of the text of a reply as the model writes it, in *turn* of the exchange that
    *request_id* began. It is told to those who listen and never logged: the whole reply is."""

    agent_id: str
    request_id: str
    turn: int
    text: str


def now() -> datetime:
    """Return the present in UTC. For records only: time limits use the monotonic clock."""
    return datetime.now(UTC)


def is_event_name(name: str) -> bool:
    """Say whether *name* is of the form ``namespace:action`` and at most MAX_NAME long."""
    return len(name) <= MAX_NAME and _event_name(name) is not None


def is_tool_name(value: object) -> TypeGuard[str]:
    """Say whether *value* may name a tool: an event, or a function of whatever library."""
    if not isinstance(value, str):
        return False
    return is_event_name(value) or (
        len(value) <= MAX_NAME and _TOOL_NAME.fullmatch(value) is not None
    )


def matches(pattern: str, name: str) -> bool:
    """Say whether *name* fits *pattern*; ``*`` stands for any characters, all else is exact."""
    if "*" not in pattern:
        return pattern == name
    first, *middle, last = _parts(pattern)
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Say whether *name* fits one of *patterns*."""
    return any(matches(pattern, name) for pattern in patterns)


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("*"))
