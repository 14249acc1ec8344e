"""agent:*: who the agents are, their mailboxes, their lives."""

from __future__ import annotations

from ksi_daemon.services.agents.family import FamilyLimits
from ksi_daemon.services.agents.mailboxes import Mailboxes
from ksi_daemon.services.agents.service import Agents
from ksi_daemon.services.agents.spec import Defaults

__all__ = ["Agents", "Defaults", "FamilyLimits", "Mailboxes"]
