"""HTTP to servers of others: what they send at once is bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from ksi_daemon.services.mcp import http
from ksi_daemon.services.mcp.http import Bounded


class Chunks(httpx2.AsyncByteStream):
    """A body that never ends by itself, and counts what was taken of it."""

    def __init__(self, chunk: bytes, number: int) -> None:
        self.chunk, self.number, self.taken = chunk, number, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.number):
            self.taken += 1
            yield self.chunk


def client(body: Chunks, **headers: str) -> httpx2.AsyncClient:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=named, stream=body)

    return httpx2.AsyncClient(transport=Bounded(httpx2.MockTransport(answer)))


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_MESSAGE_BYTES", 100)


async def test_a_body_within_the_limit_is_whole() -> None:
    async with client(Chunks(b"x" * 10, 10), content_type="application/json") as peer:
        assert (await peer.get("http://server/")).content == b"x" * 100


async def test_a_body_without_end_is_given_up_at_the_limit() -> None:
    body = Chunks(b"x" * 10, 1_000_000)
    async with client(body, content_type="application/json") as peer:
        with pytest.raises(httpx2.StreamError):
            await peer.get("http://server/")
    assert body.taken == 11


async def test_a_stream_of_events_may_go_on() -> None:
    async with client(Chunks(b"x" * 10, 20), content_type="text/event-stream") as peer:
        assert len((await peer.get("http://server/")).content) == 200


async def test_a_compressed_body_is_refused() -> None:
    async with client(Chunks(b"", 0), content_encoding="gzip") as peer:
        with pytest.raises(httpx2.RemoteProtocolError, match="not asked for"):
            await peer.get("http://server/")
