"""One exchange: from a message to the reply that needs no answer.

    message -> request -> completion -> extraction -> calls, in the order they were written
                  ^                                      |
                  +----- results and corrections --------+   one message, if any needs an answer

Each completion is stored with its text before its calls run, in one commit with the records of
its calls. The events of the calls have ids made of the completion's id and their ordinal, so a
crash between the two is made good by running the stored completion again: what was logged is
not logged twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import structlog

from ksi_daemon import extraction
from ksi_daemon.conversation import Answer, CallReport, Inbound, Session
from ksi_daemon.errors import ProviderError, StorageError
from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome, now
from ksi_daemon.extraction import Call, Extraction, Rejected
from ksi_daemon.log import statements
from ksi_daemon.log.model import Attempt, MessageKind
from ksi_daemon.providers.model import Completion, Message, Provider, Request
from ksi_daemon.router import Router, Submission, Submitted, new_id
from ksi_daemon.security import SYSTEM
from ksi_daemon.security.provenance import echoed, fingerprints, strings
from ksi_daemon.services.completions.feedback import feedback, shown
from ksi_daemon.work import Statement

__all__ = ["Exchange", "alternating"]

# Texts beyond this many characters are searched in a worker thread, not on the event loop.
LARGE_TEXT: Final = 32_768

Role = Literal["user", "assistant"]
# What the model did wrong, by the code of the outcome's error; the rest is others' fault.
MODEL_FAULTS: Final = frozenset({"args_schema", "unknown_event", "depth_limit"})


class Block(NamedTuple):
    """One block of a completion: a call, or what looks like one. *held*: the guard holds it."""

    ordinal: int
    found: Call | Rejected
    held: bool = False


class Stored(NamedTuple):
    """A completion that is in the log and whose calls may not all have run."""

    event: Event
    completion: Completion
    turn: int


class Fault(NamedTuple):
    """A block that went wrong through the model, until a later turn makes it good."""

    completion_id: str
    ordinal: int
    turn: int
    tool: str | None


class Exchange:
    """The turns that answer one message. ``run`` it once."""

    def __init__(self, router: Router, session: Session, inbound: Inbound) -> None:
        self.session = session
        self._router = router
        self._inbound = inbound
        self._turn = 0
        self._text = ""
        self._last_reply: str | None = None
        self._repeats = 0
        self._mistakes = 0
        self._calls: list[CallReport] = []
        self._rejected = 0
        self._is_final = False
        self._faults: list[Fault] = []
        self._untrusted: frozenset[bytes] = frozenset()
        self._scope = anyio.CancelScope()
        self._stopped_for = "cancelled"

    def status(self) -> dict[str, Any]:
        """Return what is under way, for people."""
        return {
            "agent_id": self.session.agent_id,
            "request_id": self._inbound.request_id,
            "turn": self._turn,
        }

    def cancel(self, reason: str) -> None:
        """Stop the exchange; *reason* becomes its finish reason."""
        self._stopped_for = reason
        self._scope.cancel()

    async def run(self, unfinished: Event | None = None) -> Answer:
        """Hold the exchange; with *unfinished*, from the calls of that stored completion on."""
        structlog.contextvars.bind_contextvars(agent_id=self.session.agent_id)
        with self._scope:
            try:
                return await self._turns(_stored(unfinished) if unfinished else None)
            except ProviderError as exc:
                return self._failed(exc)
        self._notify("completion:cancelled", {"reason": self._stopped_for})
        return self._answer(self._stopped_for)

    async def _turns(self, stored: Stored | None) -> Answer:
        if self._inbound.untrusted:
            self._distrust([self._inbound.content])
        self._take_up()
        finish = None
        if stored is not None:
            finish = await self._act(stored, await self._blocks(stored.completion))
        while finish is None and self._turn < self.session.limits.turns:
            provider, completion = await self._complete()
            blocks = await self._blocks(completion)
            finish = await self._act(await self._store(provider, completion, blocks), blocks)
        return self._answer(finish or "max_iterations")

    def _take_up(self) -> None:
        """Go on where a crash cut off: turns are counted, what they were told is not trusted."""
        messages = self.session.messages
        asked = Message("user", self._inbound.content)
        begun = max((at for at, each in enumerate(messages) if each == asked), default=-1)
        since = messages[begun + 1 :]
        self._turn = sum(message.role == "assistant" for message in since)
        self._distrust(message.content for message in since if message.role == "user")

    async def _complete(self) -> tuple[Provider, Completion]:
        session = self.session
        provider = session.provider
        system = [Message("system", session.system)] if session.system.strip() else []
        request = Request(messages=(*system, *alternating(session.messages)), model=session.model)
        started = time.perf_counter()
        completion = await provider.complete(request)
        if not completion.latency_ms:
            elapsed = (time.perf_counter() - started) * 1000
            completion = msgspec.structs.replace(completion, latency_ms=round(elapsed, 3))
        return provider, completion

    async def _blocks(self, completion: Completion) -> tuple[Block, ...]:
        """Return the blocks of *completion* in source order, and keep its visible text."""
        if completion.stop_reason is None:
            # The stream broke off: what looks whole may be the inside of something else.
            self._text = completion.text
            return ()
        found = await self._extracted(completion)
        self._is_final = found.final is not msgspec.UNSET
        self._text = _said(found.final) if self._is_final else found.residual.strip()
        holds = echoed(found.calls, self._untrusted)
        outcomes: list[tuple[Call | Rejected, bool]] = [
            *zip(found.calls, holds, strict=True),
            *((rejected, False) for rejected in found.rejected),
        ]
        outcomes.sort(key=lambda outcome: outcome[0].start)
        return tuple(Block(n, each, held) for n, (each, held) in enumerate(outcomes, start=1))

    async def _extracted(self, completion: Completion) -> Extraction:
        text = completion.text
        # Whether a vendor's template opens a thought is not known, and the reply is whole.
        protocol = msgspec.structs.replace(self.session.protocol, open_thought=True)
        search = partial(
            extraction.extract,
            text,
            protocol,
            stop_reason=completion.stop_reason,
            tools=self.session.tools,
        )
        found = search() if len(text) < LARGE_TEXT else await anyio.to_thread.run_sync(search)
        if completion.message is None:
            return found
        declared = self.session.provider.capabilities.native_tool_calls
        names = extraction.native_names(self.session.tools or ())
        native = extraction.read_native(completion.message, names=names)
        return extraction.choose(native, found, declared=declared)

    async def _store(
        self, provider: Provider, completion: Completion, blocks: tuple[Block, ...]
    ) -> Stored:
        """Log *completion* and the records of its blocks; from here on it is part of the talk."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        turn, completion_id = self._turn + 1, new_id()
        data = {
            "agent_id": self.session.agent_id,
            "request_id": self._inbound.request_id,
            "turn": turn,
            "provider": provider.name,
            "model": completion.model,
            "stop_reason": completion.stop_reason,
            "latency_ms": completion.latency_ms,
            "usage": completion.usage,
            "text": completion.text,
            **({"incomplete": completion.incomplete} if completion.incomplete else {}),
            **({"message": completion.message} if completion.message else {}),
        }
        submitted = await self._notify(
            "completion:result",
            data,
            event_id=completion_id,
            completion_id=completion_id,
            rows=(
                self._completion_row(completion_id, turn, provider, completion),
                self._remember("assistant", completion.text, "reply", completion_id),
                *self._attempt_rows(completion_id, provider, completion, blocks),
            ),
        )
        error = submitted.outcome.error
        if error is not None:
            raise StorageError(error.message, code=error.code, retryable=error.retryable)
        return Stored(submitted.event, completion, turn)

    async def _act(self, stored: Stored, blocks: tuple[Block, ...]) -> str | None:
        """Run the calls of a stored completion; return a finish reason, or None to go on."""
        self._turn = stored.turn
        answered = [await self._outcome(stored, block) for block in blocks]
        # Who is terminated leaves nothing behind that a new agent of its id would find.
        await anyio.lowlevel.checkpoint_if_cancelled()
        done = [each for each in answered if each is not None]
        message = feedback(
            [(report, receipt) for report, receipt in done],
            [block.found for block in blocks if isinstance(block.found, Rejected)],
            [block.found.name for block in blocks if isinstance(block.found, Call) and block.held],
        )
        rows = self._judge(stored, blocks, [each and each[0] for each in answered])
        if message is not None:
            rows.append(self._remember("user", message, "feedback"))
            self._distrust(
                text for report, _ in done for text in (shown(report), *strings(report.result))
            )
        await self._router.record(*rows, statements.completion_done(stored.event.id))
        return self._finish_reason(stored.completion, message)

    async def _outcome(self, stored: Stored, block: Block) -> tuple[CallReport, bool] | None:
        """Run one block; return its report and whether that is a receipt, None if it is no call."""
        found = block.found
        if isinstance(found, Rejected) or block.held:
            self._reject(stored, block)
            return None
        submitted = await self._submit(stored, block, found)
        outcome = submitted.outcome
        report = CallReport(
            found.id,
            found.name,
            outcome.status,
            msgspec.json.decode(outcome.result) if outcome.result else None,
            outcome.error,
        )
        self._calls.append(report)
        return report, submitted.receipt

    async def _submit(self, stored: Stored, block: Block, call: Call) -> Submitted:
        reference = CallRef(call.id, call.dialect, call.start, call.end, call.repairs)
        event_id = _block_id(stored, block)
        self._notify(
            "extraction:call",
            {"name": call.name, "call": reference},
            event_id=f"{event_id}.call",
            completion_id=stored.event.id,
            cause=stored.event,
        )
        return await self._router.submit(
            Submission(
                event=call.name,
                data=msgspec.Raw(msgspec.json.encode(call.args)),
                principal=self.session.principal,
                cause=stored.event,
                completion_id=stored.event.id,
                call=reference,
                event_id=event_id,
                idempotency_key=event_id,
            )
        )

    def _reject(self, stored: Stored, block: Block) -> None:
        found = block.found
        self._rejected += 1
        error = (
            ErrorInfo(found.code, found.message)
            if isinstance(found, Rejected)
            else ErrorInfo("echo", "the call stands in an untrusted text of the turn")
        )
        text = stored.completion.text[found.start : found.end]
        self._notify(
            "extraction:rejected",
            {"code": error.code, "message": error.message, "text": text},
            event_id=_block_id(stored, block),
            completion_id=stored.event.id,
            cause=stored.event,
            outcome=Outcome("rejected", error=error),
            call=CallRef(getattr(found, "id", ""), found.dialect, found.start, found.end),
        )

    def _judge(
        self, stored: Stored, blocks: Sequence[Block], reports: Sequence[CallReport | None]
    ) -> list[Statement]:
        """Count the turn's mistakes and mark the earlier ones that it made good."""
        good = [report for report in reports if report and report.status == "handled"]
        rows = [row for report in good if (row := self._corrected(report.name))]
        faults = [
            Fault(stored.event.id, block.ordinal, self._turn, getattr(block.found, "name", None))
            for block, report in zip(blocks, reports, strict=True)
            if _is_fault(block, report)
        ]
        self._faults += faults
        self._mistakes = self._mistakes + 1 if faults and not good else 0
        same = stored.completion.text == self._last_reply
        self._repeats = self._repeats + 1 if same else 1
        self._last_reply = stored.completion.text
        return rows

    def _corrected(self, tool: str) -> Statement | None:
        """Return the row that marks the oldest earlier fault which a call of *tool* makes good."""
        for fault in self._faults:
            if fault.tool in (None, tool):
                self._faults.remove(fault)
                turns = self._turn - fault.turn
                return statements.attempt_corrected(fault.completion_id, fault.ordinal, turns)
        return None

    def _finish_reason(self, completion: Completion, message: str | None) -> str | None:
        limits = self.session.limits
        if completion.stop_reason is None:
            return "provider_error"
        if message is None and self._is_final:
            return "final"
        if message is None:
            return "length" if completion.stop_reason == "length" else "stop"
        if self._mistakes >= limits.mistakes:
            return "consecutive_mistakes"
        return "no_progress" if self._repeats >= limits.identical else None

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
    ) -> Any:
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

    def _remember(
        self, role: Role, content: str, kind: MessageKind, completion_id: str | None = None
    ) -> Statement:
        """Add a message to the conversation; return the row that keeps it."""
        session = self.session
        session.messages.append(Message(role, content))
        session.position += 1
        return statements.message(
            agent_id=session.agent_id,
            position=session.position,
            role=role,
            content=content,
            kind=kind,
            request_id=self._inbound.request_id,
            completion_id=completion_id,
            ts=now(),
        )

    def _completion_row(
        self, completion_id: str, turn: int, provider: Provider, completion: Completion
    ) -> Statement:
        return statements.completion(
            completion_id=completion_id,
            ts=now(),
            agent_id=self.session.agent_id,
            request_id=self._inbound.request_id,
            turn=turn,
            provider=provider.name,
            model=completion.model,
            preset=self.session.protocol.name,
            stop_reason=completion.stop_reason,
            latency_ms=completion.latency_ms,
            input_tokens=completion.usage.input_tokens,
            output_tokens=completion.usage.output_tokens,
            extractor=extraction.EXTRACTOR_VERSION,
        )

    def _attempt_rows(
        self,
        completion_id: str,
        provider: Provider,
        completion: Completion,
        blocks: Iterable[Block],
    ) -> list[Statement]:
        return [
            statements.attempt(
                Attempt(
                    completion_id=completion_id,
                    ordinal=block.ordinal,
                    agent_id=self.session.agent_id,
                    provider=provider.name,
                    model=completion.model,
                    dialect=block.found.dialect,
                    tool=getattr(block.found, "name", None),
                    verdict=_verdict(block),
                    code="echo" if block.held else getattr(block.found, "code", None),
                    repairs=getattr(block.found, "repairs", ()),
                    start=block.found.start,
                    end=block.found.end,
                    event_id=f"{completion_id}.{block.ordinal}",
                )
            )
            for block in blocks
        ]

    def _distrust(self, texts: Iterable[str]) -> None:
        session = self.session
        self._untrusted |= fingerprints(texts, session.protocol, session.tools)

    def _answer(self, finish_reason: str, error: ErrorInfo | None = None) -> Answer:
        return Answer(
            self._inbound.request_id,
            self._text,
            finish_reason,
            self._turn,
            tuple(self._calls),
            error,
            self._rejected,
        )

    def _failed(self, exc: ProviderError) -> Answer:
        error = exc.info()
        data = {"turn": self._turn + 1, "error": error}
        self._notify("completion:error", data, outcome=Outcome("failed", error=error))
        return self._answer(exc.code, error)


def alternating(messages: Iterable[Message]) -> list[Message]:
    """Return *messages* with neighbours of one role made into one; empty ones are left out.

    Several vendors refuse a conversation in which roles do not alternate.
    """
    merged: list[Message] = []
    for message in messages:
        if not message.content.strip():
            continue
        if merged and merged[-1].role == message.role:
            content = f"{merged[-1].content}\n\n{message.content}"
            merged[-1] = Message(message.role, content)
        else:
            merged.append(message)
    return merged


def _stored(event: Event) -> Stored:
    """Return the completion that a completion:result event holds."""
    data = msgspec.json.decode(event.data)
    completion = Completion(text=data["text"], stop_reason=data["stop_reason"], model=data["model"])
    return Stored(event, completion, data["turn"])


def _said(content: Any) -> str:
    """Return the content of a final answer as text."""
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def _block_id(stored: Stored, block: Block) -> str:
    return f"{stored.event.id}.{block.ordinal}"


def _verdict(block: Block) -> str:
    if isinstance(block.found, Rejected):
        return "rejected"
    if block.held:
        return "held"
    return "repaired" if block.found.repairs else "strict"


def _is_fault(block: Block, report: CallReport | None) -> bool:
    if isinstance(block.found, Rejected):
        return True
    return bool(report and report.error and report.error.code in MODEL_FAULTS)
