"""The ksi client: talk to a running daemon from Python.

    async with ksi_client.connect() as ksi:
        agent = await ksi.spawn("agents/greeter")
        reply = await ksi.send(agent["agent_id"], "say hello")
        async for push in ksi.subscribe("agent:*"):
            ...

``BlockingClient`` does the same without asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ksi_client.blocking import BlockingClient
    from ksi_client.client import Client, connect
    from ksi_client.errors import DaemonError, LinkLost, NoDaemon
    from ksi_client.wire import Answer, Ending, Push

__all__ = [
    "Answer",
    "BlockingClient",
    "Client",
    "DaemonError",
    "Ending",
    "LinkLost",
    "NoDaemon",
    "Push",
    "connect",
]

_HOME: Final[Mapping[str, str]] = {
    "Answer": "wire",
    "BlockingClient": "blocking",
    "Client": "client",
    "DaemonError": "errors",
    "Ending": "wire",
    "LinkLost": "errors",
    "NoDaemon": "errors",
    "Push": "wire",
    "connect": "client",
}


def __getattr__(name: str) -> Any:
    # On first use, because the command line passes through here: asyncio would be half of the
    # time that `ksi emit` takes.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
