"""A small HTTP server on loopback whose answers a test writes, down to the chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["Answer", "Exchange", "Server", "serving"]


class Exchange:
    """One request that a server of these tests got, and the connection to answer on."""

    def __init__(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.line, *fields = head.decode().splitlines()
        self.headers = dict(_field(line) for line in fields if line)
        self.body: Any = json.loads(body)
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def begin(self, status: int = 200, media_type: str = "text/event-stream") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {media_type}\r\n"
        await self.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def until_gone(self) -> None:
        """Wait for the client to close."""
        await self._reader.read()

    def close(self) -> None:
        self._writer.close()


Answer = Callable[[Exchange], Awaitable[None]]


class Server:
    """An HTTP server on loopback that gives one answer after the other, the last for ever."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = dict(_field(line) for line in head.decode().splitlines()[1:] if line)
        body = await reader.readexactly(int(length["content-length"]))
        exchange = Exchange(head, body, reader, writer)
        answer = self._answers[min(len(self.exchanges), len(self._answers) - 1)]
        self.exchanges.append(exchange)
        self.asked.set()
        await answer(exchange)


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Server]:
    """Start a server: ``async with serving(answer, ...) as server``."""
    server = Server(answers)
    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()
