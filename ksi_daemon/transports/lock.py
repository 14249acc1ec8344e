"""The lock that says a daemon runs on this var directory.

The kernel frees it when the process dies, however it dies, so a stale lock cannot be; a socket
file, on the other hand, outlives its daemon and says nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ksi_daemon.errors import UsageError

__all__ = ["ALREADY_RUNNING_EXIT", "CANNOT_CREATE_EXIT", "held", "private_directory"]

CANNOT_CREATE_EXIT: Final = 73
ALREADY_RUNNING_EXIT: Final = 75


def private_directory(path: Path) -> None:
    """Make *path* a directory of mode 0700 that is ours; raise UsageError if it cannot be."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_ours(path, path.stat())
        path.chmod(0o700)
    except OSError as exc:
        raise UsageError(
            f"cannot make the directory {str(path)!r}: {exc.strerror}", exit_code=CANNOT_CREATE_EXIT
        ) from exc


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock at *path* for the time of the block; raise UsageError if another holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise UsageError(
            f"cannot open the lock {str(path)!r}: {exc.strerror}", exit_code=CANNOT_CREATE_EXIT
        ) from exc
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _check_ours(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"the directory {str(path)!r} belongs to uid {found.st_uid},"
            f" not to us ({os.geteuid()})",
            exit_code=CANNOT_CREATE_EXIT,
        )
    # /tmp of a daemon that root starts there: closing it would lock out everybody.
    if found.st_mode & stat.S_ISVTX:
        raise UsageError(
            f"the directory {str(path)!r} is shared by all (mode {found.st_mode & 0o7777:o})",
            exit_code=CANNOT_CREATE_EXIT,
            hint="give the daemon a directory of its own",
        )


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        error = UsageError(
            f"already running: pid {pid} holds {str(path)!r}", exit_code=ALREADY_RUNNING_EXIT
        )
        error.code = "already_running"
        raise error from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as exc:
        raise UsageError(
            f"cannot write the lock {str(path)!r}: {exc.strerror}", exit_code=CANNOT_CREATE_EXIT
        ) from exc
