"""When an answer that does not come makes a client ask how the daemon is, and who it is then."""

from __future__ import annotations

import socket
import sys
from typing import Final, Protocol

from ksi_client.errors import NotAnswering

__all__ = ["QUIET_S", "Connected", "silent"]

# Silence for so long while an answer is awaited makes us ask how the daemon is, and it has as long
# to say so. A busy one answers in milliseconds.
QUIET_S: Final = 5.0


class Connected(Protocol):
    """A connected socket; what asyncio shows of one is enough."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def silent(path: str, connected: Connected) -> NotAnswering:
    """Return the error for a daemon that says nothing: the process at the other end."""
    if not hasattr(socket, "SO_PEERCRED"):  # the system does not say which
        return NotAnswering(path)
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return NotAnswering(path, int.from_bytes(credentials[:4], sys.byteorder))
