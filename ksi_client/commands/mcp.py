"""``ksi mcp``: the daemon for programs that speak MCP, such as coding assistants."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from ksi_client.bridge import Bridge, host_lines
from ksi_client.session import Session, common

__all__ = ["mcp"]


@click.command()
@click.option(
    "--profile",
    metavar="NAME",
    help="What it may do: a profile; the daemon's mcp_profile unless given.",
)
@click.option("--config", is_flag=True, help="Print what goes into a program's configuration.")
@common
@click.pass_obj
def mcp(session: Session, profile: str | None, config: bool) -> None:
    """Serve the daemon's events and log over MCP, on stdin and stdout.

    A program that has tools over MCP starts this itself. `ksi mcp --config` prints what it must
    be told, as most of them want it:

    \b
      ksi mcp --config > ksi.json
      claude -p 'Which agents made mistakes today?' --mcp-config ksi.json

    By itself it may read the whole log and change nothing (profile auditor); `--profile team`
    lets it write to agents, `--profile supervisor` start them. It may run without a daemon: then
    it says so, and goes on when there is one.
    """
    if config:
        click.echo(json.dumps({"mcpServers": {"ksi": _entry(session, profile)}}, indent=2))
        return
    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)
        out.flush()

    path = session.socket_path.with_name("mcp.sock")
    Bridge(path, profile, write).run(host_lines(lambda size: os.read(0, size)))


def _entry(session: Session, profile: str | None) -> dict[str, object]:
    """Return how a program starts us, from whatever directory and environment it runs in."""
    started = Path(sys.argv[0])
    command = [os.path.abspath(started)] if started.name == "ksi" else _module()
    var, socket = os.path.abspath(session.var_path), os.path.abspath(session.socket_path)
    below = Path(socket).is_relative_to(var)
    where = ["--var", var] if below else ["--socket", socket]
    named = [] if profile is None else ["--profile", profile]
    return {"command": command[0], "args": [*command[1:], "mcp", *where, *named]}


def _module() -> list[str]:
    return [sys.executable, "-m", "ksi_client"]
