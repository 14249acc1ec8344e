"""Where uvicorn is imported: when the door is opened."""

from __future__ import annotations

import socket
from typing import Protocol

from ksi_daemon.config import CONFIG_EXIT
from ksi_daemon.errors import UsageError
from ksi_daemon.transports.http.asgi import App

__all__ = ["Serve", "Served", "load"]


class Served(Protocol):
    """A server that runs."""

    async def run(self, listener: socket.socket) -> None:
        """Serve *listener* until ``stop``."""
        ...

    def stop_listening(self) -> None:
        """Take no new connections."""
        ...

    async def stop(self) -> None:
        """Have ``run`` end, and wait for it."""
        ...


class Serve(Protocol):
    """What makes a server of an application."""

    def __call__(
        self, app: App, *, head_timeout_s: float, max_connections: int, close_s: int
    ) -> Served: ...


def load() -> Serve:
    """Return what makes a server; raise UsageError without the package."""
    try:
        from ksi_daemon.transports.http.serving import serve
    except ImportError as exc:
        raise UsageError(
            f"http_port needs the package uvicorn: {exc}",
            exit_code=CONFIG_EXIT,
            hint="pip install 'mcp>=2.3,<3', which brings it",
        ) from exc
    return serve
