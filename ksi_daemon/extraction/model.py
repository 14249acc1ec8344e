"""What extraction finds in a text: calls, rejected blocks, diagnostics. Values only."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "EXTRACTOR_VERSION",
    "Call",
    "Diagnostic",
    "Extraction",
    "Rejected",
    "as_event",
    "to_json",
]

# Stored with every completion, so that a replay can say which version read it.
EXTRACTOR_VERSION: Final = 2


class Call(msgspec.Struct, frozen=True):
    """One action that a text asks for.

    *start* and *end* are offsets in characters; ``text[start:end]`` alone gives the same call, but
    for calls of one list that share its marks: of these, the span is that of the call in the list.
    *repairs* names every edit that was needed to read it. *nonce* is what the call carries to
    prove that it was written in this turn, None if it carries nothing.
    """

    name: str
    args: dict[str, Any]
    id: str
    id_generated: bool
    dialect: str
    start: int
    end: int
    repairs: tuple[str, ...] = ()
    nonce: str | None = None

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


class Rejected(msgspec.Struct, frozen=True):
    """A block that looks like a call and cannot be used.

    *code* is stable. *message* is for the model that wrote it; *excerpt* is the text around the
    place that *message* speaks of, as it was written. *id* is that of a native call, to which its
    vendor wants an answer; a block in text has none.
    """

    code: str
    message: str
    dialect: str
    start: int
    end: int
    excerpt: str
    id: str = ""

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


class Diagnostic(msgspec.Struct, frozen=True):
    """Something about a text that is worth a row in the log and changes nothing."""

    code: str
    message: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


class Extraction(msgspec.Struct, frozen=True):
    """All that was found in one text, in the order of the text.

    *residual* is the text without the spans of calls and rejected blocks, and otherwise unchanged.
    *final* is the content of a final answer, UNSET when the text holds none (None is an answer).
    """

    residual: str
    calls: tuple[Call, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    final: Any = msgspec.UNSET
    thought: str = ""


def as_event(call: Call) -> dict[str, Any]:
    """Return *call* as the event dictionary of source 002.

    A tool-use block adds the keys ``_tool_use_id`` and ``_extracted_via``; the direct form does
    not. The arguments are the call's own, not copied.
    """
    event: dict[str, Any] = {"event": call.name, "data": call.args}
    if call.dialect == "event":
        return event
    return {**event, "_tool_use_id": call.id, "_extracted_via": call.dialect}


def to_json(extraction: Extraction) -> dict[str, Any]:
    """Return the object that ``ksi extract --json`` prints.

    ``final`` and ``thought`` are in it only where the text has them.
    """
    found: dict[str, Any] = {
        "calls": [
            {
                "name": call.name,
                "args": call.args,
                "id": call.id,
                "dialect": call.dialect,
                "start": call.start,
                "end": call.end,
                "repairs": list(call.repairs),
            }
            for call in extraction.calls
        ],
        "rejected": [
            {
                "code": block.code,
                "message": block.message,
                "dialect": block.dialect,
                "start": block.start,
                "end": block.end,
            }
            for block in extraction.rejected
        ],
        "residual": extraction.residual,
    }
    if extraction.final is not msgspec.UNSET:
        found["final"] = extraction.final
    if extraction.thought:
        found["thought"] = extraction.thought
    return found
