"""A log as lines that ``restore`` makes a log of again; see ``lines``."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from ksi_daemon import __version__
from ksi_daemon.events import now
from ksi_daemon.log.export.lines import RECORDS, VERSION, WHOLE, Column, End, Header, Table
from ksi_daemon.log.filters import condition
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["dump", "table"]

_encode: Final = msgspec.json.Encoder().encode

# Of a part of the log: the rows that belong to the events which are wanted.
_EVENT: Final = (
    "EXISTS (SELECT 1 FROM events e LEFT JOIN outcomes o ON o.seq = e.seq"
    " WHERE {column} = t.{key} AND {which})"
)

# What names the event or the completion that a row belongs to.
_KEYS: Final = {"completions": "id", "failures": "event_id"}


def dump(snapshot: Snapshot, wanted: EventFilter) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log, or of what of it is *wanted*.

    Each comes with the seq of the event that it is the row of, 0 if it is of another table. A
    reply goes with any of the events that were written in it.
    """
    which, values = condition(wanted)
    chosen = _filter(wanted)
    names = _names(snapshot, whole=not chosen)
    digest, rows = sha256(), dict.fromkeys(names, 0)
    first = _encode(_header(snapshot, chosen)) + b"\n"
    digest.update(first)
    yield 0, first
    for name in names:
        lines = table(snapshot, name)
        columns = ", ".join(_selected(column, whole=not chosen) for column in lines.columns)
        sql, given = f"SELECT {columns} FROM {name} t", ()
        if chosen:
            parts = _parts(lines, which)
            sql, given = f"{sql} WHERE {' OR '.join(parts) or 'TRUE'}", values * len(parts)
        at = lines.columns.index("seq") if name == "events" else None
        for row in snapshot.rows(sql, given):
            line = lines.line(row) + b"\n"
            digest.update(line)
            rows[name] += 1
            yield 0 if at is None else row[at], line
    yield 0, _encode(End(rows, digest.hexdigest())) + b"\n"


def table(snapshot: Snapshot, name: str) -> Table:
    """Return the table *name* as the file has it."""
    rows = snapshot.rows(f"PRAGMA table_info({name})")
    return Table(name, [Column(row[1], row[2], bool(row[3] or row[5])) for row in rows])


def _names(snapshot: Snapshot, *, whole: bool) -> list[str]:
    found = {row[0] for row in snapshot.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [name for name in RECORDS if name in found and (whole or name not in WHOLE)]


def _parts(table: Table, which: str) -> list[str]:
    """Return the conditions of which a row of *table* meets one, none if all are wanted."""
    if "seq" in table.columns:
        return [_EVENT.format(column="e.seq", key="seq", which=which)]
    key = _KEYS.get(table.name, "completion_id")
    if key not in table.columns:
        return []
    return [
        _EVENT.format(column=column, key=key, which=which) for column in ("e.completion_id", "e.id")
    ]


def _selected(column: str, *, whole: bool) -> str:
    return "NULL" if column == "hash" and not whole else f"t.{column}"


def _header(snapshot: Snapshot, chosen: dict[str, Any]) -> Header:
    return Header(
        format="ksi-log",
        version=VERSION,
        schema=snapshot.schema,
        ksi=__version__,
        made=now(),
        last_seq=snapshot.last_seq(),
        filter=chosen or None,
    )


def _filter(wanted: EventFilter) -> dict[str, Any]:
    """Return what was asked for, as the header tells it."""
    given = msgspec.to_builtins(wanted)
    return {
        name: value
        for name, value in given.items()
        if value not in (None, (), []) and name not in ("limit", "reverse")
    }
