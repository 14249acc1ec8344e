"""The processes that are measured: the daemon in its ways, and a raw asyncio echo as yardstick."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["ECHO", "ENVIRON", "HEALTH", "MARK", "POWER", "PROCESS", "SERVERS", "Server"]
__all__ += ["cpu_seconds", "resident_megabytes", "running"]

# Users have their bytecode cached; where it is not, a start would measure the compiler.
ENVIRON: Final = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
STOP_S: Final = 20

PROGRAM: Final = """
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
HEALTH: Final = '{"id":1,"event":"system:health"}'
MARK: Final = '{"id":1,"event":"system:mark","data":{"label":"bench"}}'


class Server(NamedTuple):
    """What is started with a folder of its own, and the request that it is asked."""

    name: str
    command: Callable[[Path], list[str]]
    line: str


def _echo(var: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(var / "echo.sock")]


def _daemon(durability: str) -> Callable[[Path], list[str]]:
    settings = ["--durability", durability, "--log-level", "error"]
    return lambda var: [sys.executable, "-m", "ksi_daemon", "--var", str(var), *settings]


ECHO: Final = Server("echo", _echo, MARK)
UNLOGGED: Final = Server("health", _daemon("process"), HEALTH)
PROCESS: Final = Server("mark, process", _daemon("process"), MARK)
POWER: Final = Server("mark, power", _daemon("power"), MARK)
SERVERS: Final = (ECHO, UNLOGGED, PROCESS, POWER)


@contextmanager
def running(server: Server) -> Iterator[tuple[int, str]]:
    """Run *server* in a process of its own; yield its pid and its socket when it is ready."""
    var = Path(tempfile.mkdtemp(prefix="ksi-bench-"))
    process = subprocess.Popen(server.command(var), stdout=subprocess.PIPE, text=True, env=ENVIRON)
    try:
        yield process.pid, process.stdout.readline().removeprefix("ready ").strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
        shutil.rmtree(var, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def resident_megabytes(pid: int) -> float:
    """Return the memory that a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
