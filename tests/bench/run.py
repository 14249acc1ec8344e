"""``make bench``: the daemon beside a raw asyncio echo, in one interleaved run, and the budget.

Absolute times mean little on a shared machine, so each figure is a ratio to the echo server that
answers each of the same lines with a write, over the same kind of socket to the same client,
round by round, each in a fresh process. The tables show medians over the rounds and the CPU time
of the server for each request. All of it is also in ``.bench/bench.json``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from tests.bench import budget, extraction, loop
from tests.bench.load import CLIENT, Load, compiled, load
from tests.bench.servers import (
    ENVIRON,
    MARK,
    POWER,
    PROCESS,
    SERVERS,
    Server,
    cpu_seconds,
    resident_megabytes,
    running,
)

ROUNDS: Final = 5
WARM_UP_S: Final = 0.2
SECONDS: Final = 0.6
LOADS: Final = (("50 clients", 50, 1), ("depth 64", 1, 64))
RESULTS: Final = Path(".bench/bench.json")


class Measured(NamedTuple):
    """One measurement: of the client, and the server's CPU microseconds for each request."""

    load: Load
    cpu_us: float


class Row(NamedTuple):
    """Medians over the rounds for one server under one load."""

    server: str
    load: str
    rate: float
    to_echo: float
    cpu_us: float
    p50_us: float
    p99_us: float


class Start(NamedTuple):
    """Milliseconds from exec to the first durable reply, and the megabytes held then."""

    ms: float
    mb: float


def measure(program: Path | None, server: Server, clients: int, depth: int) -> Measured:
    with running(server) as (pid, path):
        load(program, path, server.line, clients=clients, depth=depth, seconds=WARM_UP_S)
        before = cpu_seconds(pid)
        told = load(program, path, server.line, clients=clients, depth=depth, seconds=SECONDS)
        return Measured(told, (cpu_seconds(pid) - before) / told.requests * 1e6)


def sockets(program: Path | None) -> dict[tuple[str, str], list[Measured]]:
    """Measure each server under each load in each round."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for _ in range(ROUNDS):
        for name, clients, depth in LOADS:
            for server in SERVERS:
                measured = measure(program, server, clients, depth)
                found.setdefault((server.name, name), []).append(measured)
    return found


def rows(found: dict[tuple[str, str], list[Measured]]) -> Iterator[Row]:
    for (server, name), measured in found.items():
        yield Row(
            server,
            name,
            _median(measured, lambda m: m.load.rate),
            _ratio(measured, found["echo", name]),
            _median(measured, lambda m: m.cpu_us),
            _median(measured, lambda m: m.load.p50_us),
            _median(measured, lambda m: m.load.p99_us),
        )


def _median(measured: list[Measured], of: Callable[[Measured], float]) -> float:
    return statistics.median(map(of, measured))


def _ratio(mine: list[Measured], others: list[Measured]) -> float:
    pairs = zip(mine, others, strict=True)
    return statistics.median(one.load.rate / other.load.rate for one, other in pairs)


def start_of_daemon() -> Start:
    began = time.perf_counter()
    with running(POWER) as (pid, path):
        # In Python, in this process: a start of the other client would be in it too.
        asyncio.run(_first_reply(path))
        return Start((time.perf_counter() - began) * 1000, resident_megabytes(pid))


async def _first_reply(path: str) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(MARK.encode() + b"\n")
    if b'"ok":true' not in await reader.readline():
        raise SystemExit("the daemon refused its first event")
    writer.close()


def emit_cpu() -> float:
    """Return the milliseconds of process time that one ``ksi emit`` takes."""
    with running(PROCESS) as (_, path):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "ksi_client", "--socket", path, "emit", "system:mark"]
        subprocess.run(
            [*command, "label=bench"], check=True, stdout=subprocess.DEVNULL, env=ENVIRON
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def reading() -> Iterator[tuple[str, float]]:
    """Yield the figures of the budget that are about finding calls in text."""
    for size, reply in zip(("2 KB", "17 KB"), extraction.replies(), strict=False):
        ratios = {name: ratio for name, _, ratio in extraction.compare(extraction.subjects(reply))}
        own = ratios["ksi"]
        yield f"reply of {size}", own
        yield f"any, {size}", ratios["ksi, preset any"] / own
        repaired = ratios["json_repair of the reply"]
        if size == "17 KB" and repaired is not None:
            yield "to json_repair", repaired / own
    yield "prose", {name: ratio for name, _, ratio in extraction.compare(extraction.prose())}["ksi"]
    dear = [(seconds, growth) for _, _, seconds, growth in extraction.hostile()]
    yield "hostile, 1 MB", max(seconds for seconds, _ in dear)
    yield "hostile, doubled", max(growth for _, growth in dear)


def figures(
    found: dict[tuple[str, str], list[Measured]], starts: list[Start], emits: list[float]
) -> dict[str, float]:
    """Return what the budget speaks of, by name."""
    ratios = {f"{row.server}, {row.load}": row.to_echo for row in rows(found)}
    for name, *_ in LOADS:
        ratio = _ratio(found[POWER.name, name], found[PROCESS.name, name])
        ratios[f"power to process, {name}"] = ratio
    return {
        **ratios,
        "start": statistics.median(start.ms for start in starts),
        "memory": statistics.median(start.mb for start in starts),
        "ksi emit": statistics.median(emits),
    }


def environment() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "client": CLIENT,
    }


def main() -> None:
    """Measure, print, and write down."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    write = sys.stdout.write
    # First: memory that others have used and freed would be used again.
    idle = asyncio.run(loop.idle())
    with tempfile.TemporaryDirectory(prefix="ksi-bench-") as folder:
        found = sockets(compiled(Path(folder)))
    write(f"client in {CLIENT}\n\n")
    write(f"{'':16}{'load':12}{'requests/s':>12}{'x echo':>10}{'CPU us':>9}")
    write(f"{'p50 us':>9}{'p99 us':>9}\n")
    for row in rows(found):
        write(f"{row.server:16}{row.load:12}{row.rate:12,.0f}{row.to_echo:10.2f}{row.cpu_us:9.1f}")
        write(f"{row.p50_us:9,.0f}{row.p99_us:9,.0f}\n")
    starts = [start_of_daemon() for _ in range(ROUNDS)]
    emits = [emit_cpu() for _ in range(ROUNDS)]
    known = {**figures(found, starts, emits), "10,000 idle agents": idle, **dict(reading())}
    judged = list(budget.judged(known))
    write(f"\n{budget.told(judged)}")
    RESULTS.parent.mkdir(exist_ok=True)
    results = {
        "environment": environment(),
        "sockets": [row._asdict() for row in rows(found)],
        "budget": [
            {**line._asdict(), "measured": measured, "verdict": verdict}
            for line, measured, verdict in judged
        ],
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write(f"\nwritten to {RESULTS}\n")


if __name__ == "__main__":
    main()
