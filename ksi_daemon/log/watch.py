"""Whether the log's files are still those that are open.

A file that was unlinked, renamed or replaced takes writes without complaint and loses them all
when the last process closes it. Only its name tells.
"""

from __future__ import annotations

import os
from pathlib import Path

from ksi_daemon.errors import StorageError

__all__ = ["FileWatch", "wal_path"]


class FileWatch:
    """Remembers the files of the open log at *path*: the database and its WAL."""

    def __init__(self, path: Path) -> None:
        self._known = {name: _identity(name) for name in (path, wal_path(path))}

    def check(self) -> None:
        """Raise StorageError (``storage_lost``) if a name stands for another file than before."""
        for path, identity in self._known.items():
            if _identity(path) != identity:
                raise StorageError(
                    f"{str(path)!r} was removed or replaced while it was open", code="storage_lost"
                )


def wal_path(path: Path) -> Path:
    """Return the path of the WAL of the database at *path*."""
    return path.with_name(f"{path.name}-wal")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
