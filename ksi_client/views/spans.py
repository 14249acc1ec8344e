"""A span of a text, shown in the lines around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ksi_client.text import Color, Paint, clip, visible, width

__all__ = ["excerpt"]

# Lines of context on each side, and how many lines of a long span are shown.
AROUND: Final = 2
HEAD, TAIL = 8, 3
# How much of a long line is kept before a span that begins far inside it.
LEAD: Final = 24


def excerpt(
    text: str, start: int, end: int, *, paint: Paint, cells: int, color: Color = "green"
) -> Iterator[str]:
    """Yield the lines of *text* around ``text[start:end]``, at most *cells* wide.

    Lines of the span begin with ``>``; a span that is a part of one line is underlined.
    """
    lines = _lines(text)
    first = sum(1 for _, stop in lines if stop < start)
    last = max(first, sum(1 for begin, _ in lines if begin < end) - 1)
    left_out = range(first + HEAD, last - TAIL + 1)
    for number in _without_blank_ends(text, lines, first, last):
        begin, stop = lines[number]
        if number in left_out:
            if number == left_out.start:
                yield paint(f"  ⋮ {len(left_out)} lines", "dim")
        elif first <= number <= last:
            cut = max(start, begin), min(end, stop)
            parts = (text[begin : cut[0]], text[slice(*cut)], text[cut[1] : stop])
            yield from _marked(parts, paint, cells - 2, color)
        else:
            around = clip(_shown(text[begin:stop]), cells - 2)
            yield f"  {paint(around, 'dim')}".rstrip()


def _marked(parts: tuple[str, str, str], paint: Paint, cells: int, color: Color) -> Iterator[str]:
    """Yield a line of the span: what is before it, of it and after it; then a line of marks."""
    before, inside, after = map(_shown, parts)
    if width(before) > cells // 2:
        before = clip(before[::-1], min(LEAD, cells // 2))[::-1]
    inside = clip(inside, cells - width(before))
    after = clip(after, cells - width(before) - width(inside))
    line = paint(before, "dim") + paint(inside, color) + paint(after, "dim")
    yield f"{paint('>', color, 'bold')} {line}".rstrip()
    if (before.strip() or after.strip()) and inside:
        yield f"  {' ' * width(before)}{paint('^' * width(inside), color)}"


def _shown(text: str) -> str:
    return visible(text, lines=True)


def _without_blank_ends(text: str, lines: list[tuple[int, int]], first: int, last: int) -> range:
    """Return the numbers of the lines to show: the span's and those around, no blank ends."""
    head, tail = max(0, first - AROUND), min(len(lines), last + AROUND + 1)
    while head < first and not text[slice(*lines[head])].strip():
        head += 1
    while tail > last + 1 and not text[slice(*lines[tail - 1])].strip():
        tail -= 1
    return range(head, tail)


def _lines(text: str) -> list[tuple[int, int]]:
    """Return where each line begins and where it stops, before its newline."""
    spans, begin = [], 0
    for line in text.split("\n"):
        spans.append((begin, begin + len(line)))
        begin += len(line) + 1
    return spans
