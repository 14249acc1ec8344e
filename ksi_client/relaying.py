"""MCP between a host and a daemon: what is passed on, and what is said while there is none.

No I/O: lines in, lines out. A host opens its session once, so the session must outlive the
daemon: the host's first words are kept, said again to the next daemon, and that one's answer to
them is not passed on. While there is no daemon the host is told so, in MCP.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ksi_daemon import __version__
from ksi_daemon.errors import KsiError
from ksi_daemon.events import ErrorInfo

__all__ = ["Relay", "id_of_long_line", "too_long"]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
NO_DAEMON: Final = -32000
# What a daemon answers of these is left to it; to open a session without one, one must be named.
REVISIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_AGAIN: Final = "ksi-mcp-again"
_CHANGED: Final = ("notifications/tools/list_changed", "notifications/resources/list_changed")
# The id of a message whose line is not kept: only where it is the first or the last field can it
# not be another object's.
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST: Final = re.compile(_ID + rb"\s*\}\s*$")

Id = str | int


class _Said(msgspec.Struct):
    """What is looked at of a message; the rest is passed on unread."""

    id: Id | None = None
    method: str | None = None


class _Offer(msgspec.Struct, rename="camel"):
    protocol_version: str = ""


class _Opening(msgspec.Struct):
    params: _Offer = msgspec.field(default_factory=_Offer)


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: Id | None = None


class _Cancelling(msgspec.Struct):
    params: _Cancelled = msgspec.field(default_factory=_Cancelled)


class Relay:
    """One session of a host. *instructions* is what a host is told that finds no daemon."""

    def __init__(self, instructions: str) -> None:
        self._instructions = instructions
        self._opening: bytes | None = None
        self._opened: bytes | None = None
        self._under_way: dict[Id | None, None] = {}
        self._alone = False

    @property
    def waiting(self) -> bool:
        """Whether the host waits for an answer of the daemon."""
        return bool(self._under_way)

    def linked(self) -> list[bytes]:
        """Return what a daemon that is there now must be told first."""
        if self._opening is None:
            return []
        opening = msgspec.json.decode(self._opening)
        again = _line({**opening, "id": _AGAIN})
        return [again] if self._opened is None else [again, self._opened]

    def asked(self, line: bytes) -> tuple[list[bytes], list[bytes]]:
        """Take a line of the host's while a daemon is there: what goes to it, what goes back."""
        said, refusal = _read(line)
        if said is None:
            return [], [refusal]
        self._keep(said, line)
        if said.method is not None and said.id is not None:
            self._under_way[said.id] = None
        return [line], []

    def alone(self, line: bytes, error: KsiError) -> list[bytes]:
        """Take a line of the host's while there is no daemon; return what goes back."""
        said, refusal = _read(line)
        if said is None:
            return [refusal]
        self._keep(said, line)
        if said.method is None or said.id is None:
            return []
        if said.method == "initialize":
            self._alone = True
            return [_line({"jsonrpc": "2.0", "id": said.id, "result": self._welcome(line)})]
        if said.method == "ping":
            return [_line({"jsonrpc": "2.0", "id": said.id, "result": {}})]
        return [_refusal(said.id, NO_DAEMON, error.info())]

    def told(self, line: bytes) -> list[bytes]:
        """Take a line of the daemon's; return what goes to the host."""
        try:
            said = msgspec.json.decode(line, type=_Said)
        except msgspec.MsgspecError:
            return [line]
        if said.method is None and said.id == _AGAIN:
            # It is another daemon, or the first one at last: what it offers may be new.
            return [_line({"jsonrpc": "2.0", "method": method}) for method in _CHANGED]
        if said.method is None and said.id is not None:
            self._under_way.pop(said.id, None)
        return [line]

    def lost(self, error: KsiError) -> list[bytes]:
        """Take note that the daemon is gone; return the answers that the host will not get."""
        left, self._under_way = self._under_way, {}
        return [_refusal(each, NO_DAEMON, error.info()) for each in left]

    def _keep(self, said: _Said, line: bytes) -> None:
        if said.method == "initialize" and said.id is not None:
            self._opening, self._opened = line, None
        elif said.method == "notifications/initialized":
            self._opened = line
        elif said.method == "notifications/cancelled":
            self._under_way.pop(_cancelled(line), None)

    def _welcome(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a host that opens its session: the daemon will come."""
        try:
            offered = msgspec.json.decode(line, type=_Opening).params.protocol_version
        except msgspec.ValidationError:
            offered = ""
        changes = {"listChanged": True}
        return {
            "protocolVersion": offered if offered in REVISIONS else REVISIONS[0],
            "capabilities": {"tools": changes, "resources": changes},
            "serverInfo": {"name": "ksi", "version": __version__},
            "instructions": self._instructions,
        }


def id_of_long_line(begin: bytes, end: bytes) -> Id | None:
    """Return the id of the message of which only *begin* and *end* are there, if it is certain."""
    found = _FIRST.match(begin) or _LAST.search(end)
    return None if found is None else msgspec.json.decode(found[1], type=Id)


def too_long(which: Id | None, limit: int) -> bytes:
    """Return the answer to a message that is too long to be passed on."""
    error = ErrorInfo("frame_too_large", f"a message has at most {limit} bytes")
    return _refusal(which, INVALID_REQUEST, error)


def _read(line: bytes) -> tuple[_Said | None, bytes]:
    """Return what *line* says, or None and the answer to what is no message."""
    try:
        return msgspec.json.decode(line, type=_Said), b""
    except msgspec.ValidationError:
        error = ErrorInfo("bad_request", "the line is no message of JSON-RPC 2.0")
        return None, _refusal(None, INVALID_REQUEST, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return None, _refusal(None, PARSE_ERROR, ErrorInfo("bad_json", f"not JSON: {exc}"))


def _cancelled(line: bytes) -> Id | None:
    """Return the id of the request that *line* cancels: it will not be answered."""
    try:
        return msgspec.json.decode(line, type=_Cancelling).params.request_id
    except msgspec.ValidationError:
        return None


def _refusal(which: Id | None, code: int, error: ErrorInfo) -> bytes:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    told = {"code": code, "message": message, "data": error}
    return _line({"jsonrpc": "2.0", "id": which, "error": told})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message)
