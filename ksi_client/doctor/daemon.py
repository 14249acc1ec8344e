"""Checks of the daemon: that one answers, or that none is half there; that it fits."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from collections.abc import Iterator

from ksi_client.doctor.finding import Finding
from ksi_client.doctor.patient import Patient
from ksi_client.errors import NotAnswering
from ksi_daemon import __version__
from ksi_daemon.config import Settings
from ksi_daemon.errors import KsiError

__all__ = ["daemon", "durability", "version"]


def daemon(patient: Patient) -> Iterator[Finding]:
    """A daemon answers, or there is none and nothing is left of one."""
    health = patient.health
    if isinstance(health, dict):
        yield Finding("daemon", "ok", f"pid {health['pid']}, up for {health['uptime_s']:,.0f} s")
    elif isinstance(health, NotAnswering):
        who = f"pid {health.pid}" if health.pid else "the daemon"
        fix = f"kill -CONT {health.pid}" if health.pid else None
        yield Finding("daemon", "fail", f"{who} has the socket and does not answer", fix)
    else:
        yield _without(patient, health)


def version(patient: Patient) -> Iterator[Finding]:
    """The daemon is of the version that this client is of."""
    if not isinstance(patient.health, dict):
        return
    found = patient.health["version"]
    if found != __version__:
        restart = f"{patient.command('down')} && {patient.command('up -d')}"
        text = f"the daemon is {found}, this ksi is {__version__}"
        yield Finding("version", "warn", text, restart)
    else:
        yield Finding("version", "ok", __version__)


def durability(patient: Patient) -> Iterator[Finding]:
    """An acknowledged event survives what it should."""
    if isinstance(patient.health, dict):
        found = patient.health["durability"]
    elif isinstance(patient.settings, Settings):
        found = patient.settings.durability
    else:
        return
    wanted = patient.settings.durability if isinstance(patient.settings, Settings) else found
    restart = f"{patient.command('down')}; {patient.command('up -d')}"
    if found != wanted:
        text = f"the daemon runs with {found!r}, the settings say {wanted!r}"
        yield Finding("durability", "warn", text, restart)
    elif found != "power":
        text = f"{found!r}: a power cut may take the last acknowledged events"
        yield Finding("durability", "warn", text, f"{restart} --durability power")
    else:
        yield Finding("durability", "ok", "'power'")


def _without(patient: Patient, error: KsiError) -> Finding:
    """Return what stands where a daemon could be, or why it says no."""
    pid = _lock_holder(patient)
    path = patient.socket
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as exc:
        return Finding("daemon", "fail", f"{path}: {exc.strerror}")
    if mode is not None and not stat.S_ISSOCK(mode):
        text = f"{path} is no socket, and none can be made there"
        return Finding("daemon", "fail", text, f"rm {shlex.quote(str(path))}")
    if pid is not None:
        text = f"pid {pid} holds {patient.lock} and serves no socket"
        return Finding("daemon", "fail", text, f"kill {pid}")
    if mode is None:
        return Finding("daemon", "ok", f"none runs; {patient.command('up -d')} starts one")
    if not os.access(path, os.R_OK | os.W_OK):
        return Finding("daemon", "fail", f"{path} is not ours", f"ls -l {shlex.quote(str(path))}")
    if error.code == "no_daemon":
        text = f"{path} is left of a daemon that died; the next one takes it away"
        return Finding("daemon", "warn", text, patient.command("up -d"))
    return Finding("daemon", "fail", f"it says {error.code}: {error.message}", error.hint)


def _lock_holder(patient: Patient) -> str | None:
    """Return the process that holds the lock, None if nobody does."""
    try:
        descriptor = os.open(patient.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None
