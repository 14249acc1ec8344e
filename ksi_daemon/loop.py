"""How the loop around a model goes: what an agent and the loop agree on, and their limits. Values.

An agent, a component or a request says it with one word or one object:

    protocol: prompt_tools
    protocol: {preset: ksi, mode: strict, use_native_tools: auto, max_protocol_retries: 5}

What of such an object is about reading text goes to ``extraction``, the rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec

from ksi_daemon import extraction
from ksi_daemon.errors import InvalidData, KsiError
from ksi_daemon.events import matches
from ksi_daemon.extraction import Protocol
from ksi_daemon.providers.model import Price

__all__ = [
    "BEST",
    "EVENT_DIALECTS",
    "Agreement",
    "LoopLimits",
    "LoopSettings",
    "OnMalformed",
    "agreement",
    "overridden",
    "price_list",
]

# Stands for the protocol that fits a model best, as far as the log can tell; it is none itself.
BEST: Final = "best"
# A call in one of these is an event, any other is a call of a tool (CONFORMANCE C14).
EVENT_DIALECTS: Final = frozenset({"ksi_tool_use", "event", "ksi_body"})

OnMalformed = Literal["ignore", "feedback", "reject_reply"]
ResultStyle = Literal["user", "tool", "native", "auto"]


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one exchange: replies of the model, calls in one reply, turns in a row with
    nothing but mistakes, turns in a row with the very same text, calls that are the same and come
    to the same, tokens, US dollars, seconds. None does not bound."""

    turns: int = 25
    calls: int = 64
    mistakes: int = 3
    identical: int = 3
    same_calls: int = 5
    tokens: int | None = None
    usd: float | None = None
    wall_s: float | None = None


def price_list(written: str) -> Callable[[str], Price | None]:
    """Return what gives the price of a model, None where *written* names none.

    *written* is ``MODEL=IN/OUT`` or ``MODEL=IN/OUT/CACHED`` for each model, with blanks between; a
    model may be a pattern with ``*``, and the first that matches counts. Raise ValueError.
    """
    prices = tuple(map(_priced, written.split()))

    def price_of(model: str) -> Price | None:
        return next((price for pattern, price in prices if matches(pattern, model)), None)

    return price_of


def _priced(entry: str) -> tuple[str, Price]:
    model, _, numbers = entry.rpartition("=")
    try:
        price = Price(*map(float, numbers.split("/")))
    except (TypeError, ValueError):
        price = None
    if not model or price is None:
        raise ValueError(f"{entry!r} is no price; want MODEL=IN/OUT, like gpt-*=2.5/10")
    return model, price


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done with what extraction finds.

    *use_native_tools*: whether tools go to the provider as such; ``auto`` asks its capability.
    *result_style*: the form in which results go back (CONFORMANCE C2). *on_malformed*: what a
    block that cannot be used leads to; None refuses the whole reply in strict mode and tells the
    model in lenient mode. *max_protocol_retries* is how often in a row a refused reply is asked
    for again. *max_iterations* is the number of turns, None what the limits of the agent say.
    *nonce*: whether a call in text must carry the key of its turn, unless it only looks or speaks
    of the agent itself; else the key frees a call that the guard holds (FAULTS section 4).
    """

    use_native_tools: bool | Literal["auto"] = False
    result_style: ResultStyle = "auto"
    on_malformed: OnMalformed | None = None
    max_protocol_retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    max_iterations: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    nonce: Literal["lenient", "strict"] = "lenient"


# What a preset means for the loop beside what it means for reading.
_PRESETS: Final[Mapping[str, LoopSettings]] = MappingProxyType(
    {"native_auto": LoopSettings(use_native_tools="auto")}
)


class Agreement(msgspec.Struct, frozen=True):
    """How an agent writes its calls and what becomes of them."""

    protocol: Protocol
    settings: LoopSettings = LoopSettings()

    @property
    def on_malformed(self) -> OnMalformed:
        """What a block that cannot be used leads to (CONFORMANCE C4)."""
        if self.settings.on_malformed is not None:
            return self.settings.on_malformed
        return "reject_reply" if self.protocol.mode == "strict" else "feedback"


def agreement(wanted: str | Mapping[str, Any]) -> Agreement:
    """Return what a preset's name, or an object with a preset and overrides, means.

    Raise KsiError for a name that is none and a value that cannot be.
    """
    if isinstance(wanted, str):
        return Agreement(extraction.protocol(wanted), _PRESETS.get(wanted, LoopSettings()))
    overrides = dict(wanted)
    preset = overrides.pop("preset", "ksi")
    if not isinstance(preset, str) or "name" in overrides:
        raise InvalidData(
            "a protocol is named by its preset",
            hint='like "ksi", or {"preset": "ksi", "mode": "strict"}',
            details={"path": "protocol"},
        )
    given = {
        name: overrides.pop(name) for name in LoopSettings.__struct_fields__ if name in overrides
    }
    return _provable(Agreement(extraction.protocol(preset, **overrides), _settings(preset, given)))


def overridden(
    own: str | Mapping[str, Any], override: str | Mapping[str, Any] | None
) -> str | Mapping[str, Any]:
    """Return what *own* becomes by the *override* of one request.

    One that names a preset replaces it; another changes only what it names.
    """
    if override is None:
        return own
    if isinstance(override, str) or "preset" in override:
        return override
    return {**({"preset": own} if isinstance(own, str) else own), **override}


def _provable(agreed: Agreement) -> Agreement:
    """Return *agreed*; raise InvalidData if it asks for a nonce that no call of it can carry."""
    if agreed.settings.nonce == "strict" and not extraction.proof(agreed.protocol, (), "A" * 8):
        raise InvalidData(
            f"the calls of protocol {agreed.protocol.name!r} have no place for the key of a turn",
            hint="nonce: strict goes with ksi, prompt_tools and text_tagged",
            details={"path": "protocol.nonce"},
        )
    return agreed


def _settings(preset: str, given: dict[str, Any]) -> LoopSettings:
    settings = msgspec.structs.asdict(_PRESETS.get(preset, LoopSettings()))
    try:
        return msgspec.convert({**settings, **given}, LoopSettings)
    except msgspec.ValidationError as exc:
        raise KsiError(f"protocol {preset!r}: {exc}", code="invalid_configuration") from exc
