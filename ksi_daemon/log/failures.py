"""Whose fault an SQLite error is: the storage's, which concerns everybody, or one unit's."""

from __future__ import annotations

import sqlite3
from typing import Final

from ksi_daemon.errors import StorageError

__all__ = ["full", "is_damage", "name_of", "refusal", "storage_failure"]

# A statement that is wrong or does not fit the schema. All other codes tell of the storage.
_UNFIT: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
    }
)
_PRIMARY: Final = 0xFF  # an extended code has its primary one in the low byte
# The shared-memory file could not grow, which is how a full tmpfs shows itself there.
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})


def storage_failure(exc: BaseException) -> StorageError | None:
    """Return what *exc* says about the storage, None if it is about the statement or its values.

    ``storage_full`` and ``storage_busy`` are retryable, ``storage_failed`` is final.
    """
    code: int | None = getattr(exc, "sqlite_errorcode", None)
    if code is None or code & _PRIMARY in _UNFIT:
        return None
    if code in _FULL:
        return full()
    if code & _PRIMARY in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageError(
            "another process holds the log locked", code="storage_busy", retryable=True
        )
    return StorageError(f"the log cannot be written: {exc} ({name_of(exc)})")


def full() -> StorageError:
    """Return the error of a full disk."""
    return StorageError(
        "the disk is full", code="storage_full", retryable=True, hint="free some space"
    )


def refusal(exc: Exception) -> StorageError:
    """Return the error of a unit that cannot be stored, however often it is tried."""
    return StorageError(f"the log cannot hold this: {exc}", code="storage_refused")


def is_damage(exc: Exception) -> bool:
    """Say whether *exc* tells of a file that is damaged or no database."""
    code: int = getattr(exc, "sqlite_errorcode", 0)
    return code & _PRIMARY in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def name_of(exc: BaseException) -> str:
    """Return SQLite's name for the error, such as ``SQLITE_IOERR_FSYNC``."""
    return getattr(exc, "sqlite_errorname", type(exc).__name__)
