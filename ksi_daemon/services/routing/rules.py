"""routing:*: when an event like this is logged, submit one like that.

Theory. The log is the queue. Each rule keeps the seq up to which it has seen the events; whenever
the feed tells of an event that a rule may want, the events after that seq are read from the log,
tested, and what follows from them is submitted. A firing is one commit with its count. Its event
has an id made of the event that set it off and the rule's name, so that what a crash repeats is
logged once: every event sets off every rule exactly once, over whatever ends of the daemon.

A rule fires for what the router took in, however its handlers end: how they do is not known when
the event is logged, and a rule must decide the same when it reads the event a second time.

What follows is caused by what set it off. So a circle of rules comes to the limits of hops and of
events per story, like any other circle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, Protocol

import anyio
import msgspec
import structlog

from ksi_daemon.errors import Conflict, Denied, KsiError, NotFound
from ksi_daemon.events import Event, matches, now
from ksi_daemon.log import standing
from ksi_daemon.log.model import EventFilter
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
)
from ksi_daemon.security import SYSTEM, stand_in
from ksi_daemon.security.taint import is_carried
from ksi_daemon.services.routing import conditions, mapping
from ksi_daemon.services.routing.fields import Fields, fields_of
from ksi_daemon.services.routing.targets import (
    Makers,
    Name,
    Target,
    check_room,
    check_target,
    named,
    owned,
)

__all__ = ["MAX_RULES", "RuleReader", "Rules"]

log = structlog.get_logger()

MAX_RULES: Final = 1_000
# Events that are read and fired for at a time.
PAGE: Final = 200
# A rule that nothing sets off notes where it is after so many events, so that a start reads few.
NOTE_EVERY: Final = 1_000
# More names than this in one query cost more than to look at every event.
MAX_PATTERNS: Final = 64
MAX_DATA_BYTES: Final = 1024 * 1024
RETRY_S: Final = 0.25
_MESSAGE: Final = {"message": "Event {{event}} from {{source}}:\n{{data}}"}
_REFUSED: Final = ("denied", "unknown", "rejected")


class AddRule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """When an event that *pattern* matches fulfils *condition*, submit the event *target*, or give
    an agent a message ({"agent": ...}), with *mapping* filled in as its data.

    Without a mapping an event gets the data as they are, an agent all that is known. Rules of
    higher *priority* act first. *ttl_s* and *max_fires* bound its life.
    """

    name: Name
    pattern: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    target: Target
    condition: dict[str, Any] = msgspec.field(default_factory=dict)
    mapping: dict[str, Any] | None = None
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    ttl_s: Annotated[float, msgspec.Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    max_fires: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class Which(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class RuleReader(Protocol):
    """The part of the log that is read here."""

    async def rules(self) -> list[standing.LoggedRule]: ...

    async def events(self, wanted: EventFilter) -> list[Event]: ...


class Rules:
    """The rules by name. *makers* tells the rights of a living agent; ``run`` is their life."""

    NOTICES: Final = (Notice("routing:failed", "A rule matched an event and could not act on it."),)

    def __init__(self, router: Router, reader: RuleReader, makers: Makers) -> None:
        self._router = router
        self._reader = reader
        self._makers = makers
        self._rules: dict[str, _Rule] = {}
        self._wake = anyio.Event()
        self._progress = anyio.Event()
        self._noted = 0
        self._unsubscribe: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._rules)

    @handles(
        "routing:add_rule",
        keeps=True,
        example={
            "name": "praise",
            "pattern": "agent:result",
            "condition": {"data.result.score": {"ge": 8}},
            "target": {"agent": "writer"},
            "mapping": {"message": "{{source}} gives you {{data.result.score}} points."},
        },
    )
    async def add_rule(self, data: AddRule, ctx: Context) -> dict[str, Any]:
        """Have an event submitted, or an agent told, whenever an event matches."""
        await self._make_way(data.name)
        rule = _Rule(data, ctx.agent_id, now(), self._router.feed.last_seq)
        self._check(rule, ctx)
        # From here on it sees each event, though it acts only when it is on disk.
        self._rules[data.name] = rule
        try:
            await self._router.record(
                standing.rule(
                    data.name,
                    msgspec.json.encode(data),
                    rule.agent_id,
                    rule.made,
                    rule.position,
                )
            )
        except BaseException:
            self._rules.pop(data.name, None)
            raise
        self._follow()
        self._wake.set()  # what was logged meanwhile, and to end what has expired
        return {"name": data.name, "after_seq": rule.position}

    @handles("routing:delete_rule", example={"name": "praise"})
    async def delete_rule(self, data: Which, ctx: Context) -> dict[str, str]:
        """Delete a rule; an agent can delete its own."""
        rule = self._rules.get(data.name)
        if rule is None:
            raise NotFound("rule", data.name, self._rules)
        if not ctx.principal.operator and rule.agent_id != ctx.agent_id:
            raise Denied(f"rule {data.name!r} is not {ctx.principal.source}'s")
        del self._rules[data.name]
        self._follow()
        await self._router.record(standing.rule_deleted(data.name))
        return {"deleted": data.name}

    @handles("routing:list_rules", effect="observe", inline=True, example={})
    def list_rules(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the rules in the order in which they act, with how often each has fired."""
        living = [each for each in self._ordered() if not each.is_over]
        return {"rules": [rule.described() for rule in living]}

    async def restore(self) -> int:
        """Bring back the rules of an earlier run; return how many."""
        for row in await self._reader.rules():
            asked = msgspec.json.decode(row.spec, type=AddRule)
            rule = _Rule(asked, row.agent_id, row.made, row.position, row.fires)
            self._rules[row.name] = rule
        self._noted = min((rule.position for rule in self._rules.values()), default=0)
        self._follow()
        self._wake.set()
        return len(self._rules)

    async def run(self) -> None:
        """Act on what is in the log and on what comes; never return."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            try:
                while await self._read_on():
                    pass
            except KsiError as exc:
                log.warning("rules_delayed", error=exc.message)
                await anyio.sleep(RETRY_S)
                self._wake.set()

    def forget(self, agent_id: str) -> None:
        """Drop the rules of an agent that ends; their rows end with the agent's."""
        for name in [name for name, rule in self._rules.items() if rule.agent_id == agent_id]:
            del self._rules[name]
        self._follow()

    async def _make_way(self, name: str) -> None:
        """Wait until a rule of that name whose life is over has acted on all that came in it."""
        while (rule := self._rules.get(name)) is not None and rule.is_over:
            seen = min(each.position for each in self._rules.values())
            if seen >= self._router.feed.last_seq:
                await self._note([rule], seen, always=False)
            else:
                progress = self._progress
                self._wake.set()
                await progress.wait()

    def _check(self, rule: _Rule, ctx: Context) -> None:
        """Raise what forbids to add *rule*."""
        principal = ctx.principal
        if rule.name in self._rules:
            raise Conflict(f"there is a rule {rule.name!r} already", code="already_exists")
        check_room("rules", [each.agent_id for each in self._rules.values()], ctx, MAX_RULES)
        check_target(self._router, rule.event, principal)
        # Who is told of events reads what monitor:subscribe would show.
        heard = {"patterns": [rule.asked.pattern]}
        if not self._router.permits(principal, "monitor:subscribe", heard):
            raise Denied(f"{principal.source} may not follow events: it lacks 'monitor:subscribe'")

    def _ordered(self) -> list[_Rule]:
        return sorted(self._rules.values(), key=lambda rule: (-rule.asked.priority, rule.made))

    def _follow(self) -> None:
        """Be told of the events that a rule may want."""
        self._unsubscribe()
        self._unsubscribe = lambda: None
        if self._rules:
            patterns = tuple({rule.asked.pattern for rule in self._rules.values()})
            subscription = Subscription(patterns, self._on_committed, inner=True)
            self._unsubscribe = self._router.subscribe(subscription)

    def _on_committed(self, committed: Committed) -> None:
        self._wake.set()

    async def _read_on(self) -> bool:
        """Act on the next events of the log; say whether there may be more."""
        rules = self._ordered()
        told = self._router.feed.last_seq
        position = min((rule.position for rule in rules), default=told)
        if position >= told:
            return False
        patterns = tuple({rule.asked.pattern for rule in rules})
        events = await self._reader.events(
            EventFilter(
                patterns=patterns if len(patterns) <= MAX_PATTERNS else (),
                after_seq=position,
                before_seq=told + 1,
                limit=PAGE,
            )
        )
        seen = events[-1].seq if len(events) == PAGE else told
        firings = [f for event in events for f in self._set_off(rules, event)]
        for firing, future in [(each, self._fire(each)) for each in firings]:
            await self._fired(firing, future)
        await self._note(rules, seen, always=bool(firings))
        return True

    def _set_off(self, rules: Iterable[_Rule], event: Event) -> Iterator[_Firing]:
        """Yield what follows from *event*."""
        if event.status in _REFUSED:
            return
        wanting = [rule for rule in rules if rule.wants(event)]
        try:
            fields = fields_of(event) if wanting else {}
        except msgspec.MsgspecError as exc:
            log.warning("event_unreadable", event_id=event.id, error=str(exc))
            return
        for rule in wanting:
            if rule.test(fields):
                yield _Firing(rule, event, rule.data(event, fields))

    def _fire(self, firing: _Firing) -> asyncio.Future[Submitted] | None:
        """Submit what follows; None if nothing can."""
        rule, event, data = firing
        maker = owned(rule.agent_id, self._makers)
        if maker is None or rule.is_used_up or self._rules.get(rule.name) is not rule:
            return None
        if data is None:
            return self._tell_of_failure(rule, event)
        rule.fires += 1
        event_id = f"{event.id}.rule.{rule.name}"
        return self._router.submit(
            Submission(
                event=rule.event,
                data=data,
                principal=stand_in(f"rule:{rule.name}", maker),
                tainted=is_carried(event, self._makers),
                cause=event,
                wait="logged",
                event_id=event_id,
                idempotency_key=event_id,
                statements=(standing.rule_fired(rule.name),),
            )
        )

    async def _fired(self, firing: _Firing, future: asyncio.Future[Submitted] | None) -> None:
        """Wait until a firing is in the log; try again while the storage refuses it."""
        while future is not None:
            submitted = await future
            error = submitted.outcome.error
            kept = submitted.event.seq > 0
            if submitted.duplicate or not kept:
                firing.rule.fires -= 1
            if kept or error is None or not error.retryable:
                return
            await anyio.sleep(RETRY_S)
            future = self._fire(firing)

    def _tell_of_failure(self, rule: _Rule, event: Event) -> asyncio.Future[Submitted]:
        rule.fires += 1
        reason = f"its data would have more than {MAX_DATA_BYTES} bytes"
        event_id = f"{event.id}.rule.{rule.name}"
        return self._router.submit(
            Submission(
                event="routing:failed",
                data=msgspec.Raw(msgspec.json.encode({"rule": rule.name, "reason": reason})),
                principal=SYSTEM,
                cause=event,
                event_id=event_id,
                idempotency_key=event_id,
                statements=(standing.rule_fired(rule.name),),
            )
        )

    async def _note(self, rules: Iterable[_Rule], seen: int, *, always: bool) -> None:
        """Keep how far the rules are, and end those that are used up."""
        for rule in rules:
            rule.position = max(rule.position, seen)
        # Only what is read to its end has expired: what is read late may still be in time.
        behind = seen < self._router.feed.last_seq
        over = [rule for rule in rules if rule.is_used_up or (rule.is_expired and not behind)]
        ended = [rule for rule in over if self._rules.get(rule.name) is rule]
        for rule in ended:
            del self._rules[rule.name]
        if ended:
            self._follow()
        if ended or always or seen - self._noted >= NOTE_EVERY:
            self._noted = seen
            await self._router.record(
                standing.rules_at(seen), *(standing.rule_deleted(rule.name) for rule in ended)
            )
        self._progress.set()
        self._progress = anyio.Event()


class _Rule:
    """One rule, ready to be asked."""

    def __init__(
        self, asked: AddRule, agent_id: str | None, made: datetime, position: int, fires: int = 0
    ) -> None:
        self.asked = asked
        self.name = asked.name
        self.agent_id = agent_id
        self.made = made
        self.position = position
        self.fires = fires
        self.test = conditions.compiled(asked.condition)
        template = asked.mapping
        if not isinstance(asked.target, str):
            # What another said is not what the agent is told to do, unless somebody says so.
            template = {"untrusted": True, **(_MESSAGE if template is None else template)}
        self.event, template = named(asked.target, template)
        self._fill = None if template is None else mapping.compiled(template)
        self._expires = None if asked.ttl_s is None else made + timedelta(seconds=asked.ttl_s)

    @property
    def is_used_up(self) -> bool:
        """Say whether it has fired as often as it may."""
        return self.asked.max_fires is not None and self.fires >= self.asked.max_fires

    @property
    def is_over(self) -> bool:
        return self.is_used_up or self.is_expired

    @property
    def is_expired(self) -> bool:
        """Say whether its time is over; it may still have to see events that were in time."""
        return self._expires is not None and now() >= self._expires

    def wants(self, event: Event) -> bool:
        """Say whether *event* is one for this rule, as far as its name and its time tell."""
        return (
            event.seq > self.position
            and matches(self.asked.pattern, event.name)
            and (self._expires is None or event.ts < self._expires)
        )

    def data(self, event: Event, fields: Fields) -> msgspec.Raw | None:
        """Return the data of what follows, None if they are too large."""
        if self._fill is None:
            return event.data
        encoded = msgspec.json.encode(self._fill(fields))
        return msgspec.Raw(encoded) if len(encoded) <= MAX_DATA_BYTES else None

    def described(self) -> dict[str, Any]:
        """Return what people are told of it."""
        return {
            **msgspec.to_builtins(self.asked),
            "agent_id": self.agent_id,
            "fires": self.fires,
            "expires": self._expires,
        }


class _Firing(NamedTuple):
    """A rule that an event sets off, and the data of what follows (None: too large)."""

    rule: _Rule
    event: Event
    data: msgspec.Raw | None
