"""Who may do what, and which text may be acted on. Pure decisions; the router carries them out."""

from __future__ import annotations

from ksi_daemon.security.approvals import binding
from ksi_daemon.security.capabilities import (
    Effect,
    Permit,
    delegated,
    is_permitted,
    must_ask,
    permit,
    permitted,
    speaks_for,
)
from ksi_daemon.security.conditions import Situation
from ksi_daemon.security.data import checked, fields_of, storable, with_fields
from ksi_daemon.security.grants import (
    Entry,
    Grant,
    Holding,
    Right,
    as_rights,
    check_grants,
    distinct,
    held,
    purses,
)
from ksi_daemon.security.principals import SYSTEM, Principal, agent, client, handler, stand_in

__all__ = [
    "SYSTEM",
    "Effect",
    "Entry",
    "Grant",
    "Holding",
    "Permit",
    "Principal",
    "Right",
    "Situation",
    "agent",
    "as_rights",
    "binding",
    "check_grants",
    "checked",
    "client",
    "delegated",
    "distinct",
    "fields_of",
    "handler",
    "held",
    "is_permitted",
    "must_ask",
    "permit",
    "permitted",
    "purses",
    "speaks_for",
    "stand_in",
    "storable",
    "with_fields",
]
