"""Space that is set aside for the day when the disk is full.

A daemon that finds the disk full gives it up, and so can still end in good order. Whether there is
space again is asked by taking it back: what succeeds leaves room for the log too.
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
        self.possible = self.take()

    def take(self) -> bool:
        """Set the space aside; say whether there was enough."""
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            self.give_up()
            return False
        finally:
            os.close(descriptor)
        return True

    def give_up(self) -> None:
        """Free the space."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
