"""The named queries: SQL in files, each with a line that says what it answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Ready", "load", "ready"]

_NAME: Final = re.compile(r"^-- name: (\w+)\n((?:--.*\n)*)", re.M)


class Ready(NamedTuple):
    """A query that people ask as it is; *title* is what it answers."""

    name: str
    title: str
    sql: str


def load() -> dict[str, str]:
    """Return the queries by name."""
    found: dict[str, str] = {}
    for path in Path(__file__).parent.glob("*.sql"):
        names, _, bodies = _parted(path.read_text(encoding="utf-8"))
        found |= zip(names, bodies, strict=True)
    return found


def ready() -> list[Ready]:
    """Return the queries over the views that are ready to be asked."""
    path = Path(__file__).with_name("ready.sql")
    names, titles, bodies = _parted(path.read_text(encoding="utf-8"))
    return [
        Ready(name, title.removeprefix("-- ").strip(), sql)
        for name, title, sql in zip(names, titles, bodies, strict=True)
    ]


def _parted(text: str) -> tuple[list[str], list[str], list[str]]:
    parts = _NAME.split(text)[1:]
    return parts[::3], parts[1::3], [sql.strip().rstrip(";") for sql in parts[2::3]]
