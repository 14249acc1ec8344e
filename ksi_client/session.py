"""What all commands share: which daemon, which form of output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ksi_client.blocking import BlockingClient
from ksi_client.output import Output
from ksi_client.paths import socket_path, var_directory
from ksi_client.wire import PATIENCE_S

__all__ = ["Session", "common", "located"]

Command = TypeVar("Command", bound=Callable[..., Any])


class Session:
    """The daemon and the output that the command line asks for; None where it does not say."""

    def __init__(self) -> None:
        self.var: str | None = None
        self.socket: str | None = None
        self.json: bool | None = None

    @property
    def var_path(self) -> Path:
        """The daemon's directory of run-time files."""
        return var_directory(self.var)

    @property
    def socket_path(self) -> Path:
        """The daemon's socket."""
        return Path(self.socket) if self.socket else socket_path(self.var)

    def client(self, *, patience_s: float = PATIENCE_S) -> BlockingClient:
        """Return a client of the daemon; it connects when it is used."""
        return BlockingClient(self.socket_path, patience_s=patience_s)

    def output(self) -> Output:
        """Return the output in the form asked for."""
        return Output.to_stdout(self.json)


def common(command: Command) -> Command:
    """Give *command* the options that say which daemon and which form of output.

    They go into the context's ``Session``, so ``ksi --json tail`` and ``ksi tail --json`` are
    the same.
    """
    return _FORM(located(command))


def located(command: Command) -> Command:
    """Give *command* the options that say which daemon; its output has a form of its own."""
    for option in reversed(_WHERE):
        command = option(command)
    return command


def _kept(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        session = context.ensure_object(Session)
        if value is not None:
            setattr(session, name, value)

    return keep


_FORM: Final = click.option(
    "--json/--text",
    default=None,
    expose_value=False,
    callback=_kept("json"),
    help="JSON lines or text; by default text on a terminal.",
)
_WHERE: Final = (
    click.option(
        "--var",
        metavar="DIR",
        expose_value=False,
        callback=_kept("var"),
        help="The daemon's directory.",
    ),
    click.option(
        "--socket",
        metavar="PATH",
        expose_value=False,
        callback=_kept("socket"),
        help="The daemon's socket.",
    ),
)
