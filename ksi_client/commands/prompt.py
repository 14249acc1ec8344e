"""``ksi prompt``: print what a model is taught, to read it, to try it, to paste it elsewhere."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import click
import msgspec

from ksi_client.completing import agent_ids
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.tools import read_tools
from ksi_daemon.extraction import PRESETS, Protocol, Tool, augment, protocol

__all__ = ["prompt"]


class Taught(msgspec.Struct):
    """Who is taught: a system prompt, how calls are written, which there are."""

    system: str
    protocol: Protocol
    tools: list[Tool]


@click.command()
@click.argument("preset", metavar="[PRESET]", type=click.Choice(list(PRESETS)), required=False)
@click.option(
    "--tools", type=click.File("rb"), metavar="FILE", help="JSON Schemas of the tools, - for stdin."
)
@click.option("--events", metavar="PATTERN", help="The daemon's events as tools: 'state:*'.")
@click.option(
    "--agent", metavar="ID", shell_complete=agent_ids, help="All that this agent is taught."
)
@click.option("--compact", is_flag=True, help="The short form, for small contexts.")
@click.option("--nonce", metavar="KEY", help="Teach this key of the turn: 8 letters of base 32.")
@common
@click.pass_obj
def prompt(
    session: Session,
    preset: str | None,
    tools: BinaryIO | None,
    events: str | None,
    agent: str | None,
    compact: bool,
    nonce: str | None,
) -> None:
    """Print how a model is taught to write calls.

    PRESET is one of ksi, json_action, prompt_tools, text_tagged, native_auto, command and any; by
    default that of the agent, or ksi. The text is what stands at the end of an agent's system
    prompt; with --agent it is the whole of it.

    \b
      ksi prompt prompt_tools --tools tools.json    tools of a file
      ksi prompt ksi --events 'agent:*' --compact   events of the daemon, in short
      ksi prompt --agent writer                     what an agent is taught now
    """
    if sum(each is not None for each in (tools, events, agent)) > 1:
        raise click.UsageError("--tools, --events and --agent exclude each other")
    if agent is not None:
        taught = _agent(session, agent)
    elif events is not None:
        taught = Taught("", protocol(), _events(session, events))
    else:
        taught = Taught("", protocol(), read_tools(tools.read()) if tools else [])
    chosen = protocol(preset) if preset else taught.protocol
    text = augment(taught.system, chosen, taught.tools, compact=compact, nonce=nonce)
    if session.json:
        names = [tool.name for tool in taught.tools]
        session.output().value({"preset": chosen.name, "prompt": text, "tools": names})
    elif not text:
        click.echo(f"the preset {chosen.name} teaches nothing where there are no tools", err=True)
    else:
        # A file gets the text to the letter, a terminal nothing that could move its cursor.
        shown = visible(text, lines=True) if sys.stdout.isatty() else text
        click.echo(shown, nl=not text.endswith("\n"))


def _agent(session: Session, agent_id: str) -> Taught:
    with session.client() as client:
        found = client.request("agent:info", {"agent_id": agent_id, "told": True})
    told = found["protocol"]
    settings: dict[str, Any] = {"preset": told} if isinstance(told, str) else dict(told)
    chosen = protocol(settings.pop("preset", "ksi"), **settings)
    return Taught(found["system"], chosen, msgspec.convert(found["told"], list[Tool]))


def _events(session: Session, pattern: str) -> list[Tool]:
    with session.client() as client:
        found = client.request("system:discover", {"pattern": pattern})["events"]
        told = [client.request("system:help", {"event": each["name"]}) for each in found]
    return [
        Tool(each["name"], each["summary"], each["schema"], each["example"]["data"] or None)
        for each in told
    ]
