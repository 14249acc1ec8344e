"""What agents say of themselves: agent:status, agent:progress, agent:result.

The last word of each kind is kept with the agent, in one commit with the event, so a restart
knows it too. A child that was spawned with ``report`` has its results brought to its parent as
messages; result and message are one commit as well.
"""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection
from typing import Any

import msgspec

from ksi_daemon.conversation import Inbound
from ksi_daemon.errors import NotFound
from ksi_daemon.events import Event, matches_any, now
from ksi_daemon.log import statements
from ksi_daemon.router import Committed, Context, Router, Subscription, handles
from ksi_daemon.services.agents.agent import Agent
from ksi_daemon.services.agents.mailboxes import Mailboxes
from ksi_daemon.services.agents.replies import result_text

__all__ = ["Reports"]


class Status(msgspec.Struct):
    """*status* is a word of the agent's own; other fields are kept in the log."""

    agent_id: str
    status: str


class Progress(msgspec.Struct):
    """How far the agent is: a number, a text, or whatever it says."""

    agent_id: str
    progress: Any


class Result(msgspec.Struct):
    """What the agent has come to."""

    agent_id: str
    result: Any


class Reports:
    """What agents said last. *find* returns a living agent."""

    def __init__(
        self, router: Router, mailboxes: Mailboxes, find: Callable[[str], Agent | None]
    ) -> None:
        self._mailboxes = mailboxes
        self._find = find
        patterns = ("agent:status", "agent:progress", "agent:result")
        router.subscribe(Subscription(patterns, self._on_committed, inner=True))

    @handles(
        "agent:status",
        transaction=True,
        receipt=True,
        own="agent_id",
        example={"agent_id": "greeter", "status": "ready"},
    )
    def status(self, data: Status, ctx: Context, connection: Connection) -> None:
        """Say in a word what state the agent is in."""
        _keep(connection, data.agent_id, "status", data.status)

    @handles(
        "agent:progress",
        transaction=True,
        receipt=True,
        own="agent_id",
        example={"agent_id": "greeter", "progress": 0.5},
    )
    def progress(self, data: Progress, ctx: Context, connection: Connection) -> None:
        """Say how far the agent is with its task."""
        _keep(connection, data.agent_id, "progress", data.progress)

    @handles(
        "agent:result",
        transaction=True,
        receipt=True,
        own="agent_id",
        example={"agent_id": "greeter", "result": {"greeting": "hello"}},
    )
    def result(self, data: Result, ctx: Context, connection: Connection) -> None:
        """Say what the agent has come to; its parent is told if it asked to be."""
        _keep(connection, data.agent_id, "result", data.result)
        parent = self._parent_told(data.agent_id)
        if parent is not None:
            self._mailboxes.check(parent)
            sql, values = statements.waiting_message(
                agent_id=parent.spec.agent_id,
                content=result_text(data.agent_id, data.result),
                untrusted=True,
                tainted=ctx.tainted,
                request_id=ctx.event.id,
                ts=now(),
            )
            connection.execute(sql, values)

    def _on_committed(self, committed: Committed) -> None:
        """Let memory follow what was committed."""
        event = committed.event
        if event.status != "handled":
            return
        data = msgspec.json.decode(event.data)
        agent = self._find(data["agent_id"])
        kind = event.name.partition(":")[2]
        if agent is not None:
            agent.said[kind] = data[kind]
        if kind == "result":
            self._tell_parent(event, data["agent_id"], data[kind])

    def _tell_parent(self, event: Event, agent_id: str, result: Any) -> None:
        parent = self._parent_told(agent_id)
        # One that listens to results has this one on its way already.
        if parent is None or matches_any(parent.spec.subscriptions, event.name):
            return
        content = result_text(agent_id, result)
        child = self._find(agent_id)
        tainted = child is None or child.tainted_by is not None
        self._mailboxes.post(
            parent, Inbound(cause=event, content=content, untrusted=True, tainted=tainted)
        )

    def _parent_told(self, agent_id: str) -> Agent | None:
        """Return the living parent that wants the results of an agent, None if there is none.

        Called in the log's thread too: it only reads.
        """
        agent = self._find(agent_id)
        if agent is None or not agent.spec.report or agent.spec.parent is None:
            return None
        parent = self._find(agent.spec.parent)
        if parent is None or parent.spec.spawn_id != agent.spec.parent_spawn_id:
            return None  # its id may be another's by now
        return parent


def _keep(connection: Connection, agent_id: str, kind: str, said: Any) -> None:
    if not statements.agent_said(connection, agent_id, kind, msgspec.json.encode(said)):
        raise NotFound("agent", agent_id)
