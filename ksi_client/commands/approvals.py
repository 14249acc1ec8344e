"""``ksi approvals``: calls of agents that wait for a person, and the person's word on them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from ksi_client.blocking import BlockingClient
from ksi_client.completing import approval_ids
from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.views import approvals as views
from ksi_client.views import reports
from ksi_daemon.errors import NotFound

__all__ = ["approvals"]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def approvals(context: click.Context) -> None:
    """List the calls that wait for a person; grant or deny them.

    \b
      ksi approvals                                   what waits
      ksi approvals grant ap_0123456789ab             see the call, then have it run, once
      ksi approvals deny ap_0123456789ab --reason no  refuse it; the agent is told why
    """
    if context.invoked_subcommand is None:
        context.invoke(list_approvals)


@approvals.command("list")
@common
@click.pass_obj
def list_approvals(session: Session) -> None:
    """List the calls that wait, the oldest first, and how long they will."""
    with session.client() as client:
        waiting = client.request("approval:list")["approvals"]
    out = session.output()
    now = datetime.now(UTC)
    out.each(waiting, lambda: views.listed(waiting, now, out.paint, out.width))


@approvals.command()
@click.argument("approval_id", shell_complete=approval_ids)
@click.option("--yes", is_flag=True, help="Do not ask: I have seen the call.")
@common
@click.pass_obj
def grant(session: Session, approval_id: str, yes: bool) -> None:
    """Have a call run that waits, once, and show how it ended.

    The whole call is shown first and a yes is asked for; away from a terminal --yes says it.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("nobody is here to be asked; --yes says that the call was seen")
    out = session.output()
    with session.client() as client:
        asked = _waiting(client, approval_id)
        if not yes:
            _confirm(asked, out)
        ended = client.request("approval:grant", {"approval_id": approval_id}, human=True)
    made = {**ended, "name": asked["event"]}
    out.show(ended, lambda: [reports.called(made, out.paint, out.width)])
    if ended.get("error"):
        raise click.exceptions.Exit(1)


@approvals.command()
@click.argument("approval_id", shell_complete=approval_ids)
@click.option("--reason", default="", metavar="TEXT", help="What the agent is told.")
@common
@click.pass_obj
def deny(session: Session, approval_id: str, reason: str) -> None:
    """Refuse a call that waits."""
    data = {"approval_id": approval_id, "reason": reason}
    with session.client() as client:
        denied = client.request("approval:deny", data, human=True)
    session.output().show(denied, lambda: [f"denied {visible(denied['approval_id'])}"])


def _waiting(client: BlockingClient, approval_id: str) -> Mapping[str, Any]:
    waiting: list[dict[str, Any]] = client.request("approval:list")["approvals"]
    found = {each["approval_id"]: each for each in waiting}
    if approval_id not in found:
        raise NotFound("pending approval", approval_id, found)
    return found[approval_id]


def _confirm(asked: Mapping[str, Any], out: Output) -> None:
    for line in views.shown(asked, out.paint):
        click.echo(line, err=True, color=out.paint.enabled)
    if not click.confirm("Have it run?", err=True):
        raise click.exceptions.Exit(1)
