"""The clock of what is planned ahead: a time of day that does not jump.

Timers are kept on disk as points in time and are waited for in a running process. When somebody
sets the machine's clock, a wait must become neither shorter nor longer, so the time of day is
read once, at the start, and carried on by the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

import anyio

from ksi_daemon.events import now

__all__ = ["Clock", "SteadyClock"]

# A machine that sleeps stops the event loop's time, not the clock's: look again this often.
LONGEST_WAIT_S: Final = 60.0


class Clock(Protocol):
    """The time, and a way to wait for it."""

    def now(self) -> datetime:
        """Return the present in UTC."""
        ...

    async def wait(self, wake: anyio.Event, until: datetime | None) -> None:
        """Return when *wake* is set or *until* may have come, None being never.

        It may return early: whoever waits looks at the time again.
        """
        ...


class SteadyClock:
    """The clock of a running daemon."""

    def __init__(self, elapsed_s: Callable[[], float] | None = None) -> None:
        self._elapsed_s = elapsed_s or _since_boot_s
        self._started, self._started_s = now(), self._elapsed_s()

    def now(self) -> datetime:
        """Return the time of day at the start and what has gone by since."""
        return self._started + timedelta(seconds=self._elapsed_s() - self._started_s)

    async def wait(self, wake: anyio.Event, until: datetime | None) -> None:
        """See ``Clock``."""
        seconds = LONGEST_WAIT_S
        if until is not None:
            seconds = min(seconds, (until - self.now()).total_seconds())
        with anyio.move_on_after(max(0.0, seconds)):
            await wake.wait()


def _since_boot_s() -> float:
    """Return the seconds since the machine started, its sleep included where that is known."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)
