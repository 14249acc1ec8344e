"""What a tool of an MCP server answered, as a result of ours. Pure.

Text stays text. Pictures, sounds and files are taken out of the text; a link is told and never
followed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from ksi_daemon.files import File, KeptFile
from ksi_daemon.services.mcp.model import Result

__all__ = ["Content", "content_of", "value_of"]


class Content(NamedTuple):
    """The parts of a result, each in the order in which they came."""

    texts: list[str]
    files: list[File]
    links: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """All texts, one below the other."""
        return "\n".join(self.texts)


def content_of(result: Result) -> Content:
    """Take the blocks of *result* apart; one of a kind that is not known is told as that."""
    content = Content([], [], [])
    for block in result.content:
        _sort(block, content)
    return content


def value_of(result: Result, content: Content, kept: list[KeptFile]) -> Any:
    """Return what the caller is given: a text, an object, or both with files and links."""
    text = content.text
    if not kept and not content.links:
        return text if content.texts or result.structured is None else result.structured
    beside = {"files": kept, "links": content.links}
    return {"text": text, **{name: each for name, each in beside.items() if each}}


def _sort(block: dict[str, Any], content: Content) -> None:
    match block:
        case {"type": "text", "text": str(text)}:
            content.texts.append(text)
        case {"type": "image" | "audio", "data": str(data), **rest}:
            _add_file(data, rest, content)
        case {"type": "resource", "resource": {"text": str(text)}}:
            content.texts.append(text)
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            _add_file(data, rest, content)
        case {"type": "resource_link", "uri": str(uri), **rest}:
            content.links.append({"uri": uri, "name": str(rest.get("name", ""))})
        case _:
            content.texts.append(f"[content of type {block.get('type')!r:.50}]")


def _add_file(data: str, rest: Mapping[Any, Any], content: Content) -> None:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content.texts.append("[a file that is no base64]")
        return
    kind = str(rest.get("mimeType") or "application/octet-stream")
    name = rest.get("name") or rest.get("uri")
    content.files.append(File(decoded, kind, str(name) if name else None))
