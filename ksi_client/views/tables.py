"""Tables: columns as wide as what they hold, the last one as wide as the terminal lets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ksi_client.text import Color, Paint, clip, pad, visible, width

__all__ = ["GAP", "Cell", "Column", "pairs", "plain", "table"]

GAP: Final = "  "
# So many values of an object stand in one line.
SHORT: Final = 4


class Column(NamedTuple):
    """A column's title, and whether its cells stand at the right."""

    title: str
    right: bool = False


class Cell(NamedTuple):
    """What stands in a cell, and its colour."""

    text: str
    color: Color = ""


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell | str]],
    *,
    paint: Paint,
    cells: int,
) -> Iterator[str]:
    """Yield the head and the rows; a line is at most *cells* wide unless its head is wider."""
    filled = [[_cell(value) for value in row] for row in rows]
    sizes = [
        max(width(column.title), *(width(row[n].text) for row in filled))
        if filled
        else width(column.title)
        for n, column in enumerate(columns)
    ]
    _squeeze(sizes, [width(column.title) for column in columns], cells)
    head = [Cell(column.title, "dim") for column in columns]
    for row in (head, *filled):
        yield _row(row, sizes, columns, paint)


def pairs(values: Mapping[str, Any], *, paint: Paint, indent: str = "") -> Iterator[str]:
    """Yield names and values below each other; an object is a block, a short one inside a line."""
    size = max((width(visible(str(name))) for name in values), default=0)
    for name, value in values.items():
        title = paint(pad(visible(str(name)), size), "dim")
        if isinstance(value, Mapping) and value and not (indent and _is_short(value)):
            yield f"{indent}{title.rstrip()}"
            yield from pairs(value, paint=paint, indent=indent + GAP)
        else:
            yield f"{indent}{title}{GAP}{visible(plain(value))}"


def _is_short(values: Mapping[str, Any]) -> bool:
    return len(values) <= SHORT and not any(isinstance(v, (Mapping, list)) for v in values.values())


def plain(value: object) -> str:
    """Return *value* of a JSON object as a person writes it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(map(plain, value)) or "-"
        case dict():
            return ", ".join(f"{name}={plain(each)}" for name, each in value.items()) or "-"
        case _:
            return str(value)


def _cell(value: Cell | str) -> Cell:
    text, color = value if isinstance(value, Cell) else Cell(value)
    return Cell(visible(text), color)


def _squeeze(sizes: list[int], least: list[int], cells: int) -> None:
    """Make the columns narrower, the last one first, until a row fits into *cells*."""
    over = sum(sizes) + len(GAP) * (len(sizes) - 1) - cells
    for n in reversed(range(len(sizes))):
        cut = min(max(over, 0), max(sizes[n] - max(least[n], 8), 0))
        sizes[n] -= cut
        over -= cut


def _row(row: Sequence[Cell], sizes: Sequence[int], columns: Sequence[Column], paint: Paint) -> str:
    texts = [
        paint(pad(clip(cell.text, size), size, right=column.right), cell.color)
        for cell, size, column in zip(row[:-1], sizes[:-1], columns[:-1], strict=True)
    ]
    last = clip(row[-1].text, sizes[-1])
    texts.append(
        paint(pad(last, sizes[-1], right=True) if columns[-1].right else last, row[-1].color)
    )
    return GAP.join(texts).rstrip()
