"""What an application of ASGI is, and the one kind of answer that the door itself gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

from ksi_daemon.errors import KsiError

__all__ = ["App", "Message", "Receive", "Scope", "Send", "header", "refuse"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def header(scope: Scope, name: bytes) -> str | None:
    """Return the header *name*, in lower case; None if it is not there, or there twice."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


async def refuse(
    send: Send, status: int, error: KsiError, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with *error* in the form of the wire, and end the connection."""
    body = msgspec.json.encode({"error": error.info()})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
