"""What rules and timers do when their time has come: submit an event, or speak to an agent.

Both act with the rights of who made them, as they are at that moment. A maker that is an agent
cannot have done for it what it may not do itself, and what it made ends with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.errors import Conflict, Denied, InvalidData, UnknownEvent
from ksi_daemon.router import Context, Router
from ksi_daemon.security import SYSTEM, Principal, is_permitted

__all__ = [
    "MAX_PER_AGENT",
    "Makers",
    "Name",
    "Target",
    "ToAgent",
    "check_room",
    "check_target",
    "named",
    "owned",
]

# An agent that needs more has lost its way.
MAX_PER_AGENT: Final = 16

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_][a-z0-9_-]{0,63}$")]
# The principal of a living agent, None for one that has ended.
Makers = Callable[[str], Principal | None]


class ToAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that is given a message."""

    agent: str


# The name of an event, or an agent.
Target = str | ToAgent


def named(target: Target, data: dict[str, Any] | None) -> tuple[str, dict[str, Any] | None]:
    """Return the event that *target* means and its data; a message is an event as well."""
    if isinstance(target, str):
        return target, data
    return "agent:send", {**(data or {}), "agent_id": target.agent}


def owned(agent_id: str | None, makers: Makers) -> Principal | None:
    """Return who acts for *agent_id*, an operator for None; None if it lives no more."""
    return SYSTEM if agent_id is None else makers(agent_id)


def check_target(router: Router, event: str, maker: Principal) -> None:
    """Raise what forbids *maker* to have *event* submitted later.

    What stands belongs to a living agent or to an operator; nobody else's rights could be asked
    for when it acts.
    """
    if maker.agent_id is None and not maker.operator:
        raise Denied(f"{maker.source} is no agent: nothing can act for it later")
    handlers = router.registry.handlers(event)
    if not handlers:
        raise UnknownEvent(event, router.known_to(maker))
    effect = handlers[0].effect
    if effect == "observe":
        raise InvalidData(
            f"{event!r} only reads: nobody would hear the answer", details={"path": "target"}
        )
    if not is_permitted(maker, event, effect):
        raise Denied(f"{maker.source} may not emit {event!r}, nor have it emitted")


def check_room(what: str, owners: list[str | None], ctx: Context, limit: int) -> None:
    """Raise Conflict if there are *limit* of *what*, or as many as an agent may have."""
    if len(owners) >= limit:
        raise Conflict(f"there are {limit} {what} already", code=f"too_many_{what}")
    if ctx.agent_id is not None and owners.count(ctx.agent_id) >= MAX_PER_AGENT:
        raise Conflict(
            f"{ctx.principal.source} has {MAX_PER_AGENT} {what} already", code=f"too_many_{what}"
        )
