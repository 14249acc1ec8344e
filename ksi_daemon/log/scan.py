"""Counts by a full scan: what the roll-up must be equal to, and what a new one is made of.

A scan reads all rows of a time, however they came there. It groups by any keys.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_daemon.log import counts, queries
from ksi_daemon.log.counts import Block, Counts
from ksi_daemon.log.metrics import latency_bin
from ksi_daemon.log.rollup import CUBES, HOUR, KEYS, SIZES, Row, add_counts, add_rows, cube_name

__all__ = [
    "FOREVER_US",
    "SCANS",
    "Key",
    "prepare",
    "rebuild",
    "scan_sql",
    "scanned",
    "scanned_hours",
]

Key = tuple[Any, ...]
# The queries of a scan, in the order in which ``scanned`` wants their rows.
SCANS: Final = ("scan_blocks", "scan_replies", "scan_failures")
# As whole hours, so that no part of one is left over at the end.
FOREVER_US: Final = 2**62 // 3_600_000_000 * 3_600_000_000

_SIZE: Final = " ".join(f"WHEN a.size < {end} THEN '{name}'" for end, name in SIZES)
_FACTS: Final = MappingProxyType(
    {
        "agent": "coalesce(c.agent_id, '')",
        "model": "c.model",
        "provider": "c.provider",
        "dialect": "coalesce(a.dialect, '')",
        "tool": "coalesce(a.tool, '')",
        "size": f"CASE WHEN a.size IS NULL THEN '' {_SIZE} END",
        "hour": "c.ts / 3600000000 * 3600",
        "day": "c.ts / 86400000000 * 86400",
    }
)
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def scan_sql(query: str, group_by: Sequence[str]) -> str:
    """Return the *query* that groups by *group_by*."""
    return query.format(
        keys=", ".join(group_by), facts=", ".join(f"{_FACTS[key]} AS {key}" for key in group_by)
    )


def scanned(width: int, *answers: Iterable[Sequence[Any]]) -> dict[Key, Counts]:
    """Return the counts by group of the rows that SCANS gave; the key has *width* values."""
    blocks, replies, failures = answers
    groups: dict[Key, Counts] = {}
    for row in blocks:
        _add(groups, row[:width], _of_blocks(*row[width:]))
    for row in replies:
        _add(groups, row[:width], _of_replies(*row[width:]))
    for *key, code, number in failures:
        _add(groups, key, {"errors": number, f"error:{code}": number})
    return groups


def prepare(connection: sqlite3.Connection) -> None:
    """Make a writing connection fit for the roll-up; if the log has none yet, make one."""
    connection.create_function("add_counts", 2, add_counts, deterministic=True)
    connection.create_function("latency_bin", 1, latency_bin, deterministic=True)
    if connection.execute("SELECT before FROM rollup_days").fetchone()[0] is None:
        connection.execute("BEGIN IMMEDIATE")
        rebuild(connection)
        connection.execute("COMMIT")


def rebuild(connection: sqlite3.Connection) -> None:
    """Make the roll-up of a prepared connection anew of all that the log holds.

    It belongs into a transaction.
    """
    connection.execute("DELETE FROM rollup")
    connection.execute("UPDATE rollup_days SET before = 0")
    for cube in CUBES:
        add_rows(connection, scanned_hours(connection, cube))


def scanned_hours(connection: sqlite3.Connection, cube: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of the hours of a cube as a scan has them.

    The connection has the SQL function ``latency_bin``.
    """
    named = queries.load()
    keys = [key for key in KEYS if key in cube or key in ("model", "provider")]
    group_by = ["hour", *keys]
    answers = (
        connection.execute(scan_sql(named[name], group_by), (0, FOREVER_US)).fetchall()
        for name in SCANS
    )
    for key, found in scanned(len(group_by), *answers).items():
        yield cube_name(cube), HOUR, key[0], _subject(keys, key[1:]), found


def _subject(keys: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    given = dict(zip(keys, values, strict=True))
    return tuple(given.get(key, "") for key in KEYS)


def _of_blocks(
    verdict: str,
    code: str | None,
    repairs: str,
    tries: int,
    suspect: int,
    stop_reason: str | None,
    status: str | None,
    error: str | None,
    corrected: int,
    missed: int,
    number: int,
) -> Counts:
    """Return the counts of *number* blocks that are all alike."""
    block = Block(verdict, code, _decode_names(repairs), tries, bool(suspect))
    parts = [counts.of_block(block, stop_reason)]
    if status is not None and status != "received":
        parts.append(counts.of_end(status, error, tries))
    if corrected:
        parts.append(counts.of_correction(corrected, tries))
    if missed:
        parts.append({"missed": 1})
    return {name: each * number for name, each in counts.total(parts).items()}


def _of_replies(
    latency: int,
    stop_reason: str | None,
    priced: int,
    number: int,
    input_tokens: int,
    output_tokens: int,
    cost_nusd: int,
) -> Counts:
    found = {
        "completions": number,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        f"latency:{latency}": number,
    }
    if priced:
        found |= {"priced": number, "cost_nusd": cost_nusd}
    if counts.is_cut_off(stop_reason):
        found["cut_off"] = number
    return found


def _add(groups: dict[Key, Counts], key: Sequence[Any], found: Counts) -> None:
    groups[tuple(key)] = counts.total((groups.get(tuple(key), {}), found))
