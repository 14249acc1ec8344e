"""``ksi``: the command line. A table of commands, loaded when they are used, and exit codes.

0   it was done                 2   the command line makes no sense
1   the daemon said no         69   there is no daemon, or it does not answer
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from ksi_client.errors import NoDaemon, NotAnswering
from ksi_client.output import complain
from ksi_client.session import common
from ksi_daemon import __version__
from ksi_daemon.errors import KsiError, nearest

__all__ = ["COMMANDS", "Commands", "Entry", "cli", "main"]

REFUSED_EXIT: Final = 1
NO_DAEMON_EXIT: Final = 69  # sysexits.h: EX_UNAVAILABLE
INTERRUPTED_EXIT: Final = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE_EXIT: Final = 141  # 128 + SIGPIPE


class Entry(NamedTuple):
    """Where a command is, and what it does in a line: the help loads none of them."""

    family: str
    module: str
    summary: str


COMMANDS: Final[Mapping[str, Entry]] = {
    "up": Entry("Daemon", "daemon", "Start the daemon, in the foreground or with -d behind."),
    "down": Entry("Daemon", "daemon", "Stop the daemon and wait until it is gone."),
    "doctor": Entry("Daemon", "doctor", "Say what is wrong, and how to mend it."),
    "unit": Entry("Daemon", "unit", "Print the units that let systemd run the daemon."),
    "demo": Entry("Daemon", "demo", "Watch three agents work; no model needed."),
    "stats": Entry("Daemon", "reports", "Show how the daemon fares and what its log holds."),
    "spawn": Entry("Agents", "agents", "Bring an agent to life."),
    "send": Entry("Agents", "agents", "Give an agent a message and show its answer."),
    "chat": Entry("Agents", "chat", "Talk to an agent."),
    "agents": Entry("Agents", "agents", "List the agents that live."),
    "terminate": Entry("Agents", "agents", "End agents, by id or by pattern."),
    "components": Entry("Agents", "components", "List, show, check, add what agents are made of."),
    "tools": Entry("Agents", "tools", "List the tools of agents, call one."),
    "approvals": Entry("Agents", "approvals", "List, grant, deny calls that wait for a person."),
    "rules": Entry("Agents", "rules", "List, add, delete what follows from which events."),
    "timers": Entry("Agents", "timers", "List, set, cancel what happens at a time."),
    "mcp": Entry("Agents", "mcp", "Serve the daemon to programs that speak MCP."),
    "emit": Entry("Events", "emit", "Emit any event and show its result."),
    "discover": Entry("Events", "discover", "List the events that there are."),
    "help": Entry("Events", "discover", "Describe an event: its fields, an example."),
    "monitor": Entry("Log", "monitor", "Watch agents, events, models and queues, in a terminal."),
    "tail": Entry("Log", "log", "Follow the events as they happen."),
    "events": Entry("Log", "log", "Show events of the log."),
    "log": Entry("Log", "upkeep", "Check the log, copy it, cut it, mend it."),
    "open": Entry("Log", "open", "Show the log in a browser."),
    "export": Entry("Log", "export", "Write the log for other programs."),
    "import": Entry("Log", "export", "Make a new log of what was exported."),
    "tree": Entry("Log", "stories", "Show a story: what caused what."),
    "why": Entry("Log", "stories", "Show why an event fired, and the text it was written in."),
    "attempts": Entry("Log", "attempts", "List calls that went wrong; mend one, put one aside."),
    "replay": Entry("Log", "replay", "Read logged replies again; show what is found otherwise."),
    "reliability": Entry("Models", "reports", "Show how many calls of each model came to good."),
    "audit": Entry("Models", "audit", "Say whether anything was lost or is counted wrongly."),
    "extract": Entry("Models", "extract", "Find the calls in a text; needs no daemon."),
    "prompt": Entry("Models", "prompt", "Print how a model is taught to write calls."),
    "protocol": Entry("Models", "protocol", "Compare the ways to write calls; needs no daemon."),
    "completion": Entry("Shell", "completion", "Print what makes a shell complete ksi."),
}


class Commands(click.Group):
    """The commands of the table, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"ksi_client.commands.{entry.module}")
        command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_", None)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.{cmd_name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            close = nearest(args[0], COMMANDS)
            hint = f"; did you mean {close!r}?" if close else ""
            ctx.fail(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        families: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            families.setdefault(entry.family, []).append((name, entry.summary))
        size = max(map(len, COMMANDS))
        for family, rows in families.items():
            with formatter.section(family):
                formatter.write_dl([(name.ljust(size), summary) for name, summary in rows])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what goes wrong becomes a message and an exit code."""
        try:
            return super().invoke(ctx)
        except KsiError as exc:
            complain(exc)
            nobody = isinstance(exc, NoDaemon | NotAnswering)
            ctx.exit(NO_DAEMON_EXIT if nobody else REFUSED_EXIT)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED_EXIT)
        except BrokenPipeError:
            # Whoever read our output has enough. The interpreter flushes stdout once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE_EXIT)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="ksi %(version)s")
@common
def cli() -> None:
    """Run LLM agents as members of an event bus, and ask the log what happened.

    \b
      ksi up -d                                start a daemon
      ksi spawn agents/greeter --prompt hello  bring an agent to life
      ksi tail                                 watch
      ksi why 42                               why did that fire?
    """


def main() -> None:
    """Run ``ksi`` with the arguments of the process."""
    cli(prog_name="ksi")
