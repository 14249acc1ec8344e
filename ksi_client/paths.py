"""Where the daemon is: the directory of its run-time files and its socket.

The rule is the daemon's own (``ksi_daemon.config``), written again because importing the daemon's
settings would cost more than a whole ``ksi emit``. A test holds the two together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["MAX_SOCKET_PATH", "socket_path", "var_directory"]

# sizeof(sockaddr_un.sun_path) - 1 on Linux; longer paths cannot be connected to.
MAX_SOCKET_PATH: Final = 107
# A TOML parser is not worth its import for one key of a file that is ours.
_PROJECT_KSI: Final = re.compile(r'^\[project\][^\[]*?^name *= *"ksi" *$', re.M | re.S)


def var_directory(
    var: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path:
    """Return the absolute directory of run-time files.

    *var* if it is given, else ``KSI_VAR``, else ``./var`` of a checkout of ksi, else ``ksi`` in
    the user's state directory.
    """
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    named = var or environ.get("KSI_VAR")
    if named:
        return cwd / named
    if _is_checkout(cwd):
        return cwd / "var"
    state = environ.get("XDG_STATE_HOME", "").strip()
    return Path(state or Path.home() / ".local" / "state") / "ksi"


def socket_path(
    var: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path:
    """Return the daemon's socket: below *var* if given, else ``KSI_SOCKET``, else by the rule."""
    environ = os.environ if environ is None else environ
    if var is None and environ.get("KSI_SOCKET"):
        return Path(environ["KSI_SOCKET"])
    return var_directory(var, environ=environ, cwd=cwd) / "run" / "daemon.sock"


def _is_checkout(directory: Path) -> bool:
    try:
        text = (directory / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return _PROJECT_KSI.search(text) is not None
