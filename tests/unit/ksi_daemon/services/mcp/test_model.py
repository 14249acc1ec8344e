"""Servers as values: what they offer under which name, and the hash that holds them to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.services.mcp.model import ServerSpec, Tool, pin

TOOL = Tool(name="read", description="Read a file.", schema={"type": "object"})


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"name": "reed"}, id="name"),
        pytest.param({"description": "Read a file. "}, id="description"),
        pytest.param({"schema": {"type": "object", "required": ["a"]}}, id="schema"),
        pytest.param({"annotations": {"readOnlyHint": True}}, id="annotations"),
    ],
)
def test_whatever_is_told_of_a_tool_is_in_its_hash(changed: dict[str, Any]) -> None:
    assert pin(msgspec.structs.replace(TOOL, **changed)) != pin(TOOL)


def test_the_order_of_keys_is_not_in_the_hash() -> None:
    one = msgspec.structs.replace(TOOL, schema={"a": {"x": 1, "y": 2}, "b": 1})
    other = msgspec.structs.replace(TOOL, schema={"b": 1, "a": {"y": 2, "x": 1}})
    assert pin(one) == pin(other)


@pytest.mark.parametrize(
    ("allow", "tool", "allowed"),
    [
        pytest.param(("*",), "read", True, id="all"),
        pytest.param(("read_*",), "read_text", True, id="its own name"),
        pytest.param(("kom.memory.v1.*",), "read", True, id="our name"),
        pytest.param(("kom.other.*",), "read", False, id="another's"),
        pytest.param((), "read", False, id="none"),
    ],
)
def test_S000_45_what_is_allowed(allow: tuple[str, ...], tool: str, allowed: bool) -> None:
    spec = ServerSpec(name="m", argv=("x",), prefix="kom.memory.v1", allow=allow)
    assert spec.allows(tool) is allowed


def test_S000_43_a_tool_is_called_by_its_prefix_or_else_by_its_server() -> None:
    assert ServerSpec(name="m", argv=("x",)).event("read") == "m.read"
    spec = ServerSpec(name="m", argv=("x",), prefix="kom.memory.v1")
    assert spec.event("read") == "kom.memory.v1.read"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({}, "argv", id="neither program nor address"),
        pytest.param({"argv": ("x",), "url": "http://x"}, "argv", id="both"),
        pytest.param({"url": "ftp://x"}, "url", id="no http"),
        pytest.param({"argv": ("x", "a\0b")}, "argv", id="NUL"),
        pytest.param({"argv": ("x",), "env": {"A": "\0"}}, "argv", id="NUL in a variable"),
        pytest.param({"url": "http://x", "headers_env": {"A\r\nB": "V"}}, "headers_env", id="CRLF"),
        pytest.param({"argv": ("x",), "prefix": "state:a"}, "prefix", id="a namespace of events"),
        pytest.param({"argv": ("x",), "prefix": "a b"}, "prefix", id="a space"),
        pytest.param({"argv": ("x",), "name": "a\n"}, "prefix", id="a line break in the name"),
    ],
)
def test_what_cannot_be_a_server_is_said_with_the_field(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidData) as caught:
        ServerSpec(**{"name": "m", **spec}).check()
    assert (caught.value.details or {})["path"] == path
