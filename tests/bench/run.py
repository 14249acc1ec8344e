"""``make bench``: the daemon beside a raw asyncio echo, in one interleaved run.

Absolute times mean little on a shared machine, so each figure is a ratio to the echo server that
answers each of the same lines with a write, over the same kind of socket to the same client,
round by round. The table shows medians over the rounds and the CPU time of the server for each
request.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROUNDS = 5
WARM_UP = 2_000
SECONDS = 0.5  # of load in one measurement
# Users have their bytecode cached; where it is not, a start would measure the compiler.
ENVIRON = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
TICK = 1 / os.sysconf("SC_CLK_TCK")

ECHO = """
import asyncio, sys
class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data):
        for line in data.splitlines(True): self.transport.write(line)
async def main():
    server = await asyncio.get_running_loop().create_unix_server(Echo, sys.argv[1])
    print("ready", sys.argv[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
HEALTH = b'{"id":1,"event":"system:health"}\n'
MARK = b'{"id":1,"event":"system:mark","data":{"label":"bench"}}\n'


class Server(NamedTuple):
    name: str
    command: Callable[[Path], list[str]]
    line: bytes


class Measured(NamedTuple):
    rate: float
    cpu_us: float


def daemon(durability: str) -> Callable[[Path], list[str]]:
    return lambda var: [
        sys.executable, "-m", "ksi_daemon", "--var", str(var), "--durability", durability,
        "--log-level", "error",
    ]  # fmt: skip


SERVERS = (
    Server("echo", lambda var: [sys.executable, "-c", ECHO, str(var / "echo.sock")], MARK),
    Server("health", daemon("process"), HEALTH),
    Server("mark, process", daemon("process"), MARK),
    Server("mark, power", daemon("power"), MARK),
)
LOADS = (("50 clients", 50, 1), ("depth 64", 1, 64))


class Client(asyncio.Protocol):
    """Keep *depth* requests under way until *remaining* is used up."""

    def __init__(self, line: bytes, depth: int, remaining: list[int], done: asyncio.Event) -> None:
        self.line, self.depth, self.remaining, self.done = line, depth, remaining, done
        self.waiting = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def start(self) -> None:
        self.ask(self.depth)

    def data_received(self, data: bytes) -> None:
        answers = data.count(b"\n")
        self.waiting -= answers
        self.ask(answers)

    def ask(self, count: int) -> None:
        count = min(count, self.remaining[0])
        self.remaining[0] -= count
        self.waiting += count
        if count:
            self.transport.write(self.line * count)  # type: ignore[attr-defined]
        elif not self.waiting:
            self.done.set()


async def load(path: str, line: bytes, clients: int, depth: int, requests: int) -> float:
    """Return the seconds that *requests* take."""
    loop = asyncio.get_running_loop()
    remaining = [requests]
    pairs = [
        await loop.create_unix_connection(
            lambda: Client(line, depth, remaining, asyncio.Event()), path
        )
        for _ in range(clients)
    ]
    began = time.perf_counter()
    for _, client in pairs:
        client.start()
    for _, client in pairs:
        await client.done.wait()
    elapsed = time.perf_counter() - began
    for transport, _ in pairs:
        transport.close()
    return elapsed


@contextmanager
def running(server: Server) -> Iterator[tuple[int, str]]:
    """Run *server* in a process of its own; yield its pid and its socket."""
    var = Path(tempfile.mkdtemp(prefix="ksi-bench-"))
    process = subprocess.Popen(server.command(var), stdout=subprocess.PIPE, text=True, env=ENVIRON)
    try:
        yield process.pid, process.stdout.readline().removeprefix("ready ").strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        shutil.rmtree(var, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def measure(server: Server, clients: int, depth: int) -> Measured:
    with running(server) as (pid, path):
        warm = asyncio.run(load(path, server.line, clients, depth, WARM_UP))
        requests = max(WARM_UP, int(WARM_UP / warm * SECONDS))
        before = cpu_seconds(pid)
        elapsed = asyncio.run(load(path, server.line, clients, depth, requests))
        return Measured(requests / elapsed, (cpu_seconds(pid) - before) / requests * 1e6)


def start_of_daemon() -> tuple[float, float]:
    """Return the milliseconds from exec to the first durable reply, and the RSS in MB then."""
    var = Path(tempfile.mkdtemp(prefix="ksi-bench-"))
    began = time.perf_counter()
    process = subprocess.Popen(daemon("power")(var), stdout=subprocess.PIPE, text=True, env=ENVIRON)
    try:
        path = process.stdout.readline().removeprefix("ready ").strip()
        asyncio.run(load(path, MARK, 1, 1, 1))
        elapsed = (time.perf_counter() - began) * 1000
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return elapsed, int(rss.split()[1]) / 1024
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(var, ignore_errors=True)


def emit_cpu() -> float:
    """Return the milliseconds of process time that one ``ksi emit`` takes."""
    with running(SERVERS[2]) as (_, path):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "ksi_client", "--socket", path, "emit", "system:mark"]
        subprocess.run(
            [*command, "label=bench"], check=True, stdout=subprocess.DEVNULL, env=ENVIRON
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main() -> None:
    rows: dict[tuple[str, str], list[Measured]] = {}
    for _ in range(ROUNDS):
        for name, clients, depth in LOADS:
            for server in SERVERS:
                rows.setdefault((server.name, name), []).append(measure(server, clients, depth))
    write = sys.stdout.write
    write(f"{'':16}{'load':12}{'requests/s':>12}{'x echo':>10}{'CPU us':>9}\n")
    for (server, name), measured in rows.items():
        echo = rows["echo", name]
        ratio = statistics.median(m.rate / e.rate for m, e in zip(measured, echo, strict=True))
        rate = statistics.median(m.rate for m in measured)
        cpu = statistics.median(m.cpu_us for m in measured)
        write(f"{server:16}{name:12}{rate:12,.0f}{ratio:10.2f}{cpu:9.1f}\n")
    starts = [start_of_daemon() for _ in range(ROUNDS)]
    write(f"\nstart to first durable reply  {statistics.median(s for s, _ in starts):.0f} ms\n")
    write(f"memory then (RSS)             {statistics.median(r for _, r in starts):.1f} MB\n")
    emits = statistics.median(emit_cpu() for _ in range(ROUNDS))
    write(f"process time of ksi emit      {emits:.0f} ms\n")


if __name__ == "__main__":
    main()
