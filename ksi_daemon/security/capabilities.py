"""Capabilities: which events a principal may submit."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, Literal

from ksi_daemon.events import matches_any
from ksi_daemon.security.principals import Principal

__all__ = ["SELF_REPORT", "Effect", "is_permitted", "must_ask", "not_covered", "permitted"]

# What an event does to the world; a handler states it, permission and logging depend on it.
Effect = Literal["observe", "write", "spawn", "exec", "egress", "admin", "notice"]

# What every agent may say about itself, whatever else it was granted.
SELF_REPORT: Final = ("agent:status", "agent:progress", "agent:result")


def is_permitted(principal: Principal, event: str, effect: Effect) -> bool:
    """Say whether *principal* may submit *event*.

    Notices are the daemon's own word: nobody else may write one, not even an operator.
    An agent may do what a pattern of its grant matches. A grant of a bare ``*`` or of a pattern
    does not reach ``admin`` events: those must be named in full. What is denied it may not, however
    it was granted; what it must ask for it may.
    """
    if effect == "notice":
        return principal.kind == "system"
    if principal.operator:
        return True
    if principal.deny and matches_any(principal.deny, event):
        return False
    if event in SELF_REPORT:
        return True
    if effect == "admin":
        return event in principal.allow
    return matches_any(principal.allow, event)


def must_ask(principal: Principal, event: str) -> bool:
    """Say whether a person must approve of *event* before *principal* may submit it."""
    return bool(principal.ask) and not principal.operator and matches_any(principal.ask, event)


def permitted(principal: Principal, events: Iterable[tuple[str, Effect]]) -> list[str]:
    """Return the names of those *events* that *principal* may submit."""
    return [name for name, effect in events if is_permitted(principal, name, effect)]


def not_covered(
    asked: Iterable[str], granted: tuple[str, ...], admin: Container[str] = ()
) -> list[str]:
    """Return those patterns of *asked* that give a right which none of *granted* gives.

    Sound and simple: a pattern is covered by an equal one, or by a prefix pattern (``agent:*``)
    that its own fixed beginning starts with. The names of *admin* events are covered by
    themselves only, since no pattern reaches these.
    """
    prefixes = tuple(each[:-1] for each in granted if each.endswith("*") and "*" not in each[:-1])
    known = {*granted, *SELF_REPORT}
    return [
        each
        for each in asked
        if each not in known and (each in admin or not each.partition("*")[0].startswith(prefixes))
    ]
