"""How reliability reads: a table of counts and rates, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ksi_client.text import Color, Paint, clip, pad, visible, width
from ksi_client.views.tables import GAP, Cell, Column, plain, table

__all__ = ["details", "rated", "rates"]

# The figures of a reliability row in the order of an attempt's life; most only if not zero.
_COUNTS: Final = (
    "completions",
    "seen",
    "strict",
    "repaired",
    "rejected",
    "invalid",
    "unknown",
    "denied",
    "handled",
    "failed",
    "refused",
    "interrupted",
    "corrected",
    "quoted",
    "suspects",
    "lost",
    "errors",
    "cut_off",
)
_ALWAYS: Final = ("completions", "seen", "strict", "handled")
# What a narrow terminal does without, the first to go first; JSON has it all.
_DISPENSABLE: Final = (
    "tokens",
    "p99",
    "p95",
    "completions",
    "cut_off",
    "suspects",
    "p50",
    "usd",
    "corrected",
    "quoted",
    "interrupted",
    "refused",
    "denied",
    "failed",
    "unknown",
    "invalid",
    "rejected",
    "repaired",
    "errors",
)


def rates(
    group_by: Sequence[str], rows: Sequence[Mapping[str, Any]], paint: Paint, cells: int
) -> Iterator[str]:
    """Yield the table of how many calls of each group came to a good end."""
    if not rows:
        yield "no completions yet; ksi send gives an agent something to answer"
        return
    series = [_series(name, rows) for name in (*group_by, *_shown_figures(rows))]
    for name in _DISPENSABLE:
        if sum(len(GAP) + _size(each) for each in series) - len(GAP) > cells:
            series = [each for each in series if each[0].title != name]
    columns = [column for column, _ in series]
    yield from table(
        columns,
        zip(*(series_cells for _, series_cells in series), strict=True),
        paint=paint,
        cells=cells,
    )


def _shown_figures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = [name for name in _COUNTS if name in _ALWAYS or any(row.get(name) for row in rows)]
    money = ["usd"] if any(row.get("usd") is not None for row in rows) else []
    return [*counts, "rate", "95 %", "p50", "p95", "p99", "tokens", *money]


def _series(name: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Column, list[Cell]]:
    """Return one column of the reliability table with its cells."""
    match name:
        case "rate":
            rates = [row.get("rate") for row in rows]
            return Column(name, right=True), [Cell(_percent(rate), rated(rate)) for rate in rates]
        case "95 %":
            spans = [f"{_percent(row.get('low'))}-{_percent(row.get('high'))}" for row in rows]
            return Column(name), list(map(Cell, spans))
        case "p50" | "p95" | "p99":
            return Column(name, right=True), [Cell(_ms(row.get(f"{name}_ms"))) for row in rows]
        case "tokens":
            return Column(name, right=True), [Cell(plain(row.get(name) or 0)) for row in rows]
        case "usd":
            return Column(name, right=True), [Cell(_usd(row)) for row in rows]
    if name in _COUNTS:
        return Column(name, right=True), [Cell(plain(row.get(name) or 0)) for row in rows]
    return Column(name), [Cell(plain(row.get(name)), "cyan") for row in rows]


def details(
    group_by: Sequence[str], rows: Sequence[Mapping[str, Any]], paint: Paint, cells: int
) -> Iterator[str]:
    """Yield the table, and for each group what went wrong in it and through whom."""
    yield from rates(group_by, rows, paint, cells)
    for row in rows:
        lines = list(_details(row))
        if lines:
            yield ""
            yield paint("  ".join(visible(plain(row.get(key))) for key in group_by), "bold")
            for name, told in lines:
                yield f"  {paint(pad(name, 9), 'dim')}  {clip(visible(told), max(cells - 13, 20))}"


def _details(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    tries = row.get("tries") or []
    if tries and tries[0]["n"]:
        first, *later = (_percent(each["rate"]) for each in tries)
        after = f"; {', '.join(later)} after 1, 2, 3 corrections" if later[-1] != first else ""
        yield "came good", f"{first} at once{after} (of {tries[0]['n']})"
    for name, field in (
        ("repaired", "repairs"),
        ("rejected", "rejections"),
        ("failed", "failures"),
        ("no reply", "provider_errors"),
        ("fault of", "faults"),
    ):
        kinds = {kind: number for kind, number in (row.get(field) or {}).items() if number}
        if kinds:
            yield name, ", ".join(f"{kind} {number}" for kind, number in kinds.items())


def _size(series: tuple[Column, list[Cell]]) -> int:
    return max(len(series[0].title), *(width(visible(cell.text)) for cell in series[1]))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f}"


def rated(value: float | None) -> Color:
    """Return the colour of a rate."""
    if value is None:
        return "dim"
    return "green" if value >= 0.95 else "yellow" if value >= 0.8 else "red"


def _usd(row: Mapping[str, Any]) -> str:
    """Return what a group cost; with a plus where the price of some completions is not known."""
    if row.get("usd") is None:
        return "-"
    return f"{row['usd']:.4g}{'+' if row.get('unpriced') else ''}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
