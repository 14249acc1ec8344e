"""HTTP to a server of others: what it sends at once is bounded, and comes as it is.

An answer in one piece may have MAX_MESSAGE_BYTES; a stream of events is bounded event by event
where it is read. Compression is refused, since a small body could be a large one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

from ksi_daemon.services.mcp.model import MAX_MESSAGE_BYTES

__all__ = ["Bounded", "bounded_client"]

CONNECT_S = 10.0


def bounded_client(headers: Mapping[str, str], timeout_s: float) -> httpx2.AsyncClient:
    """Return a client that sends *headers* and takes no more than it should."""
    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        transport=Bounded(httpx2.AsyncHTTPTransport()),
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
    )


class Bounded(httpx2.AsyncBaseTransport):
    """*inner*, with a limit on bodies that come in one piece."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the body is compressed, which was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream | httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        if not isinstance(self._inner, httpx2.AsyncByteStream):
            raise TypeError("the body is not an async one")
        async for chunk in self._inner:
            seen += len(chunk)
            if seen > MAX_MESSAGE_BYTES:
                raise httpx2.StreamError(f"a body of more than {MAX_MESSAGE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        if isinstance(self._inner, httpx2.AsyncByteStream):
            await self._inner.aclose()
