"""``ksi audit``: whether the figures of reliability can be believed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import msgspec

from ksi_client.progress import Progress
from ksi_client.session import Session, common
from ksi_client.views import advice
from ksi_daemon.log.audit import audit as audited
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["audit"]

LOG: Final = "events.db"


@click.command()
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="A log; the daemon's else."
)
@common
@click.pass_obj
def audit(session: Session, /, log: Path | None) -> None:
    """Say whether anything that models wrote was lost, or is counted wrongly.

    Reads all replies again and counts all rows anew. It reads the log's file, so it needs no
    daemon, and one that runs goes on meanwhile. The exit code is 1 if anything is amiss.
    """
    out = session.output()
    with (
        Snapshot.open(log or session.var_path / LOG) as snapshot,
        Progress("replies", 0) as progress,
    ):
        found = audited(snapshot, progress.reach)
    out.show(found, lambda: advice.audit(msgspec.structs.asdict(found), out.paint))
    if not found.is_sound:
        raise click.exceptions.Exit(1)
