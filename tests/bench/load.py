"""Load for a server of lines: the C program beside this file, or one in Python without a compiler.

A client in Python takes as long as the server, so that the two are measured together. What was
measured with it says so.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["CLIENT", "Load", "compiled", "load"]

SOURCE: Final = Path(__file__).with_name("load.c")
CLIENT: Final = "C" if shutil.which("gcc") else "Python, for there is no gcc"


class Load(NamedTuple):
    """How many requests were answered in how long, and how long one answer took."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    p999_us: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def compiled(folder: Path) -> Path | None:
    """Return the load generator, compiled into *folder*; None without a compiler."""
    if shutil.which("gcc") is None:
        return None
    program = folder / "load"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE)]
    subprocess.run(command, check=True)
    return program


def load(
    program: Path | None, path: str, line: str, *, clients: int, depth: int, seconds: float
) -> Load:
    """Keep *depth* copies of *line* unanswered on each of *clients* connections to *path*."""
    if program is None:
        return asyncio.run(_load(path, line.encode() + b"\n", clients, depth, seconds))
    command = [program, path, str(clients), str(depth), str(seconds), line]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60 + seconds)
    return Load(**json.loads(done.stdout))


async def _load(path: str, line: bytes, clients: int, depth: int, seconds: float) -> Load:
    loop = asyncio.get_running_loop()
    pairs = [await loop.create_unix_connection(lambda: _Client(line), path) for _ in range(clients)]
    began = time.perf_counter()
    try:
        for _, client in pairs:
            client.start(depth, began + seconds)
        for _, client in pairs:
            await client.done
    finally:
        for transport, _ in pairs:
            transport.close()
    elapsed = time.perf_counter() - began
    took = sorted(micros for _, client in pairs for micros in client.took)
    percentiles = [took[int(len(took) * share)] for share in (0.5, 0.99, 0.999)]
    return Load(len(took), elapsed, *percentiles)


class _Client(asyncio.Protocol):
    """Ask again for each answer, until it is late."""

    def __init__(self, line: bytes) -> None:
        self.line, self.until = line, 0.0
        self.sent: list[float] = []
        self.took: list[float] = []
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def start(self, depth: int, until: float) -> None:
        self.until = until
        self.ask(depth)

    def data_received(self, data: bytes) -> None:
        moment, answers = time.perf_counter(), data.count(b"\n")
        if b'"ok":false' in data:
            self.done.set_exception(SystemExit("an answer says ok: false"))
            return
        first = len(self.took)
        self.took += [(moment - sent) * 1e6 for sent in self.sent[first : first + answers]]
        if moment < self.until:
            self.ask(answers)
        elif len(self.took) == len(self.sent):
            self.done.set_result(None)

    def ask(self, count: int) -> None:
        self.sent += [time.perf_counter()] * count
        self.transport.write(self.line * count)  # type: ignore[attr-defined]
