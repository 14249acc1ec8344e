"""How many agents an agent may bring to life, over generations (FAULTS.md H8).

Counted is for life, not what lives: who spawns, ends and spawns again comes to the same limit.
The counts are in the log with the agents, so a restart forgets none. What an operator spawns is
not counted; each such agent is the root of a family.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Iterable

import msgspec

from ksi_daemon.component import Limits
from ksi_daemon.errors import Denied
from ksi_daemon.log import statements
from ksi_daemon.loop import LoopLimits
from ksi_daemon.security import held
from ksi_daemon.security.buckets import Buckets
from ksi_daemon.services.agents.spec import Spec, loop_limits
from ksi_daemon.work import Statement

__all__ = ["Families", "FamilyLimits", "adopted", "shrunk"]


class FamilyLimits(msgspec.Struct, frozen=True):
    """Bounds on one family: generations below its root, children of one agent in its life,
    descendants of the root in all; how many one agent spawns a second, and at once."""

    depth: int = 3
    children: int = 5
    descendants: int = 32
    spawns_per_s: float = 1.0
    spawns_burst: int = 5


class Families:
    """The counts of the families that have a living member."""

    def __init__(self, limits: FamilyLimits) -> None:
        self._limits = limits
        self._buckets = Buckets()
        self._children: Counter[str] = Counter()  # by spawn_id
        self._descendants: Counter[str] = Counter()  # by root_id
        self._living: Counter[str] = Counter()  # by root_id
        self._named: dict[str, set[str]] = {}  # the living children, by the parent's spawn_id

    def restore(self, counts: Iterable[tuple[str, int, int]], living: Container[str]) -> None:
        """Take in what earlier runs counted, for those who are *living* by their spawn_id."""
        for spawn_id, children, descendants in counts:
            if spawn_id in living:
                self._children[spawn_id] = children
            if spawn_id in self._living:
                self._descendants[spawn_id] = descendants

    def check(self, parent: Spec) -> None:
        """Raise Denied (``spawn_limit``, ``rate_limit``) if *parent* may not have another child."""
        name, limits = f"agent:{parent.agent_id}", self._limits
        if parent.depth >= limits.depth:
            raise _limit(f"{name} is of generation {parent.depth}, the limit is {limits.depth}")
        if self._children[parent.spawn_id] >= limits.children:
            raise _limit(f"{name} has spawned {limits.children} agents, which is the limit")
        if self._descendants[parent.root_id] >= limits.descendants:
            raise _limit(f"the family of {name} has had {limits.descendants} members, the limit")
        per_s, burst = limits.spawns_per_s, limits.spawns_burst
        wait = self._buckets.take(parent.spawn_id, time.monotonic(), per_s=per_s, burst=burst)
        if wait:
            raise Denied(
                f"{name} spawns more than {per_s:g} agents a second",
                code="rate_limit",
                hint=f"it may again in {wait:.1f} s",
                retryable=True,
            )

    def begin(self, spec: Spec) -> None:
        """Count an agent as living."""
        self._living[spec.root_id] += 1
        if spec.parent_spawn_id:
            self._named.setdefault(spec.parent_spawn_id, set()).add(spec.agent_id)

    def add(self, parent: Spec) -> list[Statement]:
        """Count a child of *parent*; return the rows that keep the count."""
        self._children[parent.spawn_id] += 1
        self._descendants[parent.root_id] += 1
        return statements.spawned(parent.spawn_id, parent.root_id)

    def end(self, spec: Spec) -> bool:
        """Forget the counts that nobody can ask for any more; say whether the family has ended."""
        del self._children[spec.spawn_id]
        self._named.pop(spec.spawn_id, None)
        self._named.get(spec.parent_spawn_id, set()).discard(spec.agent_id)
        self._living[spec.root_id] -= 1
        if self._living[spec.root_id]:
            return False
        del self._living[spec.root_id]
        del self._descendants[spec.root_id]
        return True

    def children(self, parent: Spec) -> Container[str]:
        """Return the ids of the living children of *parent*."""
        return self._named.get(parent.spawn_id, ())


def adopted(spec: Spec, parent: Spec | None, spawn_id: str, defaults: LoopLimits) -> Spec:
    """Return *spec* as that of a child of *parent*, None being an operator.

    *spawn_id* is the id of the event that brings it to life. A child may use up no more than its
    parent may.
    """
    root_id = spawn_id if parent is None else parent.root_id
    spec = msgspec.structs.replace(
        spec, spawn_id=spawn_id, root_id=root_id, allow=held(spec.allow, f"{root_id}/{spawn_id}")
    )
    if parent is None:
        return spec
    return msgspec.structs.replace(
        spec,
        parent_spawn_id=parent.spawn_id,
        depth=parent.depth + 1,
        limits=shrunk(spec.limits, loop_limits(parent.limits, defaults)),
    )


def shrunk(limits: Limits, bounds: LoopLimits) -> Limits:
    """Return *limits* with nothing in them beyond *bounds*, and set where *bounds* are."""
    least = {}
    for name in Limits.__struct_fields__:
        given = [v for v in (getattr(limits, name), getattr(bounds, name)) if v is not None]
        least[name] = min(given, default=None)
    return Limits(**least)


def _limit(message: str) -> Denied:
    return Denied(message, code="spawn_limit")
