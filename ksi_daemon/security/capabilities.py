"""Capabilities: which events a principal may submit, with which data, and what it may pass on.

An agent may do what a right of its own reaches. A pattern does not reach ``admin`` events, a bare
``*`` neither: those must be named in full. What is denied it may not, however it was granted; what
it must ask for it may. About itself it may always speak, about another by a right that names whom
(``where: {agent_id: children}``). An agent that has read untrusted text has
no ``egress``, unless a right says that it stands all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from ksi_daemon.errors import Denied
from ksi_daemon.events import matches, matches_any
from ksi_daemon.security.conditions import Situation, described, filled
from ksi_daemon.security.grants import (
    TEMPLATE_FIELDS,
    Entry,
    Holding,
    Right,
    distinct,
    passed_on,
    pattern_of,
    purses,
)
from ksi_daemon.security.principals import Principal

__all__ = [
    "SELF_REPORT",
    "Delegated",
    "Effect",
    "Permit",
    "conditions",
    "delegated",
    "is_permitted",
    "must_ask",
    "permit",
    "permitted",
    "reaching",
    "speaks_for",
]

# What an event does to the world; a handler states it, permission and logging depend on it.
Effect = Literal["observe", "write", "spawn", "exec", "egress", "admin", "notice"]

# What every agent may say about itself, whatever else it was granted.
SELF_REPORT: Final = ("agent:status", "agent:progress", "agent:result")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Permit(NamedTuple):
    """That an event may be submitted: by which *right*, None where none is needed, and what its
    conditions have *filled* in."""

    right: Right | None
    filled: Mapping[str, Any]


class Delegated(NamedTuple):
    """The *rights* that a child gets of those it asked for, and the patterns that are *missing*."""

    rights: tuple[Holding, ...]
    missing: list[str]


def is_permitted(principal: Principal, event: str, effect: Effect) -> bool:
    """Say whether *principal* may submit *event*, with some data at least.

    Notices are the daemon's own word: nobody else may write one, not even an operator.
    """
    if effect == "notice":
        return principal.kind == "system"
    if principal.operator:
        return True
    if principal.deny and matches_any(principal.deny, event):
        return False
    if event in SELF_REPORT:
        return True
    untainted = _needs_trust(principal, effect)
    return any(_stands(each, untainted) for each in reaching(principal, event, effect))


def permit(
    principal: Principal,
    event: str,
    effect: Effect,
    data: Callable[[], Mapping[str, Any]],
    at: Situation,
    used: Mapping[str, int],
) -> Permit:
    """Return by which right *principal* may submit *event*; raise Denied if by none.

    *data* is asked for where a right has conditions; *used* says what was taken of each purse.
    """
    if not is_permitted(principal, event, effect):
        raise _denied(principal, event, effect)
    if principal.operator or event in SELF_REPORT:
        return Permit(None, _NOTHING)
    untainted = _needs_trust(principal, effect)
    rights = [e for e in reaching(principal, event, effect) if _stands(e, untainted)]
    if any(isinstance(each, str) for each in rights) and not _templates(rights):
        return Permit(None, _NOTHING)
    return _best(principal, event, rights, data(), at, used)


def speaks_for(
    principal: Principal,
    event: str,
    effect: Effect,
    own: str,
    data: Mapping[str, Any],
    at: Situation,
) -> bool:
    """Say whether a right of *principal* names whom *event* may be about, in the field *own*."""
    return any(
        isinstance(each, Right) and own in each.where and _fitting(each, data, at) is not None
        for each in reaching(principal, event, effect)
    )


def must_ask(principal: Principal, event: str) -> bool:
    """Say whether a person must approve of *event* before *principal* may submit it."""
    return bool(principal.ask) and not principal.operator and matches_any(principal.ask, event)


def permitted(principal: Principal, events: Iterable[tuple[str, Effect]]) -> list[str]:
    """Return the names of those *events* that *principal* may submit."""
    return [name for name, effect in events if is_permitted(principal, name, effect)]


def reaching(principal: Principal, event: str, effect: Effect) -> Iterator[Holding]:
    """Yield the rights of *principal* that are about *event*, whatever their conditions."""
    for each in principal.allow:
        pattern = pattern_of(each)
        if pattern == event or (effect != "admin" and matches(pattern, event)):
            yield each


def conditions(principal: Principal, event: str, effect: Effect) -> str:
    """Return in words when *principal* may submit *event*; empty if whenever it likes."""
    rights = [*reaching(principal, event, effect)]
    if event in SELF_REPORT or principal.operator or any(isinstance(r, str) for r in rights):
        return ""
    return _said(each for each in rights if isinstance(each, Right))


def delegated(asked: Iterable[Entry], giver: Principal, admin: Container[str] = ()) -> Delegated:
    """Return what *giver* can pass on of what a child of its asks for.

    Sound and simple: a pattern is covered by an equal one, or by a prefix pattern (``agent:*``)
    that its own fixed beginning starts with. The names of *admin* events are covered by
    themselves only, since no pattern reaches these.
    """
    rights: list[Holding] = []
    missing: list[str] = []
    for entry in asked:
        pattern = pattern_of(entry)
        given = [
            right
            for holding in giver.allow
            if _covers(pattern_of(holding), pattern, admin)
            and (right := passed_on(entry, holding, giver.agent_id or "", giver.parent))
        ]
        if pattern in SELF_REPORT:
            rights.append(pattern)
        elif given:
            rights += given
        else:
            missing.append(pattern)
    return Delegated(distinct(rights), missing)


def _covers(granted: str, asked: str, admin: Container[str]) -> bool:
    if granted == asked:
        return True
    if asked in admin or not granted.endswith("*") or "*" in granted[:-1]:
        return False
    return asked.partition("*")[0].startswith(granted[:-1])


def _needs_trust(principal: Principal, effect: Effect) -> bool:
    return principal.tainted and effect == "egress"


def _stands(holding: Holding, untainted: bool) -> bool:
    return not untainted or (isinstance(holding, Right) and holding.tainted)


def _templates(rights: Iterable[Holding]) -> bool:
    return any(isinstance(each, Right) and each.template for each in rights)


def _best(
    principal: Principal,
    event: str,
    rights: list[Holding],
    data: Mapping[str, Any],
    at: Situation,
    used: Mapping[str, int],
) -> Permit:
    """Return the first right that fits and is not used up; templates and free ones go first."""
    fitting = [permit for each in rights if (permit := _fitting(each, data, at)) is not None]
    for found in sorted(fitting, key=_rank):
        if found.right is None or all(
            used.get(purse, 0) < size for purse, size in purses(found.right)
        ):
            return found
    if fitting:
        raise Denied(f"{principal.source} has used up its right to {event!r}", code="budget_spent")
    raise Denied(
        f"{principal.source} may not emit {event!r} with these data",
        hint="it may " + _said(each for each in rights if isinstance(each, Right)),
    )


def _fitting(holding: Holding, data: Mapping[str, Any], at: Situation) -> Permit | None:
    if isinstance(holding, str):
        return Permit(None, _NOTHING)
    if holding.template and not TEMPLATE_FIELDS.issuperset(data):
        return None
    more: dict[str, Any] = {}
    for each in (holding, *holding.within):
        found = filled(each.where, {**data, **more}, at)
        if found is None:
            return None
        more |= found
    return Permit(holding, more)


def _rank(permit: Permit) -> tuple[bool, bool]:
    right = permit.right
    return (
        right is None or not right.template,
        right is not None and any(True for _ in purses(right)),
    )


def _said(rights: Iterable[Right]) -> str:
    wheres = dict.fromkeys(each for right in rights for each in _wheres(right))
    return "where " + ", or where ".join(wheres) if wheres else ""


def _wheres(right: Right) -> Iterator[str]:
    told = " and ".join(described(each.where) for each in (right, *right.within) if each.where)
    if right.template:
        told += " and nothing is said but " + ", ".join(sorted(TEMPLATE_FIELDS))
    if told:
        yield told


def _denied(principal: Principal, event: str, effect: Effect) -> Denied:
    if _needs_trust(principal, effect) and any(reaching(principal, event, effect)):
        return Denied(
            f"{principal.source} has read untrusted text and may send nothing out by {event!r}",
            code="tainted",
            hint="a person can grant the right with tainted: true, and have each call ask",
        )
    return Denied(f"{principal.source} may not emit {event!r}")
