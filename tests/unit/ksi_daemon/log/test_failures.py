from __future__ import annotations

import sqlite3

import pytest

from ksi_daemon.log.failures import is_damage, name_of, refusal, storage_failure


def error(code: int | None, name: str = "SQLITE_X") -> sqlite3.Error:
    exc = sqlite3.OperationalError("it broke")
    if code is not None:
        exc.sqlite_errorcode, exc.sqlite_errorname = code, name
    return exc


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(sqlite3.SQLITE_FULL, ("storage_full", True), id="full"),
        pytest.param(sqlite3.SQLITE_IOERR_SHMSIZE, ("storage_full", True), id="full tmpfs"),
        pytest.param(sqlite3.SQLITE_BUSY, ("storage_busy", True), id="busy"),
        pytest.param(sqlite3.SQLITE_BUSY_SNAPSHOT, ("storage_busy", True), id="busy, extended"),
        pytest.param(sqlite3.SQLITE_LOCKED, ("storage_busy", True), id="locked"),
        pytest.param(sqlite3.SQLITE_IOERR_FSYNC, ("storage_failed", False), id="sync"),
        pytest.param(sqlite3.SQLITE_CORRUPT, ("storage_failed", False), id="corrupt"),
        pytest.param(sqlite3.SQLITE_READONLY, ("storage_failed", False), id="read-only"),
        pytest.param(sqlite3.SQLITE_NOTADB, ("storage_failed", False), id="no database"),
        pytest.param(sqlite3.SQLITE_ERROR, None, id="bad SQL"),
        pytest.param(sqlite3.SQLITE_CONSTRAINT_UNIQUE, None, id="constraint"),
        pytest.param(sqlite3.SQLITE_TOOBIG, None, id="too big"),
        pytest.param(None, None, id="not of SQLite"),
    ],
)
def test_whose_fault(code: int | None, expected: tuple[str, bool] | None) -> None:
    failure = storage_failure(error(code))
    assert (failure and (failure.code, failure.retryable)) == expected


def test_names_the_error() -> None:
    failure = storage_failure(error(sqlite3.SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"))
    assert str(failure) == "the log cannot be written: it broke (SQLITE_IOERR_FSYNC)"


def test_refusal() -> None:
    refused = refusal(OverflowError("too large"))
    assert (refused.code, refused.message, refused.retryable) == (
        "storage_refused",
        "the log cannot hold this: too large",
        False,
    )


@pytest.mark.parametrize(
    ("code", "damage"),
    [
        pytest.param(sqlite3.SQLITE_CORRUPT, True, id="corrupt"),
        pytest.param(sqlite3.SQLITE_CORRUPT_INDEX, True, id="corrupt, extended"),
        pytest.param(sqlite3.SQLITE_NOTADB, True, id="no database"),
        pytest.param(sqlite3.SQLITE_IOERR_READ, False, id="not read"),
        pytest.param(None, False, id="not of SQLite"),
    ],
)
def test_damage(code: int | None, damage: bool) -> None:
    assert is_damage(error(code)) is damage


def test_name_of_another_error() -> None:
    assert name_of(OverflowError("x")) == "OverflowError"
