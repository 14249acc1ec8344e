"""The units that let systemd run the daemon for a user."""

from __future__ import annotations

from pathlib import Path

__all__ = ["units"]


def units(command: str, socket_path: Path) -> dict[str, str]:
    """Return the user units that run *command*, by their file names.

    The socket unit is for who wants the daemon started by its first client.
    """
    service = f"""\
[Unit]
Description=ksi: LLM agents as members of an event bus
Documentation=man:systemd.service(5)

[Service]
Type=notify
ExecStart={_quoted(command)}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
# Settings that make no sense, a log of a newer ksi, a daemon that runs already.
RestartPreventExitStatus=64 73 75 78
WatchdogSec=60
TimeoutStopSec=30
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""
    activation = f"""\
[Unit]
Description=The socket of ksi

[Socket]
ListenStream={_escaped(str(socket_path))}
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""
    return {"ksi.service": service, "ksi.socket": activation}


def _quoted(command: str) -> str:
    return _escaped(command).replace("$", "$$")


def _escaped(text: str) -> str:
    """Return *text* with what systemd would put something else for."""
    return text.replace("%", "%%")
