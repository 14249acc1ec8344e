"""permission:*: what profiles grant, and what an agent may do by now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ksi_daemon import security
from ksi_daemon.component import Component
from ksi_daemon.errors import ComponentError, NotFound
from ksi_daemon.router import Context, Nothing, Router, handles
from ksi_daemon.security import Principal, must_ask
from ksi_daemon.security.grants import shown

__all__ = ["Permissions"]

_FOLDER: Final = "profiles/"


class Profile(msgspec.Struct, forbid_unknown_fields=True):
    """*name* is that of a profile, like ``reader``."""

    name: str


class Which(msgspec.Struct, forbid_unknown_fields=True):
    agent_id: str


class Permissions:
    """The rights that can be given and that are given.

    *names* lists the profile components, *load* reads one, *principal_of* tells who an agent is
    to the router.
    """

    def __init__(
        self,
        router: Router,
        names: Callable[[], list[str]],
        load: Callable[[str, bool], Component],
        principal_of: Callable[[str], Principal | None],
    ) -> None:
        self._router = router
        self._names = names
        self._load = load
        self._principal_of = principal_of

    @handles("permission:list_profiles", effect="observe", example={})
    def list_profiles(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """List the profiles, and those that cannot be read."""
        profiles, broken = [], []
        for name in self._names():
            try:
                profile = self._load(name, False)
            except ComponentError as exc:
                broken.append({"name": name.removeprefix(_FOLDER), "error": exc.message})
            else:
                profiles.append(_shown(name, profile))
        return {"profiles": profiles, "broken": broken}

    @handles("permission:get_profile", effect="observe", example={"name": "reader"})
    def get_profile(self, data: Profile, ctx: Context) -> dict[str, Any]:
        """Tell what a profile grants, and which of the registered events that are."""
        name = f"{_FOLDER}{data.name.removeprefix(_FOLDER)}"
        if name not in self._names():
            known = [each.removeprefix(_FOLDER) for each in self._names()]
            raise NotFound("profile", data.name, known)
        profile = self._load(name, False)
        allow = security.as_rights((*(profile.allow or ()), *profile.ask))
        holder = security.agent("any", allow, tuple(profile.ask), tuple(profile.deny))
        return _shown(name, profile) | self._events(holder)

    @handles("permission:get_agent", effect="observe", example={"agent_id": "greeter"})
    def get_agent(self, data: Which, ctx: Context) -> dict[str, Any]:
        """Tell what an agent may emit, what it must ask for, and by which rights."""
        principal = self._principal_of(data.agent_id)
        if principal is None:
            raise NotFound("agent", data.agent_id)
        used = self._router.admission.used
        rights = {
            "allow": [shown(each, used) for each in principal.allow],
            "ask": principal.ask,
            "deny": principal.deny,
        }
        return {"agent_id": data.agent_id, **rights} | self._events(principal)

    def _events(self, principal: Principal) -> dict[str, list[str]]:
        known = self._router.known_to(principal)
        asked = [event for event in known if must_ask(principal, event)]
        return {"may": [event for event in known if event not in asked], "must_ask": asked}


def _shown(name: str, profile: Component) -> dict[str, Any]:
    return {
        "name": name.removeprefix(_FOLDER),
        "description": profile.description,
        "allow": profile.allow or [],
        "ask": profile.ask,
        "deny": profile.deny,
    }
