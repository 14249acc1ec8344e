"""What the parts of the daemon take, made of its settings. What cannot be used is refused here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ksi_daemon.config import CONFIG_EXIT, Settings
from ksi_daemon.errors import KsiError, UsageError
from ksi_daemon.loop import BEST, LoopLimits, agreement, price_list
from ksi_daemon.providers.model import Price, Provider
from ksi_daemon.providers.pool import ProviderPool
from ksi_daemon.router import Limits
from ksi_daemon.services.agents import Defaults

__all__ = ["defaults", "limits", "prices", "provider_of", "providers"]


def providers(settings: Settings) -> ProviderPool:
    """Return the pool; refuse to start with a provider that no agent could use."""
    pool, provider = ProviderPool(), defaults(settings).provider
    if provider is not None:
        try:
            # Agents may bring the model.
            pool.check({"model": "any", **provider})
        except KsiError as exc:
            raise UsageError(exc.message, exit_code=CONFIG_EXIT, hint=exc.hint) from exc
    return pool


def provider_of(
    settings: Settings, pool: ProviderPool
) -> Callable[[str | dict[str, Any] | None], Provider]:
    """Return what makes the provider of a completion without an agent."""
    default = defaults(settings).provider or {}

    def made(wanted: str | dict[str, Any] | None) -> Provider:
        if isinstance(wanted, dict):
            return pool.provider(wanted, 0)
        kind = wanted or default.get("type")
        return pool.provider(default if kind == default.get("type") else {"type": kind}, 0)

    return made


def prices(settings: Settings) -> Callable[[str], Price | None]:
    """Return the prices of models; refuse to start with what is none, or with no such protocol."""
    try:
        if settings.protocol != BEST:
            agreement(settings.protocol)
        return price_list(settings.prices)
    except KsiError as exc:
        raise UsageError(exc.message, exit_code=CONFIG_EXIT, hint=exc.hint) from exc
    except ValueError as exc:
        raise UsageError(f"prices: {exc}", exit_code=CONFIG_EXIT) from exc


def limits(settings: Settings) -> Limits:
    """Return what the router bounds."""
    return Limits(
        hops=settings.max_hops,
        events_per_root=settings.max_events_per_root,
        agent_events_per_s=settings.agent_events_per_s,
        agent_events_burst=settings.agent_events_burst,
        handler_timeout_s=settings.handler_timeout_s,
    )


def defaults(settings: Settings) -> Defaults:
    """Return what agents have that do not say it themselves."""
    given = {
        "type": settings.provider,
        "base_url": settings.base_url,
        "api_key_env": settings.api_key_env,
        "model": settings.model,
    }
    provider = {name: value for name, value in given.items() if value is not None}
    bounds = LoopLimits(
        turns=settings.max_turns,
        mistakes=settings.max_mistakes,
        identical=settings.max_identical_turns,
        same_calls=settings.max_same_calls,
        tokens=settings.max_exchange_tokens,
        usd=settings.max_exchange_usd,
        wall_s=settings.max_exchange_s,
    )
    return Defaults(
        provider=provider if settings.provider else None,
        protocol=settings.protocol,
        limits=bounds,
    )
