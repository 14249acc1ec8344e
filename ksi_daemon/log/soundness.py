"""SQLite's own check of a log's file: at each start, and behind it where that takes too long."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from ksi_daemon.errors import StorageError

__all__ = ["CHECK_S", "REMEDY", "LateCheck", "check", "deadline"]

# A start may not take long; 300,000 events are checked in a tenth of this.
CHECK_S: Final = 1.0
REMEDY: Final = "nothing was changed in it; `ksi log repair` saves what can be read, and keeps it"
# Steps of SQLite between two looks at whether to stop.
_STEPS: Final = 10_000


def check(connection: sqlite3.Connection, path: Path, is_enough: Callable[[], bool]) -> bool:
    """Check the file of *connection* until *is_enough*; say whether that was all of it.

    Raise StorageError if it is damaged.
    """
    connection.set_progress_handler(is_enough, _STEPS)
    try:
        report = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    if report != ["ok"]:
        raise StorageError(f"the log {str(path)!r} is damaged: {report[0]}", hint=REMEDY)
    return True


def deadline() -> Callable[[], bool]:
    """Return what says whether a start has spent enough on the check."""
    end = time.monotonic() + CHECK_S
    return lambda: time.monotonic() > end


class LateCheck:
    """The check of a large log while it is used. *on_damage* is called on the loop."""

    def __init__(self, uri: str, path: Path, on_damage: Callable[[StorageError], None]) -> None:
        self._uri = uri
        self._path = path
        self._on_damage = on_damage
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ksi-log-check", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the check, whether it is done or not."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        log = structlog.get_logger()
        started = time.monotonic()
        try:
            with closing(sqlite3.connect(self._uri, uri=True)) as connection:
                if check(connection, self._path, self._stopped.is_set):
                    log.info("log_checked", seconds=round(time.monotonic() - started, 3))
        except StorageError as exc:
            self._loop.call_soon_threadsafe(self._on_damage, exc)
        except sqlite3.Error as exc:
            failure = StorageError(f"the log {str(self._path)!r} is damaged: {exc}", hint=REMEDY)
            self._loop.call_soon_threadsafe(self._on_damage, failure)
