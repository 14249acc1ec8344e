"""``ksi rules``: what follows from which events, without a model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from ksi_client.blocking import BlockingClient
from ksi_client.completing import agent_ids_or_events, event_names, rule_names
from ksi_client.durations import duration
from ksi_client.output import Output
from ksi_client.payload import json_object, payload, target_of
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.views import standing as views

__all__ = ["rules"]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def rules(context: click.Context) -> None:
    """List the rules; add and delete them.

    \b
      ksi rules
      ksi rules add low agent:result writer --if '{"data.result.score": {"lt": 8}}' \\
          message='{{source}} gives you {{data.result.score}} points'
      ksi rules rm low
    """
    if context.invoked_subcommand is None:
        context.invoke(list_rules)


@rules.command("list")
@common
@click.pass_obj
def list_rules(session: Session) -> None:
    """List the rules in the order in which they act, with how often each has fired."""
    with session.client() as client:
        found = client.request("routing:list_rules")["rules"]
    out = session.output()
    now = datetime.now(UTC)
    out.each(found, lambda: views.rules(found, now, out.paint, out.width))


@rules.command()
@click.argument("name")
@click.argument("pattern", shell_complete=event_names)
@click.argument("target", shell_complete=agent_ids_or_events)
@click.argument("mapping", nargs=-1, metavar="[JSON|-] [KEY=VALUE]...")
@click.option("--if", "condition", metavar="JSON", help="What the event must be like.")
@click.option("--priority", type=int, metavar="N", help="Higher ones act first.")
@click.option("--for", "ttl_s", type=duration, help="How long it lives, like 2h.")
@click.option("--max-fires", type=int, metavar="N", help="How often it fires at most.")
@common
@click.pass_obj
def add(
    session: Session,
    name: str,
    pattern: str,
    target: str,
    mapping: tuple[str, ...],
    condition: str | None,
    priority: int | None,
    ttl_s: float | None,
    max_fires: int | None,
) -> None:
    """Have TARGET happen whenever an event matches PATTERN.

    TARGET is an event, or an agent that is given a message. What follows are its data, in which
    {{data.x}} stands for a field of the event that set the rule off; without any, an event gets
    the data of that event, and an agent is told all of it.
    """
    asked: dict[str, Any] = {"name": name, "pattern": pattern, "target": target_of(target)}
    if condition is not None:
        asked["condition"] = json_object(condition, "the condition")
    if mapping:
        asked["mapping"] = payload(mapping)
    chosen = {"priority": priority, "ttl_s": ttl_s, "max_fires": max_fires}
    asked |= {field: value for field, value in chosen.items() if value is not None}
    with session.client() as client:
        added = client.request("routing:add_rule", asked)
    session.output().show(added, lambda: [f"added {visible(added['name'])}"])


@rules.command()
@click.argument("names", nargs=-1, required=True, shell_complete=rule_names)
@common
@click.pass_obj
def rm(session: Session, names: tuple[str, ...]) -> None:
    """Delete rules."""
    with session.client() as client:
        for name in names:
            _delete(client, name, session.output())


def _delete(client: BlockingClient, name: str, out: Output) -> None:
    deleted = client.request("routing:delete_rule", {"name": name})
    out.show(deleted, lambda: [f"deleted {visible(name)}"])
