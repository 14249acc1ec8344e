"""Principals: who submits an event. Stamped by the daemon, never read from data."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ksi_daemon.security.grants import Holding

__all__ = ["SYSTEM", "Principal", "agent", "client", "handler", "stand_in"]


class Principal(msgspec.Struct, frozen=True):
    """Someone who submits events.

    *source* is what the log shows, *scope* within what an idempotency key is unique (a client
    keeps its scope when it reconnects). *allow* are rights (``grants``); an operator needs none.
    What *deny* matches is not allowed after all, and of what *ask* matches each call needs a
    person's approval. *human*: a person is at the other end, who can give it. *parent* is the agent
    that spawned an agent. *tainted*: the agent has read untrusted text.
    """

    kind: Literal["system", "client", "agent", "handler"]
    source: str
    scope: str
    allow: tuple[Holding, ...] = ()
    agent_id: str | None = None
    operator: bool = False
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    human: bool = False
    parent: str | None = None
    tainted: bool = False


SYSTEM: Final = Principal("system", "system", "system", operator=True)


def client(uid: int, connection: int, *, human: bool = False) -> Principal:
    """Return the operator at the other end of a socket; the transport has checked the uid."""
    source = f"client:{uid}/{connection}"
    return Principal("client", source, f"client:{uid}", operator=True, human=human)


def agent(
    agent_id: str,
    allow: tuple[Holding, ...],
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    *,
    parent: str | None = None,
    tainted: bool = False,
) -> Principal:
    """Return an agent that may emit the events that *allow* matches, as *ask* and *deny* say."""
    source = f"agent:{agent_id}"
    return Principal(
        "agent",
        source,
        source,
        allow,
        agent_id,
        ask=ask,
        deny=deny,
        parent=parent,
        tainted=tainted,
    )


def handler(name: str, cause: Principal) -> Principal:
    """Return the handler of event *name* acting for *cause*, with the rights of its cause."""
    source = f"handler:{name}"
    return stand_in(source, cause)


def stand_in(source: str, maker: Principal) -> Principal:
    """Return what acts by itself for *maker*, a rule or a timer: with its rights and no more."""
    return msgspec.structs.replace(maker, kind="handler", source=source, scope=source, human=False)
