"""``python -m tests.bench.reliability [EVENTS [DIRECTORY]]``: what a report of reliability takes.

A log is made up with plain inserts, a hundred days of four models, six agents of each, three
dialects, eight tools, about four events for each completion; the roll-up is made of it. Then
reports are asked of the reader as the daemon asks them, the best of fifteen. A million events take
0.5 GB; a log that is in DIRECTORY already is taken as it is.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ksi_daemon.log.database import open_writer
from ksi_daemon.log.metrics import LATENCY_ERROR
from ksi_daemon.log.model import GroupKey
from ksi_daemon.log.reader import LogReader
from ksi_daemon.log.scan import rebuild

EVENTS = 1_000_000
PER_COMPLETION = 4
DAYS = 100
END = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
END_US = int(END.timestamp()) * 1_000_000
ASKED: tuple[tuple[str, tuple[GroupKey, ...]], ...] = (
    ("model, dialect", ("model", "dialect")),
    ("agent, dialect", ("agent", "dialect")),
    ("tool, dialect", ("tool", "dialect")),
    ("size, dialect", ("size", "dialect")),
    ("day", ("day",)),
    ("hour", ("hour",)),
)

# One number i for each completion; c is its id, k the number of its blocks, of which j is one.
NUMBERS = """
WITH RECURSIVE n (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?),
     r AS (SELECT i, printf('c%012d', i) AS c, i % 4 AS m,
                  CASE i % 10 WHEN 0 THEN 0 WHEN 9 THEN 2 ELSE 1 END AS k,
                  CAST(? - (? - i) * ? AS INTEGER) AS ts FROM n),
     b AS (SELECT r.*, j.value AS j, abs(random()) % 100 AS luck,
                  c || '.' || j.value AS e FROM r, json_each('[1,2]') j WHERE j.value <= k)
"""
COMPLETIONS = """
INSERT INTO completions (id, ts, agent_id, request_id, turn, provider, model, preset, stop_reason,
                         latency_us, input_tokens, output_tokens, cost_nusd, state, extractor)
SELECT c, ts, printf('agent-%d-%d', m, i / 4 % 6), 'r' || i / 3, 1, 'p' || m % 2,
       'model-' || m, 'ksi', 'stop',
       50000 * (1 + abs(random()) % 20) * (1 + abs(random()) % 20), 900, 80, 4000, 'done', 2
  FROM r
"""
ATTEMPTS = """
INSERT INTO attempts (completion_id, ordinal, ts, agent_id, provider, model, dialect, tool, verdict,
                      code, repairs, span_start, span_end, event_id, corrected, size, tries)
SELECT c, j, ts, printf('agent-%d-%d', m, i / 4 % 6), 'p' || m % 2, 'model-' || m,
       CASE (i + j) % 3 WHEN 0 THEN 'event' WHEN 1 THEN 'ksi_tool_use' ELSE 'ksi_body' END,
       'tool:' || i % 8,
       CASE WHEN luck < 80 THEN 'strict' WHEN luck < 90 THEN 'repaired'
            WHEN luck < 98 THEN 'rejected' ELSE 'held' END,
       CASE WHEN luck < 90 THEN NULL WHEN luck < 98 THEN 'malformed_block' ELSE 'echo' END,
       CASE WHEN luck BETWEEN 80 AND 89 THEN '["trailing_comma"]' ELSE '[]' END,
       10, 100, e, luck IN (93, 94), 1 << (4 + luck % 12), 1 + (luck IN (1, 2))
  FROM b
"""
EVENT_COLUMNS = """
INSERT INTO events (id, ts, name, data, source, correlation_id, cause_id, hop, agent_id,
                    completion_id, call, status, error)
"""
RESULTS = f"""{EVENT_COLUMNS}
SELECT c, ts, 'completion:result', '{{"text": "Some words and a call."}}', 'daemon', 'r' || i / 3,
       NULL, 1, printf('agent-%d-%d', m, i / 4 % 6), c, NULL, 'handled', NULL FROM r
"""
MESSAGES = f"""{EVENT_COLUMNS}
SELECT c || '.m', ts, 'agent:send', '{{"message": "Go on."}}', 'client:0/1', 'r' || i / 3, NULL, 0,
       NULL, NULL, NULL, 'handled', NULL FROM r
"""
NOTICES = f"""{EVENT_COLUMNS}
SELECT e || '.call', ts, 'extraction:call', '{{"name": "tool:1"}}', 'daemon', 'r' || i / 3, c, 1,
       printf('agent-%d-%d', m, i / 4 % 6), c, NULL, 'handled', NULL FROM b
"""
CALLS = f"""{EVENT_COLUMNS}
SELECT e, ts, 'tool:' || i % 8, '{{"key": "k"}}', 'agent:a', 'r' || i / 3, c, 2,
       printf('agent-%d-%d', m, i / 4 % 6), c, '{{"id": "x"}}',
       CASE WHEN luck < 96 THEN 'handled' ELSE 'failed' END,
       CASE WHEN luck < 96 THEN NULL ELSE '{{"code":"handler_failed","message":"it broke"}}' END
  FROM b
"""
CHUNK = 100_000


def make(path: Path, events: int) -> None:
    """Write a log of about *events* events to *path*."""
    completions = events // PER_COMPLETION
    step_us = DAYS * 86_400 * 1_000_000 // completions
    with closing(open_writer(path, "process")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -1000000")
        for start in range(0, completions, CHUNK):
            values = (start, min(start + CHUNK, completions), END_US, completions, step_us)
            connection.execute("BEGIN IMMEDIATE")
            for sql in (COMPLETIONS, ATTEMPTS, RESULTS, MESSAGES, NOTICES, CALLS):
                connection.execute(NUMBERS + sql, values)
            connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def roll_up(path: Path) -> float:
    """Make the roll-up anew; return the seconds that it took."""
    with closing(open_writer(path, "process")) as connection:
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        rebuild(connection)
        connection.execute("COMMIT")
        return time.perf_counter() - started


async def timed(
    reader: LogReader, keys: tuple[GroupKey, ...], since: datetime | None, times: int, exact: bool
) -> float:
    """Return the milliseconds of the best of *times* reports."""
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        await reader.reliability(keys, since, None, exact=exact)
        best = min(best, (time.perf_counter() - started) * 1000)
    return best


def main(events: int, path: Path) -> None:
    """Make the log unless it is there, and print what reports take."""
    if not path.exists():
        started = time.perf_counter()
        make(path, events)
        say(f"made in {time.perf_counter() - started:.0f} s")
        say(f"rolled up in {roll_up(path):.0f} s")
    with closing(sqlite3.connect(path)) as connection:
        [count] = connection.execute("SELECT count(*) FROM events").fetchone()
        [groups] = connection.execute("SELECT count(*) FROM rollup").fetchone()
    say(f"{count:,} events, {path.stat().st_size / 1e9:.1f} GB, {groups:,} rows of roll-up;")
    say(f"percentiles within {LATENCY_ERROR:.0%}\n")
    asyncio.run(measure(path))


async def measure(path: Path) -> None:
    """Print what each report over each time takes."""
    spans = (
        ("last 24 hours, whole hours", END.replace(minute=0) - timedelta(hours=23)),
        ("last 24 hours, to the minute", END - timedelta(hours=24)),
        ("all time", None),
    )
    async with LogReader.open(path) as reader:
        say(f"{'':30}" + "".join(f"{name:>16}" for name, _ in ASKED))
        for title, since in spans:
            cells = [await timed(reader, keys, since, 15, False) for _, keys in ASKED]
            say(f"{title:30}" + "".join(f"{ms:>13.1f} ms" for ms in cells))
        scan = await timed(reader, ASKED[0][1], None, 1, True)
        say(f"{'all time, by a full scan':30}{scan:>13.1f} ms")


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    if len(sys.argv) > 2:
        main(asked, Path(sys.argv[2], "events.db"))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(asked, Path(made, "events.db"))
