"""MCP servers: their tools as events, pinned to what a person approved."""

from __future__ import annotations

from ksi_daemon.services.mcp.configured import specs_of
from ksi_daemon.services.mcp.service import McpServers

__all__ = ["McpServers", "specs_of"]
