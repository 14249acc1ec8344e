"""How presets compare: a row of figures for each, then each reply in the eyes of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ksi_client.comparing import Reading
from ksi_client.text import Paint
from ksi_client.views.tables import Cell, Column, table
from ksi_daemon.extraction import Extraction

__all__ = ["compared"]

_FIGURES: Final = ("calls", "mended", "rejected", "finals", "text left")
_LEGEND: Final = "✓ call  ~ call, mended  ✗ rejected  = final answer  · nothing"


def compared(readings: Sequence[Reading], paint: Paint, cells: int) -> Iterator[str]:
    """Yield the table of presets, and if there are several replies that of the replies."""
    columns = [Column("preset"), *(Column(name, right=True) for name in _FIGURES), Column("why")]
    yield from table(columns, map(_figures, readings), paint=paint, cells=cells)
    if not readings or len(readings[0].found) < 2:
        return
    yield ""
    titles = [Column("reply", right=True), *(Column(each.preset) for each in readings)]
    rows = (
        [Cell(str(number)), *(Cell(_signs(found)) for found in row)]
        for number, row in enumerate(zip(*(each.found for each in readings), strict=True), start=1)
    )
    yield from table(titles, rows, paint=paint, cells=cells)
    yield paint(_LEGEND, "dim")


def _figures(reading: Reading) -> tuple[Cell | str, ...]:
    return (
        Cell(reading.preset, "bold"),
        Cell(str(reading.calls), "green" if reading.calls else "dim"),
        Cell(str(reading.mended), "yellow" if reading.mended else "dim"),
        Cell(str(reading.rejected), "magenta" if reading.rejected else "dim"),
        Cell(str(reading.finals), "" if reading.finals else "dim"),
        Cell(str(reading.residual_chars), "dim"),
        _why(reading.repairs + reading.codes),
    )


def _why(reasons: Counter[str]) -> str:
    """Return the repairs and the codes, each with how often unless that is once."""
    told = (f"{name} ×{count}" if count > 1 else name for name, count in reasons.most_common())
    return ", ".join(told)


def _signs(found: Extraction) -> str:
    """Return a sign for each block, in the order of the text."""
    blocks = [(call.start, "~" if call.repairs else "✓") for call in found.calls]
    blocks += [(rejected.start, "✗") for rejected in found.rejected]
    signs = "".join(sign for _, sign in sorted(blocks, key=lambda block: block[0]))
    final = "=" if found.final is not msgspec.UNSET else ""
    return signs + final or "·"
