"""An MCP server of the newest revision, by the library: one tool that adds another."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context


def late() -> str:
    """Say that it is late."""
    return "late"


async def grow(ctx: Context) -> str:
    """Add a tool and tell of it."""
    SERVER.add_tool(late)
    await ctx.notify_tools_changed()
    return "grown"


SERVER = MCPServer("modern")
SERVER.add_tool(grow)

if __name__ == "__main__":
    SERVER.run()
