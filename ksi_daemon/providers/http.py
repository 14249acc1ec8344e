"""The shell of every HTTP vendor: one POST, a stream of events or of lines, deadlines, limits.

It moves bytes and keeps time; what they mean is the vendor's (``wire.Vendor``). A connection
that is lost before any text came is an error that can be retried; after that the text is kept,
without a stop reason (FAULTS P5).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Final

import anyio
import httpx2

from ksi_daemon import __version__
from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.access import api_key, is_loopback
from ksi_daemon.providers.failures import error_from, shown
from ksi_daemon.providers.model import Completion, Request
from ksi_daemon.providers.wire import MAX_REPLY_BYTES, Delta, Timeouts, Transcript, Vendor

__all__ = ["HttpProvider"]

_SSE: Final = "text/event-stream"
_NDJSON: Final = "application/x-ndjson"
_MAX_ERROR_BYTES: Final = 64 * 1024
# How long to wait, once the reply is over, for the token counts and for the end of the stream,
# without which the connection cannot be used again.
_GRACE_S: Final = 2.0


class HttpProvider:
    """A provider over HTTP. The key is read from *environ* at each request and kept nowhere."""

    def __init__(
        self,
        vendor: Vendor,
        *,
        environ: Mapping[str, str] = os.environ,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        grace_s: float = _GRACE_S,
    ) -> None:
        self.name = vendor.name
        self.model = vendor.model
        self.price = vendor.price
        self.capabilities = vendor.capabilities
        self._vendor = vendor
        self._environ = environ
        self._max_reply_bytes = max_reply_bytes
        # JSON around and inside a text makes it longer, seldom to the double.
        self._max_body_bytes = 2 * max_reply_bytes
        self._grace_s = grace_s
        self._client: httpx2.AsyncClient | None = None

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Ask once; see ``Provider.complete``."""
        timeouts = self._vendor.timeouts
        transcript = Transcript(
            request.model or self.model, self._max_reply_bytes, calls=self._vendor.calls()
        )
        reading = _Reading(transcript, on_text, idle_s=timeouts.idle_s, grace_s=self._grace_s)
        with anyio.move_on_after(timeouts.total_s) as total, reading.idle:
            await self._exchange(request, reading)
        if not transcript.is_over:
            if total.cancelled_caught:
                raise _overdue(self.name, timeouts)
            if reading.idle.cancelled_caught:
                raise _stalled(self.name, timeouts)
        return reading.completion()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _exchange(self, request: Request, reading: _Reading) -> None:
        vendor = self._vendor
        key = api_key(vendor.api_key_env, vendor.base_url, self._environ)
        with self._losses(reading.transcript):
            async with self._connected().stream(
                "POST",
                vendor.url(request),
                headers={"Accept": _SSE, **vendor.headers(key)},
                json=vendor.body(request),
            ) as response:
                if not response.is_success:
                    raise await self._refusal(response, key)
                await self._read(response, reading)

    def _connected(self) -> httpx2.AsyncClient:
        """Return the client, made at the first request: many agents may never ask."""
        if self._client is None:
            base_url = self._vendor.base_url
            self._client = httpx2.AsyncClient(
                headers={"User-Agent": f"ksi/{__version__}"},
                # Silence is bounded by the idle deadline, which tells content from pings.
                timeout=httpx2.Timeout(None, connect=self._vendor.timeouts.connect_s),
                # The number of agents is the bound. A queue here would look like a stall.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
                # Loading certificates takes 20 ms, which only https is worth.
                verify=base_url.startswith("https:"),
                trust_env=not is_loopback(base_url),
            )
        return self._client

    async def _read(self, response: httpx2.Response, reading: _Reading) -> None:
        media_type = _media_type(response)
        if media_type not in (_SSE, _NDJSON):
            reading.take(self._vendor.read(await self._whole(response)))
            return
        pieces = self._events(response) if media_type == _SSE else self._lines(response)
        async with aclosing(pieces):
            async for data in pieces:
                if data.strip():
                    reading.take(self._vendor.read(data))
                if reading.transcript.is_full:
                    return

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        async for event in httpx2.EventSource(response, max_event_size=self._max_body_bytes):
            yield event.data

    async def _lines(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        """Yield each line; it ends by a line feed alone, for JSON may hold other ends of lines."""
        rest = bytearray()
        async for chunk in response.aiter_bytes():
            searched = len(rest)
            rest += chunk
            if rest.find(b"\n", searched) >= 0:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
            if len(rest) > self._max_body_bytes:
                raise self._too_long()
        yield rest.decode(errors="replace")

    async def _whole(self, response: httpx2.Response) -> str:
        """Return the one body of a server that does not stream."""
        body = await _beginning(response, self._max_body_bytes)
        if len(body) > self._max_body_bytes:
            raise self._too_long()
        return body.decode(errors="replace")

    def _too_long(self) -> ProviderError:
        return ProviderError(
            f"{self.name} answered more than {self._max_body_bytes} bytes at once",
            code="provider_protocol",
        )

    async def _refusal(self, response: httpx2.Response, key: str | None) -> ProviderError:
        body = (await _beginning(response, _MAX_ERROR_BYTES)).decode(errors="replace")
        return error_from(self.name, response.status_code, response.headers, body, key=key)

    @contextmanager
    def _losses(self, transcript: Transcript) -> Iterator[None]:
        """Turn what the transport raises into a ProviderError, or into the end of the text."""
        try:
            yield
        except (httpx2.SSEError, httpx2.DecodingError) as exc:
            raise ProviderError(
                f"{self.name} answered a malformed stream: {shown(str(exc), 80)}",
                code="provider_protocol",
            ) from exc
        except httpx2.TransportError as exc:
            if not transcript.has_text and not transcript.is_over:
                raise _unreachable(self.name, self._vendor.base_url, exc) from exc
            transcript.cut = "the connection was lost"


class _Reading:
    """One reply on its way: what has come, when, and until when to wait for more."""

    def __init__(
        self,
        transcript: Transcript,
        on_text: Callable[[str], None] | None,
        *,
        idle_s: float,
        grace_s: float,
    ) -> None:
        self.transcript = transcript
        self._on_text = on_text
        self._idle_s = idle_s
        self._grace_s = grace_s
        self._began = anyio.current_time()
        self._first: float | None = None
        self._ends: float | None = None
        self.idle = anyio.CancelScope(deadline=self._began + idle_s)

    def take(self, delta: Delta) -> None:
        """Add *delta*, hand its text on, and set the deadline for the next content."""
        now = anyio.current_time()
        text = self.transcript.add(delta)
        if delta.text or delta.thinking:
            self.idle.deadline = now + self._idle_s
        if self.transcript.is_over:
            self._ends = self._ends or now + self._grace_s
            self.idle.deadline = min(self.idle.deadline, self._ends)
        if text:
            self._first = self._first or now
            if self._on_text is not None:
                self._on_text(text)

    def completion(self) -> Completion:
        """Return what has come, with the time that it took."""
        return self.transcript.completion(
            latency_ms=(anyio.current_time() - self._began) * 1000,
            first_token_ms=None if self._first is None else (self._first - self._began) * 1000,
        )


async def _beginning(response: httpx2.Response, limit: int) -> bytes:
    """Return the body up to *limit* bytes, and one more if it is longer."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body[: limit + 1])


def _media_type(response: httpx2.Response) -> str:
    media_type: str = response.headers.get("content-type", "")
    return media_type.partition(";")[0].strip().lower()


def _stalled(name: str, timeouts: Timeouts) -> ProviderError:
    return ProviderError(
        f"{name} sent no content for {timeouts.idle_s:g} s",
        code="provider_stalled",
        retryable=True,
        hint="a slow model needs a larger timeouts.idle_s",
    )


def _overdue(name: str, timeouts: Timeouts) -> ProviderError:
    return ProviderError(
        f"{name} was not done after {timeouts.total_s:g} s",
        code="provider_timeout",
        retryable=True,
        hint="a slow model needs a larger timeouts.total_s",
    )


def _unreachable(name: str, base_url: str, exc: httpx2.TransportError) -> ProviderError:
    # What is wrong with a header of ours may quote it.
    why = type(exc).__name__ if isinstance(exc, httpx2.LocalProtocolError) else str(exc)
    return ProviderError(
        f"no answer from {name} at {base_url}: {shown(why, 80) or type(exc).__name__}",
        code="provider_unreachable",
        retryable=True,
    )
