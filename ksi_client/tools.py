"""Tools as they are described in files: of OpenAI's interface, Anthropic's, MCP, or our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Tool
from ksi_daemon.extraction.schemas import flaw

__all__ = ["read_tools", "schemas_of"]

# Where each of them has the schema: our own and MCP's, OpenAI's, Anthropic's.
_SCHEMA_KEYS: Final = ("schema", "inputSchema", "parameters", "input_schema")


def read_tools(data: bytes) -> list[Tool]:
    """Return the tools that *data*, JSON in UTF-8, describes.

    It is an array of tools, an object with one under ``tools``, or a single tool: an object with
    ``name``, ``description`` and a JSON Schema as ``schema``, ``inputSchema``, ``input_schema`` or
    ``parameters``, perhaps under ``function``, perhaps with an ``example`` of its arguments. Raise
    KsiError with the code ``bad_tools`` for anything else.
    """
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise _bad(f"they are no JSON: {exc}") from exc
    if isinstance(found, dict) and "tools" in found:
        found = found["tools"]
    listed = found if isinstance(found, list) else [found]
    return [_tool(each, f"tool {number}") for number, each in enumerate(listed, start=1)]


def schemas_of(tools: list[Tool]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas by the names of the tools."""
    return {tool.name: tool.schema for tool in tools}


def _tool(value: Any, where: str) -> Tool:
    if not isinstance(value, dict):
        raise _bad(f"{where} is no object")
    told = value["function"] if isinstance(value.get("function"), dict) else value
    name = told.get("name")
    if not isinstance(name, str) or not name:
        raise _bad(f"{where} has no 'name'")
    schema = next((told[key] for key in _SCHEMA_KEYS if key in told), {"type": "object"})
    wrong = flaw(schema) if isinstance(schema, dict) else "a schema is an object"
    if wrong is not None:
        raise _bad(f"the schema of {name!r}: {wrong}")
    description, example = told.get("description") or "", told.get("example")
    if not isinstance(description, str):
        raise _bad(f"the description of {name!r} is no text")
    if not isinstance(example, dict | None):
        raise _bad(f"the example of {name!r} is no object")
    return Tool(name, description, schema, example)


def _bad(message: str) -> KsiError:
    return KsiError(
        f"the tools cannot be read: {message}",
        code="bad_tools",
        hint='a tool is {"name": "...", "description": "...", "schema": {...}}',
    )
