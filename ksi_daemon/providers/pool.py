"""The providers in use: one for all agents that name the same, but one for each that counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.providers.model import Provider
from ksi_daemon.providers.specs import build

__all__ = ["ProviderPool"]


# What these answer depends on how often they were asked.
_FOR_ONE: Final = frozenset({"faulty", "scripted"})


class ProviderPool:
    """Providers by their spec. Agents that share one share its connections and its breaker."""

    def __init__(self) -> None:
        self._shared: dict[bytes, Provider] = {}

    def check(self, spec: Mapping[str, Any]) -> None:
        """Raise InvalidData if *spec* describes no provider."""
        build(spec)

    def provider(self, spec: Mapping[str, Any], replies: int) -> Provider:
        """Return the provider of *spec* for an agent that has had *replies* from it so far."""
        if spec.get("type") in _FOR_ONE:
            return _resumed(build(spec, lambda inner: self.provider(inner, 0)), replies)
        key = msgspec.json.encode(spec, order="deterministic")
        if key not in self._shared:
            self._shared[key] = build(spec)
        return self._shared[key]

    async def aclose(self) -> None:
        """Release the connections of all shared providers."""
        for provider in self._shared.values():
            await provider.aclose()


def _resumed(provider: Provider, replies: int) -> Provider:
    resume_at = getattr(provider, "resume_at", None)
    if resume_at is not None:
        resume_at(replies)
    return provider
