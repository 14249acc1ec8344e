"""``ksi discover`` and ``ksi help``: what events there are and what they take."""

from __future__ import annotations

import click

from ksi_client.completing import event_names
from ksi_client.session import Session, common
from ksi_client.views import reports

__all__ = ["discover", "help"]


@click.command()
@click.argument("namespace", metavar="[NAMESPACE|PATTERN]", default="*", shell_complete=event_names)
@common
@click.pass_obj
def discover(session: Session, namespace: str) -> None:
    """List the events that there are: ksi discover agent."""
    pattern = namespace if ":" in namespace or "*" in namespace else f"{namespace}:*"
    with session.client() as client:
        found = client.request("system:discover", {"pattern": pattern})
    out = session.output()
    events, notices = found["events"], found.get("notices", [])
    marked = [{**notice, "class": "notice"} for notice in notices]
    out.each([*events, *marked], lambda: reports.events(events, notices, out.paint, out.width))


@click.command()
@click.argument("event", required=False, shell_complete=event_names)
@common
@click.pass_context
def help(context: click.Context, event: str | None) -> None:
    """Describe an event: its fields, an example. Without an event, describe ksi."""
    if event is None:
        click.echo((context.parent or context).get_help())
        return
    session = context.ensure_object(Session)
    with session.client() as client:
        described = client.request("system:help", {"event": event})
    out = session.output()
    out.show(described, lambda: reports.described(described, out.paint, out.width))
