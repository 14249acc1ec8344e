"""Daemons as processes, loads that remember what was acknowledged, and what became of it.

Some faults need root and tools of the machine. ``needs`` skips a test where they are missing and
says so; where FAULTS_NEED_ROOT is set, as in CI, it fails instead.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_client import BlockingClient
from ksi_daemon.log.verification import verify

__all__ = [
    "ROOT",
    "Daemon",
    "Load",
    "missing",
    "needs",
    "on_tmpfs",
    "refused",
    "rounds",
    "sound",
    "until",
]

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = "FAULT_ROUNDS"
PATIENCE_S: Final = 30.0


def rounds(short: int) -> int:
    """Return how often a fault is tried: *short*, or what ``make soak`` asks for."""
    return int(os.environ.get(ROUNDS, short))


def needs(*tools: str, root: bool = True) -> None:
    """Skip the test, and say why, if a tool or root is missing."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    lacking = [*(["root"] if root and os.geteuid() else []), *absent]
    if not lacking:
        if "unshare" in tools and subprocess.run(["unshare", "-m", "true"], check=False).returncode:
            pytest.skip("the kernel lets nobody mount here; run it on a machine of its own")
        return
    reason = f"needs {', '.join(lacking)}; run as root with these installed (.ci/run)"
    if os.environ.get("FAULTS_NEED_ROOT"):
        pytest.fail(reason)
    pytest.skip(reason)


class Daemon:
    """A daemon on *var*. *prefix* is put before its command, *module* takes its place.

    *seen_at* is where this process finds var, if the daemon runs in another mount namespace.
    """

    def __init__(
        self,
        var: Path,
        *flags: str,
        prefix: Sequence[str] = (),
        module: Sequence[str] = ("ksi_daemon",),
        env: Mapping[str, str] | None = None,
        below: str | None = None,
    ) -> None:
        self.var = var
        self.stderr_path = Path(f"{var}.{os.getpid()}.{id(self)}.stderr")
        with self.stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", *module, "--var", str(var), *flags],
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self.is_ready = self.process.stdout.readline().startswith(b"ready")
        root = Path(f"/proc/{self.process.pid}/root") if below is not None else Path("/")
        self.seen = root / var.relative_to("/")
        self.socket = self.seen / "run" / "daemon.sock"

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.process.communicate(timeout=PATIENCE_S)
        self.stderr_path.unlink(missing_ok=True)

    @property
    def said(self) -> str:
        """What the daemon has written to its text log so far."""
        return self.stderr_path.read_text(encoding="utf-8", errors="replace")

    def client(self) -> BlockingClient:
        """Return a client that gives up at once."""
        return BlockingClient(self.socket, patience_s=0)

    def kill(self) -> None:
        """Kill it, and all that came with it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """End it in good order; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def refused(daemon: Daemon) -> tuple[int, str]:
    """Return the exit code and the words of a daemon that did not start."""
    assert not daemon.is_ready
    return daemon.process.wait(PATIENCE_S), daemon.said


class Load:
    """Marks with idempotency keys, many in flight on one connection; ``acked`` is by key."""

    def __init__(self) -> None:
        self.acked: dict[str, int] = {}
        self.duplicates: set[str] = set()
        self.errors: list[dict[str, Any]] = []
        # Whether an error came before an acknowledgement.
        self.acked_after_error = False

    def emit(
        self,
        path: Path,
        keys: Iterable[str],
        *,
        in_flight: int = 64,
        pad: int = 0,
        on_ack: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Emit a mark for each key; return when all are answered or the daemon is gone."""
        waiting = iter(keys)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_S)
            try:
                connection.connect(str(path))
                replies = connection.makefile("rb")
                open_ = self._send(connection, waiting, in_flight, pad)
                while open_:
                    line = replies.readline()
                    if not line:
                        return
                    open_ += self._answered(json.loads(line)) - 1
                    on_ack(len(self.acked))
                    open_ += self._send(connection, waiting, 1, pad)
            except (ConnectionError, FileNotFoundError):
                return

    def _send(self, connection: socket.socket, keys: Iterator[str], count: int, pad: int) -> int:
        frames = []
        for _, key in zip(range(count), keys, strict=False):
            data = {"label": key, "data": {"pad": "x" * pad}}
            frames.append(
                json.dumps(
                    {"id": key, "event": "system:mark", "data": data, "idempotency_key": key}
                ).encode()
                + b"\n"
            )
        connection.sendall(b"".join(frames))
        return len(frames)

    def _answered(self, reply: dict[str, Any]) -> int:
        if not reply["ok"]:
            self.errors.append(reply["error"])
            return 0
        self.acked[reply["id"]] = reply["seq"]
        self.acked_after_error |= bool(self.errors)
        if reply.get("duplicate"):
            self.duplicates.add(reply["id"])
        return 0


def kept(log: Path) -> dict[str, int]:
    """Return the seqs of the marks that a log has, by key."""
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute(
            "SELECT idem_key, seq, data FROM events WHERE name = 'system:mark'"
        ).fetchall()
    assert all(json.loads(data)["label"] == key for key, _, data in rows)
    return {key: seq for key, seq, _ in rows}


def missing(log: Path, acked: Mapping[str, int]) -> dict[str, int]:
    """Return the acknowledged marks that a log has not, or has elsewhere."""
    found = kept(log)
    return {key: seq for key, seq in acked.items() if found.get(key) != seq}


def sound(log: Path) -> bool:
    """Say whether a log is whole, by SQLite's measure and by the chain's."""
    with closing(sqlite3.connect(log)) as connection:
        report = connection.execute("PRAGMA integrity_check").fetchall()
        return report == [("ok",)] and verify(connection).bad_seq is None


@contextmanager
def on_tmpfs(directory: Path, size: str, *flags: str, then: str = "") -> Iterator[Daemon]:
    """Run a daemon on a file system of its own, *size* large, at *directory*.

    It vanishes with the daemon. *then* is a shell command that is run before that.
    """
    directory.mkdir(exist_ok=True)
    # In a file system of ours a path is found through the process that has it.
    script = f'mount -t tmpfs -o size={size} tmpfs "$0" && "$@"; code=$?; {then or ":"}; exit $code'
    prefix = ["unshare", "-m", "sh", "-c", script, str(directory)]
    with Daemon(directory / "v", *flags, prefix=prefix, below=str(directory)) as daemon:
        yield daemon


def until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until *condition* holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def some(keys: Sequence[str], count: int, chance: random.Random) -> list[str]:
    """Return *count* of *keys*, or all."""
    return chance.sample(keys, min(count, len(keys)))
