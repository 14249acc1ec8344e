"""Taint: an agent that has read untrusted text may be led by it. Pure.

Untrusted is what a client says is untrusted, what a tool returns from outside, and whatever an
agent says that is tainted itself. Taint is for life: what a model has read it cannot unread.
"""

from __future__ import annotations

from collections.abc import Callable

from ksi_daemon.events import Event
from ksi_daemon.security.principals import Principal

__all__ = ["is_carried"]


def is_carried(event: Event, principal_of: Callable[[str], Principal | None]) -> bool:
    """Say whether *event* holds words of a tainted agent, or of one that nobody knows any more.

    *principal_of* finds a living agent.
    """
    if event.agent_id is None:
        return False
    # What the daemon tells of an agent is its own word, but for what the model wrote.
    if event.source == "system" and not event.name.startswith("completion:"):
        return False
    writer = principal_of(event.agent_id)
    return writer is None or writer.tainted
