"""What a new agent may do, out of what it asks for and what its spawner can give. Pure.

An operator gives whatever is asked for. An agent gives no more than it may pass on, with its own
conditions kept; by a right that is a template it has made what a person has laid down in a
component, and the child's rights are the component's.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from ksi_daemon.errors import Denied
from ksi_daemon.security import Principal, Right, delegated
from ksi_daemon.services.agents.spec import Spawn, Spec, principal_of

__all__ = ["endowed", "rechecked"]


def endowed(
    spec: Spec, data: Spawn, spawner: Principal, by: Right | None, admin: Container[str]
) -> Spec:
    """Return *spec* with the rights that *spawner* gives to it; raise Denied if it cannot.

    *by* is the right that the spawn came by, *admin* are the events that no pattern reaches.
    """
    if isinstance(data.provider, dict):
        raise Denied("an agent may not choose a provider object")
    if by is not None and by.template:
        return msgspec.structs.replace(spec, template=True)
    given = delegated(spec.allow, spawner, admin)
    if given.missing:
        raise Denied(
            f"{spawner.source} may not grant {given.missing[0]!r}:"
            " it has no such right that it may pass on"
        )
    return msgspec.structs.replace(spec, allow=given.rights)


def rechecked(spec: Spec, parent: Spec, admin: Container[str]) -> Spec:
    """Return *spec*, as an earlier run of the daemon left it, within what *parent* may pass on."""
    if spec.template:
        return spec
    given = delegated(spec.allow, principal_of(parent), admin)
    return msgspec.structs.replace(spec, allow=given.rights)
