"""What is asked over MCP, and the answers: tools, calls, resources.

Each call and each reading is submitted to the router like anybody's event; nothing here decides
who may do what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import anyio.to_thread
import mcp_types as mcp
import msgspec
from mcp.shared.exceptions import MCPError

from ksi_daemon.errors import KsiError, UnknownEvent
from ksi_daemon.events import ErrorInfo
from ksi_daemon.files import FileStore
from ksi_daemon.router import Router, Submission, Submitted
from ksi_daemon.security import Principal
from ksi_daemon.transports.mcp import resources
from ksi_daemon.transports.mcp.library import Who
from ksi_daemon.transports.mcp.resources import Described
from ksi_daemon.transports.mcp.tools import described, failed, names_of, offered, succeeded

__all__ = ["Asking", "told"]

T = TypeVar("T")

PAGE: Final = 200
_JSON: Final = "application/json"


class Asking:
    """The answers to callers whose rights *who* tells."""

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
            raise MCPError(mcp.INVALID_PARAMS, f"no tool {params.name[:200]!r}", told(error))
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
            raise MCPError(mcp.INVALID_PARAMS, exc.message, told(exc.info())) from exc
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
            raise MCPError(mcp.INTERNAL_ERROR, exc.message, told(exc.info())) from exc


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


def told(error: ErrorInfo) -> Any:
    """Return *error* as the data of an error of JSON-RPC."""
    return msgspec.to_builtins(error)
