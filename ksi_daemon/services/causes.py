"""monitor:tree and monitor:why: what caused what. Reads only; nothing here is written.

Which checks an event passed is not written anywhere: they are made in one order, and the error of
an event says at which of them it ended. The order is that of the diagram in README: a reply is
read, the guard looks where its calls came from, then the router takes them in.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, Protocol

import msgspec

from ksi_daemon.errors import InvalidData, KsiError, NotFound
from ksi_daemon.events import ErrorInfo, Event, Outcome
from ksi_daemon.log.attempts import BadAttempt
from ksi_daemon.registry import Handler
from ksi_daemon.router import Context, Router, handles

__all__ = ["CHECKS", "Causes", "Check"]

# SQLite's integers have 64 bits.
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_REJECTED: Final = "extraction:rejected"
_ANNOUNCED: Final = "extraction:call"
# A call that a person approved of runs as an event of its own.
_APPROVED: Final = ".approved"


class Check(NamedTuple):
    """One check that an event goes through, and the codes of the errors that end it there."""

    name: str
    codes: frozenset[str]


# Of calls in replies alone: read (any code that no other check has), meant, accepted.
CHECKS: Final = (
    Check("read", frozenset()),
    Check("meant", frozenset({"echo", "quoted", "no_nonce"})),
    Check("reply", frozenset({"reply_refused"})),
    Check("story", frozenset({"hop_limit", "root_budget", "rate_limit"})),
    Check("known", frozenset({"unknown_event"})),
    Check("permitted", frozenset({"denied", "tainted", "budget_spent"})),
    Check("data", frozenset({"args_schema", "depth_limit", "holds_secret"})),
    Check("approved", frozenset({"approval_required", "too_many_approvals"})),
)
_BY_CODE: Final = MappingProxyType({code: each.name for each in CHECKS for code in each.codes})
_OF_REPLIES: Final = frozenset({"read", "meant", "reply"})
# Where an event ended whose code is not in the table: others may refuse with codes of their own.
_BY_STATUS: Final = MappingProxyType(
    {"denied": "permitted", "unknown": "known", "rejected": "data"}
)


class Which(msgspec.Struct, forbid_unknown_fields=True):
    """An event by its id or its seq."""

    event_id: str | None = None
    seq: Seq | None = None


class Tree(Which, forbid_unknown_fields=True):
    """A story by its correlation id, or by the id or seq of any of its events."""

    correlation_id: str | None = None


class CausesReader(Protocol):
    """The part of the log that is read here."""

    async def event(self, key: str | int) -> Event | None: ...

    async def tree(self, correlation_id: str) -> list[Event]: ...

    async def causes(self, event_id: str) -> list[Event]: ...

    async def effects(self, event_id: str) -> list[Event]: ...

    async def outcome(self, seq: int) -> Outcome | None: ...

    async def bounds(self) -> tuple[int, int]: ...


class AttemptReader(Protocol):
    """What the log knows of calls that went wrong."""

    async def attempt(self, seq: int) -> BadAttempt | None: ...

    async def fixed_by(self, event_id: str) -> int | None: ...


class Causes:
    """What led to an event, and what it led to."""

    def __init__(self, router: Router, reader: CausesReader, attempts: AttemptReader) -> None:
        self._router = router
        self._reader = reader
        self._attempts = attempts

    @handles("monitor:tree", effect="observe", outside=True, example={"seq": 1})
    async def tree(self, data: Tree, ctx: Context) -> dict[str, Any]:
        """Return all events of one story; each names the event that caused it."""
        correlation_id = data.correlation_id or (await self._found(data)).correlation_id
        events = await self._reader.tree(correlation_id)
        if not events:
            raise NotFound("story", correlation_id)
        return {"correlation_id": correlation_id, "events": events}

    @handles("monitor:why", effect="observe", outside=True, example={"seq": 1})
    async def why(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Say why an event fired: its causes, the checks it passed, how it ended, its effects.

        Of a call that went wrong also its state as an attempt and what the agent was told of it,
        and of an event that was submitted to fix one, which.
        """
        event = await self._found(data)
        causes = await self._reader.causes(event.id)
        effects = await self._reader.effects(event.id)
        outcome = await self._reader.outcome(event.seq)
        first = causes[0] if causes else event
        attempt = await self._attempts.attempt(event.seq) if event.call else None
        return {
            "event": event,
            "checks": _checks(event),
            "handler": self._handler(event),
            "result": outcome.result if outcome else None,
            "causes": [each for each in causes if each.id != event.id],
            "effects": [each for each in effects if each.id != event.id],
            # A cause that retention deleted, or that is no event of this log.
            "lost_cause": first.cause_id,
            "state": attempt and attempt.state,
            "correction": attempt and attempt.correction,
            "fixes": await self._attempts.fixed_by(event.id),
        }

    async def _found(self, which: Which) -> Event:
        """Return the event that is asked for; raise what says why it is not there."""
        key = which.event_id if which.event_id is not None else which.seq
        if key is None:
            raise InvalidData(f"say which: {', '.join(sorted(which.__struct_fields__))}")
        event = await self._reader.event(key)
        if event is not None:
            return event
        if isinstance(key, int):
            raise await self._missing(key)
        raise NotFound("event", key)

    async def _missing(self, seq: int) -> KsiError:
        """Return the error that tells whether an event of this seq ever was."""
        oldest, newest = await self._reader.bounds()
        if 0 < seq <= newest:
            until = f" with all before #{oldest}" if seq < oldest else ""
            return KsiError(
                f"event #{seq} is no longer in the log",
                code="pruned",
                hint=f"retention deleted it{until}",
            )
        missing = NotFound("event", str(seq))
        missing.hint = f"the log has #{oldest} to #{newest}" if newest else "the log is empty"
        return missing

    def _handler(self, event: Event) -> dict[str, Any] | None:
        """Return what handles such an event, or whose notice it is; None if it ended before."""
        if event.status in _BY_STATUS:
            return None
        handlers = self._router.registry.handlers(event.name)
        if handlers:
            return _described(handlers)
        notice = self._router.registry.notice(event.name)
        return notice and {"kind": "notice", "summary": notice.summary}


def _described(handlers: Sequence[Handler]) -> dict[str, Any]:
    first = handlers[0]
    return {
        "kind": first.kind,
        "effect": first.effect,
        "summary": first.summary,
        "handlers": len(handlers),
    }


def _checks(event: Event) -> list[dict[str, Any]]:
    """Return the checks that *event* went through in their order, up to the one that it failed."""
    if event.call is None and event.source == "system":
        return []
    failed = _failed_check(event, event.error)
    passed: list[dict[str, Any]] = []
    for check in CHECKS:
        if check.name == failed:
            return [*passed, {"check": check.name, "passed": False}]
        if check.name in _OF_REPLIES and event.call is None:
            continue
        # What must be approved of is refused the first time; the approved call passes.
        if check.name != "approved" or event.id.endswith(_APPROVED):
            passed.append({"check": check.name, "passed": True})
    return passed


def _failed_check(event: Event, error: ErrorInfo | None) -> str | None:
    if error is None or event.status not in _BY_STATUS:
        return None
    known = _BY_CODE.get(error.code)
    if known is not None:
        return known
    return "read" if event.name == _REJECTED else _BY_STATUS[event.status]
