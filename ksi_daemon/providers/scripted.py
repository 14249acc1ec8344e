"""The scripted provider: replies in the order in which they were written down. No model, no key.

The position lives in memory only: after a restart the script begins anew, unless whoever counted
the replies calls ``resume_at``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import anyio
import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import (
    Capabilities,
    Capability,
    Completion,
    Price,
    Request,
    StopReason,
    Usage,
)

__all__ = ["Failure", "Reply", "ScriptedProvider", "Spec", "build"]

# Small and no power of two, so that pieces end at odd places inside what a model writes.
_PIECE: Final = 13
_CHARACTERS_PER_TOKEN: Final = 4
_OWN: Final = Capabilities(streaming=True)

Code = Literal[
    "provider_auth",
    "provider_empty",
    "provider_error",
    "provider_protocol",
    "provider_rate_limited",
    "provider_stalled",
    "provider_timeout",
    "provider_unreachable",
]


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error in place of a reply."""

    message: str
    code: Code = "provider_error"
    retryable: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply, *delay_s* seconds after it was asked for. *stop_reason* null: it broke off.

    *tool_calls* are native calls in OpenAI's form.
    """

    text: str = ""
    stop_reason: StopReason | None = "stop"
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    error: Failure | str | None = None
    tool_calls: tuple[Any, ...] = ()

    @property
    def message(self) -> dict[str, Any] | None:
        """The message that holds its native calls, None without any."""
        if not self.tool_calls:
            return None
        calls = list(self.tool_calls)
        return {"role": "assistant", "content": self.text, "tool_calls": calls}


class Spec(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="scripted",
):
    """A script. After its end each reply is empty ("stop"), or it begins anew ("repeat").

    *capabilities* are what it shall pass for, *prices* what it shall cost.
    """

    replies: tuple[str | Reply, ...]
    on_empty: Literal["stop", "repeat"] = "stop"
    model: str = "scripted"
    prices: Price | None = None
    capabilities: dict[Capability, bool] = {}

    def __post_init__(self) -> None:
        if self.on_empty == "repeat" and not self.replies:
            raise ValueError("no replies to repeat")


def build(spec: Spec) -> ScriptedProvider:
    """Return the provider that *spec* describes. Its errors are not retried."""
    return ScriptedProvider(spec)


class ScriptedProvider:
    """A provider that plays *spec*. Concurrent callers get the replies in the order of asking.

    Usage is an estimate: a token for each four characters, rounded up.
    """

    name = "scripted"

    def __init__(self, spec: Spec) -> None:
        self.model = spec.model
        self.price = spec.prices
        self.capabilities = msgspec.structs.replace(_OWN, **spec.capabilities)
        self._repeat = spec.on_empty == "repeat"
        self._replies = tuple(_reply(reply) for reply in spec.replies)
        self._next = 0

    def resume_at(self, position: int) -> None:
        """Go on as if *position* replies had been given."""
        self._next = position

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Give the next reply; see ``Provider.complete``."""
        reply = self.take()
        began = anyio.current_time()
        await anyio.sleep(reply.delay_s)
        if reply.error is not None:
            raise _error(reply.error)
        latency_ms = (anyio.current_time() - began) * 1000
        if on_text is not None:
            for at in range(0, len(reply.text), _PIECE):
                on_text(reply.text[at : at + _PIECE])
        return Completion(
            text=reply.text,
            stop_reason=reply.stop_reason,
            model=request.model or self.model,
            usage=_usage(request, reply.text),
            latency_ms=latency_ms,
            first_token_ms=latency_ms if reply.text else None,
            incomplete=None if reply.stop_reason else "the script says that the reply broke off",
            message=reply.message,
        )

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def take(self) -> Reply:
        """Return the next reply, and count it as given."""
        position = self._next
        self._next += 1
        if self._repeat:
            position %= len(self._replies)
        return self._replies[position] if position < len(self._replies) else Reply()


def _reply(written: str | Reply) -> Reply:
    return Reply(text=written) if isinstance(written, str) else written


def _error(written: str | Failure) -> ProviderError:
    failure = Failure(written) if isinstance(written, str) else written
    return ProviderError(failure.message, code=failure.code, retryable=failure.retryable)


def _usage(request: Request, text: str) -> Usage:
    asked = sum([len(message.content) for message in request.messages])
    return Usage(_tokens(asked), _tokens(len(text)))


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)
