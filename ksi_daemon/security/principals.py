"""Principals: who submits an event. Stamped by the daemon, never read from data."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["SYSTEM", "Principal", "agent", "client", "handler", "stand_in"]


class Principal(msgspec.Struct, frozen=True):
    """Someone who submits events.

    *source* is what the log shows, *scope* within what an idempotency key is unique (a client
    keeps its scope when it reconnects). *allow* are event patterns; an operator needs none.
    """

    kind: Literal["system", "client", "agent", "handler"]
    source: str
    scope: str
    allow: tuple[str, ...] = ()
    agent_id: str | None = None
    operator: bool = False


SYSTEM: Final = Principal("system", "system", "system", operator=True)


def client(uid: int, connection: int) -> Principal:
    """Return the operator at the other end of a socket; the transport has checked the uid."""
    return Principal("client", f"client:{uid}/{connection}", f"client:{uid}", operator=True)


def agent(agent_id: str, allow: tuple[str, ...]) -> Principal:
    """Return an agent that may emit the events that *allow* matches."""
    source = f"agent:{agent_id}"
    return Principal("agent", source, source, allow, agent_id)


def handler(name: str, cause: Principal) -> Principal:
    """Return the handler of event *name* acting for *cause*, with the rights of its cause."""
    source = f"handler:{name}"
    return Principal("handler", source, source, cause.allow, cause.agent_id, cause.operator)


def stand_in(source: str, maker: Principal) -> Principal:
    """Return what acts by itself for *maker*, a rule or a timer: with its rights and no more."""
    return msgspec.structs.replace(maker, kind="handler", source=source, scope=source)
