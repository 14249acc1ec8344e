"""What is examined: a daemon's directory, the settings that are in force for it, who answers.

Looked up once and shared by the checks; an obstacle is kept as the error that it is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ksi_client.blocking import BlockingClient
from ksi_daemon.config import Settings, load
from ksi_daemon.errors import KsiError, UsageError

__all__ = ["Patient"]

PATIENCE_S: Final = 2.0


class Patient:
    """The ksi of directory *var*, whose daemon serves *socket*."""

    def __init__(
        self,
        var: Path,
        socket: Path,
        *,
        environ: Mapping[str, str] | None = None,
        mounts: Path = Path("/proc/self/mountinfo"),
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.var = var
        self.socket = socket
        self.mounts = mounts
        self.environ = os.environ if environ is None else environ
        self._patience_s = patience_s

    @property
    def lock(self) -> Path:
        """The file whose lock says that a daemon runs."""
        return self.var / "run" / "daemon.lock"

    @property
    def log(self) -> Path:
        """The event log."""
        return self.var / "events.db"

    @cached_property
    def settings(self) -> Settings | UsageError:
        """The settings that a daemon here would have, or why there are none."""
        try:
            return load({"var": str(self.var)}, self.environ)
        except UsageError as exc:
            return exc

    @cached_property
    def health(self) -> dict[str, Any] | KsiError:
        """What the daemon says of itself, or why it does not."""
        try:
            return self.ask("system:health")
        except KsiError as exc:
            return exc

    @property
    def answers(self) -> bool:
        """Whether there is a daemon that says how it is."""
        return isinstance(self.health, dict)

    def ask(self, event: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the daemon's answer; raise KsiError."""
        with BlockingClient(self.socket, patience_s=0, quiet_s=self._patience_s) as client:
            found: dict[str, Any] = client.request(event, dict(data or {}))
            return found

    def command(self, words: str) -> str:
        """Return the command ``ksi WORDS`` for this directory."""
        return f"ksi {words} --var {shlex.quote(str(self.var))}"
