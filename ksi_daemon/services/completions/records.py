"""What of an exchange goes into the log beside its events: rows and the data of notices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_daemon import extraction
from ksi_daemon.conversation import Inbound, Session
from ksi_daemon.events import ErrorInfo, Event, now
from ksi_daemon.extraction import Call, Extraction, Rejected, Schemas
from ksi_daemon.extraction.legacy import complexity
from ksi_daemon.log import attempts, statements
from ksi_daemon.log.model import Attempt, MessageKind
from ksi_daemon.providers.model import Completion, Message, Provider
from ksi_daemon.services.completions.blocks import Block, Done, Stored
from ksi_daemon.work import Statement

__all__ = [
    "attempt_rows",
    "block_id",
    "completion_data",
    "completion_row",
    "correction_rows",
    "failure_row",
    "rejection",
    "remember",
    "stored",
]

_HELD: Final = MappingProxyType(
    {
        "echo": ErrorInfo("echo", "the call stands in a text that the agent was given to read"),
        "quoted": ErrorInfo("quoted", "the call stands in the agent's own system prompt"),
        "no_nonce": ErrorInfo("no_nonce", "the call does not carry the key of its turn"),
    }
)
_REFUSED = ErrorInfo("reply_refused", "the reply was refused for another block of it")


def completion_data(
    turn: int,
    provider: Provider,
    completion: Completion,
    found: Extraction,
    proof: str | None = None,
) -> dict[str, Any]:
    """Return the data of the completion:result event: what a restart needs, what people ask.

    They hold what it cost in US dollars where that is known.
    """
    return {
        "turn": turn,
        "provider": provider.name,
        "model": completion.model,
        "stop_reason": completion.stop_reason,
        "latency_ms": completion.latency_ms,
        "usage": completion.usage,
        **({} if completion.usd is None else {"usd": completion.usd}),
        "text": completion.text,
        **({"proof": proof} if proof else {}),
        **({"incomplete": completion.incomplete} if completion.incomplete else {}),
        **({"message": completion.message} if completion.message else {}),
        **({"thought": found.thought} if found.thought else {}),
        **({"diagnostics": found.diagnostics} if found.diagnostics else {}),
    }


def stored(event: Event) -> Stored:
    """Return the completion that a completion:result event holds."""
    data = msgspec.json.decode(event.data)
    completion = Completion(
        text=data["text"],
        stop_reason=data["stop_reason"],
        model=data["model"],
        message=data.get("message"),
    )
    return Stored(event, completion, data["turn"], data.get("proof"))


def block_id(completion_id: str, block: Block) -> str:
    """Return the id of the event that *block* becomes, the same after a crash."""
    return f"{completion_id}.{block.ordinal}"


def rejection(block: Block) -> ErrorInfo:
    """Return why *block* did not run."""
    if isinstance(block.found, Rejected):
        return ErrorInfo(block.found.code, block.found.message)
    return _HELD[block.held] if block.held else _REFUSED


def completion_row(
    completion_id: str,
    agent_id: str | None,
    provider: Provider,
    request_id: str,
    turn: int,
    preset: str,
    completion: Completion,
    counts: bytes | None = None,
) -> Statement:
    """Return the row of a completion whose calls have not run; *counts* are its exchange's."""
    return statements.completion(
        completion_id=completion_id,
        ts=now(),
        agent_id=agent_id,
        request_id=request_id,
        turn=turn,
        provider=provider.name,
        model=completion.model,
        preset=preset,
        stop_reason=completion.stop_reason,
        latency_ms=completion.latency_ms,
        input_tokens=completion.usage.input_tokens,
        output_tokens=completion.usage.output_tokens,
        cached_tokens=completion.usage.cached_tokens,
        extractor=extraction.EXTRACTOR_VERSION,
        counts=counts,
        usd=completion.usd,
    )


def correction_rows(
    completion_id: str, answered: Iterable[tuple[Done, Message | None]], told: Sequence[Message]
) -> list[Statement]:
    """Return what the agent is told of each call that went wrong.

    *answered* are the blocks, each with the result that it has; what is wrong with blocks in text
    is in the last message of *told*, that of the user.
    """
    said = told[-1].content if told and told[-1].role == "user" else None
    return [
        attempts.correction(completion_id, done.block.ordinal, text)
        for done, result in answered
        if done.went_wrong and (text := result.content if result is not None else said)
    ]


def attempt_rows(
    completion_id: str,
    session: Session,
    completion: Completion,
    blocks: Sequence[Block],
    *,
    schemas: Schemas,
    tries: Sequence[int],
    refused: bool,
) -> list[Statement]:
    """Return one row for each block; *refused*: none of them runs.

    *schemas* are of the tools that the agent was told of, *tries* say which try each block is.
    """
    return [
        statements.attempt(
            Attempt(
                completion_id=completion_id,
                ordinal=block.ordinal,
                agent_id=session.agent_id,
                provider=session.provider.name,
                model=completion.model,
                dialect=block.found.dialect,
                tool=getattr(block.found, "name", None),
                verdict=_verdict(block, refused=refused),
                code=None if _runs(block, refused=refused) else rejection(block).code,
                repairs=getattr(block.found, "repairs", ()),
                start=block.found.start,
                end=block.found.end,
                event_id=block_id(completion_id, block),
                size=_size(block),
                tries=nth,
                suspect=_runs(block, refused=refused) and _is_suspect(block, blocks, schemas),
                complex=_is_complex(block),
            )
        )
        for block, nth in zip(blocks, tries, strict=True)
    ]


def failure_row(event_id: str, agent_id: str | None, provider: Provider, code: str) -> Statement:
    """Return the row of a completion that never came; the event of that id tells of it."""
    return statements.completion_failed(
        event_id=event_id,
        ts=now(),
        agent_id=agent_id,
        provider=provider.name,
        model=provider.model,
        code=code,
    )


def remember(
    session: Session,
    inbound: Inbound,
    message: Message,
    kind: MessageKind,
    completion_id: str | None = None,
) -> Statement:
    """Add *message* to the conversation; return the row that keeps it."""
    session.messages.append(message)
    session.position += 1
    return statements.message(
        agent_id=session.agent_id,
        position=session.position,
        message=message,
        kind=kind,
        request_id=inbound.request_id,
        completion_id=completion_id,
        ts=now(),
    )


def _size(block: Block) -> int:
    if block.native and isinstance(block.found, Call):
        return len(msgspec.json.encode(block.found.args))
    return block.found.end - block.found.start


def _is_suspect(block: Block, blocks: Iterable[Block], schemas: Schemas) -> bool:
    """Say whether a call in text may not have been meant: it says again what stands before it in
    the same reply, or names a tool that the agent was not told of."""
    call = block.found
    if block.native or not isinstance(call, Call):
        return False
    return call.name not in schemas or any(
        isinstance(each.found, Call)
        and each.ordinal < block.ordinal
        and (each.found.name, each.found.args) == (call.name, call.args)
        for each in blocks
    )


def _is_complex(block: Block) -> bool | None:
    if isinstance(block.found, Rejected):
        return None
    return complexity(block.found.args) is not None


def _runs(block: Block, *, refused: bool) -> bool:
    return not (isinstance(block.found, Rejected) or block.held or refused)


def _verdict(block: Block, *, refused: bool) -> str:
    if isinstance(block.found, Rejected):
        return "rejected"
    if block.held:
        return "rejected" if block.held == "no_nonce" else "held"
    if refused:
        return "rejected"
    return "repaired" if block.found.repairs else "strict"
