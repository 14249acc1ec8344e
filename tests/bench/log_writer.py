"""How many durable marks a second the log takes from one event loop, and what each costs.

    python tests/bench/log_writer.py [--events N] [--in-flight N] [--durability process|power]

Prints the median of the rounds. Only figures of one run on one machine compare.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
import uuid_utils

from ksi_daemon.events import Event, Outcome, now
from ksi_daemon.log import EventLog
from ksi_daemon.log.model import Durability
from ksi_daemon.work import Work

__all__: list[str] = []

_DATA = msgspec.Raw(b'{"label":"bench","data":{"n":1}}')
_OUTCOME = Outcome("handled", msgspec.Raw(b'{"marked":true}'), duration_ms=0.01)


class Figures(NamedTuple):
    events_per_s: float
    cpu_us: float
    batch: float


def mark() -> Work:
    """Return the work that ``system:mark`` is to the log."""
    event_id = str(uuid_utils.uuid7())
    event = Event(
        id=event_id,
        ts=now(),
        name="system:mark",
        data=_DATA,
        source="client:1000/1",
        correlation_id=event_id,
        status="handled",
    )
    return Work(event=event, outcome=_OUTCOME)


async def emit(log: EventLog, count: int) -> None:
    """Submit *count* marks, each after the one before is durable."""
    for _ in range(count):
        await log.submit(mark())


async def measure(path: Path, durability: Durability, events: int, in_flight: int) -> Figures:
    """Measure one round on a fresh log at *path*."""
    async with EventLog.open(path, durability=durability) as log:
        await emit(log, 100)
        before, wall, cpu = log.gauges(), time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(emit(log, max(1, events // in_flight)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = log.gauges()
    units = after.units - before.units
    return Figures(units / wall, cpu / units * 1e6, units / (after.batches - before.batches))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--in-flight", type=int, default=50)
    parser.add_argument("--durability", choices=["process", "power"], default="process")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "events.db"
            rounds.append(
                asyncio.run(measure(path, options.durability, options.events, options.in_flight))
            )
    figures = Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))
    sys.stdout.write(
        f"{options.durability}, {options.in_flight} in flight:"
        f" {figures.events_per_s:,.0f} events/s, {figures.cpu_us:.1f} us CPU an event,"
        f" {figures.batch:.0f} events a batch\n"
    )


if __name__ == "__main__":
    main()
