"""Say what was seen in a text, where, and which rule decided what became of it.

For people who tune prompts. Nothing is parsed in another way here than where calls fire: this
puts together what the extractor, the survey and the repairs say of the same text.
"""

from __future__ import annotations

import inspect
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.extraction.dialects import DIALECTS, ObjectDialect, Schemas
from ksi_daemon.extraction.extractor import extract
from ksi_daemon.extraction.model import Call, Diagnostic, Extraction, Rejected
from ksi_daemon.extraction.presets import PRESETS, Protocol
from ksi_daemon.extraction.repair import Edit, Mender
from ksi_daemon.extraction.survey import candidates

__all__ = [
    "RULES",
    "Explanation",
    "Finding",
    "Recognition",
    "explain",
    "findings_json",
    "recognise",
]

# A call; a block that cannot be used; one that is shown and not said; one that is in another call
# or in data; one that other presets read; anything else that is worth a word.
Kind = Literal["call", "rejected", "shown", "inner", "unread", "note"]

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "malformed_block": "A call must be JSON, or almost, with one way only to mend it.",
        "unterminated_block": "A call that is not complete is not run: nobody knows what it lacks.",
        "empty_block": "A block with nothing in it calls nothing.",
        "args_type": "The arguments of a call are an object.",
        "args_json": "Arguments that stand in a string, or behind a name, are JSON.",
        "missing_name": "A call names its tool or its event.",
        "missing_id": "The id of a tool-use block begins with 'ksiu_'.",
        "id_generated": "A call without an id of its own is given one.",
        "unknown_field": "A call has the fields of its form and no others.",
        "invalid_protocol": "A reply has one of the forms that were agreed on.",
        "not_json": "In strict mode the whole reply is one JSON object.",
        "not_object": "In strict mode the whole reply is one JSON object.",
        "multiple_objects": "In strict mode the whole reply is one JSON object.",
        "extra_text": "What stands beside a call must be able to stand there.",
        "fence_not_alone": "The lines that begin and end a block hold nothing else.",
        "depth_limit": "Calls are nested no deeper than the limit.",
        "size_limit": "Replies, and the blocks in them, are no larger and no more than the limit.",
        "legacy_complex": "The direct form is for simple data.",
        "legacy_rejected": "The direct form is switched off.",
        "thought_truncated": "Of a thought only the beginning is kept.",
        "name_mangled": "A provider takes only some names, so others are written in another way.",
        "native_fallback": "Where a provider's own calls are none, those in the text count.",
        "capability_mismatch": "A provider that says it has no calls of its own may have some.",
        "shown": "What is in code, in a quotation or in a thought is shown, not said.",
        "nested_call": "Data that holds a call is data.",
        "duplicate_call": "The same call twice in one reply is one, where ids were generated.",
        "duplicate_id": "An id belongs to one call.",
        "duplicate_keys": "Of a key that stands twice the last value counts.",
    }
)
_NOTES: Final[Mapping[str, Kind]] = MappingProxyType({"shown": "shown", "nested_call": "inner"})
_INNER: Final = "Only the outermost call runs: what its arguments hold is content."
_IN_DATA: Final = "Data that holds a call is data."


class Finding(msgspec.Struct, frozen=True):
    """One thing in a text and the *rule* that decided; *edits* are what a repair changed."""

    kind: Kind
    outcome: Call | Rejected | Diagnostic
    rule: str
    edits: tuple[Edit, ...] = ()


class Explanation(msgspec.Struct, frozen=True):
    """A text as *protocol* reads it, and all that was seen in it, in the order of the text."""

    protocol: Protocol
    extraction: Extraction
    findings: tuple[Finding, ...]


class _Spans:
    """The stretches of text that some outcomes take."""

    def __init__(self, outcomes: Iterable[Call | Rejected | Diagnostic]) -> None:
        spans = sorted(each.span for each in outcomes)
        self._starts = [start for start, _ in spans]
        self._ends = list(accumulate((end for _, end in spans), max))

    def touched_by(self, outcome: Call) -> bool:
        """Say whether *outcome* shares a character with any of them."""
        before = bisect_left(self._starts, outcome.end)
        return before > 0 and self._ends[before - 1] > outcome.start


class Recognition(msgspec.Struct, frozen=True):
    """The preset that reads all calls of a text, and how many calls each dialect has in it."""

    preset: str
    dialects: Mapping[str, int]


def explain(
    text: str,
    protocol: Protocol,
    *,
    stop_reason: str | None = None,
    tools: Schemas | None = None,
) -> Explanation:
    """Read *text* as ``extract`` does and tell what was seen."""
    extraction = extract(text, protocol, stop_reason=stop_reason, tools=tools)
    findings = [
        *_calls(text, extraction.calls),
        *(Finding("rejected", each, RULES.get(each.code, "")) for each in extraction.rejected),
        *map(_noted, extraction.diagnostics),
    ]
    findings += _inner(text, protocol, extraction)
    taken = _Spans(finding.outcome for finding in findings)
    findings += _unread(text, protocol, taken, stop_reason, tools)
    findings.sort(key=lambda finding: (finding.outcome.start, -finding.outcome.end))
    return Explanation(protocol, extraction, tuple(findings))


def recognise(
    text: str, *, stop_reason: str | None = None, tools: Schemas | None = None, **overrides: Any
) -> Recognition:
    """Say in which dialects *text* is written, and choose the preset that reads it all.

    That is the one of the fewest dialects that finds the same calls and the same final answer as
    all dialects together. *overrides* are settings of the protocol.
    """

    def read(preset: str) -> Extraction:
        protocol = msgspec.structs.replace(PRESETS[preset], **overrides)
        return extract(text, protocol, stop_reason=stop_reason, tools=tools)

    full = read("any")
    counts: dict[str, int] = {}
    for call in full.calls:
        counts[call.dialect] = counts.get(call.dialect, 0) + 1
    if full.final is not msgspec.UNSET:
        counts["json_action"] = counts.get("json_action", 0) + 1
    seen = {*counts, *(block.dialect for block in full.rejected)}
    fitting = (name for name, preset in PRESETS.items() if seen <= {*preset.dialects})
    # Of several the one that reads the least beside: sorting keeps the order of equals.
    ranked = sorted(fitting, key=lambda name: len(PRESETS[name].dialects)) if seen else ["ksi"]
    chosen = next((name for name in ranked if _same(read(name), full)), "any")
    return Recognition(chosen, counts)


def findings_json(text: str, explanation: Explanation) -> list[dict[str, Any]]:
    """Return the findings as JSON has them, each with the line and the column of its start."""
    ends = [found.start() for found in re.finditer("\n", text)]

    def place(at: int) -> dict[str, int]:
        line = bisect_left(ends, at)
        return {"line": line + 1, "column": at - ends[line - 1] if line else at + 1}

    return [
        {
            "kind": finding.kind,
            **place(finding.outcome.start),
            "rule": finding.rule,
            "edits": msgspec.to_builtins(finding.edits),
            **msgspec.to_builtins(finding.outcome),
        }
        for finding in explanation.findings
    ]


def _same(one: Extraction, other: Extraction) -> bool:
    calls = [[(call.name, call.args, call.span) for call in each.calls] for each in (one, other)]
    return calls[0] == calls[1] and one.final == other.final


def _calls(text: str, calls: tuple[Call, ...]) -> Iterator[Finding]:
    for call in calls:
        yield Finding("call", call, _form(call.dialect), _edits(text, call))


def _noted(note: Diagnostic) -> Finding:
    return Finding(_NOTES.get(note.code, "note"), note, RULES.get(note.code, ""))


def _form(dialect: str) -> str:
    """Return the sentence with which the module of *dialect* begins: what a call looks like."""
    told = inspect.getdoc(inspect.getmodule(type(DIALECTS[dialect]))) or ""
    return told.partition("\n")[0].replace("``", "")


def _edits(text: str, call: Call) -> tuple[Edit, ...]:
    """Return what was changed to read *call*; empty if it cannot be told in characters."""
    start = text.find("{", *call.span)
    if not call.repairs or start < 0:
        return ()
    dialect = DIALECTS[call.dialect]
    keys = {*dialect.keys, "id", "_k"} if isinstance(dialect, ObjectDialect) else None
    mended = Mender(text).mend(start, call.end, keys, complete=True)
    return mended.edits if mended and {*mended.repairs} <= {*call.repairs} else ()


def _inner(text: str, protocol: Protocol, extraction: Extraction) -> Iterator[Finding]:
    """Yield the calls that stand in the arguments of calls, or in data."""
    others = _Spans([*extraction.rejected, *extraction.diagnostics])
    for found in candidates(text, protocol):
        around = next((call for call in extraction.calls if _holds(call, found)), None)
        if around is not None:
            # What makes a call in one dialect may be a whole block of another.
            if (around.name, around.args) != (found.name, found.args):
                yield Finding("inner", found, _INNER)
        elif not others.touched_by(found):
            yield Finding("inner", found, _IN_DATA)


def _holds(call: Call, found: Call) -> bool:
    return call.start <= found.start and found.end <= call.end


def _unread(
    text: str,
    protocol: Protocol,
    taken: _Spans,
    stop_reason: str | None,
    tools: Schemas | None,
) -> Iterator[Finding]:
    """Yield the calls in dialects that *protocol* does not read."""
    if {*PRESETS["any"].dialects} <= {*protocol.dialects}:
        return
    for call in extract(text, PRESETS["any"], stop_reason=stop_reason, tools=tools).calls:
        if call.dialect not in protocol.dialects and not taken.touched_by(call):
            readers = [name for name, each in PRESETS.items() if call.dialect in each.dialects]
            told = f"{protocol.name} does not read this form; {' and '.join(readers)} would."
            yield Finding("unread", call, f"{_form(call.dialect)} The preset {told}")
