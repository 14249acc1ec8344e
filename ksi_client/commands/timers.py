"""``ksi timers``: what happens at a time, or again and again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from ksi_client.blocking import BlockingClient
from ksi_client.completing import agent_ids_or_events, timer_names
from ksi_client.durations import duration
from ksi_client.output import Output
from ksi_client.payload import payload, target_of
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.views import standing as views

__all__ = ["timers"]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def timers(context: click.Context) -> None:
    """List the timers; set and cancel them.

    \b
      ksi timers
      ksi timers set writer message='The tea is ready.' --after 4m --name tea
      ksi timers set state:set key=tick value=1 --every 1h
      ksi timers cancel tea
    """
    if context.invoked_subcommand is None:
        context.invoke(list_timers)


@timers.command("list")
@common
@click.pass_obj
def list_timers(session: Session) -> None:
    """List the timers, the one that is due first first."""
    with session.client() as client:
        found = client.request("timer:list")["timers"]
    out = session.output()
    now = datetime.now(UTC)
    out.each(found, lambda: views.timers(found, now, out.paint, out.width))


@timers.command("set")
@click.argument("target", shell_complete=agent_ids_or_events)
@click.argument("data", nargs=-1, metavar="[JSON|-] [KEY=VALUE]...")
@click.option("--after", "after_s", type=duration, help="How long from now, like 90s or 4m.")
@click.option("--at", metavar="TIME", help="When, with its zone: 2026-01-31T12:00:00Z.")
@click.option("--every", "every_s", type=duration, help="Again and again after so long.")
@click.option("--max-fires", type=int, metavar="N", help="How often at most, with --every.")
@click.option("--name", metavar="NAME", help="What it is called; without one it gets one.")
@common
@click.pass_obj
def set_(
    session: Session,
    target: str,
    data: tuple[str, ...],
    after_s: float | None,
    at: str | None,
    every_s: float | None,
    max_fires: int | None,
    name: str | None,
) -> None:
    """Have TARGET happen at a time: an event, or a message to an agent, with these data."""
    asked: dict[str, Any] = {"target": target_of(target), "data": payload(data)}
    chosen = {
        "name": name,
        "after_s": after_s,
        "at": at,
        "every_s": every_s,
        "max_fires": max_fires,
    }
    asked |= {field: value for field, value in chosen.items() if value is not None}
    with session.client() as client:
        made = client.request("timer:set", asked)
    session.output().show(made, lambda: [views.due(made)])


@timers.command()
@click.argument("names", nargs=-1, required=True, shell_complete=timer_names)
@common
@click.pass_obj
def cancel(session: Session, names: tuple[str, ...]) -> None:
    """Cancel timers."""
    with session.client() as client:
        for name in names:
            _cancel(client, name, session.output())


def _cancel(client: BlockingClient, name: str, out: Output) -> None:
    cancelled = client.request("timer:cancel", {"name": name})
    out.show(cancelled, lambda: [f"cancelled {visible(name)}"])
