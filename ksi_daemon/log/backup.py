"""A copy of a log, made while it is written to, and a log made of such a copy.

A copy is one moment of the log in one file: SQLite's backup within one read transaction, so a
writer goes on and the copy never starts over. It gets its name when it has been checked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from ksi_daemon.errors import Conflict, StorageError
from ksi_daemon.log.database import explained, open_writer
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import Verdict, verify

__all__ = ["Copied", "back_up", "complete", "put_aside", "restore", "unfinished_beside"]

# Pages that are copied between two reports of how far it is.
STEP_PAGES: Final = 4_096


class Copied(msgspec.Struct, frozen=True):
    """What was written where. *kept* is where the log that was there before is, if one was."""

    path: str
    events: int
    last_seq: int
    hash: str
    bytes: int
    kept: str | None = None


def back_up(
    source: Path, target: Path, on_progress: Callable[[int, int], None] = lambda done, all_: None
) -> Copied:
    """Copy the log at *source* to *target*, which must not exist; check the copy.

    *on_progress* is told how many pages are copied, and of how many. Raise Conflict, NotFound or
    StorageError; then nothing is left at *target*.
    """
    if target.exists():
        raise Conflict(
            f"{str(target)!r} exists, and a copy is a new file",
            code="already_exists",
            hint="choose another name",
        )
    with Snapshot.open(source) as snapshot, unfinished_beside(target) as unfinished:
        # Begins the read transaction: from here on it is one moment.
        snapshot.last_seq()
        found = _copied(snapshot.connection, unfinished, on_progress)
        os.rename(unfinished, target)
    _sync(target.parent)
    return _described(target, found)


def restore(
    source: Path, target: Path, on_progress: Callable[[int, int], None] = lambda done, all_: None
) -> Copied:
    """Make the log at *target* that of the backup *source*; what was there before is kept.

    No daemon may use *target*. Raise NotFound or StorageError; then *target* is as it was.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Snapshot.open(source) as snapshot, unfinished_beside(target) as unfinished:
        found = _copied(snapshot.connection, unfinished, on_progress)
        open_writer(unfinished, "power").close()
        kept = put_aside(target, "before-restore") if target.exists() else None
        complete(unfinished, target)
    return msgspec.structs.replace(_described(target, found), kept=kept and str(kept))


@contextmanager
def unfinished_beside(target: Path) -> Iterator[Path]:
    """Yield where a log is made before it gets its name; what is left there goes."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with explained(unfinished):
            yield unfinished
    except OSError as exc:
        raise StorageError(
            f"cannot write {str(target)!r}: {exc.strerror}", code="cannot_write"
        ) from exc
    finally:
        for left in target.parent.glob(f"{unfinished.name}*"):
            left.unlink(missing_ok=True)


def complete(unfinished: Path, target: Path) -> None:
    """Give a finished log its name. The WAL of what was there belongs to no other file."""
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    os.rename(unfinished, target)
    _sync(target.parent)


def put_aside(target: Path, why: str) -> Path:
    """Copy the files of the log at *target* beside it, whatever is in them; return the copy."""
    aside = _free_name(target, why)
    for suffix in ("", "-wal"):
        found = target.with_name(target.name + suffix)
        if found.exists():
            _copy_file(found, aside.with_name(aside.name + suffix))
    return aside


def _free_name(target: Path, why: str) -> Path:
    stem = f"{target.name}.{why}"
    names = (target.with_name(f"{stem}.{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def _copy_file(source: Path, target: Path) -> None:
    with (
        source.open("rb") as reading,
        open(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as writing,
    ):
        while piece := reading.read(1024 * 1024):
            writing.write(piece)
        writing.flush()
        os.fsync(writing.fileno())


def _copied(
    source: sqlite3.Connection, target: Path, on_progress: Callable[[int, int], None]
) -> Verdict:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        source.backup(
            copy,
            pages=STEP_PAGES,
            progress=lambda status, left, all_: on_progress(all_ - left, all_),
            sleep=0,
        )
        # One file that says it all, and that can be read where nothing may be written.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        report = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        found = verify(copy)
    if report != "ok" or found.bad_seq is not None:
        why = report if report != "ok" else f"event {found.bad_seq}: {found.why}"
        raise StorageError(
            f"the log is damaged, and so would the copy be: {why}",
            code="log_damaged",
            hint="`ksi log repair` saves what can be saved",
        )
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return found


def _described(target: Path, found: Verdict) -> Copied:
    return Copied(str(target), found.events, found.seq, found.hash, target.stat().st_size)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
