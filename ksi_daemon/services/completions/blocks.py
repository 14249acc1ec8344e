"""The blocks of a completion: calls, and what looks like one, from text and native messages."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import anyio.to_thread
import msgspec

from ksi_daemon import extraction
from ksi_daemon.conversation import CallReport, Manner
from ksi_daemon.events import Event
from ksi_daemon.extraction import Call, Extraction, Rejected
from ksi_daemon.extraction.native import NATIVE
from ksi_daemon.providers.model import Completion
from ksi_daemon.security.provenance import Guard, Hold, holds

__all__ = [
    "LARGE_TEXT",
    "Block",
    "Done",
    "Reading",
    "Stored",
    "blocks_of",
    "is_fault",
    "read",
    "said",
]

# Texts beyond this many characters are searched in a worker thread, not on the event loop.
LARGE_TEXT: Final = 32_768
# What the model did wrong, by the code of the outcome's error; the rest is others' fault.
MODEL_FAULTS: Final = frozenset({"args_schema", "unknown_event", "depth_limit"})
_LEFT_OUT: Final = "(a call that could not be read was left out here)"


class Block(NamedTuple):
    """One block of a completion: a call, or what looks like one. *held*: why the guard holds it."""

    ordinal: int
    found: Call | Rejected
    held: Hold | None = None

    @property
    def native(self) -> bool:
        """Whether it stands beside the text, as a native call."""
        return self.found.dialect == NATIVE


class Done(NamedTuple):
    """A block and what became of it: no *report* if it did not run. *receipt*: its result only
    says that it was taken; *outside*: it holds what strangers wrote."""

    block: Block
    report: CallReport | None = None
    receipt: bool = False
    outside: bool = False

    @property
    def went_wrong(self) -> bool:
        """Whether the agent's call did not come to good, through whatever fault."""
        return self.report is None or self.report.error is not None


class Stored(NamedTuple):
    """A completion that is in the log and whose calls may not all have run. *proof* is that of
    the nonce which its turn was told."""

    event: Event
    completion: Completion
    turn: int
    proof: str | None = None


class Reading(NamedTuple):
    """What was found in a completion. *native* is its message as it goes back to its vendor."""

    extraction: Extraction
    native: dict[str, Any] | None = None


async def read(completion: Completion, completion_id: str, manner: Manner) -> Reading:
    """Return what counts of the calls in the text of *completion* and of those beside it."""
    search = partial(
        extraction.read_reply,
        completion.text,
        completion.message,
        reply_id=completion_id,
        protocol=manner.protocol,
        tools=manner.schemas,
        native=manner.native,
        stop_reason=completion.stop_reason,
    )
    large = len(completion.text) >= LARGE_TEXT
    found = await anyio.to_thread.run_sync(search) if large else search()
    if not found.beside.calls and not found.beside.rejected:
        return Reading(found.chosen, _cleaned(completion, found.inside) if manner.native else None)
    if not _has_native(found.chosen):
        return Reading(found.chosen)
    return Reading(found.chosen, _replayed(completion, found.beside, found.inside))


def blocks_of(found: Extraction, guard: Guard) -> tuple[Block, ...]:
    """Return the blocks in the order in which they run: native ones, then those of the text."""
    held = holds(found.calls, guard)
    outcomes: list[tuple[Call | Rejected, Hold | None]] = [
        *zip(found.calls, held, strict=True),
        *((rejected, None) for rejected in found.rejected),
    ]
    outcomes.sort(key=lambda outcome: (outcome[0].dialect != NATIVE, outcome[0].start))
    return tuple(Block(n, each, held) for n, (each, held) in enumerate(outcomes, start=1))


def is_fault(done: Done) -> bool:
    """Say whether a block went wrong through the model."""
    if isinstance(done.block.found, Rejected) or done.block.held == "no_nonce":
        return True
    report = done.report
    return bool(report and report.error and report.error.code in MODEL_FAULTS)


def said(content: Any) -> str:
    """Return the content of a final answer as text."""
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def _replayed(completion: Completion, native: Extraction, text: Extraction) -> dict[str, Any]:
    """Return the message of *completion* as it goes back, without what was rejected in it.

    What a vendor's server cannot read in its own history it may refuse for good, and a model
    repeats what it reads.
    """
    message = extraction.replay(completion.message, found=native)
    broken = {block.id for block in native.rejected}
    message = _without_args(message, broken) if broken else message
    raw = [completion.text[each.start : each.end] for each in text.rejected]
    return _cut(message, raw) if raw else message


def _has_native(found: Extraction) -> bool:
    dialects = [call.dialect for call in found.calls] + [each.dialect for each in found.rejected]
    return NATIVE in dialects


def _cleaned(completion: Completion, found: Extraction) -> dict[str, Any] | None:
    """Return a message in place of a text that holds rejected blocks; None if it holds none."""
    if not found.rejected:
        return None
    cut = _cut_text(completion.text, [completion.text[b.start : b.end] for b in found.rejected])
    return {"role": "assistant", "content": cut.strip() or _LEFT_OUT}


def _without_args(message: dict[str, Any], broken: set[str]) -> dict[str, Any]:
    """Return OpenAI's *message* with empty arguments in the calls of *broken* ids."""
    if not isinstance(message.get("tool_calls"), list):
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": "{}"}}
        if call["id"] in broken
        else call
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _cut(message: dict[str, Any], raw: list[str]) -> dict[str, Any]:
    """Return *message* without the texts *raw*, wherever its vendor puts text."""
    cut = {
        key: [_cut_part(part, raw) for part in message[key]]
        for key in ("content", "parts")
        if isinstance(message.get(key), list)
    }
    if isinstance(message.get("content"), str):
        return {**message, "content": _cut_text(message["content"], raw)}
    return {**message, **cut}


def _cut_part(part: Any, raw: list[str]) -> Any:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": _cut_text(part["text"], raw) or _LEFT_OUT}
    return part


def _cut_text(text: str, raw: list[str]) -> str:
    for each in filter(None, raw):
        text = text.replace(each, "")
    return text
