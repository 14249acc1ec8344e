"""``ksi log``: check the log, copy it, put a copy back, cut it, mend it, see what it takes.

All of it works while a daemon runs, but for ``restore`` and ``repair``, and without one.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import structlog

from ksi_client.errors import NoDaemon
from ksi_client.progress import Progress
from ksi_client.session import Session, common
from ksi_client.times import parse_time
from ksi_client.views import upkeep as views
from ksi_daemon import upkeep
from ksi_daemon.events import now
from ksi_daemon.log import backup as copies
from ksi_daemon.log.rows import microseconds
from ksi_daemon.log.size import measure
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import compared
from ksi_daemon.log.verification import verify as verify_chain

__all__ = ["log"]

LOG: Final = "events.db"
# A large log is cut in its own time.
PRUNE_S: Final = 3_600.0

log_option = click.option(
    "--log",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A log; the daemon's else.",
)


def _parse_heads(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[int, str]]:
    heads = []
    for value in values:
        seq, _, hash_ = value.partition(":")
        if not seq.isdecimal() or not re.fullmatch(r"[0-9a-f]{64}", hash_):
            raise click.BadParameter(f"{value!r} is no SEQ:HASH, such as 1000:3f0a…")
        heads.append((int(seq), hash_))
    return heads


@click.group(name="log")
@common
def log() -> None:
    """Look after the log.

    \b
      ksi log verify                    is all as it was written?
      ksi log backup monday.db          a copy, checked, while the daemon writes
      ksi log size                      what it takes, and what goes next
      ksi log prune --before 90d        delete the oldest events now
    """


@log.command()
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="SEQ:HASH",
    callback=_parse_heads,
    help="A hash that was kept elsewhere: that of this event.",
)
@log_option
@common
@click.pass_obj
def verify(session: Session, path: Path | None, heads: list[tuple[int, str]]) -> None:
    """Check that all events are as they were written. Exit code 1 if one is not.

    Each event has a hash over itself and the one before it. The first event that does not fit is
    named; all before it are sound. A log that was written anew as a whole is found out by a hash
    of the old one, such as those that the daemon tells its text log (log_head).
    """
    with Snapshot.open(path or session.var_path / LOG) as snapshot:
        # Windows of their own, so that a large log keeps no checkpoint waiting.
        snapshot.connection.execute("COMMIT")
        with Progress("events", snapshot.last_seq()) as progress:
            found = verify_chain(
                snapshot.connection, on_progress=lambda seq, newest: progress.reach(seq)
            )
            found = compared(snapshot.connection, found, heads)
    out = session.output()
    out.show(found, lambda: views.verdict(found, out.paint))
    if found.bad_seq is not None:
        raise SystemExit(1)


@log.command()
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE")
@log_option
@common
@click.pass_obj
def backup(session: Session, target: Path, path: Path | None) -> None:
    """Copy the log to FILE, while the daemon writes or without one, and check the copy."""
    with _Pages() as pages:
        copied = copies.back_up(path or session.var_path / LOG, target.absolute(), pages.reach)
    _show_copied(session, copied)


@log.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="FILE")
@common
@click.pass_obj
def restore(session: Session, source: Path) -> None:
    """Make a backup the log. The daemon must be down; the log that was there is kept."""
    with _Pages() as pages:
        copied = upkeep.restore(session.var_path, source, pages.reach)
    _show_copied(session, copied)


@log.command()
@click.option(
    "--before", metavar="TIME", callback=parse_time, help="Those from before, or 90d ago."
)
@click.option("--keep", type=click.IntRange(1), metavar="N", help="All but the last N.")
@click.option("--dry-run", is_flag=True, help="Only say how many would go.")
@common
@click.pass_obj
def prune(session: Session, before: datetime | None, keep: int | None, dry_run: bool) -> None:
    """Delete the oldest events now. The others can still be verified.

    Agents, their conversations, state, rules, timers and the figures of reliability stay. A
    client that sends one of the deleted requests again is not recognized.
    """
    if (before is None) == (keep is None):
        raise click.UsageError("say --before TIME or --keep N")
    path = session.var_path / LOG
    with Snapshot.open(path) as snapshot:
        moment = before or _time_of_last(snapshot, keep or 1)
        [(due,)] = snapshot.rows(
            "SELECT count(*) FROM events WHERE ts < ?", (microseconds(moment),)
        )
    found = {"would_delete": due, "before": moment} if dry_run else _pruned(session, moment)
    out = session.output()
    out.show(found, lambda: views.pruned(found))


@log.command()
@common
@click.pass_obj
def repair(session: Session) -> None:
    """Save what can be read of a damaged log into a new one; the damaged one is kept.

    The daemon must be down. A log that `ksi log verify` finds sound is left alone.
    """
    found = upkeep.repair(session.var_path)
    session.output().show(found, lambda: views.repaired(found))


@log.command()
@log_option
@common
@click.pass_obj
def size(session: Session, path: Path | None) -> None:
    """Show what the log takes: by event, by agent, by day, and what retention will take."""
    settings = upkeep.settings_of(session.var_path)
    with Snapshot.open(path or session.var_path / LOG) as snapshot:
        found = measure(snapshot, now(), settings.retention_days, settings.retention_bytes)
    out = session.output()
    out.show(found, lambda: views.size(found, out.paint, out.width))


class _Pages:
    """How far a copy is."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def __enter__(self) -> _Pages:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._progress is not None:
            self._progress.__exit__(None, None, None)

    def reach(self, done: int, all_: int) -> None:
        """Say that *done* of *all_* pages are copied."""
        if self._progress is None:
            self._progress = Progress("pages", all_)
        self._progress.reach(done)


def _show_copied(session: Session, copied: copies.Copied) -> None:
    session.output().show(copied, lambda: views.copied(copied))


def _pruned(session: Session, before: datetime) -> Any:
    """Ask the daemon, or without one do it here."""
    try:
        with session.client(patience_s=0) as client:
            return client.request("log:prune", {"before": before.isoformat()}, timeout=PRUNE_S)
    except NoDaemon:
        # What the log says of itself is for a daemon's text log; stdout is for the result.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        return upkeep.prune(session.var_path, before)


def _time_of_last(snapshot: Snapshot, keep: int) -> datetime:
    """Return the time of the oldest of the last *keep* events."""
    rows = snapshot.rows("SELECT ts FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?", (keep - 1,))
    row = next(rows, None)
    return datetime.fromtimestamp(0 if row is None else row[0] / 1e6, now().tzinfo)
