"""The service: who lives, who is spoken to, what they say of themselves.

What an agent is and what it was told is in the log before it is acknowledged, so a restart of
the daemon finds the same agents with the same conversations.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Final

import anyio
import msgspec

from ksi_daemon.component import Component
from ksi_daemon.conversation import Answer, Inbound
from ksi_daemon.errors import Conflict, Denied, InvalidData, NotFound, StorageError
from ksi_daemon.events import Event, matches, now
from ksi_daemon.log import statements
from ksi_daemon.log.purses import purses_gone
from ksi_daemon.log.recommendation import best_protocol, recommendations
from ksi_daemon.loop import BEST, agreement, overridden
from ksi_daemon.router import (
    Committed,
    Context,
    Nothing,
    Notice,
    Router,
    Submission,
    Submitted,
    Subscription,
    handles,
    new_id,
)
from ksi_daemon.security import SYSTEM, Principal
from ksi_daemon.security.taint import is_carried
from ksi_daemon.services.agents.agent import Agent, Reply
from ksi_daemon.services.agents.family import Families, FamilyLimits, adopted
from ksi_daemon.services.agents.mailboxes import Mailboxes, unheard
from ksi_daemon.services.agents.replies import answer_data, asker_of, reply_text
from ksi_daemon.services.agents.reports import Reports
from ksi_daemon.services.agents.rights import endowed, rechecked
from ksi_daemon.services.agents.spec import Defaults, Spawn, Spec, bounded, make_spec
from ksi_daemon.work import Statement

__all__ = ["Agents"]

# A message that is waited for may take as long as the model's turns take.
WAIT_S: Final = 86_400.0


class Which(msgspec.Struct, forbid_unknown_fields=True):
    agent_id: str


class Info(msgspec.Struct, forbid_unknown_fields=True):
    """*told*: with the description of every event that the agent was told it may emit."""

    agent_id: str
    told: bool = False


class Send(msgspec.Struct, forbid_unknown_fields=True):
    """*untrusted*: the message quotes a document or a stranger. *wait*: reply with the answer.

    *protocol* overrides the agent's own for this exchange: a preset, or an object whose fields
    replace those of the agent's. *reply*, for agents: the answer comes back as a message.
    """

    agent_id: str
    message: Annotated[str, msgspec.Meta(min_length=1)]
    untrusted: bool = False
    wait: bool = False
    reply: bool = False
    protocol: str | dict[str, Any] | None = None


class Terminate(msgspec.Struct, forbid_unknown_fields=True):
    """One agent, many, or all that match *pattern*; *dry_run* only says which."""

    agent_id: str | None = None
    agent_ids: tuple[str, ...] = ()
    pattern: str | None = None
    dry_run: bool = False


class Update(msgspec.Struct, forbid_unknown_fields=True):
    """*subscriptions*: the events that the agent hears from now on, in place of the former."""

    agent_id: str
    subscriptions: Annotated[tuple[str, ...], msgspec.Meta(max_length=256)]


class Agents:
    """The agents by id."""

    NOTICES: Final = (
        Notice("agent:spawned", "An agent began to live."),
        Notice("agent:terminated", "An agent was terminated."),
        Notice("agent:restored", "An agent came back after a restart of the daemon."),
        Notice("agent:answered", "An agent answered another's question."),
    )

    def __init__(
        self,
        router: Router,
        mailboxes: Mailboxes,
        *,
        load_component: Callable[[str, bool], Component],
        check_provider: Callable[[Mapping[str, Any]], None],
        defaults: Defaults,
        max_agents: int,
        family: FamilyLimits,
    ) -> None:
        self._router = router
        self._mailboxes = mailboxes
        self._load_component = load_component
        self._check_provider = check_provider
        self.defaults = defaults
        self._max_agents = max_agents
        self._agents: dict[str, Agent] = {}
        self._families = Families(family)
        self.reports = Reports(router, mailboxes, self._agents.get)
        # Who is told at once that an agent has ended, before its id is free.
        self.on_end: list[Callable[[str], None]] = []

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def waiting(self) -> int:
        """How many messages wait in mailboxes."""
        return sum(len(agent.mailbox) for agent in self._agents.values())

    @handles(
        "agent:spawn",
        keeps=True,
        effect="spawn",
        example={"component": "agents/greeter", "prompt": "say hello"},
    )
    async def spawn(self, data: Spawn, ctx: Context) -> dict[str, Any]:
        """Bring an agent to life, and give it a first message if there is a prompt."""
        parent = self._parent(ctx)
        agent = Agent(self._spec(data, ctx, parent))
        agent_id = agent.spec.agent_id
        # Checked and entered without a pause, so that two spawns cannot take the same id, nor
        # both be the last that a limit allows. A spawn that the disk refuses counts as well.
        self._agents[agent_id] = agent
        self._families.begin(agent.spec)
        added = [] if parent is None else self._families.add(parent)
        try:
            chosen = await self._choose_protocol(agent)
            rows = [statements.agent(agent_id, msgspec.json.encode(agent.spec), now()), *added]
            if ctx.tainted:
                agent.tainted_by = ctx.event.id
                rows.append(statements.agent_tainted(agent_id, ctx.event.id))
            await self._router.record(*rows)
        except BaseException:
            self._agents.pop(agent_id, None)
            self._families.end(agent.spec)
            raise
        self._begin(agent)
        ctx.notify("agent:spawned", _described(agent), agent_id=agent_id)
        if data.prompt is not None:
            inbound = Inbound(
                cause=ctx.event, content=data.prompt, untrusted=not ctx.principal.operator
            )
            await self._mailboxes.deliver(agent, inbound, unheard)
        return {"agent_id": agent_id, "state": agent.state, "model": agent.spec.model, **chosen}

    @handles("agent:terminate", effect="admin", example={"pattern": "worker-*", "dry_run": True})
    async def terminate(self, data: Terminate, ctx: Context) -> dict[str, Any]:
        """End agents for good: their exchanges are cancelled, their ids are free again."""
        chosen = self._chosen(data)
        if not data.dry_run:
            ended = [self._agents.pop(agent_id) for agent_id in chosen]
            for told in [self._end(agent, ctx) for agent in ended]:
                (await told).result()
            for agent in ended:
                while agent.mailbox:
                    await self._mailboxes.abandon(agent, agent.mailbox.pop(0))
        return {"terminated": chosen, "dry_run": data.dry_run}

    @handles("agent:cancel", effect="admin", example={"agent_id": "greeter"})
    async def cancel(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Cancel the exchange that an agent holds; what waits in its mailbox comes next."""
        self._existing(data.agent_id)
        return {"cancelled": self._mailboxes.exchanges.stop(data.agent_id, "cancelled")}

    @handles(
        "agent:update",
        own="agent_id",
        example={"agent_id": "greeter", "subscriptions": ["state:set"]},
    )
    async def update(self, data: Update, ctx: Context) -> dict[str, Any]:
        """Change which events a living agent hears."""
        agent = self._existing(data.agent_id)
        if not self._may_hear(ctx.principal, data.subscriptions):
            raise Denied(f"{ctx.principal.source} may not listen: it lacks 'monitor:subscribe'")
        spec = msgspec.structs.replace(agent.spec, subscriptions=data.subscriptions)
        await self._router.record(
            statements.agent_changed(data.agent_id, msgspec.json.encode(spec))
        )
        agent.spec = spec
        agent.unsubscribe()
        self._begin(agent)
        return {"agent_id": data.agent_id, "subscriptions": data.subscriptions}

    @handles("agent:list", effect="observe", inline=True, example={})
    def list_agents(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the agents that live, and what each does."""
        agents = self._agents.values()
        ctx.outside = any(agent.tainted_by and agent.said for agent in agents)
        return {"agents": [_described(agent) for agent in agents]}

    @handles("agent:info", effect="observe", example={"agent_id": "greeter"})
    async def info(self, data: Info, ctx: Context) -> dict[str, Any]:
        """Tell all about one agent: what it is made of, may do, said of itself, and has cost."""
        agent = self._existing(data.agent_id)
        ctx.outside = agent.tainted_by is not None
        made_of = msgspec.to_builtins(agent.spec)
        made_of["provider"] = agent.spec.provider.get("type")
        for internal in ("spawn_id", "root_id", "parent_spawn_id"):
            del made_of[internal]
        told = msgspec.to_builtins(self._mailboxes.told(agent.spec)) if data.told else None
        usage = await self._mailboxes.reader.usage(data.agent_id)
        described = {
            **made_of,
            **_described(agent),
            "waiting": len(agent.mailbox),
            "usage": usage,
        }
        return described if told is None else {**described, "told": told}

    @handles(
        "agent:send",
        receipt=True,
        timeout_s=WAIT_S,
        example={"agent_id": "greeter", "message": "say hello"},
    )
    async def send(self, data: Send, ctx: Context) -> dict[str, Any] | Answer:
        """Give an agent a message; with wait, reply with its answer."""
        agent = self._existing(data.agent_id)
        self._mailboxes.check(agent)
        inbound = _inbound(data, ctx)
        if data.protocol is not None:
            agreement(overridden(agent.spec.protocol, data.protocol))  # refuse what cannot be
        if not data.wait:
            reply = self._replying(agent, ctx.event)
            await self._mailboxes.deliver(agent, inbound, unheard, reply)
            return {"request_id": inbound.request_id}
        answered, answers = anyio.Event(), []

        def settle(answer: Answer) -> None:
            answers.append(answer)
            answered.set()

        await self._mailboxes.deliver(agent, inbound, settle)
        await answered.wait()
        return answers[0]

    def principal(self, agent_id: str) -> Principal | None:
        """Return who the living agent *agent_id* is to the router, None if there is none."""
        agent = self._agents.get(agent_id)
        return None if agent is None else agent.principal

    async def restore(self) -> int:
        """Bring back the agents that lived, go on with what was cut off; return how many."""
        for raw, tainted_by in await self._mailboxes.reader.agents():
            agent = Agent(self._restored(msgspec.json.decode(raw, type=Spec)))
            agent.tainted_by = tainted_by
            self._agents[agent.spec.agent_id] = agent
            self._families.begin(agent.spec)
            self._begin(agent)
            self._router.notify("agent:restored", _described(agent), agent_id=agent.spec.agent_id)
        for agent_id, said in await self._mailboxes.reader.said():
            self._agents[agent_id].said = msgspec.json.decode(said)
        living = {agent.spec.spawn_id for agent in self._agents.values()}
        self._families.restore(await self._mailboxes.reader.spawns(), living)
        self._router.admission.used.update(await self._mailboxes.reader.purses())
        for pending in await self._mailboxes.reader.pending_messages():
            agent = self._agents[pending.agent_id]
            await self._mailboxes.requeue(agent, pending, self._replying)
        return len(self._agents)

    def _restored(self, spec: Spec) -> Spec:
        """Return *spec* with no right that its parent, which was restored before it, has not."""
        parent = self._agents.get(spec.parent or "")
        if parent is None or parent.spec.spawn_id != spec.parent_spawn_id:
            return spec
        return rechecked(spec, parent.spec, self._admin_events())

    def _replying(self, agent: Agent, cause: Event) -> Reply | None:
        """Return how the answer of *agent* gets to the agent that asked in *cause*, if one did."""
        name = asker_of(cause)
        asker = None if name is None else self._agents.get(name)
        return None if asker is None else partial(self._reply, agent, asker, cause)

    async def _reply(
        self,
        agent: Agent,
        asker: Agent,
        cause: Event,
        answer: Answer,
        rows: tuple[Statement, ...],
    ) -> None:
        """Give *asker* the answer: the notice, the message and *rows* are one commit."""
        if asker.terminated:
            await self._router.record(*rows)
            return
        agent_id, event_id = agent.spec.agent_id, f"{cause.id}.answer"
        content, tainted = reply_text(agent_id, cause, answer), agent.tainted_by is not None
        told = await self._router.submit(
            Submission(
                event="agent:answered",
                data=msgspec.Raw(msgspec.json.encode(answer_data(agent_id, cause, answer))),
                principal=SYSTEM,
                cause=cause,
                event_id=event_id,
                idempotency_key=event_id,
                agent_id=asker.spec.agent_id,
                statements=(
                    *rows,
                    statements.waiting_message(
                        agent_id=asker.spec.agent_id,
                        content=content,
                        untrusted=True,
                        tainted=tainted,
                        request_id=event_id,
                        ts=now(),
                    ),
                ),
            )
        )
        if told.outcome.error is not None:
            raise StorageError(told.outcome.error.message, code=told.outcome.error.code)
        self._mailboxes.post(
            asker, Inbound(cause=told.event, content=content, untrusted=True, tainted=tainted)
        )

    def _parent(self, ctx: Context) -> Spec | None:
        """Return the agent that spawns, None for an operator; raise Denied if it may not."""
        if ctx.agent_id is None:
            return None
        parent = self._agents.get(ctx.agent_id)
        if parent is None:
            raise Denied(f"agent {ctx.agent_id!r} lives no more")
        self._families.check(parent.spec)
        return parent.spec

    async def _choose_protocol(self, agent: Agent) -> dict[str, Any]:
        """Give an agent whose protocol is the best one that protocol; return what was chosen."""
        if agent.spec.protocol != BEST:
            return {}
        model = self._mailboxes.model_of(agent.spec)
        rows = await self._mailboxes.reader.reliability(("model", "dialect"), None, None)
        best, why = best_protocol(recommendations(rows), model)
        usual = Defaults().protocol if self.defaults.protocol == BEST else self.defaults.protocol
        protocol = best or usual
        agent.spec = msgspec.structs.replace(agent.spec, protocol=protocol)
        return {"protocol": protocol, "note": why if best else f"{why}; the protocol is {usual}"}

    def _spec(self, data: Spawn, ctx: Context, parent: Spec | None) -> Spec:
        """Return the spec of a new agent; raise what forbids it."""
        agent_id = data.agent_id or _free_id(data.component, self._agents)
        if agent_id in self._agents:
            raise Conflict(f"agent {agent_id!r} lives already", code="already_exists")
        if len(self._agents) >= self._max_agents:
            raise Conflict(f"{self._max_agents} agents live already", code="too_many_agents")
        component = self._component(data, may_be_path=ctx.principal.operator)
        profile = data.profile or component.profile or self.defaults.profile
        rights = self._load_component(f"profiles/{profile}", False)
        grant = tuple(rights.allow or ())
        spec = make_spec(data, agent_id, component, grant, self.defaults, ctx.agent_id)
        spawner = ctx.principal
        spec = bounded(spec, data, rights, spawner)
        if not spawner.operator:
            if data.subscriptions and not self._may_hear(spawner, data.subscriptions):
                raise Denied(f"{spawner.source} may not have others listen: it may not itself")
            spec = endowed(spec, data, spawner, ctx.right, self._admin_events())
        self._check_provider(spec.provider)
        return adopted(spec, parent, ctx.event.id, self.defaults.limits)

    def _may_hear(self, principal: Principal, patterns: tuple[str, ...]) -> bool:
        # Who listens reads what monitor:subscribe would show.
        return self._router.permits(principal, "monitor:subscribe", {"patterns": [*patterns]})

    def _admin_events(self) -> set[str]:
        return {each.event for each in self._router.registry.first() if each.effect == "admin"}

    def children(self, agent_id: str) -> Container[str]:
        """Return the ids of the living children of the living agent *agent_id*."""
        agent = self._agents.get(agent_id)
        return () if agent is None else self._families.children(agent.spec)

    def _component(self, data: Spawn, *, may_be_path: bool) -> Component:
        if data.component is not None:
            component = self._load_component(data.component, may_be_path)
            if component.component_type == "profile":
                raise InvalidData(
                    f"{data.component!r} is a profile and no agent",
                    hint="an agent has a profile: give it with profile",
                    details={"path": "component"},
                )
            return component
        if data.system is None:
            raise InvalidData("give a component or a system prompt", details={"path": "component"})
        return Component(name="inline")

    def _begin(self, agent: Agent) -> None:
        """Let *agent* hear the events that it subscribed to."""
        patterns = agent.spec.subscriptions
        if patterns and not agent.terminated:
            heard = partial(self._hear, agent)
            agent.unsubscribe = self._router.subscribe(Subscription(patterns, heard))

    def _hear(self, agent: Agent, committed: Committed) -> None:
        tainted = is_carried(committed.event, self.principal)
        self._mailboxes.hear(agent, committed, tainted=tainted)

    def _end(self, agent: Agent, ctx: Context) -> asyncio.Future[Submitted]:
        agent.terminated = True
        agent.unsubscribe()
        agent_id = agent.spec.agent_id
        rows = statements.agent_terminated(agent_id, now())
        if self._families.end(agent.spec):
            self._router.admission.forget(agent.spec.root_id)
            rows.append(purses_gone(agent.spec.root_id))
        self._mailboxes.exchanges.stop(agent_id, "terminated")
        for told in self.on_end:
            told(agent_id)
        # One commit, and before any of a new agent that takes the id, which is free from now on.
        return self._router.notify(
            "agent:terminated",
            {"agent_id": agent_id},
            cause=ctx.event,
            agent_id=agent_id,
            statements=rows,
        )

    def _existing(self, agent_id: str) -> Agent:
        agent = self._agents.get(agent_id)
        if agent is None:
            raise NotFound("agent", agent_id, self._agents)
        return agent

    def _chosen(self, data: Terminate) -> list[str]:
        named = [*data.agent_ids, *([data.agent_id] if data.agent_id else [])]
        for agent_id in named:
            self._existing(agent_id)
        if data.pattern is not None:
            named += [each for each in self._agents if matches(data.pattern, each)]
        if not named and data.pattern is None:
            raise InvalidData("say which: agent_id, agent_ids or pattern")
        return sorted(set(named))


def _inbound(data: Send, ctx: Context) -> Inbound:
    """Return the message as its reader shall see it: one from an agent says so.

    What a program that is no operator sends was written by a model, whoever asked for it.
    """
    if data.protocol is not None and not ctx.principal.operator:
        raise Denied("an agent may not choose the protocol of another")
    # To what rules and other handlers pass on, untrusted says only that calls in it are quoted.
    tainted = ctx.tainted or (data.untrusted and ctx.principal.kind != "handler")
    if ctx.agent_id is None:
        if data.reply:
            raise InvalidData(
                "reply is for agents", hint="a client says wait", details={"path": "reply"}
            )
        return Inbound(
            cause=ctx.event,
            content=data.message,
            untrusted=data.untrusted or not ctx.principal.operator,
            tainted=tainted,
            protocol=data.protocol,
        )
    if data.wait:
        raise InvalidData("an agent cannot wait for another's answer", details={"path": "wait"})
    content = f"Message from agent {ctx.agent_id}:\n{data.message}"
    return Inbound(cause=ctx.event, content=content, untrusted=True, tainted=tainted)


def _described(agent: Agent) -> dict[str, Any]:
    spec = agent.spec
    return {
        "agent_id": spec.agent_id,
        "state": agent.state,
        "component": spec.component,
        "provider": spec.provider.get("type"),
        "model": spec.model or spec.provider.get("model"),
        "parent": spec.parent,
        "tainted_by": agent.tainted_by,
        **agent.said,
    }


def _free_id(component: str | None, taken: Container[str]) -> str:
    stem = PurePath(component or "agent").stem.lower()
    base = re.sub(r"[^a-z0-9_-]", "-", stem)[:50].lstrip("-") or "agent"
    candidates = (base, *(f"{base}-{n}" for n in range(2, 10_000)))
    return next((each for each in candidates if each not in taken), f"{base}-{new_id()[-12:]}")
