"""A daemon that must be as well after a fault as before it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.faults.harness import PATIENCE_S, Daemon, sound

__all__ = ["Lines", "health", "rss", "unharmed"]

ANSWERS_WITHIN_S: Final = 1.0
GROWS_BY: Final = 50 * 1024 * 1024


class Lines:
    """A client that is spoken to in bytes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.socket.settimeout(PATIENCE_S)
        self._replies = self.socket.makefile("rb")

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        self._replies.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> Any:
        """Return the next line; None at the end."""
        try:
            line = self._replies.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def ask(self, line: bytes) -> Any:
        self.send(line + b"\n")
        return self.reply()


@contextmanager
def unharmed(
    var: Path,
    *flags: str,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    quiet: bool = True,
) -> Iterator[Daemon]:
    """Run a daemon for the block; then it must answer, not have grown, and leave a sound log.

    It answers a new client within a second, has grown by less than 50 MB, and if *quiet*
    has told of no error of its own.
    """
    with Daemon(var, *flags, prefix=prefix, env=env) as daemon:
        assert daemon.is_ready, daemon.said
        before = rss(daemon)
        yield daemon
        began = time.monotonic()
        assert health(daemon)["status"] == "ok"
        assert time.monotonic() - began < ANSWERS_WITHIN_S
        assert rss(daemon) - before < GROWS_BY
        assert not quiet or "Traceback" not in daemon.said
        assert daemon.stop() == 0
    assert sound(var / "events.db")


def health(daemon: Daemon) -> Any:
    """Ask a daemon over a new connection how it is."""
    with closing(daemon.client()) as client:
        return client.request("system:health")


def rss(daemon: Daemon) -> int:
    """Return how many bytes of memory a daemon has."""
    pages = Path(f"/proc/{daemon.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096
