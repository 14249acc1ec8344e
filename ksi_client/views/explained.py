"""How an explanation reads: the text with what was seen in it marked, then what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from ksi_client.text import Color, Paint, clip, pad, visible, wrapped
from ksi_client.views.extracted import answer
from ksi_client.views.marked import Mark, marked, place, starts_of_lines
from ksi_daemon.extraction import Call, Rejected
from ksi_daemon.extraction.explanation import Explanation, Finding
from ksi_daemon.extraction.repair import Edit

__all__ = ["explained"]

_INDENT: Final = "    "
_EXCERPT: Final = 40  # cells


class _Sign(NamedTuple):
    sign: str
    color: Color
    words: str


_SIGNS: Final[Mapping[str, _Sign]] = {
    "call": _Sign("✓", "green", "call"),
    "rejected": _Sign("✗", "magenta", "rejected"),
    "shown": _Sign("○", "yellow", "not run"),
    "inner": _Sign("·", "blue", "inside, not run"),
    "unread": _Sign("?", "cyan", "not read"),
    "note": _Sign("!", "yellow", "note"),
}


def explained(text: str, explanation: Explanation, paint: Paint, cells: int) -> Iterator[str]:
    """Yield *text* with marks, each finding with its place and the rule, and the sum."""
    yield from marked(text, _marks(explanation.findings), paint=paint, cells=cells)
    yield ""
    starts = starts_of_lines(text)
    places = [place(starts, finding.outcome.start) for finding in explanation.findings]
    size = max(map(len, places), default=0)
    for where, finding in zip(places, explanation.findings, strict=True):
        yield _title(finding, pad(where, size), paint, cells)
        for told in _details(text, starts, finding, cells - len(_INDENT)):
            yield f"{_INDENT}{told}"
        for line in wrapped(visible(finding.rule), cells - len(_INDENT)):
            yield _INDENT + paint(line, "dim")
        yield ""
    yield from answer(explanation.extraction, paint, cells)
    for line in wrapped(_summary(explanation), cells):
        yield paint(line, "dim")


def _marks(findings: Sequence[Finding]) -> list[Mark]:
    """Return the marks of *findings*; where two overlap, of the one that begins first."""
    marks: list[Mark] = []
    for finding in findings:
        start, end = finding.outcome.start, finding.outcome.end
        if finding.kind != "note" and end > start >= (marks[-1].end if marks else 0):
            sign = _SIGNS[finding.kind]
            marks.append(Mark(start, end, sign.sign, sign.color))
    return marks


def _title(finding: Finding, where: str, paint: Paint, cells: int) -> str:
    sign = _SIGNS[finding.kind]
    outcome = finding.outcome
    name = visible(outcome.name if isinstance(outcome, Call) else outcome.code)
    kind = sign.words
    if isinstance(outcome, Call | Rejected):
        kind += f", {outcome.dialect}"
    name = clip(name, max(8, cells - len(where) - len(kind) - 6))
    return f"{paint(sign.sign, sign.color)} {where}  {paint(name, 'bold')}  {paint(kind, 'dim')}"


def _details(text: str, starts: Sequence[int], finding: Finding, cells: int) -> Iterator[str]:
    outcome = finding.outcome
    if not isinstance(outcome, Call):
        yield from wrapped(visible(outcome.message), cells)
        return
    yield f"= {clip(visible(msgspec.json.encode(outcome.args).decode()), cells - 2)}"
    if finding.kind != "call":
        return
    for edit in finding.edits:
        yield clip(f"mended {place(starts, edit.start)}: {_told(text, edit)}", cells)
    others = [name for name in outcome.repairs if name not in {each.name for each in finding.edits}]
    if others:
        yield from wrapped(f"mended: {', '.join(others)}", cells)
    if outcome.id_generated:
        yield "id generated"
    else:
        yield clip(f"id {visible(outcome.id)}", cells)


def _told(text: str, edit: Edit) -> str:
    before, after = (
        f"'{clip(visible(each), _EXCERPT)}'" for each in (text[edit.start : edit.end], edit.text)
    )
    if edit.start == edit.end:
        return f"{edit.name}, {after} put in"
    return f"{edit.name}, {before} " + (f"read as {after}" if edit.text else "taken out")


def _summary(explanation: Explanation) -> str:
    counts = Counter(str(finding.kind) for finding in explanation.findings)
    told = [f"{counts['call']} call{'s' * (counts['call'] != 1)}", f"{counts['rejected']} rejected"]
    told += [
        f"{counts[kind]} {words}"
        for kind, words in (("shown", "shown"), ("inner", "inside"), ("unread", "not read"))
        if counts[kind]
    ]
    protocol = explanation.protocol
    return f"preset {protocol.name}, {protocol.mode}: {', '.join(told)}"
