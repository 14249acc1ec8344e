"""A text with its line numbers, in which stretches are marked: by colour, or by a line below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ksi_client.text import Color, Paint, visible, width

__all__ = ["Mark", "marked", "place", "starts_of_lines"]

# Lines without a mark are left out beyond so many around those with one; a few do not matter.
AROUND: Final = 2
SHORT_GAP: Final = 4
# Of a long stretch the first lines are shown and the last ones; of a long line so many rows.
HEAD, TAIL = 12, 4
MAX_ROWS: Final = 12


class Mark(NamedTuple):
    """A stretch of the text, the sign for its lines, its colour. No two of a text overlap."""

    start: int
    end: int
    sign: str
    color: Color


class _Piece(NamedTuple):
    text: str
    color: Color


def marked(text: str, marks: Sequence[Mark], *, paint: Paint, cells: int) -> Iterator[str]:
    """Yield the lines of *text* in rows of at most *cells*; *marks* are in their order."""
    starts = starts_of_lines(text.removesuffix("\n"))
    size = len(str(len(starts)))
    left_out = 0
    for number, within in _lines_with_marks(text, starts, marks):
        if within is None:
            left_out += 1
            continue
        if left_out:
            yield paint(f"{'⋮':>{size}} {left_out} line{'s' * (left_out != 1)}", "dim")
            left_out = 0
        begin, stop = starts[number], _end_of_line(text, starts, number)
        yield from _rows(text, begin, stop, number, within, size=size, paint=paint, cells=cells)
    if left_out:
        yield paint(f"{'⋮':>{size}} {left_out} line{'s' * (left_out != 1)}", "dim")


def starts_of_lines(text: str) -> list[int]:
    """Return where each line of *text* begins."""
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def place(starts: Sequence[int], at: int) -> str:
    """Return the line and the column of *at*, both counted from 1."""
    line = _line_of(starts, at)
    return f"{line + 1}:{at - starts[line] + 1}"


def _line_of(starts: Sequence[int], at: int) -> int:
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= at else (low, middle)
    return low


def _end_of_line(text: str, starts: Sequence[int], number: int) -> int:
    return starts[number + 1] - 1 if number + 1 < len(starts) else len(text.removesuffix("\n"))


def _lines_with_marks(
    text: str, starts: Sequence[int], marks: Sequence[Mark]
) -> Iterator[tuple[int, list[Mark] | None]]:
    """Yield each line's number and the marks on it, None for a line that is left out."""
    by_line: dict[int, list[Mark]] = {}
    inner: set[int] = set()
    for mark in marks:
        first, last = _line_of(starts, mark.start), _line_of(starts, max(mark.start, mark.end - 1))
        inner.update(range(first + HEAD, last - TAIL + 1))
        for line in range(first, last + 1):
            by_line.setdefault(line, []).append(mark)
    wanted = sorted({*by_line} - inner)
    shown = {near for line in wanted for near in range(line - AROUND, line + AROUND + 1)} - inner
    if not marks:
        shown.update(range(HEAD))
    shown.update(_short_gaps(sorted(shown), len(starts)))
    for number in range(len(starts)):
        yield number, by_line.get(number, []) if number in shown else None


def _short_gaps(shown: Sequence[int], lines: int) -> Iterator[int]:
    """Yield the lines between those of *shown* that are too few to be left out."""
    for one, other in zip([-1, *shown], [*shown, lines], strict=True):
        if other - one <= SHORT_GAP:
            yield from range(one + 1, other)


def _rows(
    text: str,
    begin: int,
    stop: int,
    number: int,
    marks: Sequence[Mark],
    *,
    size: int,
    paint: Paint,
    cells: int,
) -> Iterator[str]:
    """Yield a line in rows, and below each the line that marks it where there are no colours."""
    pieces = list(_pieces(text, begin, stop, marks))
    partial = any(piece.text.strip() and not piece.color for piece in pieces)
    sign = paint(marks[0].sign, marks[0].color) if marks else " "
    gutter, blank = paint(f"{number + 1:>{size}}", "dim") + f" {sign} ", " " * (size + 3)
    for count, row in enumerate(_filled(pieces, cells - size - 3)):
        if count == MAX_ROWS:
            yield f"{blank}{paint('⋮', 'dim')}"
            return
        told = "".join(paint(piece.text, piece.color) for piece in row)
        yield f"{blank if count else gutter}{told}".rstrip()
        below = "".join(("^" if piece.color else " ") * width(piece.text) for piece in row)
        if partial and not paint.enabled and below.strip():
            yield f"{blank}{below}".rstrip()


def _pieces(text: str, begin: int, stop: int, marks: Sequence[Mark]) -> Iterator[_Piece]:
    at = begin
    for mark in marks:
        start, end = max(mark.start, begin), min(mark.end, stop)
        yield _Piece(_shown(text[at:start]), "")
        yield _Piece(_shown(text[start:end]), mark.color)
        at = end
    yield _Piece(_shown(text[at:stop]), "")


def _shown(text: str) -> str:
    return visible(text, lines=True)


def _filled(pieces: Sequence[_Piece], cells: int) -> Iterator[list[_Piece]]:
    """Yield *pieces* in rows of *cells*; at least one row."""
    row: list[_Piece] = []
    left = cells
    for text, color in pieces:
        while text:
            cut = _fitting(text, left)
            if cut:
                row.append(_Piece(text[:cut], color))
                left -= width(text[:cut])
                text = text[cut:]
            if text:
                yield row
                row, left = [], cells
    yield row


def _fitting(text: str, cells: int) -> int:
    """Return how many characters of *text* stand in *cells*."""
    if text[:cells].isascii():
        return min(len(text), cells)
    used = 0
    for count, character in enumerate(text):
        used += width(character)
        if used > cells:
            return count
    return len(text)
