"""timer:*: submit an event, or speak to an agent, at a time or again and again.

A firing is one commit with the timer's next time, or with its end, so over whatever ends of the
daemon a timer fires once for each time that it came to.

Catching up. A timer that was due while the daemon did not run fires once when it starts again,
however often it was due, and then goes on in its old rhythm: what has to be done is done, and
nothing is done a hundred times.

Stories. A timer of an operator begins a new story each time. One that an agent set goes on in the
story in which it was set, one step further from its beginning: otherwise an agent could escape
the limits of hops and of events per story by setting timers. The end of its story is its own.
"""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Annotated, Any, Final, NamedTuple, Protocol

import anyio
import msgspec
import structlog

from ksi_daemon.clock import Clock
from ksi_daemon.errors import Conflict, Denied, InvalidData, NotFound, StorageError
from ksi_daemon.events import Event
from ksi_daemon.log import standing
from ksi_daemon.router import Context, Nothing, Router, Submission, Submitted, handles, new_id
from ksi_daemon.security import stand_in
from ksi_daemon.services.routing.targets import (
    Makers,
    Name,
    Target,
    check_room,
    check_target,
    named,
    owned,
)

__all__ = ["MAX_TIMERS", "TimerReader", "Timers"]

log = structlog.get_logger()

MAX_TIMERS: Final = 10_000
# Entries of timers that have ended; beyond this they are thrown away before their time.
TIDY: Final = 64
FARTHEST_S: Final = 10 * 366 * 86_400
RETRY: Final = timedelta(seconds=1)
_REFUSED: Final = ("denied", "unknown", "rejected")

Ahead = Annotated[float, msgspec.Meta(ge=0, le=FARTHEST_S)]
Every = Annotated[float, msgspec.Meta(ge=1, le=FARTHEST_S)]


class SetTimer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """When the time comes, submit the event *target* with *data*, or give an agent a message
    (target {"agent": ...}, data {"message": ...}).

    The time is *after_s* seconds ahead, or *at* a time with its zone. With *every_s* the timer
    fires again and again, at first after so many seconds unless the start is given, at most
    *max_fires* times.
    """

    target: Target
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    name: Name | None = None
    after_s: Ahead | None = None
    at: datetime | None = None
    every_s: Every | None = None
    max_fires: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class Which(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class TimerReader(Protocol):
    """The part of the log that is read here."""

    async def timers(self) -> list[standing.LoggedTimer]: ...

    async def event(self, key: str) -> Event | None: ...


class Timers:
    """The timers by name. *makers* tells the rights of a living agent; ``run`` is their life."""

    def __init__(self, router: Router, reader: TimerReader, makers: Makers, clock: Clock) -> None:
        self._router = router
        self._reader = reader
        self._makers = makers
        self._clock = clock
        self._timers: dict[str, _Timer] = {}
        # Each timer once; an entry whose timer has ended is passed over.
        self._agenda: list[tuple[datetime, int, _Timer]] = []
        self._numbers = count()
        self._wake = anyio.Event()

    def __len__(self) -> int:
        return len(self._timers)

    @handles(
        "timer:set",
        keeps=True,
        example={
            "name": "tea",
            "after_s": 240,
            "target": {"agent": "writer"},
            "data": {"message": "The tea is ready."},
        },
    )
    async def set(self, data: SetTimer, ctx: Context) -> dict[str, Any]:
        """Have an event submitted, or an agent told, at a time or again and again."""
        name = data.name or f"timer-{new_id()[-12:]}"
        due = self._first(data)
        timer = _Timer(name, data, ctx.agent_id, ctx.event, due)
        self._check(timer, ctx)
        self._timers[name] = timer
        try:
            await self._router.record(
                standing.timer(name, msgspec.json.encode(data), ctx.agent_id, ctx.event.id, due)
            )
        except BaseException:
            self._timers.pop(name, None)
            raise
        self._plan(timer, due)
        return {"name": name, "due": due}

    @handles("timer:cancel", example={"name": "tea"})
    async def cancel(self, data: Which, ctx: Context) -> dict[str, str]:
        """Cancel a timer; an agent can cancel its own."""
        timer = self._timers.get(data.name)
        if timer is None:
            raise NotFound("timer", data.name, self._timers)
        if not ctx.principal.operator and timer.agent_id != ctx.agent_id:
            raise Denied(f"timer {data.name!r} is not {ctx.principal.source}'s")
        del self._timers[data.name]
        await self._router.record(standing.timer_deleted(data.name))
        return {"cancelled": data.name}

    @handles("timer:list", effect="observe", inline=True, example={})
    def list_timers(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the timers, the one that is due first first."""
        ordered = sorted(self._timers.values(), key=lambda timer: (timer.due, timer.name))
        return {"timers": [timer.described() for timer in ordered]}

    async def restore(self) -> int:
        """Bring back the timers of an earlier run; return how many."""
        for row in await self._reader.timers():
            cause = await self._reader.event(row.event_id)
            if cause is None:
                log.warning("timer_without_event", timer=row.name)
                continue
            asked = msgspec.json.decode(row.spec, type=SetTimer)
            timer = _Timer(row.name, asked, row.agent_id, cause, row.due, row.fires)
            self._timers[row.name] = timer
            self._plan(timer, row.due)
        return len(self._timers)

    async def run(self) -> None:
        """Fire what is due, wait for what is not; never return."""
        while True:
            self._wake = anyio.Event()
            firings = [self._fire(timer) for timer in self._due()]
            for firing in firings:
                await self._fired(firing)
            if not firings:
                await self._clock.wait(self._wake, self._agenda[0][0] if self._agenda else None)

    def forget(self, agent_id: str) -> None:
        """Drop the timers of an agent that ends; their rows end with the agent's."""
        for name in [n for n, timer in self._timers.items() if timer.agent_id == agent_id]:
            del self._timers[name]

    def _first(self, data: SetTimer) -> datetime:
        """Return when a new timer is due at first; raise InvalidData."""
        if data.after_s is not None and data.at is not None:
            raise InvalidData("give after_s or at, not both", details={"path": "at"})
        if data.after_s is None and data.at is None and data.every_s is None:
            raise InvalidData("say when: after_s, at or every_s", details={"path": "after_s"})
        if data.max_fires is not None and data.every_s is None:
            raise InvalidData("max_fires is for every_s", details={"path": "max_fires"})
        if data.at is None:
            ahead = data.every_s if data.after_s is None else data.after_s
            return self._clock.now() + timedelta(seconds=ahead or 0)
        if data.at.tzinfo is None:
            raise InvalidData(
                "at has no zone", hint="as in 2030-01-31T09:00:00Z", details={"path": "at"}
            )
        now = self._clock.now()
        if data.at > now + timedelta(seconds=FARTHEST_S):
            raise InvalidData("at is more than ten years ahead", details={"path": "at"})
        return max(now, data.at).astimezone(UTC)

    def _check(self, timer: _Timer, ctx: Context) -> None:
        """Raise what forbids to set *timer*."""
        if timer.name in self._timers:
            raise Conflict(f"there is a timer {timer.name!r} already", code="already_exists")
        check_room("timers", [each.agent_id for each in self._timers.values()], ctx, MAX_TIMERS)
        check_target(self._router, timer.event, ctx.principal)

    def _plan(self, timer: _Timer, due: datetime) -> None:
        heapq.heappush(self._agenda, (due, next(self._numbers), timer))
        if len(self._agenda) > 2 * len(self._timers) + TIDY:
            self._agenda = [entry for entry in self._agenda if self._lives(entry[2])]
            heapq.heapify(self._agenda)
        self._wake.set()

    def _lives(self, timer: _Timer) -> bool:
        return self._timers.get(timer.name) is timer

    def _due(self) -> list[_Timer]:
        """Take from the agenda what is due now, and what is no more to be done at its top."""
        now, found = self._clock.now(), []
        while self._agenda:
            due, _, timer = self._agenda[0]
            living = self._lives(timer)
            if living and due > now:
                break
            heapq.heappop(self._agenda)
            if living:
                found.append(timer)
        return found

    def _fire(self, timer: _Timer) -> _Firing:
        """Submit what *timer* is for, in one commit with its next time or its end."""
        following = timer.following(self._clock.now())
        maker = owned(timer.agent_id, self._makers)
        if maker is None:
            return _Firing(timer, following, None)
        event_id = f"{timer.cause.id}.timer.{timer.fires + 1}"
        submission = Submission(
            event=timer.event,
            data=timer.data,
            principal=stand_in(f"timer:{timer.name}", maker),
            cause=None if timer.agent_id is None else timer.cause,
            wait="logged",
            event_id=event_id,
            idempotency_key=event_id,
            statements=(
                standing.timer_deleted(timer.name)
                if following is None
                else standing.timer_fired(timer.name, following),
            ),
        )
        return _Firing(timer, following, self._router.submit(submission))

    async def _fired(self, firing: _Firing) -> None:
        """Plan the next firing when this one is in the log; try again if the log is busy."""
        timer, following, future = firing
        submitted = None if future is None else await future
        if not self._lives(timer):
            return
        if submitted is not None and _is_to_be_tried_again(submitted):
            self._plan(timer, self._clock.now() + RETRY)
        elif submitted is None or following is None:
            del self._timers[timer.name]
        elif submitted.outcome.status in _REFUSED:
            await self._give_up(timer)
        else:
            timer.fires += 1
            timer.due = following
            self._plan(timer, following)

    async def _give_up(self, timer: _Timer) -> None:
        """End a timer whose event is refused: so it would be each time."""
        del self._timers[timer.name]
        try:
            await self._router.record(standing.timer_deleted(timer.name))
        except StorageError as exc:
            log.warning("timer_not_deleted", timer=timer.name, error=exc.message)


class _Firing(NamedTuple):
    """A timer that was due, when it is due next (None: never), what was submitted for it.

    Nothing is submitted for an agent that has ended.
    """

    timer: _Timer
    following: datetime | None
    submitted: asyncio.Future[Submitted] | None


def _is_to_be_tried_again(submitted: Submitted) -> bool:
    error = submitted.outcome.error
    return not submitted.event.seq and error is not None and error.retryable


class _Timer:
    """One timer and when it is due next. *cause* is the event that set it."""

    def __init__(
        self,
        name: str,
        asked: SetTimer,
        agent_id: str | None,
        cause: Event,
        due: datetime,
        fires: int = 0,
    ) -> None:
        self.name = name
        self.asked = asked
        self.agent_id = agent_id
        self.cause = cause
        self.due = due
        self.fires = fires
        self.event, data = named(asked.target, asked.data)
        self.data = msgspec.Raw(msgspec.json.encode(data))

    def following(self, now: datetime) -> datetime | None:
        """Return when it is due after this firing, None if this one is the last."""
        every_s, most = self.asked.every_s, self.asked.max_fires
        if every_s is None or (most is not None and self.fires + 1 >= most):
            return None
        late_s = max(0.0, (now - self.due).total_seconds())
        return self.due + timedelta(seconds=every_s * (late_s // every_s + 1))

    def described(self) -> dict[str, Any]:
        """Return what people are told of it."""
        return {
            **msgspec.to_builtins(self.asked),
            "name": self.name,
            "agent_id": self.agent_id,
            "due": self.due,
            "fires": self.fires,
        }
