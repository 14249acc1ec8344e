"""``ksi unit``: the daemon as a service of systemd."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.units import units
from ksi_daemon.errors import KsiError

__all__ = ["unit"]


@click.command()
@click.option("--install", is_flag=True, help="Write them to where systemd looks for yours.")
@common
@click.pass_obj
def unit(session: Session, install: bool) -> None:
    """Print the units that let systemd run the daemon, for you alone.

    ksi.service starts it at login, ksi.socket with its first client.

    \b
      ksi unit --install
      systemctl --user daemon-reload
      systemctl --user enable --now ksi.socket
    """
    var = session.var_path
    # systemd reads quotes as a shell does.
    command = shlex.join([sys.executable, "-m", "ksi_daemon", "--var", str(var)])
    texts = units(command, var / "run" / "daemon.sock")
    out = session.output()
    if install:
        _install(texts, out)
    else:
        out.show(texts, lambda: [f"# {name}\n{text}" for name, text in texts.items()])


def _install(texts: dict[str, str], out: Output) -> None:
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    directory = Path(config) / "systemd" / "user"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise KsiError(
            f"cannot write to {str(directory)!r}: {exc.strerror}", code="cannot_create"
        ) from exc
    written = [str(directory / name) for name in texts]
    out.show({"written": written}, lambda: [f"wrote  {visible(path)}" for path in written])
