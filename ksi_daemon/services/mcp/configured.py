"""MCP servers in the settings, ``[mcp_servers.NAME]``, as the rest of the world writes them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ksi_daemon.config import McpServer
from ksi_daemon.errors import InvalidData, UsageError
from ksi_daemon.services.mcp.model import ServerSpec

__all__ = ["specs_of"]


def specs_of(entries: Mapping[str, McpServer], *, exit_code: int) -> list[ServerSpec]:
    """Return the servers that *entries* describe; raise UsageError for one that cannot be."""
    return [_spec(name, entry, exit_code) for name, entry in entries.items()]


def _spec(name: str, entry: McpServer, exit_code: int) -> ServerSpec:
    given = msgspec.structs.asdict(entry)
    command, arguments = given.pop("command"), given.pop("args")
    where = f"mcp_servers.{name}"
    if bool(command) == bool(entry.url):
        raise UsageError(f"{where}: give command or url, one of them", exit_code=exit_code)
    if arguments and not command:
        raise UsageError(f"{where}: args are a command's, and there is none", exit_code=exit_code)
    argv = (command, *arguments) if command else ()
    try:
        spec = msgspec.convert({"name": name, "argv": argv, **given}, ServerSpec)
        spec.check()
    except (InvalidData, msgspec.ValidationError) as exc:
        raise UsageError(f"{where}: {exc}", exit_code=exit_code) from exc
    return spec
