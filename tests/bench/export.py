"""What it costs to export a log, to import it again and to look for words in it.

    python -m tests.bench.export [EVENTS]

Times are those of the processor, memory is the most that the command took. A million events by
default, which is 590 MB on disk and takes some minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ksi_daemon.log.database import open_writer
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.reader import LogReader
from ksi_daemon.log.search import words_of

EVENTS: Final = 1_000_000
STORY: Final = 20  # events
FORMATS: Final = ("jsonl", "cloudevents", "otel", "chrome", "parquet")
# Rare, frequent, nowhere; one that LIKE cannot sieve, since JSON may escape all of it.
GREPS: Final = ("number999990", "dolor", "nowhere", "été")


def make_log(path: Path, events: int) -> None:
    """Write a log of stories of STORY events, each fourth of which is a reply with a call."""
    with closing(open_writer(path, "process")) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO events (seq, id, ts, name, data, source, correlation_id, cause_id, hop,"
            " agent_id, status, duration_us, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, 'a', 'handled', 120, zeroblob(32))",
            _rows(events),
        )
        connection.execute(
            "INSERT INTO completions (id, ts, agent_id, request_id, turn, provider, model, preset,"
            " stop_reason, latency_us, input_tokens, output_tokens, state, extractor)"
            " SELECT id, ts, 'a', 'r', 1, 'p', 'm', 'ksi', 'stop', 1000, 10, 20, 'done', 1"
            " FROM events WHERE seq % 4 = 0"
        )
        connection.execute(
            "INSERT INTO attempts (completion_id, ordinal, ts, agent_id, provider, model, dialect,"
            " tool, verdict, repairs, span_start, span_end)"
            " SELECT id, 1, ts, 'a', 'p', 'm', 'event', 'state:set', 'strict', '[]', 0, 9"
            " FROM events WHERE seq % 4 = 0"
        )
        # The hashes are none: the chain begins behind them.
        connection.execute("INSERT OR REPLACE INTO anchor VALUES (1, ?, zeroblob(32))", (events,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _rows(events: int) -> Iterator[tuple[Any, ...]]:
    for seq in range(1, events + 1):
        name = "completion:result" if seq % 4 == 0 else "state:set"
        value = "lorem ipsum dolor sit amet " * 8
        data = json.dumps({"key": f"k{seq}", "value": value, "text": f"number{seq}"})
        story = f"00000000-0000-7000-8000-{seq // STORY:012x}"
        cause = f"e{seq - 1}" if seq % STORY else None
        ts = 1_769_860_800_000_000 + seq * 1_000
        yield seq, f"e{seq}", ts, name, data, "client:0/1", story, cause


def measured(*words: str | Path) -> tuple[float, float]:
    """Run ``ksi`` with *words*; return its seconds of processor and its megabytes."""
    command = [sys.executable, "-m", "ksi_client", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ksi {words[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


async def search(path: Path) -> None:
    async with LogReader.open(path) as reader:
        for grep in GREPS:
            began = time.process_time()
            wanted = EventFilter(words=words_of(grep), limit=50, reverse=True)
            found = len(await reader.events(wanted))
            say(f"grep {grep}", f"{time.process_time() - began:6.2f} s", f"{found:3} found")


def say(*words: str) -> None:
    sys.stdout.write("  ".join((words[0].ljust(20), *words[1:])) + "\n")
    sys.stdout.flush()


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log, out = Path(directory, "events.db"), Path(directory, "out")
        make_log(log, events)
        say(f"{events:,} events", f"{log.stat().st_size / 1e6:,.0f} MB")
        for form in reversed(FORMATS):
            seconds, size = measured("export", "--log", log, "-f", form, "-o", out)
            say(f"export {form}", f"{seconds:6.2f} s", f"{size:5.0f} MB")
        seconds, size = measured("import", out, "--to", Path(directory, "new.db"))
        say("import", f"{seconds:6.2f} s", f"{size:5.0f} MB")
        asyncio.run(search(log.absolute()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
