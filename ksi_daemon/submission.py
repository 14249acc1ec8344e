"""An event to be, and what became of it: what is handed to the router and what it hands back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from ksi_daemon.errors import KsiError
from ksi_daemon.events import EMPTY, CallRef, Event, Outcome
from ksi_daemon.security import Principal
from ksi_daemon.work import Statement

__all__ = ["Channel", "Submission", "Submitted"]

_NULL: Final = msgspec.Raw(b"null")


class Channel(Protocol):
    """The way back to a client, for handlers that push."""

    def push(self, line: bytes, *, always: bool = False) -> bool:
        """Send *line*; False when it was not taken because the client does not keep up or is gone.

        *always* is for a short last word: it is taken though the client does not keep up.
        """
        ...

    def on_drained(self, call: Callable[[], None]) -> None:
        """Have *call* called once when the client has caught up, at once if it has."""
        ...

    def on_closed(self, call: Callable[[], None]) -> None:
        """Have *call* called once when the client is gone."""
        ...


class Submission(msgspec.Struct, kw_only=True):
    """An event to be, with what only the daemon may say about it.

    *cause* is the event that led to this one; without it a new story begins (*correlation_id*
    may join one). *event_id* makes the id deterministic, so that what a crash repeats is logged
    once. *outcome* is how a notice says that what it tells of ended, if not well. *statements*
    are committed together with the event. *approved* binds what a person has approved of.
    *tainted*: the data hold what strangers wrote, or one who has read them.
    """

    event: str
    data: msgspec.Raw = EMPTY
    principal: Principal
    cause: Event | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    wait: Literal["handled", "logged"] = "handled"
    agent_id: str | None = None
    completion_id: str | None = None
    call: CallRef | None = None
    event_id: str | None = None
    outcome: Outcome | None = None
    statements: tuple[Statement, ...] = ()
    channel: Channel | None = None
    approved: bytes | None = None
    tainted: bool = False


class Submitted(msgspec.Struct, frozen=True):
    """What became of a submission. ``event.seq`` is 0 when it was not logged.

    *outside*: the result holds what strangers wrote.
    """

    event: Event
    outcome: Outcome
    duplicate: bool = False
    receipt: bool = False
    outside: bool = False

    def result(self) -> Any:
        """Return the handler's result; raise KsiError if the event did not end well."""
        error = self.outcome.error
        if error is not None:
            raise KsiError(
                error.message,
                code=error.code,
                hint=error.hint,
                details=error.details,
                retryable=error.retryable,
            )
        return msgspec.json.decode(self.outcome.result or _NULL)
