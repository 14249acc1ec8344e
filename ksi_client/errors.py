"""What can go wrong between a client and its daemon.

    KsiError
    ├── DaemonError     the daemon said no; the code is the daemon's
    ├── NotAnswering    not_answering: a daemon has the socket and says nothing
    └── NoDaemon        no_daemon: nobody answers at the socket
        └── LinkLost    the connection broke while an answer was awaited

The command line turns DaemonError into exit code 1, NoDaemon and NotAnswering into 69.
"""

from __future__ import annotations

import os

from ksi_daemon.errors import KsiError
from ksi_daemon.events import ErrorInfo

__all__ = ["DaemonError", "LinkLost", "NoDaemon", "NotAnswering"]


class DaemonError(KsiError):
    """The daemon's refusal, with its code, hint and details."""

    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(
            error.message,
            code=error.code,
            hint=error.hint,
            details=error.details,
            retryable=error.retryable,
        )


class NoDaemon(KsiError):
    """No daemon serves the socket *path*; *reason* is why, if it is not simply absent."""

    code = "no_daemon"
    retryable = True

    def __init__(
        self, path: str | os.PathLike[str], reason: str = "", *, hint: str = "ksi up starts one"
    ) -> None:
        detail = f": {reason}" if reason else ""
        super().__init__(f"no daemon at {os.fspath(path)!r}{detail}", hint=hint)
        self.path = os.fspath(path)

    @classmethod
    def because(cls, path: str | os.PathLike[str], exc: OSError) -> NoDaemon:
        """Return the error for a socket that could not be opened."""
        if isinstance(exc, (FileNotFoundError, ConnectionRefusedError)):
            return cls(path)
        return cls(path, exc.strerror or str(exc), hint="look at --var and KSI_SOCKET")


class LinkLost(NoDaemon):
    """The connection ended before the answer came: whether the event was taken is not known."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(
            path,
            "the connection broke before the answer came",
            hint="ksi up starts one; the log says what it had taken",
        )


class NotAnswering(KsiError):
    """The daemon at *path*, process *pid* if that is known, does not even say how it is.

    Whether it took what it was asked is not known. Unlike one that is gone it is not waited for:
    nobody can tell that it will go on.
    """

    code = "not_answering"
    retryable = True

    def __init__(self, path: str | os.PathLike[str], pid: int | None = None) -> None:
        who = f", pid {pid}," if pid else ""
        remedy = f": kill -CONT {pid} lets it go on" if pid else ""
        super().__init__(
            f"the daemon at {os.fspath(path)!r}{who} does not answer",
            hint=f"it may be stopped{remedy}; the log says what it had taken",
        )
        self.path = os.fspath(path)
        self.pid = pid
