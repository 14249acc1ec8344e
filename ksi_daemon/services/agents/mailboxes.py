"""Mailboxes: how a message gets from the log to an agent's exchange.

A message is on disk before it waits in memory. An idle agent has no task: the first message puts
one to work that empties the mailbox, one exchange after the other, and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.abc
import msgspec
import structlog

from ksi_daemon.conversation import Answer, Cutoff, Inbound, Session
from ksi_daemon.errors import Conflict, KsiError, StorageError
from ksi_daemon.events import ErrorInfo, Event, matches, now
from ksi_daemon.extraction import Tool
from ksi_daemon.log import statements
from ksi_daemon.log.model import AgentUsage, GroupKey, PendingMessage
from ksi_daemon.providers.model import Message, Provider
from ksi_daemon.registry import Handler
from ksi_daemon.router import Committed, Router
from ksi_daemon.security.capabilities import conditions
from ksi_daemon.security.provenance import MAX_TEXTS, Readings, texts_of
from ksi_daemon.services.agents.agent import Agent, Reply, Waiting
from ksi_daemon.services.agents.spec import Defaults, Spec, loop_limits, principal_of
from ksi_daemon.work import Statement

__all__ = ["AgentReader", "Exchanges", "Mailboxes", "unheard"]

log = structlog.get_logger()


class _Addressed(msgspec.Struct):
    agent_id: str


class _Asked(msgspec.Struct):
    protocol: str | dict[str, Any] | None = None


class Exchanges(Protocol):
    """Who holds the exchanges."""

    async def answer(
        self, session: Session, inbound: Inbound, cutoff: Cutoff | None = None
    ) -> Answer: ...

    def stop(self, agent_id: str, reason: str) -> bool: ...


class AgentReader(Protocol):
    """The part of the log that is read here."""

    async def agents(self) -> list[tuple[bytes, str | None]]: ...

    async def spawns(self) -> list[tuple[str, int, int]]: ...

    async def purses(self) -> dict[str, int]: ...

    async def story_size(self, correlation_id: str) -> int: ...

    async def said(self) -> list[tuple[str, bytes]]: ...

    async def usage(self, agent_id: str) -> AgentUsage: ...

    async def conversation(self, agent_id: str) -> list[Message]: ...

    async def readings(self, agent_id: str, limit: int) -> list[str]: ...

    async def pending_messages(self) -> Sequence[PendingMessage]: ...

    async def event(self, key: str) -> Event | None: ...

    async def reliability(
        self, group_by: Sequence[GroupKey], since: datetime | None, until: datetime | None
    ) -> list[dict[str, Any]]: ...


class Mailboxes:
    """Delivery to agents. *build_provider* makes an agent's provider, given how many replies its
    conversation has; *limit* bounds a mailbox."""

    def __init__(
        self,
        router: Router,
        reader: AgentReader,
        exchanges: Exchanges,
        tasks: anyio.abc.TaskGroup,
        *,
        build_provider: Callable[[Mapping[str, Any], int], Provider],
        defaults: Defaults,
        limit: int,
    ) -> None:
        self.reader = reader
        self.exchanges = exchanges
        self._router = router
        self._tasks = tasks
        self._build_provider = build_provider
        self.defaults = defaults
        self._limit = limit
        self._busy = 0
        self._idle = anyio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Return once no agent holds an exchange."""
        await self._idle.wait()

    def check(self, agent: Agent) -> None:
        """Raise Conflict if the mailbox of *agent* is full."""
        if self._is_full(agent):
            raise Conflict(
                f"{self._limit} messages wait for agent {agent.spec.agent_id!r}",
                code="mailbox_full",
                retryable=True,
            )

    async def deliver(
        self,
        agent: Agent,
        inbound: Inbound,
        settle: Callable[[Answer], None],
        reply: Reply | None = None,
    ) -> None:
        """Put a message into the mailbox, on disk first; see ``Waiting`` for the others."""
        agent.arriving += 1
        await self._arrive(agent, Waiting(inbound, settle, reply=reply))

    def post(self, agent: Agent, inbound: Inbound) -> None:
        """Put a message that is on disk into the mailbox."""
        if not agent.terminated:
            agent.mailbox.append(Waiting(inbound, unheard))
            self._wake(agent)

    async def requeue(
        self,
        agent: Agent,
        pending: PendingMessage,
        replying: Callable[[Agent, Event], Reply | None],
    ) -> None:
        """Put a message of an earlier run of the daemon back into the mailbox.

        *replying* finds how an event's answer gets to the agent that asked.
        """
        cause = await self.reader.event(pending.request_id)
        if cause is None:
            log.warning("message_without_event", request_id=pending.request_id)
            return
        story = cause.correlation_id
        self._router.admission.resume(story, await self.reader.story_size(story))
        inbound = Inbound(
            cause=cause,
            content=pending.content,
            untrusted=pending.untrusted,
            tainted=pending.tainted,
            protocol=_asked_protocol(agent.spec.agent_id, cause),
        )
        cutoff = await self._cutoff(pending) if pending.taken else None
        agent.mailbox.append(Waiting(inbound, unheard, cutoff, replying(agent, cause)))
        self._wake(agent)

    async def _cutoff(self, pending: PendingMessage) -> Cutoff:
        unfinished = pending.unfinished_completion
        event = await self.reader.event(unfinished) if unfinished else None
        return Cutoff(pending.counts, event)

    def hear(self, agent: Agent, committed: Committed, *, tainted: bool) -> None:
        """Give *agent* an event that it subscribed to as a message, *tainted* if the event is.

        It does not hear its own events, nor messages to it, which it gets anyway. What it hears
        is a step of the story, so agents that hear each other come to the limit of hops. When
        its mailbox is full it misses the event, which is in the log.
        """
        event, agent_id = committed.event, agent.spec.agent_id
        if event.agent_id == agent_id or _is_message_to(agent_id, event):
            return
        if event.hop >= self._router.limits.hops or self._is_full(agent):
            return
        refused = f" ({event.status})" if event.error else ""
        content = f"Event {event.name}{refused} from {event.source}:\n{bytes(event.data).decode()}"
        cause = msgspec.structs.replace(event, hop=event.hop + 1)
        inbound = Inbound(cause=cause, content=content, untrusted=True, tainted=tainted)
        agent.arriving += 1
        self._tasks.start_soon(self._overhear, agent, inbound)

    async def _overhear(self, agent: Agent, inbound: Inbound) -> None:
        try:
            await self._arrive(agent, Waiting(inbound, unheard))
        except StorageError as exc:
            # Nobody waits for it, and it is no reason to end the daemon.
            log.warning("message_lost", agent_id=agent.spec.agent_id, error=exc.message)

    async def _arrive(self, agent: Agent, waiting: Waiting) -> None:
        try:
            if not agent.terminated:
                await self._keep(agent, waiting.inbound)
        finally:
            agent.arriving -= 1
        if agent.terminated:
            await self.abandon(agent, waiting)
            return
        agent.mailbox.append(waiting)
        self._wake(agent)

    async def abandon(self, agent: Agent, waiting: Waiting) -> None:
        """Tell who waits for an answer that the agent was terminated before it gave one."""
        answer = Answer(waiting.inbound.request_id, "", "terminated", 0)
        waiting.settle(answer)
        if waiting.reply is not None:
            await waiting.reply(answer, (_answered_row(agent, waiting),))

    async def _keep(self, agent: Agent, inbound: Inbound) -> None:
        await self._router.record(
            statements.waiting_message(
                agent_id=agent.spec.agent_id,
                content=inbound.content,
                untrusted=inbound.untrusted,
                tainted=inbound.tainted,
                request_id=inbound.request_id,
                ts=now(),
            )
        )

    def _is_full(self, agent: Agent) -> bool:
        return len(agent.mailbox) + agent.arriving >= self._limit

    def _wake(self, agent: Agent) -> None:
        if not agent.running:
            agent.running = True
            self._busy += 1
            if self._idle.is_set():
                self._idle = anyio.Event()
            self._tasks.start_soon(self._empty_mailbox, agent)

    async def _empty_mailbox(self, agent: Agent) -> None:
        try:
            while agent.mailbox and not agent.terminated:
                waiting = agent.mailbox.pop(0)
                waiting.settle(await self._answer(agent, waiting))
        finally:
            agent.running = False
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def _answer(self, agent: Agent, waiting: Waiting) -> Answer:
        """Hold one exchange, and note on disk that the message is answered.

        What could not be written is asked again after a restart, and only that: a message that
        makes something else fail must not do so at every start.
        """
        try:
            answer = await self._exchange(agent, waiting)
            rows = (*_unsaved(agent), _answered_row(agent, waiting))
            if waiting.reply is None:
                await self._router.record(*rows)
            else:
                await waiting.reply(answer, rows)
        except StorageError as exc:
            agent.session = None  # it may be ahead of the disk
            return _failed(waiting.inbound, exc.info())
        if answer.finish_reason == "internal":
            agent.session = None  # what nobody foresaw may have left it half changed
        return answer

    async def _exchange(self, agent: Agent, waiting: Waiting) -> Answer:
        """Hold one exchange. What goes wrong in it ends this exchange and nothing else."""
        inbound, agent_id = waiting.inbound, agent.spec.agent_id
        try:
            session = await self._session(agent)
            if waiting.cutoff is None:
                session.messages.append(Message("user", inbound.content))
                session.position += 1
                session.unsaved.append(
                    statements.message_taken(agent_id, inbound.request_id, session.position)
                )
            return await self.exchanges.answer(session, inbound, waiting.cutoff)
        except StorageError:
            raise
        except KsiError as exc:
            return _failed(inbound, exc.info())
        except Exception as exc:
            log.exception("exchange_failed", agent_id=agent_id)
            message = f"{type(exc).__name__}: {exc}"[:500]
            return _failed(inbound, ErrorInfo("internal", message))

    async def _session(self, agent: Agent) -> Session:
        """Return the agent's session; it is made when the first message comes."""
        if agent.session is None:
            spec = agent.spec
            messages = await self.reader.conversation(spec.agent_id)
            replies = sum(message.role == "assistant" for message in messages)
            provider = self._build_provider(spec.provider, replies)
            given = await self.reader.readings(spec.agent_id, MAX_TEXTS)
            agent.session = Session(
                agent_id=spec.agent_id,
                principal=agent.principal,
                on_taint=partial(taint, agent),
                system=spec.system,
                provider=provider,
                model=spec.model,
                spoken=spec.protocol,
                limits=loop_limits(spec.limits, self.defaults.limits),
                tools=tuple(self.told(spec)),
                messages=messages,
                position=len(messages),
                readings=Readings(text for content in given for text in texts_of(content)),
            )
        return agent.session

    def model_of(self, spec: Spec) -> str:
        """Return the model that an agent of *spec* asks."""
        return spec.model or self._build_provider(spec.provider, 0).model

    def told(self, spec: Spec) -> list[Tool]:
        """Return what the agent is told that it may emit, in the order of its tools."""
        principal = principal_of(spec)
        known = self._router.known_to(principal)
        named = ("*",) if spec.tools is None else spec.tools
        names = dict.fromkeys(name for each in named for name in known if matches(each, name))
        handlers = [self._router.registry.handlers(name)[0] for name in names]
        return [_tool(each, conditions(principal, each.event, each.effect)) for each in handlers]


def taint(agent: Agent, event_id: str) -> None:
    """Note that *agent* is given untrusted text, by what came of an event."""
    if agent.tainted_by is not None:
        return
    agent.tainted_by = event_id
    if agent.session is not None:
        agent.session.principal = agent.principal
        agent.session.unsaved.append(statements.agent_tainted(agent.spec.agent_id, event_id))


def unheard(answer: Answer) -> None:
    """Tell nobody: the answer is in the log."""


def _unsaved(agent: Agent) -> tuple[Statement, ...]:
    """Return what the log lacks of the agent's conversation; of a dead one's it keeps nothing."""
    return agent.session.take_unsaved() if agent.session and not agent.terminated else ()


def _answered_row(agent: Agent, waiting: Waiting) -> Statement:
    return statements.message_answered(agent.spec.agent_id, waiting.inbound.request_id)


def _failed(inbound: Inbound, error: ErrorInfo) -> Answer:
    return Answer(inbound.request_id, "", error.code, 0, error=error)


def _asked_protocol(agent_id: str, cause: Event) -> str | dict[str, Any] | None:
    """Return the protocol that the event of a message asked for, None if it did not."""
    if not _is_message_to(agent_id, cause):
        return None  # it was overheard
    return msgspec.json.decode(cause.data, type=_Asked).protocol


def _is_message_to(agent_id: str, event: Event) -> bool:
    if event.name != "agent:send":
        return False
    try:
        return msgspec.json.decode(event.data, type=_Addressed).agent_id == agent_id
    except msgspec.MsgspecError:
        return False  # it was refused, and is no message


def _tool(handler: Handler, when: str) -> Tool:
    """Return what an agent is told of an event that it may emit, *when* not always; that it speaks
    of itself the daemon says."""
    schema, example, own = dict(handler.schema()), handler.example, handler.own
    if own is not None:
        fields = schema.get("properties", {})
        schema["properties"] = {name: each for name, each in fields.items() if name != own}
        schema["required"] = [name for name in schema.get("required", ()) if name != own]
        example = example and {name: each for name, each in example.items() if name != own}
    summary = f"{handler.summary.rstrip('.')}, only {when}." if when else handler.summary
    return Tool(handler.event, summary, schema, example)
