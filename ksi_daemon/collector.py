"""When Python looks for garbage: the long look is for quiet moments.

A full collection stops the daemon for as long as it takes to look at every object that lives: tens
of milliseconds where a thousand agents do. So what the start made is looked at no more, and full
collections are made when nothing happened for a while. Only a daemon that never rests is stopped
for one, and then seldom.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

__all__ = ["collect_when_quiet", "patient"]

# Collections of the middle generation before a full one is due, and before it is made at any time.
# Python's own figure is 10 for both.
DUE: Final = 10
OVERDUE: Final = 100
QUIET_S: Final = 1.0


@contextmanager
def patient() -> Iterator[None]:
    """Have Python put full collections off for the time of the block."""
    young, middle, old = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, middle, OVERDUE)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


async def collect_when_quiet(happened: Callable[[], int]) -> None:
    """Make the full collections that are due whenever *happened*, a count, stands still."""
    before = happened()
    while True:
        await anyio.sleep(QUIET_S)
        now = happened()
        if now == before and gc.get_count()[2] >= DUE:
            gc.collect()
        before = now
