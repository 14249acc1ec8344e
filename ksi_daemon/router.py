"""The router: the one way in for events, and the one place that calls handlers.

Theory. Every event, whoever sends it (a socket, an agent's text, a handler, a timer), comes
through ``Router.submit``. There the daemon stamps who sent it and what caused it, checks limits
and rights, finds the handlers, checks the data against what they take, writes the event to the
log, runs the handlers and writes how it ended. Nothing else in ksi calls a handler or writes an
event; a test walks the source to prove it.

A handler comes in four kinds, by how it is written (``registry.handles``):

    async def                a task; the event is durable before it starts, its outcome before
                             the reply
    def, transaction=True    runs in the log's writer, inside the transaction that records the
                             event: event, effect and outcome are one commit
    def, inline=True         runs at once on the event loop: for reads of memory
    def                      runs in a worker thread, otherwise like async def

Reads (effect ``observe``) asked by an operator are counted and not logged. All else is logged,
also what is unknown, denied or does not fit.

``submit`` returns a future and starts no task for inline and transaction handlers: that is what
makes an event cheap.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from hashlib import sha256
from sqlite3 import Connection
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import structlog
import uuid_utils

from ksi_daemon import security
from ksi_daemon.admission import Admission, Limits, decoded
from ksi_daemon.errors import (
    Denied,
    HandlerFailed,
    HandlerTimeout,
    KsiError,
    UnknownEvent,
)
from ksi_daemon.events import (
    MAX_NAME,
    ErrorInfo,
    Event,
    Outcome,
    Status,
    now,
)
from ksi_daemon.feed import Committed, Feed, Subscription
from ksi_daemon.registry import Handler, Nothing, Notice, Registry, handles, plain
from ksi_daemon.security import Principal, Right
from ksi_daemon.security.redaction import Redactor
from ksi_daemon.submission import Channel, Submission, Submitted
from ksi_daemon.work import Ended, Idempotency, Journal, Statement, Work

__all__ = [
    "Channel",
    "Committed",
    "Context",
    "Limits",
    "Nothing",
    "Notice",
    "Router",
    "Submission",
    "Submitted",
    "Subscription",
    "handler_in",
    "handles",
    "new_id",
]

log = structlog.get_logger()

_encode: Final = msgspec.json.Encoder(enc_hook=plain).encode


class Context:
    """What a handler knows besides its data: the event, who sent it, and the way back in."""

    __slots__ = (
        "channel",
        "event",
        "outside",
        "principal",
        "right",
        "router",
        "statements",
        "tainted",
    )

    def __init__(
        self, router: Router, event: Event, submission: Submission, right: Right | None = None
    ) -> None:
        self.router = router
        self.event = event
        self.principal = submission.principal
        self.channel = submission.channel
        # By which right the event came, where one with conditions or a budget was needed.
        self.right = right
        # What the event says is the word of strangers, or of one who has read them.
        self.tainted = submission.tainted or submission.principal.tainted
        # Set where the result holds what strangers wrote: an agent that reads it is tainted.
        self.outside = False
        self.statements: list[Statement] = []

    @property
    def agent_id(self) -> str | None:
        """The agent that sent the event, None for others."""
        return self.principal.agent_id

    async def emit(self, event: str, data: object = None) -> Any:
        """Submit *event* as caused by this one, with the rights of its sender; return its result.

        Raise KsiError if it does not end well.
        """
        submission = Submission(
            event=event,
            data=msgspec.Raw(_encode({} if data is None else data)),
            principal=security.handler(self.event.name, self.principal),
            cause=self.event,
            tainted=self.tainted or self.outside,
        )
        submitted = await self.router.submit(submission)
        self.outside |= submitted.outside
        return submitted.result()

    def notify(
        self, event: str, data: object, *, agent_id: str | None = None
    ) -> asyncio.Future[Submitted]:
        """Log the notice *event* as caused by this event."""
        return self.router.notify(event, data, cause=self.event, agent_id=agent_id)


class Router:
    """See the module. Use as an async context manager: handlers run in its task group."""

    def __init__(
        self,
        journal: Journal,
        feed: Feed | None = None,
        limits: Limits | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.registry = Registry()
        self.redactor = redactor or Redactor()
        self.feed = Feed() if feed is None else feed
        self.limits = limits or Limits()
        self.counts: Counter[str] = Counter()
        self.admission = Admission(self.registry, self.limits, self.redactor)
        self._journal = journal
        self._group: AbstractAsyncContextManager[anyio.abc.TaskGroup] = anyio.create_task_group()
        self._tasks: anyio.abc.TaskGroup | None = None
        # Who else waits for the end of an event that runs: the same request, sent again.
        self._ends: dict[int, list[Callable[[Outcome], None]]] = {}
        self._running = 0
        self._idle = asyncio.Event()

    async def __aenter__(self) -> Router:
        self._idle.set()
        self._tasks = await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        return await self._group.__aexit__(kind, exc, trace)

    @property
    def running(self) -> int:
        """How many handlers are running or waiting for the log."""
        return self._running

    async def drained(self) -> None:
        """Return once no handler runs."""
        await self._idle.wait()

    def include(self, plugin: object) -> None:
        """Register the handlers and notices of *plugin*, a module or an object."""
        self.registry.include(plugin)

    def subscribe(self, subscription: Subscription) -> Callable[[], None]:
        """Have *subscription* told of committed events; return the function that ends it."""
        return self.feed.subscribe(subscription)

    def notify(
        self,
        event: str,
        data: object,
        *,
        cause: Event | None = None,
        agent_id: str | None = None,
        statements: Iterable[Statement] = (),
    ) -> asyncio.Future[Submitted]:
        """Log the notice *event* in the daemon's own name."""
        return self.submit(
            Submission(
                event=event,
                data=msgspec.Raw(_encode(data)),
                principal=security.SYSTEM,
                cause=cause,
                agent_id=agent_id,
                statements=tuple(statements),
            )
        )

    def submit(self, submission: Submission) -> asyncio.Future[Submitted]:
        """Take an event in; the future says what became of it and never raises.

        With ``wait`` "handled" it ends when the outcome is durable, with "logged" when the event
        is. A failure of the storage is an outcome too: nothing was acked then.
        """
        event = self._stamp(submission)
        self.counts[event.name if self._is_known(event.name) else "unknown"] += 1
        reply: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()
        if self.registry.notice(event.name) is not None:
            self._record_notice(submission, event, reply)
            return reply
        try:
            admitted = self.admission.admit(submission, event)
        except KsiError as exc:
            self._record_refusal(submission, event, exc, reply)
            return reply
        context = Context(self, event, submission, admitted.right)
        handlers, payload, _ = admitted
        self._dispatch(_Delivery(submission, event, handlers, payload, context, reply))
        return reply

    def together(self) -> AbstractContextManager[None]:
        """Have all that is submitted within the block, which must not wait, be one commit.

        Where the first cannot be written, the others are not.
        """
        return self._journal.together()

    async def record(self, *rows: Statement) -> None:
        """Commit *rows* that belong to no event of their own; raise StorageError."""
        await self._commit(Work(statements=rows))

    def _idempotency(self, submission: Submission) -> Idempotency | None:
        if submission.idempotency_key is None:
            return None
        # Of the data as they are logged: what a crash has read again is that.
        data = bytes(self.redactor.raw(submission.data))
        digest = sha256(submission.event.encode() + b"\0" + data).digest()
        return Idempotency(submission.principal.scope, submission.idempotency_key, digest)

    def _commit(self, work: Work) -> asyncio.Future[Work]:
        return self._journal.submit(self.redactor.work(work))

    def _is_known(self, name: str) -> bool:
        return bool(self.registry.handlers(name)) or self.registry.notice(name) is not None

    def _stamp(self, submission: Submission) -> Event:
        cause = submission.cause
        event_id = submission.event_id or new_id()
        return Event(
            id=event_id,
            ts=now(),
            # What is too long for a name is nobody's name; it shall not fill the log either.
            name=submission.event[: MAX_NAME + 1],
            data=submission.data,
            source=submission.principal.source,
            correlation_id=(
                cause.correlation_id if cause else submission.correlation_id or event_id
            ),
            cause_id=cause.id if cause else None,
            hop=cause.hop + 1 if cause else 0,
            agent_id=submission.agent_id or submission.principal.agent_id,
            completion_id=submission.completion_id,
            call=submission.call,
            status="received",
        )

    def known_to(self, principal: Principal) -> list[str]:
        """Return the events that *principal* may submit, sorted by name."""
        return self.admission.known_to(principal)

    def permits(self, principal: Principal, event: str, data: dict[str, Any]) -> bool:
        """Say whether *principal* might submit *event* with *data* now; nothing comes of it."""
        return self.admission.permits(principal, event, data)

    def _record_notice(
        self, submission: Submission, event: Event, reply: asyncio.Future[Submitted]
    ) -> None:
        if submission.principal.kind != "system":
            denied = Denied(f"{event.name!r} is a notice: only the daemon tells it")
            self._record_refusal(submission, event, denied, reply)
            return
        # A notice tells of its cause; it is no step further away from the story's first event.
        event.hop = max(0, event.hop - 1)
        outcome = submission.outcome or _HANDLED
        event.status, event.error = outcome.status, outcome.error
        work = Work(
            event=event,
            outcome=outcome,
            statements=submission.statements,
            idempotency=self._idempotency(submission),
        )
        self._write(work, reply, lambda done: Submitted(event, done.outcome or _HANDLED))

    def _record_refusal(
        self,
        submission: Submission,
        event: Event,
        error: KsiError,
        reply: asyncio.Future[Submitted],
    ) -> None:
        outcome = Outcome(_refusal_status(error), error=error.info())
        event.status, event.error = outcome.status, outcome.error
        event.data = security.storable(event.data)
        work = Work(
            event=event,
            outcome=outcome,
            statements=submission.statements,
            # What a crash repeats is logged once. A client's own key is for what was taken in:
            # a refusal must not be the answer for good.
            idempotency=self._idempotency(submission) if submission.event_id else None,
        )
        self._write(
            work, reply, lambda done: Submitted(event, done.outcome or outcome, done.duplicate)
        )

    def _write(
        self,
        work: Work,
        reply: asyncio.Future[Submitted],
        answer: Callable[[Work], Submitted],
    ) -> None:
        """Submit *work*; when it is durable, answer *reply*."""
        self._begin()

        def committed(future: asyncio.Future[Work]) -> None:
            self._end()
            _settle(reply, _answered(future, work, answer))

        self._commit(work).add_done_callback(committed)

    def _dispatch(self, delivery: _Delivery) -> None:
        first, submission = delivery.handlers[0], delivery.submission
        observed = first.effect == "observe" and submission.principal.operator
        # What is to be committed together with an event needs the event.
        observed = observed and not submission.statements
        if first.kind == "transaction":
            self._transact(delivery, first)
        elif not observed:
            self._log_then_start(delivery)
        elif first.kind == "inline" and len(delivery.handlers) == 1:
            outcome = _called(first, delivery.payload, delivery.context)
            outside = _is_outside(delivery)
            delivery.reply.set_result(Submitted(delivery.event, outcome, outside=outside))
        else:
            self._start(delivery, logged=False)

    def _transact(self, delivery: _Delivery, handler: Handler) -> None:
        event, submission = delivery.event, delivery.submission

        def transaction(connection: Connection) -> msgspec.Raw:
            result = handler.call(delivery.payload, delivery.context, connection)
            return self.redactor.raw(msgspec.Raw(_encode(result)))

        def answer(done: Work) -> Submitted:
            return Submitted(event, done.outcome or _PENDING, done.duplicate, handler.receipt)

        work = Work(
            event=event,
            transaction=transaction,
            statements=submission.statements,
            idempotency=self._idempotency(submission),
        )
        self._write(work, delivery.reply, answer)

    def _log_then_start(self, delivery: _Delivery) -> None:
        submission, event, reply = delivery.submission, delivery.event, delivery.reply
        work = Work(
            event=event,
            statements=submission.statements,
            idempotency=self._idempotency(submission),
        )
        self._begin()

        def committed(future: asyncio.Future[Work]) -> None:
            self._end()
            if future.cancelled() or future.exception() is not None:
                _settle(reply, _answered(future, work, lambda _: Submitted(event, _PENDING)))
            elif work.duplicate:
                self._answer_again(delivery, work.outcome)
            else:
                if submission.wait == "logged":
                    _settle(reply, Submitted(event, _PENDING))
                self._start(delivery, logged=True)

        self._commit(work).add_done_callback(committed)

    def _answer_again(self, delivery: _Delivery, outcome: Outcome | None) -> None:
        """Answer a submission that was logged before; if that one still runs, when it ends."""
        event, reply, first = delivery.event, delivery.reply, delivery.handlers[0]
        # Whether a read came upon strangers' words is not known any more.
        outside = first.outside or first.effect == "observe"

        def answer(end: Outcome) -> None:
            _settle(reply, Submitted(event, end, True, first.receipt, outside))

        ends = self._ends.get(event.seq)
        if outcome is not None or ends is None or delivery.submission.wait == "logged":
            answer(outcome or _PENDING)
        else:
            ends.append(answer)

    def _start(self, delivery: _Delivery, *, logged: bool) -> None:
        if self._tasks is None:
            raise RuntimeError("the router is not running")
        self._begin()
        if logged:
            self._ends[delivery.event.seq] = []
        self._tasks.start_soon(self._run, delivery, logged)

    async def _run(self, delivery: _Delivery, logged: bool) -> None:
        """Run the handlers one after the other; the first one's outcome is the event's."""
        first, *others = delivery.handlers
        event, context = delivery.event, delivery.context
        structlog.contextvars.bind_contextvars(
            event_id=event.id, correlation_id=event.correlation_id
        )
        outcome = _STOPPED
        try:
            outcome = await self._guarded(first, delivery.payload, context)
            for other in others:
                await self._guarded(other, decoded(other, event), context)
            if logged:
                outcome = await self._conclude(context, outcome)
        finally:
            outside = _is_outside(delivery)
            _settle(
                delivery.reply, Submitted(event, outcome, receipt=first.receipt, outside=outside)
            )
            for tell in self._ends.pop(event.seq, ()):
                tell(outcome)
            # Last: who waits until all is drained closes the connection that the reply takes.
            self._end()

    async def _guarded(self, handler: Handler, payload: Any, context: Context) -> Outcome:
        """Call *handler*; whatever goes wrong in it costs only its own event."""
        started = time.perf_counter()
        limit = handler.timeout_s or self.limits.handler_timeout_s
        try:
            with anyio.fail_after(limit) as scope:
                result = await _call(handler, payload, context)
        except KsiError as exc:
            return _failed(exc, started, "failed")
        except TimeoutError as exc:
            if not scope.cancelled_caught:
                return _failed(_unexpected(handler, exc), started, "failed")
            late = HandlerTimeout(f"the handler of {handler.event!r} took over {limit:g} s")
            return _failed(late, started, "timeout")
        except asyncio.CancelledError as exc:
            # Of what the handler awaited: the handler itself was not told to end.
            if _is_cancelled():
                raise
            return _failed(_unexpected(handler, exc), started, "failed")
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - handlers are other people's code
            return _failed(_unexpected(handler, exc), started, "failed")
        return _encoded(handler, result, started)

    async def _conclude(self, context: Context, outcome: Outcome) -> Outcome:
        event = context.event
        work = Work(
            ended=Ended(event.seq, outcome, event.call is not None),
            statements=tuple(context.statements) if outcome.error is None else (),
        )
        try:
            await self._commit(work)
        except KsiError as exc:
            return Outcome("failed", error=exc.info())
        event.status, event.error = outcome.status, outcome.error
        event.duration_ms = outcome.duration_ms
        self.feed.ended(event, outcome)
        return outcome

    def _begin(self) -> None:
        self._running += 1
        self._idle.clear()

    def _end(self) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()


class _Delivery(NamedTuple):
    """An admitted event on its way through its handlers."""

    submission: Submission
    event: Event
    handlers: tuple[Handler, ...]
    payload: Any
    context: Context
    reply: asyncio.Future[Submitted]


def _is_outside(delivery: _Delivery) -> bool:
    return delivery.handlers[0].outside or delivery.context.outside


_PENDING: Final = Outcome("received")
_HANDLED: Final = Outcome("handled")
_STOPPED: Final = Outcome(
    "lost", error=ErrorInfo("stopping", "the daemon stopped before the handler ended")
)


def new_id() -> str:
    """Return a new event id: a UUID of version 7, so that ids sort by time."""
    return str(uuid_utils.uuid7())


def handler_in(frame: FrameType | None) -> str | None:
    """Return the event whose handler *frame* is in, None if it is in none."""
    while frame is not None:
        if frame.f_code in (_call.__code__, _called.__code__):
            handler: Handler = frame.f_locals["handler"]
            return handler.event
        frame = frame.f_back
    return None


def _settle(reply: asyncio.Future[Submitted], submitted: Submitted) -> None:
    if not reply.done():
        reply.set_result(submitted)


def _refusal_status(error: KsiError) -> Status:
    if isinstance(error, UnknownEvent):
        return "unknown"
    return "denied" if isinstance(error, Denied) else "rejected"


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


async def _call(handler: Handler, payload: Any, context: Context) -> Any:
    if handler.kind == "task":
        return await handler.call(payload, context)
    if handler.kind == "inline":
        return handler.call(payload, context)
    return await anyio.to_thread.run_sync(handler.call, payload, context, abandon_on_cancel=True)


def _called(handler: Handler, payload: Any, context: Context) -> Outcome:
    """Call an inline handler now."""
    started = time.perf_counter()
    try:
        return _encoded(handler, handler.call(payload, context), started)
    except KsiError as exc:
        return _failed(exc, started, "failed")
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - handlers are other people's code
        return _failed(_unexpected(handler, exc), started, "failed")


def _encoded(handler: Handler, result: object, started: float) -> Outcome:
    try:
        raw = msgspec.Raw(_encode(result))
    except (TypeError, ValueError, RecursionError) as exc:
        return _failed(_unexpected(handler, exc), started, "failed")
    return Outcome("handled", raw, duration_ms=_since(started))


def _failed(error: KsiError, started: float, status: Status) -> Outcome:
    return Outcome(status, error=error.info(), duration_ms=_since(started))


def _unexpected(handler: Handler, exc: BaseException) -> HandlerFailed:
    log.error("handler_failed", handler=handler.event, exc_info=exc)
    return HandlerFailed(
        f"the handler of {handler.event!r} raised {type(exc).__name__}: {exc}"[:500]
    )


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def _answered(
    future: asyncio.Future[Work], work: Work, answer: Callable[[Work], Submitted]
) -> Submitted:
    """Return the answer to a finished write; a storage error is an outcome too."""
    event = work.event
    if event is None:
        raise RuntimeError("a write without an event has no answer")
    if future.cancelled():
        return Submitted(event, _STOPPED)
    error = future.exception()
    if error is None:
        return answer(future.result())
    event.seq = 0
    if isinstance(error, KsiError):
        return Submitted(event, Outcome("failed", error=error.info()))
    raise error
