"""``ksi up`` and ``ksi down``: the daemon's life, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import click

from ksi_client.blocking import BlockingClient
from ksi_client.errors import NoDaemon
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_daemon.errors import Conflict, KsiError

__all__ = ["down", "up"]

# A daemon that has a long log to check needs its time; one that died says so at once.
START_S: Final = 30.0
STOP_S: Final = 30.0
# A daemon that does not say how it is in this time does not answer at all.
GONE_S: Final = 10.0
GLANCE_S: Final = 0.02
LAST_LINES: Final = 12
ALREADY_RUNNING_EXIT: Final = 75  # sysexits.h: EX_TEMPFAIL, as ksi-daemon says it


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-d", "--detach", is_flag=True, help="Run behind; show its pid when it is ready.")
@click.option("--config", metavar="FILE", help="A TOML file of settings.")
@click.option("--provider", metavar="NAME", help="The provider of agents that name none.")
@click.option("--base-url", metavar="URL", help="Where that provider is.")
@click.option("--model", metavar="NAME", help="The model of agents that name none.")
@click.option("--durability", type=click.Choice(["power", "process"]), help="What an ack survives.")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF KSI-DAEMON]...")
@common
@click.pass_obj
def up(session: Session, /, detach: bool, more: tuple[str, ...], **settings: str | None) -> None:
    """Start the daemon, in the foreground or with -d behind.

    Any option of ksi-daemon may be given. Behind, what it says goes to run/daemon.log in its
    directory.
    """
    var = session.var_path
    command = [sys.executable, "-m", "ksi_daemon", "--var", str(var), *_flags(settings), *more]
    if not detach:
        os.execv(sys.executable, command)
    socket = var / "run" / "daemon.sock"
    _refuse_a_second(socket)
    pid = _started(command, socket, var / "run" / "daemon.log")
    out = session.output()
    out.show(
        {"pid": pid, "socket": str(socket)},
        lambda: [f"{out.paint('ready', 'green')}  pid {pid}  {visible(str(socket))}"],
    )


@click.command()
@common
@click.pass_obj
def down(session: Session) -> None:
    """Stop the daemon and wait until it is gone."""
    with session.client(patience_s=0) as client:
        pid = client.request("system:health", timeout=GONE_S)["pid"]
        with suppress(NoDaemon):  # it may be gone before its answer is
            client.request("system:shutdown")
    _await_the_end(pid, session.socket_path)
    out = session.output()
    out.show({"stopped": pid}, lambda: [f"stopped  pid {pid}"])


def _flags(settings: dict[str, Any]) -> list[str]:
    given = {name: value for name, value in settings.items() if value is not None}
    return [
        word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)
    ]


def _refuse_a_second(socket: Path) -> None:
    health = _health(socket)
    if health is not None:
        raise _already_running(socket, health)


def _already_running(socket: Path, health: dict[str, Any]) -> Conflict:
    return Conflict(
        f"a daemon serves {str(socket)!r}, pid {health['pid']}",
        code="already_running",
        hint="ksi down stops it",
    )


def _started(command: Sequence[str], socket: Path, log: Path) -> int:
    """Start the daemon and wait until it answers; return its pid, or raise with its last words.

    Of several that are started at once one gets the directory; the others raise Conflict.
    """
    with _opened(log) as sink:
        begin = sink.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while (health := _health(socket)) is None:
        if process.poll() is not None:
            if process.returncode == ALREADY_RUNNING_EXIT:
                _refuse_a_second(socket)
            raise _not_started(f"the daemon ended with status {process.returncode}", log, begin)
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise _not_started(f"the daemon did not answer within {START_S:g} s", log, begin)
        time.sleep(GLANCE_S)
    if health["pid"] != process.pid:
        process.wait(START_S)
        raise _already_running(socket, health)
    # It lives on: that its exit code is not collected is on purpose.
    process.returncode = 0
    return process.pid


def _opened(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(log, "ab", opener=_private)
    except OSError as exc:
        raise KsiError(
            f"cannot write {str(log)!r}: {exc.strerror}", code="cannot_create", hint="use --var"
        ) from exc


def _not_started(message: str, log: Path, begin: int) -> KsiError:
    """Return the error with the last lines that the daemon wrote, from *begin* on in its log."""
    with log.open("rb") as lines:
        lines.seek(begin)
        last = b"".join(deque(lines, LAST_LINES)).decode(errors="replace").rstrip()
    text = f"{message}\n{last}".rstrip()
    return KsiError(text, code="not_started", hint=f"all that it said is in {log}")


def _health(socket: Path) -> dict[str, Any] | None:
    with suppress(KsiError), BlockingClient(socket, patience_s=0) as client:
        health: dict[str, Any] = client.request("system:health", timeout=1.0)
        return health
    return None


def _await_the_end(pid: int, socket: Path) -> None:
    deadline = time.monotonic() + STOP_S
    while socket.exists() or _is_alive(pid):
        if time.monotonic() > deadline:
            raise Conflict(
                f"pid {pid} has not ended within {STOP_S:g} s",
                code="timeout",
                hint=f"kill {pid} stops it harder",
            )
        time.sleep(GLANCE_S)


def _is_alive(pid: int) -> bool:
    """Say whether the process *pid* runs; one that ended and is not collected does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return False
    except OSError:  # no /proc here, or it is not ours
        return True
    return state.rpartition(")")[2].split()[0] != "Z"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
