"""The daemon as an MCP server: the events that a profile grants as tools, the log as resources."""

from __future__ import annotations

from ksi_daemon.transports.mcp.callers import Callers
from ksi_daemon.transports.mcp.library import Library
from ksi_daemon.transports.mcp.route import McpRoute
from ksi_daemon.transports.mcp.unix import McpSocket

__all__ = ["Callers", "Library", "McpRoute", "McpSocket"]
