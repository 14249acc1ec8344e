"""What of an event's data may be believed: its form, its depth, what it says about its sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.errors import Denied, InvalidData
from ksi_daemon.security.principals import Principal

__all__ = ["MAX_DEPTH", "checked", "fields_of", "storable", "with_fields"]

# Deeper text makes JSON decoders, SQLite's json functions and readers of the log fail.
MAX_DEPTH: Final = 64
# How a key that starts with ``_`` can begin; JSON may write any character as an escape.
_RESERVED: Final = (b'"_', b'"\\u005')


def checked(
    data: msgspec.Raw,
    principal: Principal,
    *,
    event: str,
    own: str | None,
    speaks_for: Callable[[dict[str, Any]], bool] = lambda fields: False,
) -> msgspec.Raw:
    """Return *data* as a handler may see it.

    It must be an object of at most MAX_DEPTH levels. Keys that start with ``_`` are the daemon's:
    a client that sends them is told so, an agent's are dropped. *own* is the field that must name
    the agent that sends it, or one that it *speaks_for*; it is filled in when absent.

    Raise InvalidData, or Denied for an agent that speaks of another and for a program that is
    none.
    """
    raw = bytes(data)
    if raw[:1] != b"{":
        raise InvalidData("data must be an object", details={"path": ""})
    if _too_deep(raw):
        raise InvalidData(f"data nests deeper than {MAX_DEPTH}", code="depth_limit")
    agent_id = principal.agent_id
    if own is not None and agent_id is None and not principal.operator:
        raise Denied(f"{event!r} is for agents: {principal.source} is none")
    if not any(mark in raw for mark in _RESERVED) and (own is None or agent_id is None):
        return data
    fields = _decoded(raw)
    _drop_reserved(fields, principal)
    if own is not None and agent_id is not None:
        about = fields.setdefault(own, agent_id)
        if about != agent_id and not speaks_for(fields):
            raise Denied(f"{principal.source} may emit {event!r} about itself only")
    return msgspec.Raw(msgspec.json.encode(fields))


def fields_of(data: msgspec.Raw) -> dict[str, Any]:
    """Return the fields of *data*; raise InvalidData if it is no object."""
    fields: dict[str, Any] = _decoded(bytes(data))
    return fields


def with_fields(data: msgspec.Raw, more: Mapping[str, Any]) -> msgspec.Raw:
    """Return *data* with *more* fields."""
    return msgspec.Raw(msgspec.json.encode({**fields_of(data), **more}))


def storable(data: msgspec.Raw) -> msgspec.Raw:
    """Return refused *data* in a form that the log takes: what no reader could decode is text."""
    raw = bytes(data)
    try:
        if not _too_deep(raw):
            _decoded(raw)
            return data
    except InvalidData:
        pass  # and so it is kept as text, like what is too deep
    return msgspec.Raw(msgspec.json.encode({"refused": raw.decode(errors="replace")}))


def _drop_reserved(fields: dict[str, object], principal: Principal) -> None:
    reserved = [key for key in fields if key.startswith("_")]
    if reserved and principal.kind == "client":
        raise InvalidData(
            f"{reserved[0]!r}: keys that start with '_' are the daemon's",
            details={"path": reserved[0]},
        )
    for key in reserved:
        del fields[key]


def _too_deep(raw: bytes) -> bool:
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    try:
        return _depth(_decoded(raw)) > MAX_DEPTH
    except RecursionError:
        return True


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise InvalidData(f"data is not JSON: {exc}") from exc


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [child for node in level for child in _children(node)]
    return depth


def _children(node: dict[str, object] | list[object]) -> Iterable[object]:
    return node.values() if isinstance(node, dict) else node
