"""Looking after a log while no daemon uses it: backups put back, events deleted, damage repaired.

What changes the log holds the daemon's lock meanwhile. What only reads it (``log.verification``,
``log.backup.back_up``, ``log.size``) needs none of this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from ksi_daemon import security
from ksi_daemon.clock import SteadyClock
from ksi_daemon.config import Settings, load
from ksi_daemon.errors import Conflict, NotFound, StorageError, UsageError
from ksi_daemon.feed import Feed
from ksi_daemon.log import EventLog, backup, salvage
from ksi_daemon.log.backup import Copied
from ksi_daemon.log.salvage import Repaired
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import verify
from ksi_daemon.router import Router
from ksi_daemon.services.retention import Retention
from ksi_daemon.submission import Submission
from ksi_daemon.transports.lock import held, private_directory

__all__ = ["prune", "repair", "restore", "settings_of"]


# No damage: a log of another ksi, a file of another program, one that is in use.
_OTHERS: Final = frozenset({"newer_schema", "older_schema", "not_a_log", "storage_busy"})


def settings_of(var: Path) -> Settings:
    """Return the settings of the daemon of *var*: its file's and the environment's."""
    return load({"var": str(var)})


def restore(
    var: Path, source: Path, on_progress: Callable[[int, int], None] = lambda done, all_: None
) -> Copied:
    """Make the log of *var* that of the backup *source*. Raise UsageError if a daemon runs."""
    settings = settings_of(var)
    with _closed(settings):
        return backup.restore(source.absolute(), settings.log_path.absolute(), on_progress)


def repair(var: Path) -> Repaired:
    """Save what can be saved of the log of *var*.

    Raise UsageError if a daemon runs, Conflict if the log is sound, StorageError if it is one
    that this ksi does not know: then nothing was changed.
    """
    settings = settings_of(var)
    with _closed(settings):
        if _is_sound(settings.log_path):
            raise Conflict(f"{str(settings.log_path)!r} is sound", code="nothing_to_repair")
        return salvage.repair(settings.log_path.absolute())


def prune(var: Path, before: datetime) -> Any:
    """Delete the oldest events of the log of *var*, as ``log:prune`` does it.

    Raise UsageError if a daemon runs.
    """
    settings = settings_of(var)
    if not settings.log_path.exists():
        raise NotFound("log", str(settings.log_path))
    with _closed(settings):
        return anyio.run(_pruned, settings, before)


@contextmanager
def _closed(settings: Settings) -> Iterator[None]:
    """Hold the lock of the daemon's directory."""
    private_directory(settings.var_path)
    private_directory(settings.lock_path.parent)
    with ExitStack() as closed:
        try:
            closed.enter_context(held(settings.lock_path))
        except UsageError as exc:
            exc.hint = exc.hint or "`ksi down` stops it"
            raise
        yield


def _is_sound(path: Path) -> bool:
    try:
        with Snapshot.open(path) as snapshot:
            report = next(snapshot.rows("PRAGMA quick_check(1)"))[0]
            return report == "ok" and verify(snapshot.connection).bad_seq is None
    except StorageError as exc:
        if exc.code in _OTHERS:
            raise
        return False


async def _pruned(settings: Settings, before: datetime) -> Any:
    feed = Feed()
    async with (
        EventLog.open(
            settings.log_path, durability=settings.durability, on_commit=feed.publish
        ) as event_log,
        Router(event_log, feed) as router,
    ):
        feed.last_seq = event_log.last_seq
        router.include(Retention(router, event_log, SteadyClock(), days=0, limit_bytes=0))
        submitted = await router.submit(
            Submission(
                event="log:prune",
                data=msgspec.Raw(msgspec.json.encode({"before": before})),
                principal=security.client(os.geteuid(), 0),
            )
        )
        return submitted.result()
