"""The contract of an HTTP vendor, and what folds a stream into a completion. No I/O.

A vendor is a class of pure functions (``Vendor``): a request into a body, one piece of the
stream into a ``Delta``. ``Transcript`` adds deltas up. ``http`` moves the bytes between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Protocol

import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.failures import shown
from ksi_daemon.providers.model import (
    Capabilities,
    Completion,
    Price,
    Request,
    StopReason,
    Usage,
    larger,
)
from ksi_daemon.providers.native_calls import NativeCalls, Pieces

__all__ = ["MAX_REPLY_BYTES", "Delta", "Timeouts", "Transcript", "Vendor"]

# FAULTS P6; the scanner takes no more than this from one reply either.
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait, in seconds.

    *idle_s* runs from the last content and not from the last byte: a server that only pings is
    stalled (FAULTS P3). *total_s* bounds one attempt.
    """

    connect_s: Seconds = 10.0
    idle_s: Seconds = 120.0
    total_s: Seconds = 600.0


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What one piece of a stream, or a whole answer, adds to the completion.

    *thinking* says that the model produced something that is no text, which is a sign of life.
    *tool_calls* are pieces of native calls for the vendor's ``calls``.
    *finish* is the vendor's word for the end; *stop_reason* is what it means, None if it means
    that the text is not whole. *last* says that nothing follows.
    """

    text: str = ""
    thinking: bool = False
    tool_calls: tuple[Any, ...] = ()
    finish: str | None = None
    stop_reason: StopReason | None = None
    model: str | None = None
    usage: Usage = Usage()
    last: bool = False


class Vendor(Protocol):
    """One vendor's wire format: pure, without state. A new vendor is one file with one of these."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def price(self) -> Price | None: ...

    @property
    def base_url(self) -> str: ...

    @property
    def api_key_env(self) -> str | None: ...

    @property
    def timeouts(self) -> Timeouts: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def url(self, request: Request) -> str:
        """Return the address to post *request* to."""
        ...

    def headers(self, key: str | None) -> Mapping[str, str]:
        """Return the headers that the vendor asks for beside the content type."""
        ...

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body that asks for *request* as a stream."""
        ...

    def read(self, data: str) -> Delta:
        """Return what one event of the stream says, or the one body of a server that does not
        stream. Raise ProviderError for an error in it and for what is not the vendor's format.
        """
        ...

    def calls(self) -> Pieces:
        """Return what puts the native calls of one reply together."""
        ...


class Transcript:
    """A completion that grows by deltas, up to *max_bytes* of UTF-8.

    *cut* is set from outside when the connection was lost.
    """

    def __init__(
        self, model: str, max_bytes: int = MAX_REPLY_BYTES, *, calls: Pieces | None = None
    ) -> None:
        self.is_full = False
        self.cut: str | None = None
        self._model = model
        self._room = max_bytes
        self._parts: list[str] = []
        self._held = ""
        self._calls = calls or NativeCalls()
        self._usage = Usage()
        self._finish: str | None = None
        self._stop_reason: StopReason | None = None
        self._last = False

    @property
    def has_text(self) -> bool:
        """Say whether any text has come."""
        return bool(self._parts)

    @property
    def is_over(self) -> bool:
        """Say whether the vendor has said that the reply ends here."""
        return self._last or self._finish is not None

    def add(self, delta: Delta) -> str:
        """Take *delta* and return the text that it brought and that there was room for."""
        self._model = delta.model or self._model
        self._usage = larger(self._usage, delta.usage)
        self._last = self._last or delta.last
        if delta.finish is not None:
            self._finish, self._stop_reason = delta.finish, delta.stop_reason
        for piece in delta.tool_calls:
            self._take_call(piece)
        return self._append(delta.text)

    def completion(self, *, latency_ms: float, first_token_ms: float | None) -> Completion:
        """Return what has come. Raise ProviderError (provider_empty) if nothing has."""
        if not self._parts and self._finish is None:
            raise ProviderError(
                "the provider's answer holds no reply", code="provider_empty", retryable=True
            )
        incomplete = self._incomplete()
        text = "".join(self._parts)
        return Completion(
            text=text,
            stop_reason=None if incomplete else self._stop_reason,
            model=self._model,
            usage=self._usage,
            latency_ms=latency_ms,
            first_token_ms=first_token_ms,
            incomplete=incomplete,
            message=self._calls.message(text),
        )

    def _take_call(self, piece: Any) -> None:
        if not self.is_full:
            self._room -= self._calls.add(piece)
        if self._room < 0:
            self._room, self.is_full = 0, True

    def _append(self, piece: str) -> str:
        text, self._held = _whole(self._held + piece)
        encoded = text.encode()
        if len(encoded) > self._room:
            self.is_full = True
            encoded = encoded[: self._room]
            text = encoded.decode(errors="ignore")
        self._room -= len(encoded)
        if text:
            self._parts.append(text)
        return text

    def _incomplete(self) -> str | None:
        if self.is_full:
            return "the reply is longer than the limit"
        if self._finish is None:
            return self.cut or "the stream ended without a finish reason"
        if self._stop_reason is None:
            return f"the finish reason {shown(self._finish)!r} is no normal end"
        return None


def _whole(text: str) -> tuple[str, str]:
    """Return the part of *text* that can be encoded, and the half of a pair that it ends with."""
    if text.isascii():
        return text, ""
    held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    text = text[: len(text) - len(held)]
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), held
