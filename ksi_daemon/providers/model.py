"""What a provider is asked and what it answers, the same for every vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

__all__ = [
    "Capabilities",
    "Capability",
    "Completion",
    "Message",
    "Overrides",
    "Price",
    "Provider",
    "Request",
    "StopReason",
    "Tool",
    "Usage",
    "larger",
    "priced",
]

_MILLION: Final = 1_000_000

StopReason = Literal["stop", "length", "tool_calls", "content_filter"]
Capability = Literal["streaming", "native_tool_calls", "free_tool_role", "self_contained_tools"]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a conversation in the canonical form, before any vendor's shape.

    *native* is the assistant's message with native calls, in any vendor's form with the ids that
    the calls have (``extraction.replay``). Messages of the role "tool" behind it answer these
    calls by *call_id*; one that answers none is text for the user, unless the provider takes the
    role freely. *name* is the tool, *is_error* says that the call failed.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: str | None = None
    call_id: str | None = None
    is_error: bool = False
    native: dict[str, Any] | None = None


class Tool(msgspec.Struct, frozen=True):
    """A tool for native calls. *name* is one that vendors accept (``extraction.native_names``),
    *schema* the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion is made from. None leaves a value to the provider.

    *tools* are offered for native calls; without any, the request says nothing of tools. *extra*
    are fields for the vendor's body, which win over all others.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, as the provider counts them; 0 where it does not say.

    *cached_tokens* are those of *input_tokens* that it had in its cache.
    """

    # Factories, because msgspec leaves out what equals a plain default and these are always told.
    input_tokens: int = msgspec.field(default_factory=int)
    output_tokens: int = msgspec.field(default_factory=int)
    cached_tokens: int = 0


def larger(known: Usage, said: Usage) -> Usage:
    """Return the larger of each count: vendors count up, and some say one of them at a time."""
    return Usage(
        max(known.input_tokens, said.input_tokens),
        max(known.output_tokens, said.output_tokens),
        max(known.cached_tokens, said.cached_tokens),
    )


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs: US dollars for a million tokens that it reads (*in*), that it writes
    (*out*), and that it reads from its vendor's cache (*cached*; without it, as any other)."""

    input: float = msgspec.field(name="in")
    output: float = msgspec.field(name="out")
    cached: float | None = None

    def __post_init__(self) -> None:
        if not all(0 <= each < inf for each in (self.input, self.output, self.cached or 0)):
            raise ValueError("a price is a number of US dollars, 0 or more")

    def of(self, usage: Usage) -> float:
        """Return what *usage* costs in US dollars."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        cost = fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return cost / _MILLION


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model.

    *stop_reason* is None when the text may not be whole: what looks like a call in it must not
    fire. *incomplete* then says why, for a person. *message* is the vendor's own message if it
    holds native calls, for ``extraction.read_native``. *first_token_ms* and *latency_ms* are
    measured by the shell that asked, over the last of *attempts*. *usd* is what it cost, None if
    nobody knows (``priced``).
    """

    text: str
    stop_reason: StopReason | None
    model: str
    usage: Usage = Usage()
    usd: float | None = None
    latency_ms: float = 0.0
    first_token_ms: float | None = None
    attempts: int = 1
    incomplete: str | None = None
    message: dict[str, Any] | None = None


def priced(completion: Completion, price: Price | None) -> Completion:
    """Return *completion* with what it cost, if its price and its tokens are known."""
    usage = completion.usage
    if price is None or not (usage.input_tokens or usage.output_tokens):
        return completion
    return msgspec.structs.replace(completion, usd=round(price.of(usage), 9))


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider can do beyond text in, text out.

    *streaming*: its text comes in pieces. *native_tool_calls*: it takes tools and answers with
    calls beside its text. *free_tool_role*: it takes a message of the role "tool" that answers no
    native call. *self_contained_tools*: it runs tools of its own, so that calls of tools in its
    text are not for us.
    """

    streaming: bool = False
    native_tool_calls: bool = False
    free_tool_role: bool = False
    self_contained_tools: bool = False


# What a provider object may say of its provider's capabilities.
Overrides: TypeAlias = dict[Capability, bool]


class Provider(Protocol):
    """A source of completions. *name* is its word in reports, *model* the default model, *price*
    what its object says that a model costs, None if it says nothing."""

    name: str
    model: str
    price: Price | None
    capabilities: Capabilities

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return one completion; call *on_text* with each piece of text as it arrives.

        Raise ProviderError. Cancelling the caller stops the request.
        """
        ...

    async def aclose(self) -> None:
        """Release connections. The provider is not used afterwards."""
        ...
