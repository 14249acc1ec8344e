"""The faulty provider: another provider, whose replies get slips at known rates.

To watch agents recover, and to test that they do, without waiting for a model to go wrong. What
goes wrong is decided by the seed and the number of the reply, so a run can be run again.

A model that is corrected writes its call again; a script does not know that it was corrected. So
around a script, a call that a slip has lost is given again, alone, before the script goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import anyio
import msgspec

from ksi_daemon.errors import ProviderError, nearest
from ksi_daemon.extraction import PRESETS, Protocol, extract
from ksi_daemon.providers import native_slips
from ksi_daemon.providers.model import Completion, Provider, Request
from ksi_daemon.providers.scripted import ScriptedProvider
from ksi_daemon.providers.slips import PROFILES, SLIPS, Slip

__all__ = ["FaultyProvider", "Spec", "wrap"]

Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


def _doubled(text: str, rng: random.Random) -> str:
    return f"{text}\n{text}"


def _wrong_fence(text: str, rng: random.Random) -> str:
    return f"\n```python\n{text}\n```\n"


# What happens to a call, and what happens to a reply whether it holds a call or not.
_OF_CALLS: Final[Mapping[str, Slip]] = MappingProxyType(
    {**SLIPS, "duplicate": _doubled, "wrong_fence": _wrong_fence}
)
_OF_REPLIES: Final = ("prose", "delay", "error")
_CUT: Final = "truncated"


class Spec(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="faulty",
):
    """The provider *of*, with *slips*: at most one in a reply.

    *slips* are rates by name, the name of a profile, or one rate for all slips of calls together.
    A named slip that finds no place in a reply is not made. *delay_s* is how long a "delay" is.
    *preset* is how the replies are read, to find the calls in them.
    """

    of: dict[str, Any]
    slips: dict[str, Rate] | Rate | str = "average"
    seed: int = 0
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 1.0
    preset: str = "ksi"

    def __post_init__(self) -> None:
        if isinstance(self.slips, str):
            _known("profile", self.slips, PROFILES)
        if isinstance(self.slips, dict):
            for name in self.slips:
                _known("slip", name, (*_OF_CALLS, *_OF_REPLIES))
            if sum(self.slips.values()) > 1 + 1e-9:
                raise ValueError("the rates of all slips add up to more than 1")
        _known("preset", self.preset, PRESETS)


class _Said(NamedTuple):
    """What of a reply can have a slip: its text, and the message that holds its native calls."""

    text: str = ""
    message: dict[str, Any] | None = None

    @property
    def is_nothing(self) -> bool:
        return not self.text and self.message is None


def wrap(spec: Spec, provider: Provider) -> FaultyProvider:
    """Return *provider* with the slips of *spec*. Its own errors are not retried."""
    return FaultyProvider(spec, provider)


class FaultyProvider:
    """A provider around *provider*; its text comes at once, for slips need the whole of it."""

    name = "faulty"

    def __init__(self, spec: Spec, provider: Provider) -> None:
        self.model = provider.model
        self.price = provider.price
        self.capabilities = provider.capabilities
        self._provider = provider
        self._script = provider if isinstance(provider, ScriptedProvider) else None
        self._seed = spec.seed
        self._delay_s = spec.delay_s
        self._protocol = PRESETS[spec.preset]
        self._rates = _rates(spec.slips)
        self._next = 0
        self._owed = _Said()

    def resume_at(self, position: int) -> None:
        """Go on as if *position* replies had been given: with a script, give them once more."""
        if self._script is None:
            self._next = position
            return
        given = 0
        while given < position:
            rng, kinds = self._draw()
            if "error" not in kinds:
                said = self._owed
                if said.is_nothing:
                    reply = self._script.take()
                    said = _Said(reply.text, reply.message)
                self._slipped(said, kinds, rng)
                given += 1

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Give the next reply, perhaps with a slip; see ``Provider.complete``."""
        rng, kinds = self._draw()
        if "error" in kinds:
            raise ProviderError("the faulty provider was told to fail", retryable=True)
        if "delay" in kinds:
            await anyio.sleep(self._delay_s)
        meant = await self._meant(request)
        said, is_cut = self._slipped(_Said(meant.text, meant.message), kinds, rng)
        if on_text is not None and said.text:
            on_text(said.text)
        return msgspec.structs.replace(
            meant,
            text=said.text,
            message=said.message,
            stop_reason="length" if is_cut and meant.stop_reason else meant.stop_reason,
        )

    async def aclose(self) -> None:
        """Close the provider inside."""
        await self._provider.aclose()

    async def _meant(self, request: Request) -> Completion:
        if not self._owed.is_nothing:
            text, message = self._owed
            model = request.model or self.model
            return Completion(text=text, message=message, stop_reason="stop", model=model)
        return await self._provider.complete(request)

    def _draw(self) -> tuple[random.Random, tuple[str, ...]]:
        """Return the next reply's source of chance, and the slips of which it is to have one."""
        rng = random.Random(f"{self._seed}/{self._next}")
        self._next += 1
        drawn = rng.random()
        for kinds, rate in self._rates:
            if drawn < rate:
                return rng, tuple(rng.sample(kinds, len(kinds)))
            drawn -= rate
        return rng, ()

    def _slipped(
        self, meant: _Said, kinds: tuple[str, ...], rng: random.Random
    ) -> tuple[_Said, bool]:
        """Return *meant* with the first of *kinds* that finds a place, and whether it was cut."""
        self._owed = _Said()
        for kind in kinds:
            said = _applied(kind, meant, self._protocol, rng)
            if said is not None and said != meant:
                if self._script is not None:
                    self._owed = _lost(meant, said, self._protocol)
                return said, kind == _CUT
        return meant, False


def _rates(slips: dict[str, float] | float | str) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return groups of slips and the rate of each group."""
    if isinstance(slips, float | int):
        return ((tuple(SLIPS), float(slips)),)
    named = PROFILES[slips] if isinstance(slips, str) else slips
    return tuple(((name,), rate) for name, rate in sorted(named.items()))


def _applied(kind: str, meant: _Said, protocol: Protocol, rng: random.Random) -> _Said | None:
    """Return *meant* with the slip *kind* in its text, or else in a call beside it."""
    text = _apply(kind, meant.text, protocol, rng)
    if text is not None:
        return meant._replace(text=text)
    message = None if meant.message is None else native_slips.slipped(meant.message, kind, rng)
    return None if message is None else meant._replace(message=message)


def _apply(kind: str, text: str, protocol: Protocol, rng: random.Random) -> str | None:
    """Return *text* with the slip *kind*, None if it finds no place."""
    if kind == "prose":
        return f"Sure, here it is:\n\n{text}\n\nTell me if you need anything else."
    if kind not in _OF_CALLS:
        return None
    calls = extract(text, protocol).calls
    if not calls:
        return None
    call = rng.choice(calls)
    block = _OF_CALLS[kind](text[call.start : call.end], rng)
    if block is None:
        return None
    return text[: call.start] + block + ("" if kind == _CUT else text[call.end :])


def _lost(meant: _Said, said: _Said, protocol: Protocol) -> _Said:
    """Return the calls of *meant* that are not read from *said*, if its writer is told of that."""
    if meant.message is not None and said.message is not None and said.message != meant.message:
        return _Said(message=native_slips.lost(meant.message, said.message))
    found = extract(said.text, protocol, stop_reason="stop")
    if not found.rejected:
        return _Said()
    read = [(call.name, call.args) for call in found.calls]
    calls = extract(meant.text, protocol).calls
    lost = (call for call in calls if (call.name, call.args) not in read)
    return _Said("\n".join(meant.text[call.start : call.end] for call in lost))


def _known(what: str, name: str, names: Any) -> None:
    if name not in names:
        close = nearest(name, names)
        hint = f"did you mean {close!r}?" if close else f"one of {', '.join(names)}"
        raise ValueError(f"no {what} {name!r}; {hint}")
