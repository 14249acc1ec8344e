"""What the public MCP conformance suite wants a server to have, as a plugin of ours: real tools.

What it wants beyond that (prompts, sampling, resources of its own) is named in
``tests/data/mcp_conformance.yaml`` with the reason why ksi has it not.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from ksi_daemon import registry
from ksi_daemon.errors import KsiError
from ksi_daemon.router import Context, Router
from ksi_daemon.tools import File, tool

PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


class Tools:
    """The tools that the suite calls."""

    @tool(effect="observe")
    def test_simple_text(self) -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @tool(effect="observe")
    def test_image_content(self) -> File:
        """Return a picture."""
        return File(PIXEL, "image/png")

    @tool(effect="observe")
    def test_audio_content(self) -> File:
        """Return a sound."""
        return File(b"RIFF$\0\0\0WAVEfmt ", "audio/wav")

    @tool(effect="observe")
    def test_embedded_resource(self) -> File:
        """Return a file."""
        return File(b"This is an embedded resource content.", "text/plain")

    @tool(effect="observe")
    def test_multiple_content_types(self) -> list[Any]:
        """Return a text, a picture and a file."""
        document = File(b'{"test":"data","value":123}', "application/json")
        return ["Multiple content types test:", File(PIXEL, "image/png"), document]

    @tool(effect="observe")
    def test_error_handling(self) -> None:
        """Fail."""
        raise KsiError("This tool intentionally returns an error for testing")


def plugin(router: Router) -> Tools:
    """Return the tools; one has a schema that no signature gives, and is registered here."""
    name = "json_schema_2020_12_tool"
    if not router.registry.handlers(name):
        summary = "Tool with JSON Schema 2020-12 features"
        router.registry.add(registry.tool(name, _nothing, schema=SCHEMA, summary=summary))
    return Tools()


def _nothing(given: dict[str, Any], ctx: Context) -> None:
    """Do nothing."""
