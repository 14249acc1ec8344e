"""``ksi tools``: what agents may be given to call, and the call of one by hand."""

from __future__ import annotations

from typing import Any

import click

from ksi_client.completing import agent_ids, tool_names
from ksi_client.payload import payload
from ksi_client.session import Session, common
from ksi_client.views import reports
from ksi_client.views import tools as views

__all__ = ["tools"]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def tools(context: click.Context) -> None:
    """List the tools, call one.

    Tools are functions of plugins and those of MCP servers; with --events the events of the
    daemon too, for agents may be given these as tools. ksi help NAME describes one.

    \b
      ksi tools                                 what there is
      ksi tools list --agent writer             what an agent is told of
      ksi tools call count_words text='a b'     call one
    """
    if context.invoked_subcommand is None:
        context.invoke(list_tools)


@tools.command("list")
@click.argument("pattern", default="*", shell_complete=tool_names)
@click.option(
    "--agent", "agent_id", metavar="ID", shell_complete=agent_ids, help="Those it is told of."
)
@click.option("--events", is_flag=True, help="The daemon's events too.")
@common
@click.pass_obj
def list_tools(
    session: Session, pattern: str = "*", agent_id: str | None = None, events: bool = False
) -> None:
    """List the tools whose names match PATTERN, and plugins that cannot be used with the reason."""
    data: dict[str, Any] = {"pattern": pattern, "events": events}
    if agent_id is not None:
        data["agent_id"] = agent_id
    with session.client() as client:
        found = client.request("tool:list", data)
    out = session.output()
    rows = [*found["tools"], *found["broken"]]
    out.each(rows, lambda: views.listed(rows, out.paint, out.width))


@tools.command()
@click.argument("name", shell_complete=tool_names)
@click.argument("arguments", nargs=-1, metavar="[JSON|-] [KEY=VALUE]...")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long to wait for the result.")
@common
@click.pass_obj
def call(session: Session, name: str, arguments: tuple[str, ...], timeout: float | None) -> None:
    """Call a tool and show its result.

    The arguments are a JSON object, - for one from stdin, and fields that are added to it. A
    VALUE is JSON if it reads as JSON, otherwise text.
    """
    asked = {"name": name, "arguments": payload(arguments)}
    with session.client() as client:
        answer = client.ask("tool:call", asked, timeout=timeout)
    out = session.output()
    out.show(answer.result, lambda: reports.result(answer, out.paint))
