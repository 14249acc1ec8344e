"""mcp:*: the servers of others whose tools are events here.

A server is added by a person, who thereby approves its tools as they are. It is kept over a
restart, and its tools are offered at once; a server that does not answer costs its own calls only.
One that the settings name is added at the start, and tried until it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import anyio.abc
import anyio.to_thread
import msgspec

from ksi_daemon.errors import Conflict, KsiError, NotFound
from ksi_daemon.events import now
from ksi_daemon.files import FileStore
from ksi_daemon.log import mcp as rows
from ksi_daemon.router import Context, Nothing, Notice, Router, handles
from ksi_daemon.services.mcp import library
from ksi_daemon.services.mcp.model import Connect, KeptServer, ServerSpec, Tool
from ksi_daemon.services.mcp.server import Server

__all__ = ["McpServers", "ServerReader"]

MAX_SERVERS: Final = 64
# A program that is fetched first, as npx does, may take its time.
ADD_S: Final = 7_200.0


class Which(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Approve(msgspec.Struct, forbid_unknown_fields=True):
    """*tools* by the server's own names; all that wait for it unless given."""

    name: str
    tools: tuple[str, ...] | None = None


class ServerReader(Protocol):
    """The part of the log that is read here."""

    async def mcp_servers(self) -> list[rows.LoggedServer]: ...


class McpServers:
    """The servers by name; they run in *tasks*."""

    NOTICES: Final = (
        Notice("mcp:connected", "An MCP server answers; its tools can be called."),
        Notice("mcp:disconnected", "An MCP server is gone; it is tried again."),
        Notice("mcp:drifted", "Tools of an MCP server are not those that were approved."),
    )

    def __init__(
        self,
        router: Router,
        reader: ServerReader,
        tasks: anyio.abc.TaskGroup,
        files: FileStore,
        load: Callable[[], Connect] = library.load,
    ) -> None:
        self._router = router
        self._reader = reader
        self._tasks = tasks
        self._files = files
        self._load_library = load
        self._servers: dict[str, Server] = {}

    @handles(
        "mcp:add_server",
        keeps=True,
        effect="admin",
        timeout_s=ADD_S,
        example={"name": "memory", "argv": ["npx", "-y", "@modelcontextprotocol/server-memory"]},
    )
    async def add_server(self, data: ServerSpec, ctx: Context) -> dict[str, Any]:
        """Connect to an MCP server and offer its tools as they are now; kept over restarts."""
        data.check()
        if data.name in self._servers:
            raise Conflict(f"MCP server {data.name!r} is there already", code="already_exists")
        if len(self._servers) >= MAX_SERVERS:
            raise Conflict(f"{MAX_SERVERS} MCP servers are there already", code="too_many_servers")
        server = self._started(_kept(data), None)
        try:
            await server.settled.wait()
            if server.error is not None:
                raise KsiError(
                    f"MCP server {data.name!r}: {server.error.message}",
                    code=server.error.code,
                    hint=server.error.hint,
                )
            await self._keep(server)
        except BaseException:
            self._stop(data.name)
            raise
        return server.described(in_full=True)

    @handles("mcp:remove_server", effect="admin", example={"name": "memory"})
    async def remove_server(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Forget an MCP server: its tools are gone, its program is ended."""
        if self._existing(data.name).spec.configured:
            raise Conflict(
                f"MCP server {data.name!r} is in the settings",
                code="configured",
                hint="take it out there and start the daemon again",
            )
        await self._router.record(rows.server_removed(data.name))
        self._stop(data.name)
        return {"removed": data.name}

    @handles("mcp:list", effect="observe", inline=True, example={})
    def list_servers(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the MCP servers, how they are, and what became of each of their tools."""
        in_full = ctx.principal.operator
        return {"servers": [each.described(in_full=in_full) for each in self._servers.values()]}

    @handles("mcp:approve", effect="admin", example={"name": "memory"})
    async def approve(self, data: Approve, ctx: Context) -> dict[str, Any]:
        """Approve the tools of an MCP server that changed, are new or are gone."""
        server = self._existing(data.name)
        approved = server.approve(data.tools)
        await self._keep(server)
        return {"approved": approved, **server.described(in_full=True)}

    async def restore(self, configured: Iterable[ServerSpec] = ()) -> int:
        """Start the servers that an earlier run had and those of the settings; return how many.

        The settings are a person's word: what they say of a server that was kept otherwise holds,
        and approves its tools anew. One that they no longer name is forgotten.
        """
        named = {spec.name: _kept(spec, configured=True) for spec in configured}
        for row in await self._reader.mcp_servers():
            kept = msgspec.json.decode(row.spec, type=KeptServer)
            if row.name in named and named[row.name] != kept:
                continue
            if kept.configured and row.name not in named:
                await self._router.record(rows.server_removed(row.name))
                continue
            self._started(kept, msgspec.json.decode(row.tools, type=list[Tool]))
        for spec in named.values():
            if spec.name not in self._servers:
                self._tasks.start_soon(self._keep_once_pinned, self._started(spec, None))
        return len(self._servers)

    def _started(self, spec: KeptServer, approved: list[Tool] | None) -> Server:
        server = Server(self._router, spec, approved, load=self._load, files=self._files)
        self._servers[spec.name] = server
        self._tasks.start_soon(server.run)
        return server

    async def _keep_once_pinned(self, server: Server) -> None:
        """Keep *server* as it is when it first answers, however late that is."""
        await server.pinned.wait()
        if self._servers.get(server.spec.name) is server:
            await self._keep(server)

    async def _load(self) -> Connect:
        return await anyio.to_thread.run_sync(self._load_library)

    async def _keep(self, server: Server) -> None:
        spec, tools = msgspec.json.encode(server.spec), msgspec.json.encode(server.approved)
        await self._router.record(rows.server(server.spec.name, spec, tools, now()))

    def _stop(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server is not None:
            server.stop()

    def _existing(self, name: str) -> Server:
        server = self._servers.get(name)
        if server is None:
            raise NotFound("MCP server", name, self._servers)
        return server


def _kept(spec: ServerSpec, *, configured: bool = False) -> KeptServer:
    return KeptServer(**msgspec.structs.asdict(spec), configured=configured)
