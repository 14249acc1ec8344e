"""Names for the shell to complete, from the daemon if one answers at once; otherwise none."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import click

from ksi_client.session import Session
from ksi_daemon.errors import KsiError

__all__ = [
    "agent_ids",
    "agent_ids_or_events",
    "approval_ids",
    "component_names",
    "event_names",
    "rule_names",
    "timer_names",
    "tool_names",
]

# A shell that waits for its user's Tab must not wait for us.
PATIENCE_S: Final = 0.25


def event_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the events that begin with *incomplete*."""
    found = _asked(context, "system:discover", {"pattern": f"{incomplete}*"})
    return [event["name"] for event in found.get("events", ())]


def agent_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the agents whose ids begin with *incomplete*."""
    listed = _asked(context, "agent:list", {}).get("agents", ())
    return [agent["agent_id"] for agent in listed if agent["agent_id"].startswith(incomplete)]


def agent_ids_or_events(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the agents and the events whose names begin with *incomplete*."""
    events = event_names(context, parameter, incomplete)
    return agent_ids(context, parameter, incomplete) + events


def rule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the rules whose names begin with *incomplete*."""
    return _named(_asked(context, "routing:list_rules", {}).get("rules", ()), incomplete)


def timer_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the timers whose names begin with *incomplete*."""
    return _named(_asked(context, "timer:list", {}).get("timers", ()), incomplete)


def component_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the components whose names begin with *incomplete*."""
    found = _asked(context, "composition:list", {})
    listed = (*found.get("components", ()), *found.get("broken", ()))
    return _named(listed, incomplete)


def approval_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the approvals that wait and whose ids begin with *incomplete*."""
    waiting = _asked(context, "approval:list", {}).get("approvals", ())
    ids = [each["approval_id"] for each in waiting]
    return [each for each in ids if each.startswith(incomplete)]


def tool_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the tools whose names begin with *incomplete*."""
    found = _asked(context, "tool:list", {"pattern": f"{incomplete}*"})
    return [tool["name"] for tool in found.get("tools", ())]


def _named(listed: Iterable[dict[str, Any]], incomplete: str) -> list[str]:
    return [each["name"] for each in listed if each["name"].startswith(incomplete)]


def _asked(context: click.Context, event: str, data: dict[str, Any]) -> dict[str, Any]:
    session = context.ensure_object(Session)
    with suppress(KsiError), session.client(patience_s=0) as client:
        result = client.request(event, data, timeout=PATIENCE_S)
        return result if isinstance(result, dict) else {}
    return {}
