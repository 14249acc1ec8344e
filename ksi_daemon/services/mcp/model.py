"""MCP servers and their tools as values, and what the rest needs of a connection to one. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Annotated, Any, Final, Protocol

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import is_tool_name, matches_any
from ksi_daemon.security import Effect

__all__ = [
    "MAX_DESCRIPTION",
    "MAX_MESSAGE_BYTES",
    "MAX_TOOLS",
    "Connect",
    "Connection",
    "KeptServer",
    "Result",
    "ServerSpec",
    "Tool",
    "pin",
]

# A server is somebody else's program: what it sends is bounded wherever it arrives.
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
MAX_TOOLS: Final = 512
MAX_DESCRIPTION: Final = 4_000
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server: a program (*argv*) or an address (*url*).

    The environment of a program is *env* and the daemon's variables that *pass_env* names, and
    nothing else; *headers* go with each request over HTTP. ``${NAME}`` in the values of either is
    the daemon's variable; *headers_env* names for a header the variable that is all of its value.
    Tools that *allow* matches are offered as ``<prefix>.<tool>``; the prefix is the name unless
    given. *local*: its tools reach nothing outside this machine, so they are no ``egress``.
    *timeout_s* bounds one call, *start_timeout_s* each step until the server answers.
    """

    name: Name
    argv: Annotated[tuple[str, ...], msgspec.Meta(max_length=256)] = ()
    url: str | None = None
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    allow: Annotated[tuple[str, ...], msgspec.Meta(max_length=256)] = ("*",)
    prefix: str | None = None
    local: bool = False
    timeout_s: Seconds = 60.0
    start_timeout_s: Seconds = 30.0

    def effect(self, tool: Tool) -> Effect:
        """Return what *tool* does to the world, by what it says of itself and a person approved.

        One that says nothing may do anything.
        """
        told = tool.annotations or {}
        closed = self.local or told.get("openWorldHint") is False
        if closed and told.get("readOnlyHint") is True:
            return "observe"
        return "write" if closed else "egress"

    def event(self, tool: str) -> str:
        """Return what the server's *tool* is called here."""
        return f"{self.prefix or self.name}.{tool}"

    def allows(self, tool: str) -> bool:
        """Say whether *tool* is among those that are offered, by its own name or by ours."""
        return matches_any(self.allow, tool) or matches_any(self.allow, self.event(tool))

    def check(self) -> None:
        """Raise InvalidData for what cannot be a server."""
        if bool(self.argv) == bool(self.url):
            raise InvalidData("give argv or url, one of them", details={"path": "argv"})
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise InvalidData(f"{self.url!r:.200} is no http address", details={"path": "url"})
        if any("\0" in each for each in (*self.argv, *self.env, *self.env.values())):
            raise InvalidData("a NUL cannot be handed to a program", details={"path": "argv"})
        for path, names in (("headers", self.headers), ("headers_env", self.headers_env)):
            if any(not _HEADER.fullmatch(each) for each in names):
                raise InvalidData("a header's name has odd characters", details={"path": path})
            if names and self.url is None:
                raise InvalidData("headers are for a url", details={"path": path})
        if any(not each.isprintable() for each in self.headers.values()):
            raise InvalidData("a header's value has odd characters", details={"path": "headers"})
        # A colon would make events of it, which a pattern like state:* is meant to grant.
        if ":" in self.event("") or not is_tool_name(self.event("x")):
            raise InvalidData(f"{self.event('')!r:.200} is no prefix", details={"path": "prefix"})


class KeptServer(ServerSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server as it is kept; *configured*: the settings name it, and it goes when they do not."""

    configured: bool = False


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it; *schema* is that of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    annotations: dict[str, Any] | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to: the blocks of content as MCP has them, and the result as an object."""

    content: list[dict[str, Any]] = []
    structured: dict[str, Any] | None = None
    is_error: bool = False


class Connection(Protocol):
    """A server that answers."""

    async def tools(self) -> list[Tool]:
        """List its tools, at most MAX_TOOLS; raise KsiError."""
        ...

    async def run_tool(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Result:
        """Run one; raise KsiError (``mcp_timeout``, ``mcp_error``, ``mcp_unavailable``)."""
        ...

    async def changed(self) -> None:
        """Return when its list of tools may have changed; raise KsiError when it is gone."""
        ...


Connect = Callable[[ServerSpec], AbstractAsyncContextManager[Connection]]


def pin(tool: Tool) -> str:
    """Return the hash of all that a model or a person is told of *tool*."""
    told = [tool.name, tool.description, tool.schema, tool.annotations]
    return sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()
