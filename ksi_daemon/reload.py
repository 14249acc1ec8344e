"""Settings read again while the daemon runs: what changes at once, and what needs a restart."""

from __future__ import annotations

from typing import Final, NamedTuple

from ksi_daemon.config import Settings

__all__ = ["AT_ONCE", "Changes", "changes"]

# Each is a bound or a default that is looked up when it is needed; everything else is built in.
AT_ONCE: Final = frozenset(
    {
        "provider",
        "base_url",
        "api_key_env",
        "model",
        "protocol",
        "prices",
        "drain_timeout_s",
        "handler_timeout_s",
        "max_hops",
        "max_events_per_root",
        "agent_events_per_s",
        "agent_events_burst",
        "max_turns",
        "max_mistakes",
        "max_identical_turns",
        "max_same_calls",
        "max_exchange_tokens",
        "max_exchange_usd",
        "max_exchange_s",
    }
)


class Changes(NamedTuple):
    """Names of settings: those that are in force now, those that wait for a restart."""

    changed: list[str]
    needs_restart: list[str]


def changes(old: Settings, new: Settings) -> Changes:
    """Return which settings differ."""
    differing = [
        name for name in Settings.__struct_fields__ if getattr(old, name) != getattr(new, name)
    ]
    return Changes(
        [name for name in differing if name in AT_ONCE],
        [name for name in differing if name not in AT_ONCE],
    )
