"""Admission: what an event must pass before it is logged as taken in.

The order is that of the cost of being wrong: the limits of its story, whether there is such an
event, whether its sender may submit it, whether its data fit, whether a person must approve. What
forbids an event is raised; the router logs it as a refusal.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterator
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ksi_daemon import security
from ksi_daemon.errors import ApprovalRequired, Denied, InvalidData, UnknownEvent
from ksi_daemon.events import Event
from ksi_daemon.registry import Handler, Registry
from ksi_daemon.security import Permit, Principal, Right, Situation
from ksi_daemon.security.buckets import Buckets
from ksi_daemon.security.redaction import Redactor
from ksi_daemon.submission import Submission
from ksi_daemon.work import Statement

__all__ = ["Admission", "Admitted", "Approver", "Limits", "decoded"]

# How many stories are counted at a time; the oldest is forgotten beyond that.
MAX_ROOTS: Final = 16_384


class Limits(msgspec.Struct, frozen=True):
    """Bounds on what one story may cost: *hops* from its first event, *events_per_root* in all;
    and on how fast one agent submits events, with what acts for it, and how many at once."""

    hops: int = 16
    events_per_root: int = 256
    agent_events_per_s: float = 10.0
    agent_events_burst: int = 100
    handler_timeout_s: float = 30.0


class Approver(Protocol):
    """Who is asked for approvals."""

    def ask(self, event: Event, principal: Principal) -> tuple[str, tuple[Statement, ...]]:
        """Return the id of the approval that *event* needs, and the rows that ask for it.

        Raise KsiError if it cannot be asked for.
        """
        ...


class Admitted(NamedTuple):
    """Who handles an event, its data as the first of them takes it, and by which right it came."""

    handlers: tuple[Handler, ...]
    payload: Any
    right: Right | None


class Admission:
    """The checks, and the counts that they need."""

    def __init__(self, registry: Registry, limits: Limits, redactor: Redactor) -> None:
        # Set once, before anything is submitted, by services that need the router: who is asked,
        # who is whose child, and the row that keeps a use of a right with a budget.
        self.approver: Approver | None = None
        self.children_of: Callable[[str], Container[str]] = lambda agent_id: ()
        self.keep_use: Callable[[str], Statement] | None = None
        # What was taken of each purse.
        self.used: Counter[str] = Counter()
        self._registry = registry
        self.limits = limits
        self._redactor = redactor
        self._buckets = Buckets()
        self._roots: OrderedDict[str, int] = OrderedDict()

    def admit(self, submission: Submission, event: Event) -> Admitted:
        """Return who handles *event*, its data made fit for them; raise what forbids it."""
        principal = submission.principal
        self._check_story(event, principal)
        handlers = self._registry.handlers(event.name)
        if not handlers:
            raise UnknownEvent(event.name, self.known_to(principal))
        permit = self._permit(event, principal, handlers[0])
        event.data = self._checked(event, principal, handlers[0])
        if permit.filled:
            event.data = security.with_fields(event.data, permit.filled)
        self._guard_secrets(event, handlers[0])
        payload = decoded(handlers[0], event)
        self._check_approval(submission, event)
        if permit.right is not None:
            submission.statements += tuple(self._spend(permit.right))
        return Admitted(handlers, payload, permit.right)

    def _guard_secrets(self, event: Event, handler: Handler) -> None:
        """Keep secrets out of what goes to the disk by other ways than the event itself."""
        if handler.keeps:
            self._redactor.refuse(event.data, event.name)
        elif handler.kind == "transaction":
            event.data = self._redactor.raw(event.data)

    def _permit(self, event: Event, principal: Principal, handler: Handler) -> Permit:
        return security.permit(
            principal,
            event.name,
            handler.effect,
            lambda: security.fields_of(self._checked(event, principal, handler)),
            self.situation(principal, event.correlation_id),
            self.used,
        )

    def _checked(self, event: Event, principal: Principal, handler: Handler) -> msgspec.Raw:
        name, own = event.name, handler.own or ""

        def speaks_for(fields: dict[str, Any]) -> bool:
            at = self.situation(principal, event.correlation_id)
            return security.speaks_for(principal, name, handler.effect, own, fields, at)

        return security.checked(
            event.data, principal, event=name, own=handler.own, speaks_for=speaks_for
        )

    def permits(self, principal: Principal, event: str, data: dict[str, Any]) -> bool:
        """Say whether *principal* might submit *event* with *data* now."""
        handlers = self._registry.handlers(event)
        effect = handlers[0].effect if handlers else "observe"
        at = self.situation(principal)
        try:
            security.permit(principal, event, effect, lambda: data, at, self.used)
        except Denied:
            return False
        return True

    def situation(self, principal: Principal, story: str | None = None) -> Situation:
        """Return what the words of conditions mean for *principal* in *story*."""
        return Situation(principal.agent_id or "", principal.parent, story, self.children_of)

    def resume(self, story: str, size: int) -> None:
        """Count the events that *story* had in an earlier run of the daemon."""
        self._roots[story] = max(size, self._roots.get(story, 0))

    def forget(self, family: str) -> None:
        """Forget what was taken of the purses of a *family* that is no more."""
        for purse in [each for each in self.used if each.startswith(f"{family}/")]:
            del self.used[purse]

    def _spend(self, right: Right) -> Iterator[Statement]:
        for purse, _ in security.purses(right):
            self.used[purse] += 1
            if self.keep_use is not None:
                yield self.keep_use(purse)

    def known_to(self, principal: Principal) -> list[str]:
        """Return the events that *principal* may submit, sorted by name."""
        return security.permitted(principal, ((h.event, h.effect) for h in self._registry.first()))

    def _check_story(self, event: Event, principal: Principal) -> None:
        if event.hop > self.limits.hops:
            raise Denied(
                f"{event.hop} causes lie before this event, the limit is {self.limits.hops}",
                code="hop_limit",
            )
        if principal.kind == "client":
            return
        self._check_rate(principal)
        count = self._roots.pop(event.correlation_id, 0) + 1
        self._roots[event.correlation_id] = count
        if len(self._roots) > MAX_ROOTS:
            self._roots.popitem(last=False)
        if count > self.limits.events_per_root:
            raise Denied(
                f"this story has {count} events, the limit is {self.limits.events_per_root}",
                code="root_budget",
            )

    def _check_rate(self, principal: Principal) -> None:
        if principal.agent_id is None:
            return
        per_s, burst = self.limits.agent_events_per_s, self.limits.agent_events_burst
        now = time.monotonic()
        wait = self._buckets.take(principal.agent_id, now, per_s=per_s, burst=burst)
        if wait:
            raise Denied(
                f"agent:{principal.agent_id} submits more than {per_s:g} events a second",
                code="rate_limit",
                hint=f"it may again in {wait:.1f} s",
                retryable=True,
            )

    def _check_approval(self, submission: Submission, event: Event) -> None:
        """Raise ApprovalRequired, and ask for it, unless *event* needs none or has it."""
        principal = submission.principal
        if not security.must_ask(principal, event.name):
            return
        if submission.approved == security.binding(principal, event.name, event.data):
            return
        if self.approver is None or principal.kind != "agent":
            raise ApprovalRequired(event.name)
        approval_id, rows = self.approver.ask(event, principal)
        submission.statements += rows
        raise ApprovalRequired(event.name, approval_id)


def decoded(handler: Handler, event: Event) -> Any:
    """Return the data of *event* as *handler* takes them; raise InvalidData."""
    try:
        return handler.decode(event.data)
    except msgspec.ValidationError as exc:
        path = str(exc).rpartition("`$")[2].rstrip("`").lstrip(".") if "`$" in str(exc) else ""
        raise InvalidData(str(exc), details={"path": path}) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidData(f"data is not JSON: {exc}") from exc
