"""The rows of MCP servers: entered, changed in their place, forgotten."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from ksi_daemon.events import now
from ksi_daemon.log import mcp
from ksi_daemon.log.database import migrations

QUERY = "SELECT name, spec, tools FROM mcp_servers ORDER BY added"


def test_a_server_is_entered_changed_and_forgotten() -> None:
    [table] = [each for each in migrations() if "CREATE TABLE mcp_servers" in each]
    connection = sqlite3.connect(":memory:")
    connection.executescript(table)
    added = now()
    connection.execute(*mcp.server("a", b"{}", b"[]", added))
    connection.execute(*mcp.server("b", b"{}", b"[]", added + timedelta(seconds=1)))
    connection.execute(*mcp.server("a", b"{}", b"[1]", added + timedelta(seconds=2)))
    assert connection.execute(QUERY).fetchall() == [("a", "{}", "[1]"), ("b", "{}", "[]")]
    connection.execute(*mcp.server_removed("a"))
    assert connection.execute(QUERY).fetchall() == [("b", "{}", "[]")]
    connection.close()
