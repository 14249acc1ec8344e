"""What a service manager is told and hands over: sd_notify and socket activation of systemd.

Both are a few bytes and two environment variables, so no library is needed: see sd_notify(3) and
sd_listen_fds(3). Without a service manager nothing of it does anything.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.lock import CANNOT_CREATE_EXIT

__all__ = ["ServiceManager"]

_FIRST_DESCRIPTOR: Final = 3  # SD_LISTEN_FDS_START


class ServiceManager:
    """The service manager that *environ* tells of, or nobody."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environ)
        self._sockets = _sockets(environ)

    def ready(self, status: str) -> None:
        """Tell that the daemon serves, or serves with new settings."""
        self._tell(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Tell that the settings are read again; ``ready`` ends that."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Tell that the daemon ends what is under way."""
        self._tell("STOPPING=1")

    async def keep_alive(self) -> None:
        """Tell again and again that the loop turns, if the manager wants to know."""
        while self._watchdog_s:
            self._tell("WATCHDOG=1")
            await anyio.sleep(self._watchdog_s / 2)

    def listener(self, path: Path) -> socket.socket | None:
        """Return the listening socket that was handed over for *path*, or None if there is none.

        Raise UsageError for sockets of which none is that of *path*: nobody would find the daemon.
        """
        if not self._sockets:
            return None
        for given in self._sockets:
            if given.family is socket.AF_UNIX and _same(given.getsockname(), path):
                given.setblocking(False)
                return given
        names = ", ".join(repr(given.getsockname()) for given in self._sockets)
        raise UsageError(
            f"the service manager hands over {names}, the daemon serves {str(path)!r}",
            exit_code=CANNOT_CREATE_EXIT,
            hint="ksi unit prints units that fit",
        )

    def close(self) -> None:
        """Close the sockets that were handed over."""
        for given in self._sockets:
            given.close()

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # An address that starts with @ has no file; the kernel writes that as a NUL.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address)
            manager.send(state.encode())


def _watchdog_s(environ: Mapping[str, str]) -> float:
    try:
        ours = int(environ.get("WATCHDOG_PID", os.getpid())) == os.getpid()
        return int(environ.get("WATCHDOG_USEC", 0)) / 1e6 if ours else 0.0
    except ValueError:
        return 0.0


def _sockets(environ: Mapping[str, str]) -> list[socket.socket]:
    """Return the sockets handed over to this process; those of a parent are not ours."""
    try:
        if int(environ.get("LISTEN_PID", 0)) != os.getpid():
            return []
        count = int(environ.get("LISTEN_FDS", 0))
    except ValueError:
        return []
    found = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + count):
        os.set_inheritable(descriptor, False)
        found.append(socket.socket(fileno=descriptor))
    return found


def _same(name: str | bytes, path: Path) -> bool:
    try:
        return os.path.samefile(name, path)
    except OSError:
        return False
