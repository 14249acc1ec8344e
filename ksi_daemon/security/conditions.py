"""Conditions: what the data of an event must say for a right to hold. Pure.

``where`` names fields of the data, each with a condition:

    self, parent, children   the id of the agent itself, of its parent, of one of its children
    story                    the correlation id of the story that the event belongs to
    {prefix: "notes/{self}/"}   a text that begins so; ``{self}`` is the agent's id
    {equals: "self"}         this very value, which would be a word otherwise
    {children_of: "boss"}    the id of a child of that agent
    null                     the field is absent, null or empty
    anything else            this very value
    a list                   one of these

All fields must fit. Of a list in the data each element must. A field that is absent is filled in
where only one value would do, so that an agent need not write what it may say only in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NamedTuple

import msgspec

__all__ = ["Bound", "Condition", "Situation", "Where", "described", "filled", "fixed"]


class Bound(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition that is no plain value; one of the fields is set."""

    prefix: str | None = None
    equals: str | None = None
    children_of: str | None = None


Term = str | int | float | bool | Bound | None
Condition = str | int | float | bool | Bound | tuple[Term, ...] | None
Where = dict[str, Condition]

_SELF: Final = "{self}"
_OPEN: Final = object()
_SAID: Final = {
    "self": "its own id",
    "parent": "the id of its parent",
    "children": "the id of a child of its own",
    "story": "the story that it is in",
}


class Situation(NamedTuple):
    """What the words of a condition mean: who asks, in which story, and who is whose child."""

    agent_id: str
    parent: str | None
    story: str | None
    children_of: Callable[[str], Container[str]]


def filled(where: Where, data: Mapping[str, Any], at: Situation) -> dict[str, Any] | None:
    """Return what is to be filled in for *data* to fit *where*, None if they do not fit."""
    missing: dict[str, Any] = {}
    for field, condition in where.items():
        value = data.get(field)
        if value is None or value == []:
            value = _only(condition, at)
            if value is _OPEN:
                return None
            if value is not None:
                missing[field] = value
        elif not _fits(condition, value, at):
            return None
    return missing


def fixed(where: Where, agent_id: str, parent: str | None) -> Where:
    """Return *where* with its words bound to the agent that has the right now.

    So it keeps its meaning in other hands. A story stays that of the event at hand.
    """
    return {field: _fixed(each, agent_id, parent) for field, each in where.items()}


def described(where: Where) -> str:
    """Return *where* in words, for models and people."""
    return " and ".join(f"{field} is {_said(condition)}" for field, condition in where.items())


def _only(condition: Condition, at: Situation) -> Any:
    """Return the one value that *condition* leaves, _OPEN if there is none or many."""
    if isinstance(condition, tuple):
        return _only(condition[0], at) if len(condition) == 1 else _OPEN
    if isinstance(condition, Bound):
        return _OPEN if condition.equals is None else condition.equals
    if condition == "self":
        return at.agent_id
    if condition == "parent":
        return _OPEN if at.parent is None else at.parent
    if condition == "story":
        return _OPEN if at.story is None else at.story
    return _OPEN if condition == "children" else condition


def _fits(condition: Condition, value: Any, at: Situation) -> bool:
    if isinstance(value, list):
        return all(_fits(condition, each, at) for each in value)
    if isinstance(condition, tuple):
        return any(_fits(each, value, at) for each in condition)
    if not isinstance(condition, Bound) and condition != "children":
        only = _only(condition, at)
        return only is not _OPEN and _equal(only, value)
    if not isinstance(value, str):
        return False
    if not isinstance(condition, Bound):
        return value in at.children_of(at.agent_id)
    if condition.prefix is not None:
        begins = condition.prefix.replace(_SELF, at.agent_id)
        # What climbs out of a path begins as it should and is elsewhere.
        return value.startswith(begins) and ".." not in value.split("/")
    if condition.children_of is not None:
        return value in at.children_of(condition.children_of)
    return value == condition.equals


def _equal(one: Any, other: Any) -> bool:
    # In Python True is 1.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _fixed(condition: Condition, agent_id: str, parent: str | None) -> Condition:
    terms = condition if isinstance(condition, tuple) else (condition,)
    # What names the parent of an agent that has none names nobody.
    kept = [each for each in terms if each != "parent" or parent is not None]
    bound = tuple(_fixed_term(each, agent_id, parent) for each in kept)
    return bound if isinstance(condition, tuple) or not bound else bound[0]


def _fixed_term(term: Term, agent_id: str, parent: str | None) -> Term:
    if isinstance(term, Bound):
        return term if term.prefix is None else Bound(prefix=term.prefix.replace(_SELF, agent_id))
    if term == "self":
        return Bound(equals=agent_id)
    if term == "parent":
        return Bound(equals=parent)
    return Bound(children_of=agent_id) if term == "children" else term


def _said(condition: Condition) -> str:
    if isinstance(condition, tuple):
        return " or ".join(map(_said, condition)) or "nothing that there is"
    if isinstance(condition, Bound):
        if condition.prefix is not None:
            return f"a text that begins with {condition.prefix!r}"
        if condition.children_of is not None:
            return f"the id of a child of {condition.children_of!r}"
        return repr(condition.equals)
    if condition is None:
        return "not given"
    if isinstance(condition, str) and condition in _SAID:
        return _SAID[condition]
    return msgspec.json.encode(condition).decode()
