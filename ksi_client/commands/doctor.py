"""``ksi doctor``: what is wrong, and the command that mends it."""

from __future__ import annotations

import click

from ksi_client.doctor import Patient, examine
from ksi_client.session import Session, common
from ksi_client.views.doctor import findings

__all__ = ["doctor"]


@click.command()
@common
@click.pass_obj
def doctor(session: Session) -> None:
    """Say what is wrong with this ksi, and how to mend it. Needs no daemon, changes nothing.

    It looks at the directory and its disk, the daemon, the log, the components and, if the
    settings name one, whether their provider answers. Exit code 1 if anything is wrong; what is
    only worth a look (!) does not count.
    """
    found = list(examine(Patient(session.var_path, session.socket_path)))
    out = session.output()
    out.each(found, lambda: findings(found, out.paint, out.width))
    if any(each.level == "fail" for each in found):
        raise SystemExit(1)
