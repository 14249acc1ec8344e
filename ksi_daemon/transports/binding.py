"""A Unix socket at a path: for its owner alone, in the place of a stale one and of nothing else."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.lock import CANNOT_CREATE_EXIT

__all__ = ["MAX_PATH", "bind"]

# sizeof(sockaddr_un.sun_path) - 1 on Linux.
MAX_PATH: Final = 107


def bind(path: Path) -> socket.socket:
    """Return a socket bound to *path*, for this user alone; a stale one is replaced.

    The caller holds the lock. Raise UsageError if the path is too long, holds something that is
    not a socket, or cannot be made.
    """
    length = len(os.fsencode(path))
    if length > MAX_PATH:
        raise UsageError(
            f"the socket path {str(path)!r} has {length} bytes, the limit is {MAX_PATH}",
            exit_code=CANNOT_CREATE_EXIT,
            hint="use a shorter --var",
        )
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)  # the socket must not be open to others even for a moment
    try:
        listener.bind(os.fspath(path))
    except OSError as exc:
        listener.close()
        raise UsageError(
            f"cannot bind {str(path)!r}: {exc.strerror}", exit_code=CANNOT_CREATE_EXIT
        ) from exc
    finally:
        os.umask(umask)
    return listener


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{str(path)!r} exists and is not a socket", exit_code=CANNOT_CREATE_EXIT)
    path.unlink()
