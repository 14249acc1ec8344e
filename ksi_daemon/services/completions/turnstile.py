"""Fairness between exchanges: few of them work in one turn of the event loop.

When a thousand agents have their replies at the same time, each is quick, and all of them one after
the other keep the loop from whoever else waits: clients, timers. So an exchange passes here before
each stretch of work, and only some do in one turn of the loop; the others wait in the order in
which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

__all__ = ["AT_ONCE", "Turnstile"]

# A stretch of work takes well under a millisecond.
AT_ONCE: Final = 8


class Turnstile:
    """Lets AT_ONCE pass in one turn of the event loop."""

    def __init__(self) -> None:
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def passed(self) -> None:
        """Return when it is the caller's turn; at once if few have passed."""
        if self._passed < AT_ONCE and not self._waiting:
            self._count()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _count(self) -> None:
        if not self._passed:
            asyncio.get_running_loop().call_soon(self._turn)
        self._passed += 1

    def _turn(self) -> None:
        """Let the next ones pass: a turn of the loop is over."""
        self._passed = 0
        while self._waiting and self._passed < AT_ONCE:
            turn = self._waiting.popleft()
            if not turn.done():  # its exchange was cancelled
                turn.set_result(None)
                self._count()
