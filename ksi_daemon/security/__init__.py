"""Who may do what, and which text may be acted on. Pure decisions; the router carries them out."""

from __future__ import annotations

from ksi_daemon.security.approvals import binding
from ksi_daemon.security.capabilities import (
    Effect,
    is_permitted,
    must_ask,
    not_covered,
    permitted,
)
from ksi_daemon.security.data import checked, storable
from ksi_daemon.security.principals import SYSTEM, Principal, agent, client, handler, stand_in

__all__ = [
    "SYSTEM",
    "Effect",
    "Principal",
    "agent",
    "binding",
    "checked",
    "client",
    "handler",
    "is_permitted",
    "must_ask",
    "not_covered",
    "permitted",
    "stand_in",
    "storable",
]
