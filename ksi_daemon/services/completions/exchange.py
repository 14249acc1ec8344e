"""One exchange: from a message to the reply that needs no answer.

    message -> request -> completion -> extraction -> calls, in the order they were written
                  ^                                      |
                  +----- results and corrections --------+   if any needs an answer

Each completion is stored with its text before its calls run, in one commit with the records of
its calls, with what the turn before has left to say, and with its first call. The events of the
calls have ids made of the completion's id and their ordinal, so a crash is made good by running
the stored completion again: what was logged is not logged twice, and the agent is told the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import structlog

from ksi_daemon.conversation import Answer, CallReport, Cutoff, Inbound, Manner, Session
from ksi_daemon.errors import ProviderError, StorageError
from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome, Piece
from ksi_daemon.extraction import Call, Rejected
from ksi_daemon.log import statements
from ksi_daemon.providers.model import Completion, Message, Price, Request, priced
from ksi_daemon.router import Router, Submission, Submitted, new_id
from ksi_daemon.security import SYSTEM, is_permitted
from ksi_daemon.security.provenance import Guard, is_grave, is_harmless, proof_of, texts_of
from ksi_daemon.services.completions.blocks import (
    Block,
    Done,
    Reading,
    Stored,
    blocks_of,
    read,
    said,
)
from ksi_daemon.services.completions.feedback import answers, results
from ksi_daemon.services.completions.manners import Manners
from ksi_daemon.services.completions.progress import FAILURES, Counts, Progress
from ksi_daemon.services.completions.records import (
    attempt_rows,
    block_id,
    completion_data,
    completion_row,
    correction_rows,
    failure_row,
    rejection,
    remember,
    stored,
)
from ksi_daemon.services.completions.traces import log_calls, log_request, log_results
from ksi_daemon.services.completions.turnstile import Turnstile
from ksi_daemon.services.completions.wire import Wire
from ksi_daemon.work import Statement

__all__ = ["Exchange"]


class Exchange:
    """The turns that answer one message. ``run`` it once.

    *price_of* says what a model costs, None where it is not known; all exchanges share
    *turnstile* and *manners*. *cutoff* is where a crash cut this one off.
    """

    def __init__(
        self,
        router: Router,
        session: Session,
        inbound: Inbound,
        price_of: Callable[[str], Price | None],
        turnstile: Turnstile,
        manners: Manners,
        cutoff: Cutoff | None = None,
    ) -> None:
        self.session = session
        self._router = router
        self._turnstile = turnstile
        self._manners = manners
        self._inbound = inbound
        self._manner: Manner = session.manner(inbound.protocol)
        provider = session.provider
        self._price = provider.price or price_of(session.model or provider.model)
        self._cutoff = cutoff
        self._progress = Progress(session.limits, self._manner, self._price, _counts(cutoff))
        self._began = time.monotonic() - self._progress.counts.seconds
        self._wire = Wire(self._manner, session.provider.capabilities)
        self._text = ""
        self._calls: list[CallReport] = []
        self._rejected = 0
        self._result: Any = msgspec.UNSET
        # By what is known in this turn that a call is the agent's own, None if it was told nothing.
        self._proof: str | None = None
        self._asked_for_nonce = False
        self._scope = anyio.CancelScope()
        self._stopped_for = "cancelled"

    def status(self) -> dict[str, Any]:
        """Return what is under way, for people."""
        return {
            "agent_id": self.session.agent_id,
            "request_id": self._inbound.request_id,
            "turn": self._progress.counts.turn,
            "tokens": self._progress.counts.tokens,
        }

    def cancel(self, reason: str) -> None:
        """Stop the exchange; *reason* becomes its finish reason."""
        self._stopped_for = reason
        self._scope.cancel()

    async def run(self) -> Answer:
        """Hold the exchange, from where it was cut off if it was."""
        structlog.contextvars.bind_contextvars(agent_id=self.session.agent_id)
        limit = self.session.limits.wall_s
        with self._scope:
            try:
                with anyio.move_on_after(None if limit is None else limit - self._elapsed()):
                    return await self._turns()
                return self._ended("halted", f"it took over {limit:g} s")
            except ProviderError as exc:
                return self._failed(exc)
        self._notify("completion:cancelled", {"reason": self._stopped_for})
        return self._answer(self._stopped_for)

    def _elapsed(self) -> float:
        """Return the seconds of this exchange, those before a crash with it."""
        return time.monotonic() - self._began

    async def _turns(self) -> Answer:
        if self._inbound.untrusted:
            self._distrust([self._inbound.content])
        if self._inbound.tainted:
            self.session.on_taint(self._inbound.request_id)
        finish = None
        if self._cutoff is not None and self._cutoff.unfinished is not None:
            unfinished = stored(self._cutoff.unfinished)
            self._proof = unfinished.proof
            reading = await read(unfinished.completion, unfinished.event.id, self._manner)
            finish = await self._act(unfinished, self._blocks(unfinished.completion, reading))
        elif self._cutoff is not None:
            finish = self._progress.end()
        while finish is None and self._progress.may_ask():
            finish = await self._turn_once()
        return self._ended(finish or "max_iterations", self._progress.spent())

    async def _turn_once(self) -> str | None:
        session = self.session
        spoken = self._manner.with_nonce(self._new_nonce())
        await self._turnstile.passed()
        request = self._wire.request(spoken, session.messages, session.model)
        log_request(request, self._manner, session.messages)
        completion = await self._complete(request)
        self._progress.spend(request, completion)
        await self._turnstile.passed()
        completion_id = new_id()
        reading = await read(completion, completion_id, self._manner)
        blocks = self._blocks(completion, reading)
        await self._checkpoint()
        with self._router.together():
            storing = self._store(completion_id, completion, reading, blocks)
            begun = self._begin_first(completion_id, blocks)
        kept = _stored(await storing, completion, self._progress.counts.turn + 1)
        self._manners.committed(self._manner)
        return await self._act(kept, blocks, begun)

    async def _checkpoint(self) -> None:
        """End here if the exchange was stopped; a check of all scopes costs more than this one."""
        if self._scope.cancel_called:
            await anyio.lowlevel.checkpoint_if_cancelled()

    def _begin_first(
        self, completion_id: str, blocks: tuple[Block, ...]
    ) -> asyncio.Future[Submitted] | None:
        """Submit the first block, together with the completion that it was written in."""
        refused = self._refuses(blocks)
        call = _runnable(blocks[0], refused=refused) if blocks else None
        if call is None:
            return None
        # As the completion will be, as far as it is a cause.
        cause = msgspec.structs.replace(self._inbound.cause, id=completion_id)
        return self._submit(cause, blocks[0], call)

    async def _complete(self, request: Request) -> Completion:
        started = time.perf_counter()
        completion = await self.session.provider.complete(request, self._listener())
        if not completion.latency_ms:
            elapsed = (time.perf_counter() - started) * 1000
            completion = msgspec.structs.replace(completion, latency_ms=round(elapsed, 3))
        return priced(completion, self._price)

    def _listener(self) -> Callable[[str], None] | None:
        """Return what takes the text of the next reply as it comes, None if nobody listens."""
        feed = self._router.feed
        if not feed.has_listeners:
            return None
        agent_id, request_id = self.session.agent_id, self._inbound.request_id
        turn = self._progress.counts.turn + 1
        return lambda text: feed.heard(Piece(agent_id, request_id, turn, text))

    def _blocks(self, completion: Completion, reading: Reading) -> tuple[Block, ...]:
        """Return the blocks of *completion* that count, and keep its visible text."""
        if completion.stop_reason is None:
            # The stream broke off: what looks whole may be the inside of something else.
            self._text = completion.text
            return ()
        found = reading.extraction
        self._result = found.final
        is_final = found.final is not msgspec.UNSET
        self._text = said(found.final) if is_final else found.residual.strip()
        log_calls(found)
        manner = self._manner
        guard = Guard(
            read=self.session.readings.calls(manner.protocol, manner.schemas),
            prompt=manner.examples,
            tools=manner.schemas,
            proof=self._proof,
            strict=manner.strict_nonce or self._may_be_led,
            unproven=frozenset(call.name for call in found.calls if not self._must_prove(call)),
        )
        return blocks_of(found, guard)

    @property
    def _may_be_led(self) -> bool:
        """Whether the agent has read untrusted text and its calls have a place for a nonce."""
        return self.session.principal.tainted and self._manner.has_nonce

    def _new_nonce(self) -> str | None:
        """Return what this turn is told; keep by what it is known."""
        asked_for = self._asked_for_nonce or (
            self._may_be_led and any(map(self._is_grave, self._manner.schemas))
        )
        nonce = self._manner.new_nonce(asked_for=asked_for, unlike=self.session.messages)
        self._proof = None if nonce is None else proof_of(nonce)
        return nonce

    def _must_prove(self, call: Call) -> bool:
        """Say whether *call* must carry the nonce of its turn, if any must."""
        if not self._manner.strict_nonce:
            return self._is_grave(call.name) or self._is_grave(_called_tool(call))
        handlers = self._router.registry.handlers(call.name)
        return not handlers or not is_harmless(call.name, handlers[0].effect)

    def _is_grave(self, event: str) -> bool:
        """Say whether *event* is grave and not denied anyway."""
        for handler in self._router.registry.handlers(event)[:1]:
            principal, effect = self.session.principal, handler.effect
            return is_grave(effect) and is_permitted(principal, event, effect)
        return False

    def _store(
        self,
        completion_id: str,
        completion: Completion,
        reading: Reading,
        blocks: tuple[Block, ...],
    ) -> asyncio.Future[Submitted]:
        """Log *completion* and the records of its blocks; from here on it is part of the talk."""
        session, inbound, turn = self.session, self._inbound, self._progress.counts.turn + 1
        # A reply that broke off has no calls: as its native message it would wait for results.
        native = reading.native if completion.stop_reason is not None else None
        reply = Message("assistant", completion.text, native=native)
        return self._notify(
            "completion:result",
            completion_data(turn, session.provider, completion, reading.extraction, self._proof),
            event_id=completion_id,
            completion_id=completion_id,
            rows=(
                *session.take_unsaved(),
                completion_row(
                    completion_id,
                    session.agent_id,
                    session.provider,
                    inbound.request_id,
                    turn,
                    self._manner.protocol.name,
                    completion,
                    self._counted(turn),
                ),
                remember(session, inbound, reply, "reply", completion_id),
                *self._manners.rows(completion_id, self._manner),
                *attempt_rows(
                    completion_id,
                    session,
                    completion,
                    blocks,
                    schemas=self._manner.schemas,
                    tries=self._progress.tries(blocks),
                    refused=self._refuses(blocks),
                ),
            ),
        )

    def _refuses(self, blocks: Iterable[Block]) -> bool:
        """Say whether the reply of *blocks* is refused as a whole (CONFORMANCE C4).

        A native call that cannot be used costs the others nothing (S004-36).
        """
        return self._manner.agreement.on_malformed == "reject_reply" and any(
            isinstance(block.found, Rejected) and not block.native for block in blocks
        )

    async def _act(
        self,
        kept: Stored,
        blocks: tuple[Block, ...],
        begun: asyncio.Future[Submitted] | None = None,
    ) -> str | None:
        """Run the calls of a stored completion; return a finish reason, or None to go on.

        *begun* is what the first has come to, if it was submitted already.
        """
        self._progress.counts.turn = kept.turn
        refused = self._refuses(blocks)
        self._asked_for_nonce = any(block.held for block in blocks)
        done = []
        for block in blocks:
            done.append(await self._run(kept, block, begun, refused=refused))
            begun = None
        # Who is terminated leaves nothing behind that a new agent of its id would find.
        await self._checkpoint()
        told_each = results(done, self._manner.schemas, refused=refused)
        told = answers(
            done,
            told_each,
            on_malformed=self._manner.agreement.on_malformed,
            refused=refused,
            provable=self._manner.has_nonce,
            repeated=self._progress.repeated(done),
        )
        completion_id, text = kept.event.id, kept.completion.text
        mended = self._progress.judge(done, text, completion_id, kept.turn)
        rows: list[Statement] = [
            statements.attempt_corrected(fault.completion_id, fault.ordinal, kept.turn - fault.turn)
            for fault in mended
        ]
        rows += [remember(self.session, self._inbound, each, "feedback") for each in told]
        rows += correction_rows(completion_id, zip(done, told_each, strict=True), told)
        self._distrust(each.content for each in told if each.role == "tool")
        log_results(told)
        for each in done:
            if each.outside:
                self.session.on_taint(block_id(completion_id, each.block))
        self.session.unsaved += rows
        self.session.unsaved.append(
            statements.completion_done(completion_id, self._counted(kept.turn))
        )
        return self._finish_reason(kept.completion, told)

    def _counted(self, turn: int) -> bytes:
        """Return the counts after *turn* turns as the log keeps them."""
        counts, seconds = self._progress.counts, round(self._elapsed(), 3)
        return msgspec.json.encode(msgspec.structs.replace(counts, turn=turn, seconds=seconds))

    async def _run(
        self,
        kept: Stored,
        block: Block,
        begun: asyncio.Future[Submitted] | None,
        *,
        refused: bool,
    ) -> Done:
        """Run one block, if it is a call that may run and has not *begun* already."""
        found = _runnable(block, refused=refused)
        if found is None:
            self._reject(kept, block)
            return Done(block)
        submitted = await (begun or self._submit(kept.event, block, found))
        outcome = submitted.outcome
        report = CallReport(
            found.id,
            found.name,
            outcome.status,
            msgspec.json.decode(outcome.result) if outcome.result else None,
            outcome.error,
        )
        self._calls.append(report)
        return Done(block, report, submitted.receipt, submitted.outside)

    def _submit(self, completion: Event, block: Block, call: Call) -> asyncio.Future[Submitted]:
        """Submit the *call* of a block of *completion*."""
        completion_id = completion.id
        reference = CallRef(call.id, call.dialect, call.start, call.end, call.repairs)
        event_id = block_id(completion_id, block)
        self._notify(
            "extraction:call",
            {"name": call.name, "call": reference},
            event_id=f"{event_id}.call",
            completion_id=completion_id,
            cause=completion,
        )
        return self._router.submit(
            Submission(
                event=call.name,
                data=msgspec.Raw(msgspec.json.encode(call.args)),
                principal=self.session.principal,
                cause=completion,
                completion_id=completion_id,
                call=reference,
                event_id=event_id,
                idempotency_key=event_id,
            )
        )

    def _reject(self, kept: Stored, block: Block) -> None:
        found, error = block.found, rejection(block)
        self._rejected += 1
        text = kept.completion.text[found.start : found.end]
        if block.native and isinstance(found, Rejected):
            text = found.excerpt
        self._notify(
            "extraction:rejected",
            {"code": error.code, "message": error.message, "text": text},
            event_id=block_id(kept.event.id, block),
            completion_id=kept.event.id,
            cause=kept.event,
            outcome=Outcome("rejected", error=error),
            call=CallRef(found.id, found.dialect, found.start, found.end),
        )

    def _finish_reason(self, completion: Completion, told: Sequence[Message]) -> str | None:
        if completion.stop_reason is None:
            return "provider_error"
        if not told and self._result is not msgspec.UNSET:
            return "final"
        if not told:
            return "length" if completion.stop_reason == "length" else "stop"
        return self._progress.end()

    def _notify(
        self,
        event: str,
        data: dict[str, Any],
        *,
        event_id: str | None = None,
        completion_id: str | None = None,
        cause: Event | None = None,
        call: CallRef | None = None,
        outcome: Outcome | None = None,
        rows: tuple[Statement, ...] = (),
    ) -> asyncio.Future[Submitted]:
        told = {"agent_id": self.session.agent_id, "request_id": self._inbound.request_id} | data
        return self._router.submit(
            Submission(
                event=event,
                data=msgspec.Raw(msgspec.json.encode(told)),
                principal=SYSTEM,
                cause=cause or self._inbound.cause,
                event_id=event_id,
                idempotency_key=event_id,
                agent_id=self.session.agent_id,
                completion_id=completion_id,
                call=call,
                outcome=outcome,
                statements=rows,
            )
        )

    def _distrust(self, texts: Iterable[str]) -> None:
        """Remember what the agent is given to read: a call that stands in it is not its own."""
        manner = self._manner
        found = [text for content in texts for text in texts_of(content)]
        self.session.readings.add(found, manner.protocol, manner.schemas)

    def _answer(self, finish_reason: str, error: ErrorInfo | None = None) -> Answer:
        return Answer(
            self._inbound.request_id,
            self._text,
            finish_reason,
            self._progress.counts.turn,
            tuple(self._calls),
            error,
            self._rejected,
            self._result if finish_reason == "final" else msgspec.UNSET,
        )

    def _ended(self, reason: str, more: str | None = None) -> Answer:
        """Return the answer of an exchange that came to an end, and log one that it should not."""
        if reason not in FAILURES:
            return self._answer(reason)
        message = FAILURES[reason] + (f": {more}" if reason == "halted" and more else "")
        return self._errored(reason, ErrorInfo(reason, message), self._progress.counts.turn)

    def _failed(self, exc: ProviderError) -> Answer:
        event_id, session = new_id(), self.session
        row = failure_row(event_id, session.agent_id, session.provider, exc.code)
        turn = self._progress.counts.turn + 1
        return self._errored(exc.code, exc.info(), turn, event_id=event_id, rows=(row,))

    def _errored(self, reason: str, error: ErrorInfo, turn: int, **more: Any) -> Answer:
        data = {"turn": turn, "error": error}
        self._notify("completion:error", data, outcome=Outcome("failed", error=error), **more)
        return self._answer(reason, error)


def _counts(cutoff: Cutoff | None) -> Counts | None:
    """Return what was counted before a crash."""
    if cutoff is None or cutoff.counts is None:
        return None
    return msgspec.json.decode(cutoff.counts, type=Counts)


def _called_tool(call: Call) -> str:
    """Return the tool that *call* names, if it is one of ``tool:call``."""
    return str(call.args.get("name", "")) if call.name == "tool:call" else ""


def _runnable(block: Block, *, refused: bool) -> Call | None:
    """Return the call of *block* if it may run; *refused*: nothing of its reply may."""
    found = block.found
    return found if isinstance(found, Call) and not block.held and not refused else None


def _stored(submitted: Submitted, completion: Completion, turn: int) -> Stored:
    """Return the completion that was *submitted* to the log; raise StorageError."""
    error = submitted.outcome.error
    if error is not None:
        raise StorageError(error.message, code=error.code, retryable=error.retryable)
    return Stored(submitted.event, completion, turn)
