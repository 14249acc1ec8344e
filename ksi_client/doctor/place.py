"""Checks of where the daemon lives: settings, directories, the path of its socket, the disk."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ksi_client.doctor.finding import Finding, Level
from ksi_client.doctor.patient import Patient
from ksi_client.paths import MAX_SOCKET_PATH
from ksi_daemon.config import Settings
from ksi_daemon.errors import UsageError
from ksi_daemon.log.mounts import NETWORK
from ksi_daemon.log.mounts import file_system as kind_of

__all__ = ["directories", "disk", "file_system", "settings", "socket_path"]

# Below this nothing can be written for long; below the other one a busy day may end there.
NO_ROOM: Final = 64 * 1024 * 1024
LITTLE_ROOM: Final = 1024 * 1024 * 1024
_PASSING: Final = frozenset({"ramfs", "tmpfs"})


def settings(patient: Patient) -> Iterator[Finding]:
    """The settings can be read, and are ones that there are."""
    found = patient.settings
    if isinstance(found, UsageError):
        hint = f" ({found.hint})" if found.hint else ""
        yield Finding("settings", "fail", f"{found.message}{hint}", _mended(found, patient))
    else:
        yield Finding("settings", "ok", f"for {patient.var}")


def directories(patient: Patient) -> Iterator[Finding]:
    """The directories are ours, and nobody else reads what is in them."""
    if not os.path.lexists(patient.var):
        yield Finding("directories", "ok", f"{patient.var} is not there yet; ksi up makes it")
        return
    found = [
        *_private(patient.var, 0o700),
        *_private(patient.var / "run", 0o700),
        *_private(patient.log, 0o600),
    ]
    yield from found or [Finding("directories", "ok", f"{patient.var} is ours alone")]


def socket_path(patient: Patient) -> Iterator[Finding]:
    """The path of the socket is one that can be connected to."""
    size = len(os.fsencode(patient.socket))
    if size > MAX_SOCKET_PATH:
        text = f"{patient.socket} has {size} bytes, and sockets take {MAX_SOCKET_PATH}"
        yield Finding("socket_path", "fail", text, "export KSI_VAR=/var/tmp/ksi-$USER")
    else:
        yield Finding("socket_path", "ok", str(patient.socket))


def file_system(patient: Patient) -> Iterator[Finding]:
    """The log is on a disk of this machine."""
    kind = _kind(patient.mounts, _existing(patient.var))
    if kind in NETWORK:
        allowed = isinstance(patient.settings, Settings) and patient.settings.allow_network_fs
        level: Level = "warn" if allowed else "fail"
        text = f"{patient.var} is on {kind}: an acknowledged event may be lost there"
        yield Finding("file_system", level, text, "export KSI_VAR=/var/tmp/ksi-$USER")
    elif kind in _PASSING:
        text = f"{patient.var} is on {kind}: what is there is gone after a restart of the machine"
        yield Finding("file_system", "warn", text)
    else:
        yield Finding("file_system", "ok", kind or "not known")


def disk(patient: Patient) -> Iterator[Finding]:
    """There is room for the log."""
    usage = shutil.disk_usage(_existing(patient.var))
    text = f"{usage.free / 1e9:,.1f} of {usage.total / 1e9:,.1f} GB are free"
    if usage.free < LITTLE_ROOM:
        level: Level = "fail" if usage.free < NO_ROOM else "warn"
        fix = f"du -ahx {shlex.quote(str(patient.var))} | sort -h | tail"
        yield Finding("disk", level, text, fix)
    else:
        yield Finding("disk", "ok", text)


def _mended(error: UsageError, patient: Patient) -> str | None:
    if error.message.startswith("the environment"):
        named = re.search(r"unknown setting '(\w+)'|\$\.(\w+)", error.message)
        if named is not None:
            return f"unset KSI_{(named[1] or named[2]).upper()}"
        return "env | grep ^KSI_"
    file = patient.environ.get("KSI_CONFIG") or str(patient.var / "ksi.toml")
    return f"${{EDITOR:-vi}} {shlex.quote(file)}"


def _private(path: Path, mode: int) -> Iterator[Finding]:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    word = shlex.quote(str(path))
    if stat.S_ISDIR(found.st_mode) != (mode == 0o700):
        text = f"{path} is no {'directory' if mode == 0o700 else 'file'}"
        yield Finding("directories", "fail", text, f"mv {word} {word}.old")
    elif found.st_uid != os.geteuid():
        text = f"{path} belongs to uid {found.st_uid}, and we are {os.geteuid()}"
        yield Finding("directories", "fail", text, f"sudo chown -R $(id -u) {word}")
    elif found.st_mode & stat.S_ISVTX:
        text = f"{path} is shared by all"
        yield Finding("directories", "fail", text, "export KSI_VAR=/var/tmp/ksi-$USER")
    elif found.st_mode & 0o777 & ~mode:
        text = f"others may use {path} (mode {found.st_mode & 0o777:o})"
        yield Finding("directories", "warn", text, f"chmod {mode:o} {word}")
    elif found.st_mode & mode != mode:
        text = f"we may not use {path} (mode {found.st_mode & 0o777:o})"
        yield Finding("directories", "fail", text, f"chmod {mode:o} {word}")


def _existing(path: Path) -> Path:
    """Return *path*, or the nearest directory above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _kind(mounts: Path, path: Path) -> str | None:
    """Return the type of the file system that *path* is on, None if the system does not say."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return kind_of(path.resolve(), table)
