"""system:*: is it alive, what can it do, what has it done, and the way to stop it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from ksi_daemon import __version__
from ksi_daemon.errors import UnknownEvent
from ksi_daemon.events import matches
from ksi_daemon.registry import Handler
from ksi_daemon.router import Context, Nothing, Notice, Router, handles

__all__ = ["System"]


class Discover(msgspec.Struct, forbid_unknown_fields=True):
    """Which events: those that *pattern* matches."""

    pattern: str = "*"


class Help(msgspec.Struct, forbid_unknown_fields=True):
    event: str


class Mark(msgspec.Struct, forbid_unknown_fields=True):
    label: str
    data: dict[str, Any] | None = None


class System:
    """The daemon about itself. *gauges* are named functions whose values health shows."""

    NOTICES: Final = (
        Notice("system:started", "The daemon serves; what recovery found is in the data."),
        Notice("system:recovered", "The daemon had died: what it left was found and brought on."),
        Notice("system:reloaded", "The settings were read again; what changed is in the data."),
        Notice("system:not_reloaded", "The settings make no sense; the old ones stay in force."),
        Notice("system:stopping", "The daemon takes no more requests and ends what is under way."),
    )

    def __init__(
        self,
        router: Router,
        *,
        stop: Callable[[], None],
        log_path: Path,
        durability: str,
        gauges: dict[str, Callable[[], Any]],
    ) -> None:
        self._router = router
        self._stop = stop
        self._log_path = log_path
        self._durability = durability
        self._gauges = gauges
        self._started = time.monotonic()

    @handles("system:health", effect="observe", inline=True)
    def health(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Say that the daemon answers, and how full its queues are."""
        return {
            "status": "ok",
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "durability": self._durability,
            "log": os.fspath(self._log_path),
            "last_seq": self._router.feed.last_seq,
            "handlers_running": self._router.running,
            "subscriptions": len(self._router.feed),
            **{name: gauge() for name, gauge in self._gauges.items()},
        }

    @handles("system:stats", effect="observe", inline=True)
    def stats(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Count the events since the start by name, and the process's time and memory."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "events": dict(self._router.counts.most_common()),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "uptime_s": round(time.monotonic() - self._started, 3),
        }

    @handles("system:discover", effect="observe", inline=True, example={"pattern": "agent:*"})
    def discover(self, data: Discover, ctx: Context) -> dict[str, Any]:
        """List the events that the sender may emit, and the notices that the daemon tells."""
        registry = self._router.registry
        known = set(self._router.known_to(ctx.principal))
        return {
            "events": [
                {"name": handler.event, "class": handler.effect, "summary": handler.summary}
                for handler in registry.first()
                if handler.event in known and matches(data.pattern, handler.event)
            ],
            "notices": [
                {"name": notice.event, "summary": notice.summary}
                for notice in registry.notices()
                if matches(data.pattern, notice.event)
            ],
        }

    @handles("system:help", effect="observe", inline=True, example={"event": "agent:spawn"})
    def help(self, data: Help, ctx: Context) -> dict[str, Any]:
        """Describe one event: what it does, the schema of its data, an example."""
        known = self._router.known_to(ctx.principal)
        if data.event in known:
            return _described(self._router.registry.handlers(data.event)[0])
        notice = self._router.registry.notice(data.event)
        if notice is None:
            raise UnknownEvent(data.event, known)
        return {"name": notice.event, "class": "notice", "summary": notice.summary}

    @handles("system:mark", transaction=True, receipt=True, example={"label": "before the change"})
    def mark(self, data: Mark, ctx: Context, connection: Connection) -> dict[str, Any]:
        """Write a marker into the log, and nothing else."""
        return {}

    @handles("system:shutdown", effect="admin", example={})
    async def shutdown(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Stop the daemon after what is under way has ended."""
        self._stop()
        return {"stopping": True}


def _described(handler: Handler) -> dict[str, Any]:
    return {
        "name": handler.event,
        "class": handler.effect,
        "summary": handler.summary,
        "schema": handler.schema(),
        "example": {"event": handler.event, "data": handler.example or {}},
    }
