"""MCP by the package ``mcp``: its revisions, its framing, its sessions. What is asked is ours.

The package answers for the form of messages. What it drops without a word (lines that are no
message) is answered here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as mcp
import msgspec
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ksi_daemon import __version__
from ksi_daemon.errors import KsiError
from ksi_daemon.events import ErrorInfo
from ksi_daemon.files import FileStore
from ksi_daemon.router import Router
from ksi_daemon.transports.http.asgi import App
from ksi_daemon.transports.mcp.asking import Asking
from ksi_daemon.transports.mcp.library import Who
from ksi_daemon.transports.mcp.news import Host, News

__all__ = ["McpServing"]

# Requests of one connection that are under way; further ones are not read until one has ended.
AT_ONCE: Final = 128
MAX_SESSIONS: Final = 256
SESSION_IDLE_S: Final = 30 * 60.0
_INSTRUCTIONS: Final = (
    "ksi runs LLM agents as members of an event bus and logs all that happens. The tools are its"
    " events; the resources show its log, newest first, and every event names what caused it."
)


class McpServing:
    """MCP for the events of *router*. See ``library.Serving``."""

    def __init__(self, router: Router, files: FileStore) -> None:
        self._router = router
        self._files = files
        self._news = News(router)
        self._streams: set[_UnderWay] = set()
        # It tells of every refused request; what fails for no reason of the client's is an error.
        logging.getLogger("mcp").setLevel(logging.ERROR)

    async def stream(
        self, who: Who, lines: AsyncIterable[bytes], send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Answer the messages in *lines* until they end."""
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        bus, host = InMemorySubscriptionBus(), Host()
        server = self._server(who, bus)
        _let_watch(server, host)
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
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await send(text.encode() + b"\n")
                    under_way.end(each.message)

        self._streams.add(under_way)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                tasks.start_soon(give)
                async with anyio.create_task_group() as telling:
                    telling.start_soon(self._news.tell, bus, host)
                    await server.run(read, write, options)
                    telling.cancel_scope.cancel()
        finally:
            self._streams.discard(under_way)
            # Whoever was to close them may have been cancelled before it began.
            for each in (incoming, read, write, outgoing):
                each.close()

    async def idle(self) -> None:
        """Return once all that was asked by lines is answered."""
        for each in tuple(self._streams):
            await each.idle()

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
            telling.start_soon(self._news.tell, bus)
            yield manager.handle_request
            telling.cancel_scope.cancel()

    def _server(self, who: Who, bus: InMemorySubscriptionBus) -> Server[Any]:
        asking = Asking(self._router, self._files, who)
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


def _let_watch(server: Server[Any], host: Host) -> None:
    """Have *server* take what *host* says of what it wants to hear."""
    server.add_notification_handler(
        "notifications/initialized", mcp.NotificationParams, host.initialized
    )
    server.add_request_handler("resources/subscribe", mcp.SubscribeRequestParams, host.subscribe)
    server.add_request_handler(
        "resources/unsubscribe", mcp.UnsubscribeRequestParams, host.unsubscribe
    )


class _UnderWay:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._ended = anyio.Event()

    async def begin(self, message: mcp.JSONRPCMessage) -> None:
        """Take note of *message*; wait while there are too many."""
        if isinstance(message, mcp.JSONRPCNotification):
            self._cancelled(message.params or {})
        elif isinstance(message, mcp.JSONRPCRequest):
            while len(self._ids) >= AT_ONCE:
                await self._ended.wait()
            self._ids.add(message.id)

    async def idle(self) -> None:
        """Return once there is none."""
        while self._ids:
            await self._ended.wait()

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
        self._ended.set()
        self._ended = anyio.Event()


def _not_understood(error: ValidationError) -> bytes:
    """Return the answer to a line that is no message; its id is not known."""
    if any(each["type"] == "json_invalid" for each in error.errors()):
        return _error_line(mcp.PARSE_ERROR, ErrorInfo("bad_json", "the line is not JSON"))
    message = "the line is no message of JSON-RPC 2.0"
    return _error_line(mcp.INVALID_REQUEST, ErrorInfo("bad_request", message))


def _error_line(code: int, error: ErrorInfo) -> bytes:
    told = {"code": code, "message": error.message, "data": error}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": told}) + b"\n"
