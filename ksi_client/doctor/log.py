"""Checks of the log's file: that this ksi reads it, that it is sound, that its times make sense."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from ksi_client.doctor.finding import Finding
from ksi_client.doctor.patient import Patient
from ksi_daemon.errors import KsiError
from ksi_daemon.events import now
from ksi_daemon.log.database import read_only
from ksi_daemon.log.rows import microseconds
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import check_tail

__all__ = ["clock", "log", "write_lock"]

# How long the file is checked for.
CHECK_S: Final = 3.0
# Clocks of one machine differ by nothing, but the clock may be corrected.
AHEAD_S: Final = 2.0
# The daemon's own writes are over in less.
PATIENCE_S: Final = 1.0
_NEWEST: Final = "SELECT max(ts) FROM (SELECT ts FROM events ORDER BY seq DESC LIMIT 1000)"


def log(patient: Patient) -> Iterator[Finding]:
    """The log is one that this ksi reads, and it is whole."""
    path = patient.log
    if not path.exists():
        yield Finding("log", "ok", "there is none yet")
        return
    try:
        with Snapshot.open(path) as snapshot:
            report = _checked(snapshot)
            if report is None:
                check_tail(snapshot.connection)
            count = snapshot.last_seq()
    except KsiError as exc:
        yield _unreadable(patient, exc)
        return
    if report is not None:
        yield Finding("log", "fail", f"{path} is damaged: {report}", _recovery(patient))
    else:
        size = path.stat().st_size / 1e6
        yield Finding("log", "ok", f"sound, {count:,} events, {size:,.1f} MB")


def write_lock(patient: Patient) -> Iterator[Finding]:
    """No other program keeps the daemon from writing."""
    if not patient.log.exists():
        return
    uri = read_only(patient.log.absolute()).replace("mode=ro", "mode=rw")
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE_S)
        with closing(connection):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as exc:
        if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            return  # that is for the check of the log to say
        text = f"another program holds {patient.log} locked, and nothing can be written"
        yield Finding("write_lock", "fail", text, f"fuser -v {shlex.quote(str(patient.log))}")
    else:
        yield Finding("write_lock", "ok", "free")


def clock(patient: Patient) -> Iterator[Finding]:
    """The newest events are not from the future."""
    try:
        with Snapshot.open(patient.log) as snapshot:
            newest = next(snapshot.rows(_NEWEST))[0]
    except KsiError:
        return
    if newest is None:
        return
    ahead = (newest - microseconds(now())) / 1e6
    if ahead > AHEAD_S:
        text = f"the newest event is from {_span(ahead)} ahead: the clock was set back since"
        yield Finding("clock", "warn", text, "timedatectl status")
    else:
        yield Finding("clock", "ok", "no event is from the future")


def _unreadable(patient: Patient, error: KsiError) -> Finding:
    if error.code == "older_schema":
        text = f"{error.message}; the next start brings it up to date and keeps a copy"
        return Finding("log", "warn", text, patient.command("up -d"))
    if error.code == "newer_schema":
        return Finding("log", "fail", error.message, "pip install --upgrade ksi")
    if error.code == "not_a_log":
        word = shlex.quote(str(patient.log))
        return Finding("log", "fail", error.message, f"mv {word} {word}.old")
    return Finding("log", "fail", error.message, _recovery(patient))


def _recovery(patient: Patient) -> str:
    return patient.command("log repair")


def _checked(snapshot: Snapshot) -> str | None:
    """Return what is wrong with the file, None if nothing is, as far as CHECK_S lets us look."""
    deadline = time.monotonic() + CHECK_S
    connection = snapshot.connection
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        [report] = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        connection.set_progress_handler(None, 0)
    return None if report == "ok" else str(report)


def _span(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
