"""Where the package ``mcp`` is imported: when the first server is, for it takes 40 MB."""

from __future__ import annotations

from ksi_daemon.errors import KsiError
from ksi_daemon.services.mcp.model import Connect

__all__ = ["load"]


def load() -> Connect:
    """Return what connects to a server; raise KsiError ``extra_missing`` without the package.

    It takes most of a second: call it in a thread.
    """
    try:
        from ksi_daemon.services.mcp.connection import connected
    # Another version of the package may break in any way; it must not cost the daemon.
    except Exception as exc:
        raise KsiError(
            f"MCP servers need the package mcp: {exc}",
            code="extra_missing",
            hint="pip install 'mcp>=2.3,<3'",
        ) from exc
    return connected
