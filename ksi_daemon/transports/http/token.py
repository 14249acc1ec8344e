"""The token of the HTTP door: a file in the var directory that only its owner can read.

It is made when the door is first opened and stays, so that a client's configuration does. It is
never logged and never told over the wire.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.lock import CANNOT_CREATE_EXIT

__all__ = ["token"]

MIN_CHARACTERS: Final = 16
MAX_CHARACTERS: Final = 1024


def token(path: Path) -> str:
    """Return the token that the file *path* holds; make one if there is none.

    Raise UsageError for a file that others can read or that holds no token.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise _unusable(path, exc.strerror or "it cannot be read") from exc
    made = secrets.token_urlsafe(32)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(made + "\n")
    except OSError as exc:
        raise _unusable(path, exc.strerror or "it cannot be written") from exc
    return made


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is no file")
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise _unusable(path, "others can read it", hint=f"chmod 600 {path}")
        text = file.read(MAX_CHARACTERS + 2).decode("ascii", "replace").strip()
    if not MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS or not text.isprintable():
        raise _unusable(
            path,
            f"it holds no token of {MIN_CHARACTERS} to {MAX_CHARACTERS} characters",
            hint="remove it, and the next start makes one",
        )
    return text


def _unusable(path: Path, why: str, *, hint: str | None = None) -> UsageError:
    return UsageError(
        f"the token file {str(path)!r}: {why}", exit_code=CANNOT_CREATE_EXIT, hint=hint
    )
