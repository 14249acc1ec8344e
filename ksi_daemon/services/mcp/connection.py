"""A connection to an MCP server, by the package ``mcp``: its handshake, its lists, its calls.

Whatever goes wrong is a KsiError of ours: ``mcp_unavailable`` when the server cannot be spoken
to, ``mcp_timeout``, ``mcp_error`` when it answers with an error or with what MCP does not have.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import msgspec
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, Implementation
from mcp_types import Tool as McpTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ksi_daemon import __version__
from ksi_daemon.errors import KsiError, McpError
from ksi_daemon.services.mcp.http import bounded_client
from ksi_daemon.services.mcp.model import (
    MAX_DESCRIPTION,
    MAX_MESSAGE_BYTES,
    MAX_TOOLS,
    Connection,
    Result,
    ServerSpec,
    Tool,
)
from ksi_daemon.services.mcp.stdio import Stdio
from ksi_daemon.services.mcp.variables import filled

__all__ = ["connected"]

MAX_PAGES: Final = 64
_CHANGED: Final = "notifications/tools/list_changed"


@asynccontextmanager
async def connected(spec: ServerSpec) -> AsyncIterator[Connection]:
    """Connect to the server of *spec*; raise KsiError if it does not answer as one."""
    environment = _environment(spec)
    open_connection = _Open()
    stdio = Stdio(spec.argv, environment, open_connection.close) if spec.argv else None
    open_connection.stdio = stdio
    client = Client(
        stdio.streams() if stdio else _http(spec),
        read_timeout_seconds=spec.start_timeout_s,
        message_handler=open_connection.heard,
        client_info=Implementation(name="ksi", version=__version__),
        cache=None,
    )
    try:
        async with client, anyio.create_task_group() as tasks:
            open_connection.client = client
            tasks.start_soon(open_connection.listen)
            yield open_connection
            tasks.cancel_scope.cancel()
    # A foreign library over a foreign program: its errors come in groups and of all kinds.
    except Exception as exc:
        raise _explained(exc, stdio) from exc
    finally:
        open_connection.release()


class _Open:
    """See ``Connection``."""

    client: Client
    stdio: Stdio | None = None

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[None](1)

    async def heard(self, message: Any) -> None:
        """Take note of what the server says unasked."""
        if getattr(message, "method", None) == _CHANGED:
            self._note()

    async def listen(self) -> None:
        """Ask a server of 2026-07-28 to tell of changes; an older one tells of them unasked."""
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with suppress(MCPError, SubscriptionLost, TimeoutError):
            async with self.client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._note()

    async def tools(self) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self.client.list_tools(cursor=cursor)
            except Exception as exc:
                raise _explained(exc, self.stdio) from exc
            found += map(_tool, page.tools)
            _check_size(found)
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def run_tool(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Result:
        try:
            with anyio.fail_after(timeout_s):
                result = await self.client.call_tool(
                    name, arguments, read_timeout_seconds=timeout_s
                )
        except TimeoutError as exc:
            raise _late(timeout_s) from exc
        except Exception as exc:
            error = _explained(exc, self.stdio)
            if error.code == "mcp_unavailable":
                self.close()
            raise error from exc
        content = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in result.content
        ]
        return Result(
            content=content, structured=result.structured_content, is_error=result.is_error
        )

    async def changed(self) -> None:
        try:
            await self._receive.receive()
        except anyio.EndOfStream as exc:
            raise McpError(_gone(exc, self.stdio), code="mcp_unavailable", retryable=True) from exc

    def close(self) -> None:
        """Note that the server is gone."""
        self._send.close()

    def release(self) -> None:
        """Let go of what the connection holds."""
        self._send.close()
        self._receive.close()

    def _note(self) -> None:
        # One note is as good as many; what is gone has none.
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._send.send_nowait(None)


def _environment(spec: ServerSpec) -> dict[str, str]:
    passed = {name: os.environ[name] for name in spec.pass_env if name in os.environ}
    return {**passed, **filled(spec.env, os.environ)}


@asynccontextmanager
async def _http(spec: ServerSpec) -> AsyncIterator[Any]:
    async with (
        bounded_client(_headers(spec), spec.timeout_s) as http,
        streamable_http_client(
            spec.url or "", http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def _headers(spec: ServerSpec) -> dict[str, str]:
    missing = [name for name in spec.headers_env.values() if name not in os.environ]
    if missing:
        raise McpError(f"{missing[0]!r} is not in the environment", code="mcp_unavailable")
    by_name = {header: os.environ[name] for header, name in spec.headers_env.items()}
    return {**filled(spec.headers, os.environ), **by_name}


def _tool(listed: McpTool) -> Tool:
    annotations = listed.annotations
    return Tool(
        name=listed.name,
        description=(listed.description or "")[:MAX_DESCRIPTION],
        schema=dict(listed.input_schema),
        annotations=(
            None
            if annotations is None
            else annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
        ),
    )


def _check_size(tools: list[Tool]) -> None:
    if len(msgspec.json.encode(tools)) > MAX_MESSAGE_BYTES:
        raise McpError(f"its list of tools has more than {MAX_MESSAGE_BYTES} bytes")


def _late(timeout_s: float) -> KsiError:
    return McpError(f"it did not answer within {timeout_s:g} s", code="mcp_timeout")


def _explained(error: BaseException, stdio: Stdio | None) -> KsiError:
    """Return *error*, or the first of a group of them, as one of ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KsiError):
        return error
    if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
        return McpError(f"it did not answer in time: {error}"[:500], code="mcp_timeout")
    if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
        gone = "Session terminated" in str(error)
        return McpError(str(error)[:2000], code="mcp_unavailable" if gone else "mcp_error")
    if isinstance(error, ValidationError | RuntimeError):
        return McpError(f"its answer is not MCP's: {error}"[:500], code="mcp_error")
    return McpError(_gone(error, stdio), code="mcp_unavailable", retryable=True)


def _gone(error: BaseException, stdio: Stdio | None) -> str:
    if stdio is None:
        return f"it cannot be reached: {error or type(error).__name__}"[:500]
    complaint = f"; it says: {stdio.complaint[-500:]}" if stdio.complaint else ""
    return f"{stdio.ended or error}{complaint}"
