"""How far a long command is, in one line of stderr; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

import click

__all__ = ["Progress"]

# How often the line is written anew.
EVERY_S: Final = 0.1


class Progress:
    """A count of *unit* on its way to *total*, 0 if that is not known."""

    def __init__(self, unit: str, total: int) -> None:
        self._unit = unit
        self._total = total
        self._done = 0
        self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away, for others to be written; it comes back."""
        if self._terminal:
            click.echo("\r\x1b[K", nl=False, err=True, color=True)

    def advance(self, count: int) -> None:
        """Say that *count* more are done."""
        self.reach(self._done + count)

    def reach(self, done: int) -> None:
        """Say that *done* are done in all."""
        self._done = done
        if self._terminal and time.monotonic() - self._shown >= EVERY_S:
            self._shown = time.monotonic()
            click.echo(f"\r\x1b[K{self._line()}", nl=False, err=True, color=True)

    def _line(self) -> str:
        if not self._total:
            return f"{self._done:,} {self._unit}"
        part = min(1.0, self._done / self._total)
        return f"{self._done:,} of {self._total:,} {self._unit}, {part:.0%}"
