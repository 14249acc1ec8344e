"""Space that is set aside for the day when the disk is full.

A daemon that finds the disk full gives it up, and so can still write how things ended. Whether
there is space again is asked by taking it back and as much again: what succeeds leaves room for the
log too, and what was given up does not count.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["RESERVE_BYTES", "Reserve"]

RESERVE_BYTES: Final = 1024 * 1024


class Reserve:
    """The reserve of the log at *path*, a file beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.reserve")
        # A disk that never had room for it has none to give up.
        self.possible = self._take(RESERVE_BYTES)

    def take_back(self) -> bool:
        """Set the space aside again if there is more than that; say whether there was."""
        return self._take(2 * RESERVE_BYTES)

    def give_up(self) -> None:
        """Free the space."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _take(self, size: int) -> bool:
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.ftruncate(descriptor, RESERVE_BYTES)
        except OSError:
            self.give_up()
            return False
        finally:
            os.close(descriptor)
        return True
