"""What an agent is asked, remembers and answers, as values that services hand to each other."""

from __future__ import annotations

from typing import Any

import msgspec

from ksi_daemon.events import ErrorInfo, Event
from ksi_daemon.extraction import Protocol, Schemas
from ksi_daemon.providers.model import Message, Provider
from ksi_daemon.security import Principal

__all__ = ["Answer", "CallReport", "Inbound", "LoopLimits", "Session"]


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one exchange: replies of the model, calls in one reply, turns in a row with
    nothing but mistakes, turns in a row with the very same text."""

    turns: int = 25
    calls: int = 64
    mistakes: int = 3
    identical: int = 3


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an agent. *cause* is the event that brought it; its id names the exchange.

    *untrusted*: the text quotes a document or comes from another agent, so a call that stands
    in it must not fire when it is repeated.
    """

    cause: Event
    content: str
    untrusted: bool = False

    @property
    def request_id(self) -> str:
        """The id of the event that brought the message."""
        return self.cause.id


class CallReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one call of an exchange."""

    id: str
    name: str
    status: str
    result: Any = None
    error: ErrorInfo | None = None


class Answer(msgspec.Struct, frozen=True):
    """The end of an exchange. *text* is the last reply without its calls, *rejected* counts the
    blocks of all its replies that did not fire.

    *finish_reason*: stop, final, length, max_iterations, consecutive_mistakes, no_progress,
    cancelled, terminated, or the code of the provider's error.
    """

    request_id: str
    text: str
    finish_reason: str
    turns: int
    calls: tuple[CallReport, ...] = ()
    error: ErrorInfo | None = None
    rejected: int = 0


class Session(msgspec.Struct, kw_only=True):
    """One agent's side of its conversation, while the daemon runs.

    *messages* holds the conversation without the system prompt; *position* counts the rows that
    the log has of it. *tools* are the schemas of what the agent was told that it may emit.
    """

    agent_id: str
    principal: Principal
    system: str
    provider: Provider
    model: str | None
    protocol: Protocol
    limits: LoopLimits
    tools: Schemas = msgspec.field(default_factory=dict)
    messages: list[Message] = msgspec.field(default_factory=list)
    position: int = 0
