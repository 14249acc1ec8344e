"""Approvals: a call that needs a person is bound to exactly what that person was shown."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ksi_daemon.security.principals import Principal

__all__ = ["binding"]


def binding(principal: Principal, event: str, data: msgspec.Raw) -> bytes:
    """Return the digest that an approval is good for: who, what, with which data and rights.

    The order of keys and the white space of *data* make no difference, anything else does.
    """
    allow = sorted(map(_encoded, principal.allow))
    rights = (allow, sorted(principal.ask), sorted(principal.deny))
    told = (principal.source, event, msgspec.json.decode(data), rights)
    return sha256(_encoded(told).encode()).digest()


def _encoded(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
