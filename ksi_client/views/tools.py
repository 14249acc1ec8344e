"""How tools read: what each is called, what it does, where it is from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ksi_client.text import Paint
from ksi_client.views.tables import Cell, Column, plain, table

__all__ = ["listed"]


def listed(rows: Sequence[Mapping[str, Any]], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a table of tools; a plugin that cannot be used tells why."""
    if not rows:
        yield "no tools; a function in the plugins directory makes one, --events shows the events"
        return
    columns = [Column(name) for name in ("tool", "class", "from", "what it does")]
    yield from table(columns, map(_listed, rows), paint=paint, cells=cells)


def _listed(row: Mapping[str, Any]) -> tuple[Cell | str, ...]:
    if "error" in row:
        plugin = plain(row.get("plugin"))
        return Cell(plugin, "red"), Cell("broken", "red"), plugin, plain(row["error"])
    name, effect = Cell(plain(row.get("name")), "bold"), Cell(plain(row.get("class")), "dim")
    return name, effect, Cell(plain(row.get("source")), "cyan"), plain(row.get("description"))
