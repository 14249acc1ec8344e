"""log:prune, and what keeps the log from growing for ever: the oldest events go by themselves.

By age, and when the file is too large. What may be sent again with its idempotency key stays
(KEYS_S), however large the log is. The times of events are those of the machine's clock: when the
newest event lies ahead of it, the clock is not to be believed and nothing is deleted.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import anyio
import msgspec
import structlog

from ksi_daemon.clock import Clock
from ksi_daemon.errors import KsiError
from ksi_daemon.log.pruning import Pruned
from ksi_daemon.moments import Moment, moment_of
from ksi_daemon.router import Context, Notice, Router, handles

__all__ = ["KEYS_S", "Prunable", "Retention"]

log = structlog.get_logger()

# How long a client may repeat a request, and how often the log is looked after.
KEYS_S: Final = 24 * 3600.0
CHECK_S: Final = 60.0
# A large log takes its time when it is cut for the first time.
PRUNE_S: Final = 3_600.0


class Prune(msgspec.Struct, forbid_unknown_fields=True):
    """Which events: those from before *before*, from the oldest on."""

    before: Moment


class Prunable(Protocol):
    """The part of the log that is used here."""

    async def prune(
        self, before: datetime, now: datetime, limit_bytes: int | None = None
    ) -> Pruned: ...

    async def newest(self) -> datetime | None: ...


class Retention:
    """How long events are kept. *days* and *limit_bytes* of 0 are no limit."""

    NOTICES: Final = (
        Notice("log:pruned", "The oldest events were deleted: how many, up to which, and why."),
    )

    def __init__(
        self, router: Router, events: Prunable, clock: Clock, *, days: float, limit_bytes: int
    ) -> None:
        self._router = router
        self._events = events
        self._clock = clock
        self._days = days
        self._limit_bytes = limit_bytes

    @handles(
        "log:prune", effect="admin", timeout_s=PRUNE_S, example={"before": "2026-01-31T12:00:00Z"}
    )
    async def prune(self, data: Prune, ctx: Context) -> dict[str, Any]:
        """Delete the oldest events, those from before a time; the chain of the others holds."""
        before = moment_of(data.before, "before")
        gone = await self._events.prune(before, self._clock.now())
        if gone.events:
            (await ctx.notify("log:pruned", _told(gone, "asked"))).result()
        return _told(gone, "asked")

    async def run(self) -> None:
        """Look after the log again and again; never return."""
        while True:
            await self._clock.wait(anyio.Event(), self._clock.now() + timedelta(seconds=CHECK_S))
            try:
                await self.check()
            except KsiError as exc:
                log.warning("retention_failed", error=exc.message)

    async def check(self) -> None:
        """Delete what is too old, then what is too much."""
        now = self._clock.now()
        newest = await self._events.newest()
        if newest is None or newest > now + timedelta(seconds=CHECK_S):
            return
        if self._days:
            before = now - max(timedelta(days=self._days), timedelta(seconds=KEYS_S))
            await self._tell(await self._events.prune(before, now), "age")
        if self._limit_bytes:
            before = now - timedelta(seconds=KEYS_S)
            gone = await self._events.prune(before, now, self._limit_bytes)
            await self._tell(gone, "bytes")

    async def _tell(self, gone: Pruned, why: str) -> None:
        if gone.events:
            (await self._router.notify("log:pruned", _told(gone, why))).result()


def _told(gone: Pruned, why: str) -> dict[str, Any]:
    return {"why": why, **msgspec.structs.asdict(gone)}
