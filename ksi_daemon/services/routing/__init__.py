"""routing:* and timer:*: what happens by itself, because of an event or at a time."""

from __future__ import annotations

from ksi_daemon.services.routing.rules import Rules

__all__ = ["Rules"]
