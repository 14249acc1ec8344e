"""Events as MCP tools: how they are described, and what became of a call as content.

A tool is named after its event in the letters that all hosts take, and the title is the event.
What went wrong is a result too, since the model that called must read it: the code, the message
and what to do about it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

import mcp_types as mcp
import msgspec

from ksi_daemon.errors import KsiError
from ksi_daemon.events import ErrorInfo
from ksi_daemon.extraction import Names, native_names
from ksi_daemon.files import FileStore, KeptFile
from ksi_daemon.registry import Handler
from ksi_daemon.router import Router
from ksi_daemon.security import Principal, must_ask

__all__ = ["described", "failed", "names_of", "offered", "succeeded"]

# They push to the connection that they came by, and a call has none.
_NEED_A_CONNECTION: Final = frozenset({"monitor:subscribe", "monitor:unsubscribe"})
# A larger file is told of and not shown: hosts refuse messages that are too long.
MAX_SHOWN_BYTES: Final = 1024 * 1024
MAX_SHOWN: Final = 8


def offered(router: Router, principal: Principal) -> list[Handler]:
    """Return the handlers of the events that are tools for *principal*, sorted by name.

    Those that need a person's approval are none: only an agent can ask for that. Nor are those
    with which an agent speaks of itself.
    """
    handlers = (router.registry.handlers(name)[0] for name in router.known_to(principal))
    return [
        each
        for each in handlers
        if each.own is None
        and each.event not in _NEED_A_CONNECTION
        and not must_ask(principal, each.event)
    ]


def names_of(router: Router) -> Names:
    """Return the names of all events as tools; a name does not depend on who asks for it."""
    return native_names(router.registry.names())


def described(handler: Handler, name: str) -> mcp.Tool:
    """Return the tool *name* that the event of *handler* is."""
    example = ""
    if handler.example is not None:
        example = f"\n\nExample: {msgspec.json.encode(handler.example).decode()}"
    reads = handler.effect == "observe"
    return mcp.Tool(
        name=name,
        title=handler.event,
        description=f"{handler.summary}{example}",
        input_schema={"type": "object", **handler.schema()},
        annotations=mcp.ToolAnnotations(
            title=handler.event,
            read_only_hint=reads,
            destructive_hint=handler.effect in ("write", "exec", "egress", "admin"),
            open_world_hint=handler.effect in ("exec", "egress", "spawn"),
        ),
    )


def succeeded(result: msgspec.Raw, files: FileStore) -> mcp.CallToolResult:
    """Return *result* of an event as the result of a call: its JSON, and the files in it.

    An object is there as an object too, unless there are files: some hosts show only that.
    """
    value = msgspec.json.decode(result)
    text = value if isinstance(value, str) else bytes(result).decode()
    shown = [_shown(file, files) for file in list(_files_in(value))[:MAX_SHOWN]]
    return mcp.CallToolResult(
        content=[mcp.TextContent(text=text), *(each for each in shown if each is not None)],
        structured_content=value if isinstance(value, dict) and not shown else None,
    )


def failed(error: ErrorInfo) -> mcp.CallToolResult:
    """Return *error* as the result of a call."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return mcp.CallToolResult(
        content=[mcp.TextContent(text=f"{error.code}: {error.message}{hint}")],
        structured_content={"error": msgspec.to_builtins(error)},
        is_error=True,
    )


def _files_in(value: Any) -> Iterable[KeptFile]:
    """Yield the references to kept files in *value*, but those that are too large."""
    if isinstance(value, list):
        for each in value:
            yield from _files_in(each)
    elif isinstance(value, dict):
        try:
            kept = msgspec.convert(value, KeptFile)
        except msgspec.ValidationError:
            for each in value.values():
                yield from _files_in(each)
        else:
            if kept.bytes <= MAX_SHOWN_BYTES:
                yield kept


def _shown(kept: KeptFile, files: FileStore) -> mcp.ContentBlock | None:
    """Return what *kept* refers to; None where there is no such file, whatever a result says."""
    try:
        data = files.data(kept.sha256)
    except (KsiError, OSError):
        return None
    kind, encoded = kept.media_type, base64.b64encode(data).decode()
    if kind.startswith("image/"):
        return mcp.ImageContent(data=encoded, mime_type=kind)
    if kind.startswith("audio/"):
        return mcp.AudioContent(data=encoded, mime_type=kind)
    address = f"file://{quote(kept.path)}"
    text = _text_of(kind, data)
    if text is None:
        blob = mcp.BlobResourceContents(uri=address, mime_type=kind, blob=encoded)
        return mcp.EmbeddedResource(resource=blob)
    return mcp.EmbeddedResource(
        resource=mcp.TextResourceContents(uri=address, mime_type=kind, text=text)
    )


def _text_of(kind: str, data: bytes) -> str | None:
    """Return *data* as text if its media type says that it is one, and it is."""
    if not kind.startswith("text/") and kind != "application/json":
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
