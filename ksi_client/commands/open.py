"""``ksi open``: the log in a browser, by Datasette."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import msgspec

from ksi_client.commands.export import log_option
from ksi_client.datasette import arguments, metadata
from ksi_client.session import Session, common
from ksi_daemon.errors import Conflict, KsiError
from ksi_daemon.log import queries
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["open_"]

PORT: Final = 8001


@click.command(name="open")
@click.option("--port", type=click.IntRange(1, 65535), help="On loopback; any if 8001 is taken.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@log_option
@common
@click.pass_obj
def open_(session: Session, port: int | None, no_browser: bool, log: Path | None) -> None:
    """Show the log in a browser, with ready queries; Ctrl-C ends it.

    It is read only and goes on while a daemon writes. The link that is printed works once, and
    only the browser that opened it is let in.
    """
    if find_spec("datasette") is None:
        raise KsiError("this needs Datasette", code="extra_missing", hint="pip install 'ksi[open]'")
    path = (log or session.var_path / "events.db").absolute()
    with Snapshot.open(path):
        pass  # what cannot be read is told as everywhere
    words = arguments(str(path), _free(port), browser=not no_browser)
    _give_on_stdin(msgspec.json.encode(metadata(path.stem, queries.ready())))
    # Datasette takes the place of this process: whatever ends the command ends it.
    os.execv(sys.executable, [sys.executable, "-m", "datasette", *words])


def _free(port: int | None) -> int:
    """Return a port of loopback that is free: *port* if it is given; raise Conflict."""
    for wanted in (port or PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError as exc:
                if port is not None:
                    raise Conflict(f"port {port}: {exc.strerror}", code="port_taken") from exc
                continue
            found: int = probe.getsockname()[1]
            return found
    raise Conflict("no port is free", code="port_taken")


def _give_on_stdin(text: bytes) -> None:
    """Have the standard input hold *text*, which is less than a pipe takes at once."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(text)
    os.dup2(reader, 0)
    os.close(reader)
