"""monitor:attempts, and what a person does about them: submit one again, mended, or dismiss it.

What is submitted in place of an attempt is submitted by whoever mends it and with their rights;
its cause is the event that the attempt became, so its story says where it came from. A fix that
came to good is the last one of its attempt. One that was refused or failed may be followed by
another; of one that was cut off it is not known whether it came to good, and ``force`` says that
it shall be done again all the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

import msgspec

from ksi_daemon.errors import Conflict, InvalidData, KsiError, NotFound
from ksi_daemon.events import Event, is_event_name, now
from ksi_daemon.extraction.native import NATIVE
from ksi_daemon.log.attempts import (
    AttemptFilter,
    AttemptKind,
    AttemptState,
    BadAttempt,
    Fix,
    FixKind,
    fix,
)
from ksi_daemon.log.inbox import Counts
from ksi_daemon.moments import Moment, moment_of
from ksi_daemon.router import Context, Router, Submission, Submitted, handles

__all__ = ["Attempts"]

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]

_REJECTED: Final = "extraction:rejected"
# What is submitted may take as long as a tool takes.
FIX_S: Final = 3_600.0
_REFUSED: Final = frozenset({"rejected", "unknown", "denied", "failed", "timeout"})


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """Which attempts. *attempt* is the seq of one, which is told with its text and its fixes.

    *kind*: rejected, held, invalid, unknown, denied or failed. Those that were only held, because
    they may be quotations, are listed if *kind* or *code* ask for them. *before_seq* is for the
    next page.
    """

    attempt: Seq | None = None
    agent_id: str | None = None
    model: str | None = None
    code: str | None = None
    kind: AttemptKind | None = None
    state: AttemptState | None = None
    since: Moment | None = None
    until: Moment | None = None
    before_seq: Seq | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class Retry(msgspec.Struct, forbid_unknown_fields=True):
    """What to submit in place of an attempt: *event* and *data*; without them the call as it was.

    *force*: also if it was made good already, if an earlier fix was cut off, or if the very call
    was denied to the agent.
    """

    attempt: Seq
    event: str | None = None
    data: dict[str, Any] | None = None
    force: bool = False


class Dismissal(msgspec.Struct, forbid_unknown_fields=True):
    attempt: Seq
    reason: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class AttemptsReader(Protocol):
    """The part of the log that is read here."""

    async def event(self, key: str | int) -> Event | None: ...


class InboxReader(Protocol):
    """The attempts that went wrong, as the log has them."""

    async def attempts(self, wanted: AttemptFilter) -> list[BadAttempt]: ...

    async def attempt(self, seq: int) -> BadAttempt | None: ...

    async def fixes(self, attempt: BadAttempt) -> list[Fix]: ...

    async def counts(self, wanted: AttemptFilter) -> Counts: ...


class Attempts:
    """The calls of agents that went wrong, and what was done about them."""

    def __init__(self, router: Router, reader: AttemptsReader, inbox: InboxReader) -> None:
        self._router = router
        self._reader = reader
        self._inbox = inbox
        # Attempts that are being fixed or dismissed now, by their seq.
        self._busy: set[int] = set()

    @handles(
        "monitor:attempts",
        effect="observe",
        outside=True,
        example={"state": "open", "limit": 10},
    )
    async def attempts(self, data: Wanted, ctx: Context) -> dict[str, Any]:
        """List calls that were rejected, invalid, unknown, denied or failed, the newest first."""
        if data.attempt is not None:
            attempt = await self._existing(data.attempt)
            return {"attempts": [await self._told(attempt, whole=True)]}
        wanted = _filter(data)
        found = await self._inbox.attempts(wanted)
        counts = await self._inbox.counts(msgspec.structs.replace(wanted, state=None))
        return {
            "attempts": [await self._told(each) for each in found],
            "counts": {**counts.states, "kinds": counts.kinds, "fixes": counts.fixes},
        }

    @handles(
        "monitor:retry_attempt",
        effect="admin",
        timeout_s=FIX_S,
        example={"attempt": 42, "event": "state:set", "data": {"key": "k", "value": 1}},
    )
    async def retry(self, data: Retry, ctx: Context) -> dict[str, Any]:
        """Submit an event in place of a call that went wrong, once."""
        attempt = await self._taken(data.attempt)
        try:
            fixes = await self._inbox.fixes(attempt)
            _check(attempt, fixes, force=data.force)
            origin = await self._reader.event(attempt.seq)
            name, payload, kind = _asked(data, attempt, origin)
            if kind == "again" and attempt.kind == "denied" and not data.force:
                raise Conflict(
                    f"attempt #{attempt.seq} was denied: {name!r} would run with other rights",
                    code="was_denied",
                    hint="look at it, then force has it run with your rights",
                )
            submitted = await self._submit(attempt, len(fixes) + 1, kind, name, payload, ctx)
        finally:
            self._busy.discard(data.attempt)
        outcome, event = submitted.outcome, submitted.event
        return {
            "attempt": attempt.seq,
            "fixes": attempt.event_id,
            "seq": event.seq,
            "event_id": event.id,
            "event": event.name,
            "status": outcome.status,
            **({"error": outcome.error} if outcome.error else {"result": outcome.result}),
        }

    @handles(
        "monitor:dismiss_attempt", effect="admin", example={"attempt": 42, "reason": "a quotation"}
    )
    async def dismiss(self, data: Dismissal, ctx: Context) -> dict[str, Any]:
        """Put a call that went wrong aside: nothing is to be done about it."""
        attempt = await self._taken(data.attempt)
        try:
            fixes = await self._inbox.fixes(attempt)
            _check(attempt, fixes, force=False)
            if attempt.state == "dismissed":
                raise Conflict(f"attempt #{attempt.seq} is dismissed", code="already_dismissed")
            row = fix(
                attempt,
                len(fixes) + 1,
                "dismissed",
                event_id=None,
                source=ctx.principal.source,
                reason=data.reason,
                ts=now(),
            )
            await self._router.record(row)
        finally:
            self._busy.discard(data.attempt)
        return {"attempt": attempt.seq, "state": "dismissed"}

    async def _existing(self, seq: int) -> BadAttempt:
        attempt = await self._inbox.attempt(seq)
        if attempt is not None:
            return attempt
        event = await self._reader.event(seq)
        if event is None:
            raise NotFound("attempt", str(seq))
        if event.call is None:
            raise KsiError(
                f"event #{seq} is no call of an agent, so it is no attempt", code="no_attempt"
            )
        raise KsiError(f"event #{seq} is {event.status}: nothing is wrong", code="no_attempt")

    async def _taken(self, seq: int) -> BadAttempt:
        """Return the attempt, which is nobody else's until it is taken from ``_busy``."""
        if seq in self._busy:
            raise Conflict(f"attempt #{seq} is being fixed by another", code="already_fixed")
        self._busy.add(seq)
        try:
            return await self._existing(seq)
        except BaseException:
            self._busy.discard(seq)
            raise

    async def _submit(
        self,
        attempt: BadAttempt,
        number: int,
        kind: FixKind,
        name: str,
        data: dict[str, Any],
        ctx: Context,
    ) -> Submitted:
        """Submit the event; it and the row that says what it fixes are one commit."""
        fix_id = f"{attempt.event_id}.fix{number}"
        handlers = self._router.registry.handlers(name)
        if handlers and handlers[0].own and ctx.agent_id is None and attempt.agent_id:
            # What an agent says of itself is meant of it, whoever says it in its place.
            data = {handlers[0].own: attempt.agent_id, **data}
        row = fix(
            attempt,
            number,
            kind,
            event_id=fix_id,
            source=ctx.principal.source,
            reason="",
            ts=now(),
        )
        return await self._router.submit(
            Submission(
                event=name,
                data=msgspec.Raw(msgspec.json.encode(data)),
                principal=ctx.principal,
                cause=await self._reader.event(attempt.seq),
                event_id=fix_id,
                idempotency_key=fix_id,
                statements=(row,),
            )
        )

    async def _told(self, attempt: BadAttempt, *, whole: bool = False) -> dict[str, Any]:
        """Return *attempt* with its text; *whole*: with the whole reply and what was done."""
        told = msgspec.structs.asdict(attempt)
        reply = await self._reply(attempt)
        told["text"] = await self._text(attempt, reply)
        if not whole:
            return told
        fixes = await self._inbox.fixes(attempt)
        return {**told, "reply": reply, "fixes": fixes}

    async def _reply(self, attempt: BadAttempt) -> str | None:
        """Return the text of the reply that *attempt* stands in, None if retention deleted it."""
        event = await self._reader.event(attempt.completion_id)
        return None if event is None else str(msgspec.json.decode(event.data).get("text", ""))

    async def _text(self, attempt: BadAttempt, reply: str | None) -> str:
        """Return *attempt* as it was written; of a native call, what it asks for as JSON."""
        if reply is not None and attempt.dialect != NATIVE:
            return reply[attempt.start : attempt.end]
        event = await self._reader.event(attempt.seq)
        if event is None:
            return ""
        data = msgspec.json.decode(event.data)
        if event.name == _REJECTED:
            return str(data.get("text", ""))
        return msgspec.json.encode({"event": event.name, "data": data}).decode()


def _filter(data: Wanted) -> AttemptFilter:
    return AttemptFilter(
        agent_id=data.agent_id,
        model=data.model,
        code=data.code,
        kind=data.kind,
        state=data.state,
        since=moment_of(data.since, "since"),
        until=moment_of(data.until, "until"),
        before_seq=data.before_seq,
        limit=data.limit,
    )


def _check(attempt: BadAttempt, fixes: list[Fix], *, force: bool) -> None:
    """Raise Conflict if nothing more is to be done about *attempt*."""
    done = next((each for each in reversed(fixes) if each.kind != "dismissed"), None)
    if done is not None and done.status not in _REFUSED and not (force and done.status == "lost"):
        raise Conflict(
            f"attempt #{attempt.seq} was fixed by event #{done.seq}, which is {done.status}",
            code="already_fixed",
            hint="force submits it again" if done.status == "lost" else None,
            details={"seq": done.seq, "event_id": done.event_id, "status": done.status},
        )
    if attempt.corrected and not force:
        turns = f"{attempt.corrected} turn{'s' * (attempt.corrected != 1)}"
        raise Conflict(
            f"the agent made attempt #{attempt.seq} good {turns} later",
            code="already_corrected",
            hint="force submits it all the same",
        )


def _asked(
    data: Retry, attempt: BadAttempt, origin: Event | None
) -> tuple[str, dict[str, Any], FixKind]:
    """Return the event to submit, its data, and whether it is another than the agent's."""
    if data.event is None and data.data is None:
        if origin is None or origin.name == _REJECTED:
            raise InvalidData(
                f"attempt #{attempt.seq} became no event of its own: say event and data",
                details={"path": "event"},
            )
        return origin.name, msgspec.json.decode(origin.data), "again"
    if data.event is None and (origin is None or origin.name == _REJECTED) and not attempt.tool:
        raise InvalidData("say which event", details={"path": "event"})
    name = data.event or attempt.tool or attempt.event
    if not is_event_name(name) and name != attempt.tool:
        raise InvalidData(f"{name!r:.200} is no event name", details={"path": "event"})
    return name, data.data or {}, "edited"
