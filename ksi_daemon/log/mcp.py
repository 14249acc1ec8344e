"""The rows of MCP servers, for ``work.Statement``."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ksi_daemon.log.rows import microseconds
from ksi_daemon.work import Statement

__all__ = ["LoggedServer", "server", "server_removed"]


class LoggedServer(msgspec.Struct, frozen=True):
    """A server as the log has it: its spec and its approved tools, both JSON."""

    name: str
    spec: bytes
    tools: bytes


def server(name: str, spec: bytes, tools: bytes, added: datetime) -> Statement:
    """Enter a server, or what is approved of it now."""
    return (
        "INSERT INTO mcp_servers (name, spec, tools, added) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, tools = excluded.tools",
        (name, spec.decode(), tools.decode(), microseconds(added)),
    )


def server_removed(name: str) -> Statement:
    """Forget a server."""
    return "DELETE FROM mcp_servers WHERE name = ?", (name,)
