"""How an extraction reads: each block in its place in the text, and what was made of it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ksi_client.text import Color, Paint, clip, visible
from ksi_client.views.spans import excerpt
from ksi_daemon.extraction import Call, Extraction, Rejected

__all__ = ["answer", "extracted"]


def extracted(text: str, found: Extraction, paint: Paint, cells: int) -> Iterator[str]:
    """Yield the calls and the rejected blocks of *text* in the order in which they stand."""
    blocks: list[Call | Rejected] = [*found.calls, *found.rejected]
    for block in sorted(blocks, key=lambda block: block.start):
        yield _title(block, paint)
        color: Color = "green" if isinstance(block, Call) else "magenta"
        yield from excerpt(text, block.start, block.end, paint=paint, cells=cells, color=color)
        if isinstance(block, Call):
            args = visible(msgspec.json.encode(block.args).decode())
            yield f"  {paint('=', 'dim')} {clip(args, cells - 4)}"
        yield ""
    yield from answer(found, paint, cells)
    yield paint(_summary(found), "dim")


def answer(found: Extraction, paint: Paint, cells: int) -> Iterator[str]:
    """Yield the final answer of *found* and the thought, each in a line, where there are any."""
    if found.thought:
        yield f"{paint('thought', 'dim')}  {clip(visible(found.thought), cells - 9)}"
    if found.final is not msgspec.UNSET:
        content = visible(msgspec.json.encode(found.final).decode())
        yield f"{paint('final', 'bold')}  {clip(content, cells - 7)}"


def _title(block: Call | Rejected, paint: Paint) -> str:
    place = f"characters {block.start}-{block.end}, {block.dialect}"
    if isinstance(block, Rejected):
        why = paint(visible(f"{block.code}: {block.message}"), "magenta")
        return f"{paint('✗', 'magenta')} {why}  {paint(place, 'dim')}"
    repairs = f", repaired: {', '.join(block.repairs)}" if block.repairs else ""
    name = paint(visible(block.name), "bold")
    return f"{paint('✓', 'green')} {name}  {paint(visible(place + repairs), 'dim')}"


def _summary(found: Extraction) -> str:
    calls, rejected = len(found.calls), len(found.rejected)
    return f"{calls} call{'s' * (calls != 1)}, {rejected} rejected"
