"""What is counted of replies, of the blocks in them and of how these ended. Pure.

Counts are named numbers that add up, so that those of an hour, of a day and of any group are sums
of those of single facts. Names with a colon count by kind: ``repair:trailing_comma``,
``rejected:malformed_block``, ``latency:212`` (a bin of ``metrics``).

A *fault* is a block that was meant and did not come to good, and belongs to whoever must change
for it to become rarer: the *model* wrote what cannot be read or is not there for it, the arguments
do not fit the *schema*, the *tool* failed, the *provider* cut the reply off or gave none, the
*parser* has a limit or a rule of its own against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from ksi_daemon.log.metrics import latency_bin

__all__ = [
    "MOST_TURNS",
    "Block",
    "Counts",
    "Reply",
    "faults",
    "is_cut_off",
    "kinds",
    "of_block",
    "of_correction",
    "of_end",
    "of_reply",
    "total",
]

Counts = dict[str, int]
Owner = Literal["model", "parser", "schema", "tool", "provider"]

# Corrections beyond this number are counted with it.
MOST_TURNS: Final = 4
OWNERS: Final[tuple[Owner, ...]] = ("model", "parser", "schema", "tool", "provider")
# Rejections for a limit or a rule of ours, and for arguments of the wrong kind.
_OURS: Final = frozenset({"size_limit", "depth_limit", "legacy_complex", "legacy_rejected"})
_ARGUMENTS: Final = frozenset({"args_type", "args_schema"})
_CUT_OFF: Final = frozenset({"unterminated_block", "not_json"})
# Words for ends where the log's own would say less: a timeout is a failure with that code.
_ENDS: Final = MappingProxyType({"timeout": "failed", "rejected": "refused", "lost": "interrupted"})
_WHOLE: Final = frozenset({"stop", "tool_calls"})


class Reply(msgspec.Struct, frozen=True):
    """What counts of a completion. *cost_nusd*: billionths of a US dollar, None if unknown."""

    latency_us: int
    input_tokens: int
    output_tokens: int
    cost_nusd: int | None
    stop_reason: str | None


class Block(msgspec.Struct, frozen=True):
    """What counts of an attempt. *tries*: 1 for a first try, 2 after one correction, ..."""

    verdict: str
    code: str | None
    repairs: tuple[str, ...]
    tries: int
    suspect: bool


def is_cut_off(stop_reason: str | None) -> bool:
    """Say whether a reply ended before its model had ended it."""
    return stop_reason not in _WHOLE


def of_reply(reply: Reply) -> Counts:
    """Return the counts of one completion, without its blocks."""
    counts = {
        "completions": 1,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        f"latency:{latency_bin(reply.latency_us)}": 1,
    }
    if reply.cost_nusd is not None:
        counts |= {"priced": 1, "cost_nusd": reply.cost_nusd}
    if is_cut_off(reply.stop_reason):
        counts["cut_off"] = 1
    return counts


def of_block(block: Block, stop_reason: str | None) -> Counts:
    """Return the counts of one block as it was found."""
    counts = {"seen": 1, block.verdict: 1}
    if block.verdict != "held" and block.tries == 1:
        counts["first"] = 1
    for kind in block.repairs if block.verdict == "repaired" else ():
        counts[f"repair:{kind}"] = counts.get(f"repair:{kind}", 0) + 1
    if block.verdict == "held" and block.code == "echo":
        counts["echoed"] = 1
    if block.verdict == "rejected":
        counts[f"rejected:{block.code}"] = 1
        if block.code in _CUT_OFF and is_cut_off(stop_reason):
            counts["rejected_cut_off"] = 1
    if block.suspect:
        counts["suspect"] = 1
    return counts


def of_end(status: str, code: str | None, tries: int) -> Counts:
    """Return the counts of how the event of a call ended."""
    if status == "handled":
        return {"handled": 1, "handled_first": 1} if tries == 1 else {"handled": 1}
    word = _ENDS.get(status, status)
    counts = {word: 1, f"{word}:{code or status}": 1}
    if word == "refused" and code == "args_schema":
        counts["invalid"] = 1
    return counts


def of_correction(turns: int, tries: int) -> Counts:
    """Return the counts of a block that was made good *turns* turns later."""
    found = {"corrected": 1}
    if tries == 1:
        found[f"recovered:{min(turns, MOST_TURNS)}"] = 1
    return found


def total(parts: Iterable[Mapping[str, int]]) -> Counts:
    """Return the sum of *parts*."""
    summed: Counts = {}
    for part in parts:
        for name, number in part.items():
            summed[name] = summed.get(name, 0) + number
    return summed


def kinds(counts: Mapping[str, int]) -> dict[str, Counts]:
    """Return the counts by kind: what stands before the colon of a name, then what behind."""
    found: dict[str, Counts] = {}
    for name, number in counts.items():
        before, colon, behind = name.partition(":")
        if colon:
            found.setdefault(before, {})[behind] = number
    return found


def faults(counts: Mapping[str, int], by_kind: Mapping[str, Counts]) -> Counts:
    """Return how many faults each owner has; *by_kind* are the ``kinds`` of *counts*."""
    owned: Counts = dict.fromkeys(OWNERS, 0)
    for owner, number in _owned(counts, by_kind):
        owned[owner] += number
    cut_off = counts.get("rejected_cut_off", 0)
    owned["model"] -= cut_off
    owned["provider"] += cut_off
    return owned


def _owned(counts: Mapping[str, int], by_kind: Mapping[str, Counts]) -> Iterator[tuple[Owner, int]]:
    for code, number in by_kind.get("rejected", {}).items():
        yield _rejector(code), number
    for word in ("failed", "interrupted"):
        for code, number in by_kind.get(word, {}).items():
            yield "provider" if code.startswith("provider_") else "tool", number
    for code, number in by_kind.get("refused", {}).items():
        yield "schema" if code in _ARGUMENTS else "tool", number
    yield "model", counts.get("unknown", 0) + counts.get("denied", 0)
    yield "provider", counts.get("errors", 0)
    yield "parser", counts.get("missed", 0)


def _rejector(code: str) -> Owner:
    if code in _OURS:
        return "parser"
    return "schema" if code in _ARGUMENTS else "model"
