"""Grants: a right, when it holds, how often, and whether it may be passed on. Pure.

Where rights are given (``allow``) stand patterns of events, and objects where a right shall be
narrower:

    event       the pattern
    where       what the event's data must say (``conditions``)
    budget      how often it may be used, by its holder and all whom the holder gives it to
    delegable   whether children may be given it; a number: for so many generations
    tainted     whether it stands when the agent has read untrusted text (only egress asks)
    template    for agent:spawn of named components: the child has the rights of its component,
                whatever its parent has

A child's right is what it asks for within what its parent may pass on, and keeps both sets of
conditions, so no chain of spawns comes to more than the first of them was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.security.conditions import Bound, Where, fixed

__all__ = [
    "TEMPLATE_FIELDS",
    "Entry",
    "Grant",
    "Holding",
    "Right",
    "as_rights",
    "check_grants",
    "distinct",
    "held",
    "passed_on",
    "pattern_of",
    "purses",
    "shown",
]

# What a spawn by a template may say; all else is for the component to say.
TEMPLATE_FIELDS: Final = frozenset(
    {"component", "agent_id", "prompt", "variables", "report", "limits"}
)

_Count = Annotated[int, msgspec.Meta(ge=1)]


class Grant(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A right as it is asked for or given; see the module."""

    event: str
    where: Where = {}
    budget: _Count | None = None
    delegable: bool | _Count = True
    tainted: bool = False
    template: bool = False


class Right(Grant, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A right that an agent holds.

    *purse* names what its budget is counted in. *within* are the rights of others that it was
    made of, their words bound to these others; what they do not permit it does not either.
    """

    purse: str = ""
    within: tuple[Right, ...] = ()


# As it is asked for, and as it is held: a bare pattern is a right without conditions.
Entry = str | Grant
Holding = str | Right


def pattern_of(entry: Entry) -> str:
    """Return the pattern of events that *entry* is about."""
    return entry if isinstance(entry, str) else entry.event


def check_grants(entries: Iterable[Entry]) -> None:
    """Raise InvalidData for a grant that cannot mean anything."""
    for entry in entries:
        if not isinstance(entry, str):
            _check(entry)


def as_rights(entries: Iterable[Entry]) -> tuple[Holding, ...]:
    """Return *entries* as rights, each once."""
    return distinct(_plain(_as_right(entry)) for entry in entries)


def held(rights: Iterable[Holding], holder: str) -> tuple[Holding, ...]:
    """Return *rights* in the hands of *holder*: what has a budget gets a purse of its own."""
    return tuple(
        right
        if isinstance(right, str) or right.budget is None
        else msgspec.structs.replace(right, purse=f"{holder}.{number}")
        for number, right in enumerate(rights)
    )


def passed_on(asked: Entry, holding: Holding, agent_id: str, parent: str | None) -> Holding | None:
    """Return what *agent_id*, whose is *holding*, gives to a child that asks for *asked*.

    None if it may not be passed on. That the pattern of one covers that of the other is for the
    caller to see to.
    """
    given, wanted = _as_right(holding), _as_right(asked)
    left = _generations(given)
    if left < 1:
        return None
    bounds = given.within
    if given.where or given.budget is not None:
        alone = msgspec.structs.replace(
            given, where=fixed(given.where, agent_id, parent), within=(), delegable=True
        )
        bounds = (alone, *bounds)
    return _plain(
        msgspec.structs.replace(
            wanted,
            delegable=_delegable(min(_generations(wanted), left - 1)),
            tainted=wanted.tainted and given.tainted,
            template=wanted.template and given.template,
            within=distinct((*bounds, *wanted.within)),
        )
    )


def purses(right: Right) -> Iterator[tuple[str, int]]:
    """Yield each purse that a use of *right* is charged to, and how much it holds."""
    for each in (right, *right.within):
        if each.budget is not None:
            yield each.purse, each.budget


def shown(holding: Holding, used: dict[str, int]) -> Any:
    """Return *holding* for people: as it was given, and what is *left* of its budget."""
    if isinstance(holding, str):
        return holding
    told = msgspec.to_builtins(holding)
    told.pop("purse", None)
    if holding.within:
        told["within"] = [shown(each, used) for each in holding.within]
    if holding.budget is not None:
        told["left"] = max(0, holding.budget - used.get(holding.purse, 0))
    return told


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return *values*, which need not be hashable, each once."""
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return tuple(kept)


def _check(grant: Grant) -> None:
    for field, condition in grant.where.items():
        terms = condition if isinstance(condition, tuple) else (condition,)
        if not terms:
            raise _invalid(grant, f"nothing fits an empty list for {field!r}")
        for term in terms:
            if isinstance(term, Bound) and len(msgspec.to_builtins(term)) != 1:
                raise _invalid(grant, f"{field!r} takes one of prefix, equals, children_of")
    if grant.template:
        component = grant.where.get("component")
        named = component if isinstance(component, tuple) else (component,)
        if grant.event != "agent:spawn" or not all(isinstance(each, str) for each in named):
            raise _invalid(grant, "a template is a right to agent:spawn where component is named")


def _invalid(grant: Grant, what: str) -> InvalidData:
    return InvalidData(f"the right to {grant.event!r}: {what}", details={"path": "allow"})


def _as_right(entry: Entry) -> Right:
    if isinstance(entry, str):
        return Right(event=entry)
    if isinstance(entry, Right):
        return entry
    return Right(**{name: getattr(entry, name) for name in Grant.__struct_fields__})


def _plain(right: Right) -> Holding:
    """Return *right* as a bare pattern if that is all it is."""
    # The truth of delegable is asked for by itself: in Python it equals 1, one generation.
    bare = right.delegable is True and right == Right(event=right.event)
    return right.event if bare else right


def _generations(right: Right) -> float:
    if isinstance(right.delegable, bool):
        return inf if right.delegable else 0
    return right.delegable


def _delegable(generations: float) -> bool | int:
    return generations > 0 if generations in (0, inf) else int(generations)
