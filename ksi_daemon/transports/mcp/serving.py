"""MCP by the package ``mcp``: its revisions, its framing, its sessions. What is asked is ours.

Each call and each reading is submitted to the router like anybody's event; nothing here decides
who may do what. The package answers for the form of messages. What it drops without a word (lines
that are no message) is answered here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import mcp_types as mcp
import msgspec
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ksi_daemon import __version__
from ksi_daemon.errors import KsiError, UnknownEvent
from ksi_daemon.events import ErrorInfo
from ksi_daemon.files import FileStore
from ksi_daemon.router import Router, Submission, Submitted
from ksi_daemon.security import Principal
from ksi_daemon.transports.http.asgi import App
from ksi_daemon.transports.mcp import resources
from ksi_daemon.transports.mcp.library import Who
from ksi_daemon.transports.mcp.resources import Described
from ksi_daemon.transports.mcp.tools import described, failed, names_of, offered, succeeded

__all__ = ["McpServing"]

T = TypeVar("T")

PAGE: Final = 200
# Requests of one connection that are under way; further ones are not read until one has ended.
AT_ONCE: Final = 128
MAX_SESSIONS: Final = 256
SESSION_IDLE_S: Final = 30 * 60.0
# Tools come in bundles, a plugin's or a server's; a host is told of one once.
SETTLE_S: Final = 0.2
_JSON: Final = "application/json"
_INSTRUCTIONS: Final = (
    "ksi runs LLM agents as members of an event bus and logs all that happens. The tools are its"
    " events; the resources show its log, newest first, and every event names what caused it."
)


class McpServing:
    """MCP for the events of *router*. See ``library.Serving``."""

    def __init__(self, router: Router, files: FileStore) -> None:
        self._router = router
        self._files = files
        self._changes = _Changes()
        router.registry.watch(self._changes.note)
        # It tells of every refused request; what fails for no reason of the client's is an error.
        logging.getLogger("mcp").setLevel(logging.ERROR)

    async def stream(
        self, who: Who, lines: AsyncIterable[bytes], send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Answer the messages in *lines* until they end."""
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        bus, host = InMemorySubscriptionBus(), _Host()
        server = self._server(who, bus)
        server.add_notification_handler(
            "notifications/initialized", mcp.NotificationParams, host.initialized
        )
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        under_way = _UnderWay()

        async def take() -> None:
            async with incoming:
                try:
                    async for line in lines:
                        try:
                            message = mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
                        except ValidationError as exc:
                            await send(_not_understood(exc))
                            continue
                        await under_way.begin(message)
                        await incoming.send(SessionMessage(message))
                except KsiError as exc:
                    await send(_error_line(mcp.INVALID_REQUEST, exc.info()))

        async def give() -> None:
            async with outgoing:
                async for each in outgoing:
                    under_way.end(each.message)
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await send(text.encode() + b"\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            tasks.start_soon(give)
            async with anyio.create_task_group() as telling:
                telling.start_soon(self._tell_of_changes, bus, host)
                await server.run(read, write, options)
                telling.cancel_scope.cancel()

    @asynccontextmanager
    async def http(self, who: Who, *, max_body_bytes: int) -> AsyncIterator[App]:
        """Return the application that answers over HTTP, while it is entered."""
        bus = InMemorySubscriptionBus()
        manager = StreamableHTTPSessionManager(
            self._server(who, bus),
            max_request_body_size=max_body_bytes,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=SESSION_IDLE_S,
        )
        async with manager.run(), anyio.create_task_group() as telling:
            telling.start_soon(self._tell_of_changes, bus, _Host())
            yield manager.handle_request
            telling.cancel_scope.cancel()

    async def _tell_of_changes(self, bus: InMemorySubscriptionBus, host: _Host) -> None:
        """Tell whoever listens that other tools are there; older hosts by lines hear it unasked."""
        while True:
            await self._changes.next()
            await anyio.sleep(SETTLE_S)
            await bus.publish(ToolsListChanged())
            if host.session is not None:
                await host.session.send_tool_list_changed()

    def _server(self, who: Who, bus: InMemorySubscriptionBus) -> Server[Any]:
        asking = _Asking(self._router, self._files, who)
        return Server(
            "ksi",
            version=__version__,
            title="ksi",
            instructions=_INSTRUCTIONS,
            on_list_tools=asking.list_tools,
            on_call_tool=asking.call_tool,
            on_list_resources=asking.list_resources,
            on_list_resource_templates=asking.list_templates,
            on_read_resource=asking.read_resource,
            on_subscriptions_listen=ListenHandler(bus),
        )


class _Changes:
    """Word that handlers came or went."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def note(self) -> None:
        """Wake who waits."""
        self._event.set()
        self._event = anyio.Event()

    async def next(self) -> None:
        """Return at the next change."""
        await self._event.wait()


class _Host:
    """The host of one connection, once it has opened its session."""

    def __init__(self) -> None:
        self.session: ServerSession | None = None

    async def initialized(self, ctx: Any, params: mcp.NotificationParams) -> None:
        """Take note that the session is open."""
        self.session = ctx.session


class _Asking:
    """The answers to one kind of caller."""

    def __init__(self, router: Router, files: FileStore, who: Who) -> None:
        self._router = router
        self._files = files
        self._who = who

    async def list_tools(
        self, ctx: Any, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        names = names_of(self._router)
        handlers = offered(self._router, await self._principal())
        page, cursor = _page(handlers, params)
        tools = [described(each, names.to_native(each.event)) for each in page]
        return mcp.ListToolsResult(tools=tools, next_cursor=cursor)

    async def call_tool(self, ctx: Any, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        event = names_of(self._router).to_original(params.name)
        submitted = await self._submitted(event, params.arguments or {})
        error = submitted.outcome.error
        if error is None:
            result = submitted.outcome.result or msgspec.Raw(b"null")
            return await anyio.to_thread.run_sync(succeeded, result, self._files)
        if error.code == UnknownEvent.code and not self._router.registry.handlers(event):
            raise MCPError(mcp.INVALID_PARAMS, f"no tool {params.name[:200]!r}", _told(error))
        return failed(error)

    async def list_resources(
        self, ctx: Any, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        page, cursor = _page(await self._available(resources.RESOURCES), params)
        return mcp.ListResourcesResult(
            resources=[
                mcp.Resource(
                    uri=each.address,
                    name=each.name,
                    description=each.description,
                    mime_type=_JSON,
                )
                for each in page
            ],
            next_cursor=cursor,
        )

    async def list_templates(
        self, ctx: Any, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        page, cursor = _page(await self._available(resources.TEMPLATES), params)
        return mcp.ListResourceTemplatesResult(
            resource_templates=[
                mcp.ResourceTemplate(
                    uri_template=each.address,
                    name=each.name,
                    description=each.description,
                    mime_type=_JSON,
                )
                for each in page
            ],
            next_cursor=cursor,
        )

    async def read_resource(
        self, ctx: Any, params: mcp.ReadResourceRequestParams
    ) -> mcp.ReadResourceResult:
        try:
            asked = resources.asked_for(params.uri)
            submitted = await self._submitted(asked.event, asked.data)
            value = asked.shape(submitted.result(), submitted.event.seq)
        except KsiError as exc:
            raise MCPError(mcp.INVALID_PARAMS, exc.message, _told(exc.info())) from exc
        text = msgspec.json.encode(value).decode()
        contents = mcp.TextResourceContents(uri=params.uri, mime_type=_JSON, text=text)
        return mcp.ReadResourceResult(contents=[contents])

    async def _available(self, described: Sequence[Described]) -> list[Described]:
        return resources.shown(self._router.known_to(await self._principal()), described)

    async def _submitted(self, event: str, data: dict[str, Any]) -> Submitted:
        submission = Submission(
            event=event,
            data=msgspec.Raw(msgspec.json.encode(data)),
            principal=await self._principal(),
        )
        return await self._router.submit(submission)

    async def _principal(self) -> Principal:
        try:
            return await self._who()
        except KsiError as exc:
            raise MCPError(mcp.INTERNAL_ERROR, exc.message, _told(exc.info())) from exc


class _UnderWay:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._room = anyio.Event()

    async def begin(self, message: mcp.JSONRPCMessage) -> None:
        """Take note of *message*; wait while there are too many."""
        if isinstance(message, mcp.JSONRPCNotification):
            self._cancelled(message.params or {})
        elif isinstance(message, mcp.JSONRPCRequest):
            while len(self._ids) >= AT_ONCE:
                self._room = anyio.Event()
                await self._room.wait()
            self._ids.add(message.id)

    def end(self, message: mcp.JSONRPCMessage) -> None:
        """Take note of an answer."""
        if isinstance(message, mcp.JSONRPCResponse | mcp.JSONRPCError) and message.id is not None:
            self._forget(message.id)

    def _cancelled(self, params: dict[str, Any]) -> None:
        # What is cancelled is never answered.
        which = params.get("requestId")
        if isinstance(which, str | int):
            self._forget(which)

    def _forget(self, which: str | int) -> None:
        self._ids.discard(which)
        self._room.set()


def _page(
    items: Sequence[T], params: mcp.PaginatedRequestParams | None
) -> tuple[Sequence[T], str | None]:
    """Return the items of the page that is asked for, and the cursor of the next."""
    cursor = params.cursor if params is not None else None
    if cursor is None:
        start = 0
    elif cursor.isascii() and cursor.isdecimal() and len(cursor) < 10:
        start = int(cursor)
    else:
        raise MCPError(mcp.INVALID_PARAMS, f"no such cursor: {cursor[:50]!r}")
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else None


def _told(error: ErrorInfo) -> Any:
    return msgspec.to_builtins(error)


def _not_understood(error: ValidationError) -> bytes:
    """Return the answer to a line that is no message; its id is not known."""
    if any(each["type"] == "json_invalid" for each in error.errors()):
        return _error_line(mcp.PARSE_ERROR, ErrorInfo("bad_json", "the line is not JSON"))
    message = "the line is no message of JSON-RPC 2.0"
    return _error_line(mcp.INVALID_REQUEST, ErrorInfo("bad_request", message))


def _error_line(code: int, error: ErrorInfo) -> bytes:
    told = {"code": code, "message": error.message, "data": error}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": told}) + b"\n"
