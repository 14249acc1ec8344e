"""What an agent is made of: what the spawn asked for, a component, the daemon's defaults. Pure.

Precedence, field by field: the spawn, then the component, then the settings. An agent that has no
provider from any of these, or just the scripted one by name, plays the script of its component, if
it has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.component import Component, Limits, render
from ksi_daemon.errors import InvalidData
from ksi_daemon.loop import BEST, LoopLimits, agreement
from ksi_daemon.security import (
    Entry,
    Grant,
    Holding,
    Principal,
    agent,
    as_rights,
    check_grants,
    distinct,
)

__all__ = [
    "AGENT_ID",
    "Defaults",
    "Spawn",
    "Spec",
    "bounded",
    "loop_limits",
    "make_spec",
    "principal_of",
]

AGENT_ID: Final = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")
Patterns = Annotated[tuple[str, ...], msgspec.Meta(max_length=256)]
Grants = Annotated[tuple[str | Grant, ...], msgspec.Meta(max_length=256)]


class Spawn(msgspec.Struct, forbid_unknown_fields=True):
    """What a new agent shall be.

    *component* names its file, or *system* is its system prompt. *prompt* is its first message;
    without it no model is called. *provider* is a provider object or the name of its type.
    *tools* are those that it is told of and may call; with them it has the rights of a *profile*
    only if one is named. *allow* are the rights that it has in place of the profile's: patterns,
    or what is narrower (``security.grants``).
    *ask* are patterns that it may emit when a person has approved, each time; *deny* what it may
    not. *report*: what it says as its result comes to the agent that spawned it, as a message.
    """

    agent_id: str | None = None
    component: str | None = None
    system: str | None = None
    prompt: str | None = None
    model: str | None = None
    provider: str | dict[str, Any] | None = None
    protocol: str | dict[str, Any] | None = None
    tools: Patterns | None = None
    allow: Grants | None = None
    ask: Patterns | None = None
    deny: Patterns | None = None
    profile: str | None = None
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    subscriptions: Patterns | None = None
    limits: Limits = Limits()
    report: bool = False


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a restart needs to know about an agent.

    *spawn_id* is the event that brought it to life, which is nobody else's; ids of agents are
    used again. *root_id* is that of the first of its family, *depth* the generations since.
    *template*: its rights are those of its component, and need not be its parent's.
    """

    agent_id: str
    component: str | None
    system: str
    provider: dict[str, Any]
    model: str | None
    protocol: str | dict[str, Any]
    tools: tuple[str, ...] | None
    allow: tuple[Holding, ...]
    profile: str
    subscriptions: tuple[str, ...]
    limits: Limits
    parent: str | None
    report: bool = False
    spawn_id: str = ""
    root_id: str = ""
    parent_spawn_id: str = ""
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    depth: int = 0
    template: bool = False


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say for agents that do not say it themselves."""

    provider: Mapping[str, Any] | None = None
    protocol: str = "ksi"
    profile: str = "agent"
    limits: LoopLimits = LoopLimits()


def make_spec(
    asked: Spawn,
    agent_id: str,
    component: Component,
    grant: tuple[Entry, ...],
    defaults: Defaults,
    parent: str | None,
) -> Spec:
    """Return the spec of agent *agent_id*; *grant* is what its profile allows.

    Raise InvalidData for an id, a protocol or a provider that cannot be.
    """
    if not AGENT_ID.fullmatch(agent_id):
        raise InvalidData(
            f"{agent_id[:80]!r} is no agent id",
            hint="lower case letters, digits, _ and -, at most 64",
            details={"path": "agent_id"},
        )
    protocol = asked.protocol or component.protocol or defaults.protocol
    if protocol != BEST:
        agreement(protocol)  # refuse what cannot be
    tools = asked.tools if asked.tools is not None else _tuple(component.tools)
    return Spec(
        agent_id=agent_id,
        component=asked.component,
        system=asked.system if asked.system is not None else render(component, asked.variables),
        provider=_provider(asked, component, defaults),
        model=asked.model or component.model,
        protocol=protocol,
        tools=tools,
        allow=_allow(asked, component, tools, grant),
        profile=asked.profile or component.profile or defaults.profile,
        subscriptions=(
            tuple(component.subscriptions) if asked.subscriptions is None else asked.subscriptions
        ),
        limits=_merged(asked.limits, component.limits),
        parent=parent,
        report=asked.report,
    )


def bounded(spec: Spec, asked: Spawn, profile: Component, spawner: Principal) -> Spec:
    """Return *spec* with what it must ask for and what it is denied.

    What one must ask for one may. A spawner's own bounds are on its children as well.
    """
    ask = profile.ask if asked.ask is None and asked.allow is None else asked.ask or ()
    deny = (*profile.deny, *(asked.deny or ()), *spawner.deny)
    return msgspec.structs.replace(
        spec,
        allow=distinct((*spec.allow, *ask)),
        ask=tuple(dict.fromkeys((*ask, *spawner.ask))),
        deny=tuple(dict.fromkeys(deny)),
    )


def principal_of(spec: Spec, *, tainted: bool = False) -> Principal:
    """Return who an agent of *spec* is to the router."""
    return agent(
        spec.agent_id, spec.allow, spec.ask, spec.deny, parent=spec.parent, tainted=tainted
    )


def loop_limits(limits: Limits, defaults: LoopLimits) -> LoopLimits:
    """Return *defaults* with what *limits* sets."""
    return LoopLimits(
        turns=limits.turns or defaults.turns,
        calls=limits.calls or defaults.calls,
        mistakes=limits.mistakes or defaults.mistakes,
        identical=defaults.identical,
        same_calls=defaults.same_calls,
        tokens=limits.tokens or defaults.tokens,
        usd=limits.usd or defaults.usd,
        wall_s=limits.wall_s or defaults.wall_s,
    )


def _allow(
    asked: Spawn, component: Component, tools: tuple[str, ...] | None, grant: tuple[Entry, ...]
) -> tuple[Holding, ...]:
    """Return what the agent may emit. Naming tools means these and no default."""
    named = asked.profile or component.profile
    entries = asked.allow if asked.allow is not None else grant if named or tools is None else ()
    check_grants(entries)
    return as_rights((*entries, *(tools or ())))


def _provider(asked: Spawn, component: Component, defaults: Defaults) -> dict[str, Any]:
    """Return the provider object; one that names no model gets the agent's."""
    chosen = _chosen(asked.provider or component.provider, component, defaults)
    model = asked.model or component.model
    return chosen if model is None else _with_model(chosen, model)


def _with_model(provider: dict[str, Any], model: str) -> dict[str, Any]:
    """Return *provider* with *model* if it names none; one around another, with that in it."""
    if provider.get("type") == "faulty" and isinstance(inner := provider.get("of"), dict):
        return {**provider, "of": _with_model(inner, model)}
    return {"model": model, **provider}


def _chosen(
    wanted: str | dict[str, Any] | None, component: Component, defaults: Defaults
) -> dict[str, Any]:
    if isinstance(wanted, dict):
        if wanted.get("type") != "faulty" or "of" in wanted:
            return wanted
        # Slips for whatever the agent would have without them.
        own = component.provider if wanted is not component.provider else None
        return {**wanted, "of": _chosen(own, component, defaults)}
    default = dict(defaults.provider or {})
    kind = wanted or default.get("type")
    if component.script is not None and kind in (None, "scripted"):
        return {"type": "scripted", **component.script}
    if kind is not None:
        return default if default.get("type") == kind else {"type": kind}
    raise InvalidData(
        "the agent has no provider",
        hint="give one at the spawn, or start the daemon with --provider",
        details={"path": "provider"},
    )


def _merged(first: Limits, second: Limits) -> Limits:
    given = msgspec.structs.asdict(first)
    return msgspec.structs.replace(second, **{k: v for k, v in given.items() if v is not None})


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
