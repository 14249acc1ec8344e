"""One agent while the daemon runs, and the messages that wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ksi_daemon.conversation import Answer, Cutoff, Inbound, Session
from ksi_daemon.security import Principal
from ksi_daemon.services.agents.spec import Spec, principal_of
from ksi_daemon.work import Statement

__all__ = ["Agent", "Reply", "Waiting"]

# Sends an answer to the agent that asked, and commits it together with rows.
Reply = Callable[[Answer, tuple[Statement, ...]], Awaitable[None]]


class Waiting(NamedTuple):
    """A message in a mailbox, and whom to tell of its answer: *settle* one who waits now, *reply*
    an agent that asked, if one did. *cutoff*: a crash cut its exchange off.
    """

    inbound: Inbound
    settle: Callable[[Answer], None]
    cutoff: Cutoff | None = None
    reply: Reply | None = None


class Agent:
    """One agent while it lives."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.session: Session | None = None
        # A list: an empty deque takes 760 bytes, which is a third of an idle agent.
        self.mailbox: list[Waiting] = []
        # Messages on their way to the disk, and then to the mailbox.
        self.arriving = 0
        self.running = False
        self.terminated = False
        # The event by which it first read untrusted text.
        self.tainted_by: str | None = None
        self.said: dict[str, Any] = {}
        self.unsubscribe: Callable[[], None] = lambda: None

    @property
    def principal(self) -> Principal:
        """Say who the agent is to the router by now."""
        return principal_of(self.spec, tainted=self.tainted_by is not None)

    @property
    def state(self) -> str:
        """Say what the agent does: idle, running, terminated."""
        if self.terminated:
            return "terminated"
        return "running" if self.running else "idle"
