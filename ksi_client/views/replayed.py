"""How a replay reads: each block that is read otherwise, in its text; then the sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_client.replaying import KINDS, Difference, Kind, Read, Reply
from ksi_client.text import Color, Paint, clip, visible
from ksi_client.views.spans import excerpt

__all__ = ["as_json", "differing", "summed"]

_COLORS: Final[Mapping[Kind, Color]] = MappingProxyType(
    {
        "gained": "green",
        "lost": "red",
        "changed": "yellow",
        "repaired": "green",
        "rejected": "magenta",
    }
)
_WORDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"repaired": "newly repaired", "rejected": "newly rejected"}
)


def differing(reply: Reply, found: Difference, paint: Paint, cells: int) -> Iterator[str]:
    """Yield one difference: of which reply, the text around it, what it was and what it is."""
    color = _COLORS[found.kind]
    words = _WORDS.get(found.kind, found.kind)
    what = f": {', '.join(found.what)}" if found.what else ""
    place = [f"#{reply.seq}" if reply.seq else reply.id, reply.agent_id, reply.model]
    about = "  ".join(visible(str(each)) for each in place if each)
    yield f"{paint(words + what, color)}  {paint(about, 'dim')}"
    block = found.now or found.was
    if block is not None and block.start < block.end <= len(reply.text):
        yield from excerpt(
            reply.text, block.start, block.end, paint=paint, cells=cells, color=color
        )
    yield f"{paint('-', 'red')} {clip(_told(found.was), cells - 2)}"
    yield f"{paint('+', 'green')} {clip(_told(found.now), cells - 2)}"
    yield ""


def summed(summary: Mapping[str, Any]) -> str:
    """Return the sum of a replay in a sentence."""
    before = ", ".join(map(str, summary["extractors"])) or "-"
    versions = f"extractor {before} then, {summary['extractor']} now"
    seen = f"{_counted(summary['replies'], 'reply', 'replies')}, "
    seen += f"{_counted(summary['blocks'], 'block', 'blocks')}, {versions}"
    if summary["unreadable"]:
        seen += f"; {summary['unreadable']} left out: this ksi has no such preset"
    if not summary["differ"]:
        return f"{seen}: nothing differs"
    kinds = ", ".join(f"{summary[kind]} {_WORDS.get(kind, kind)}" for kind in KINDS)
    return f"{seen}: {summary['differ']:,} differ: {kinds}"


def as_json(reply: Reply, found: Difference) -> dict[str, Any]:
    """Return one difference as JSON has it."""
    return {
        "completion_id": reply.id,
        "seq": reply.seq,
        "agent_id": reply.agent_id,
        "model": reply.model,
        "extractor": reply.extractor,
        **msgspec.to_builtins(found),
    }


def _told(read: Read | None) -> str:
    if read is None:
        return "nothing"
    place = f"characters {read.start}-{read.end}, {read.dialect}"
    if read.code is not None:
        return visible(f"rejected, {read.code}  {place}")
    args = "" if read.args is None else msgspec.json.encode(read.args).decode()
    repairs = f", repaired: {', '.join(read.repairs)}" if read.repairs else ""
    return visible(f"{read.name} {args}  {place}{repairs}")


def _counted(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
