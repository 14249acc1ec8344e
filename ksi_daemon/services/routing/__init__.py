"""routing:* and timer:*: what happens by itself, because of an event or at a time."""

from __future__ import annotations

from ksi_daemon.services.routing.rules import Rules
from ksi_daemon.services.routing.timers import Timers

__all__ = ["Rules", "Timers"]
