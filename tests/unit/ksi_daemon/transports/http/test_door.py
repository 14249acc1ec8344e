"""The HTTP door on a real socket: who may come in, with how much, for how long."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from ksi_daemon.errors import UsageError
from ksi_daemon.transports.http import HttpDoor
from ksi_daemon.transports.http.asgi import App, Receive, Scope, Send

TOKEN = "a-token-of-my-own"
AUTHORIZED = f"Authorization: Bearer {TOKEN}"
MAX_BODY = 1000
QUICK_S = 0.2


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body."""
    body = (await receive())["body"]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("a secret")


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    """Begin an answer that does not end, until the client is gone."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


class Flood:
    """A page without end; *over* is set when its client is cut off."""

    def __init__(self) -> None:
        self.over = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._flood, send)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        self.over.set()

    async def _flood(self, send: Send) -> None:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            await anyio.lowlevel.checkpoint()  # what is sent to nobody waits for nothing


ROUTES = {"/echo": echo, "/broken": broken, "/endless": endless}


@asynccontextmanager
async def opened(
    routes: Mapping[str, App] = ROUTES, host: str = "127.0.0.1", **limits: Any
) -> AsyncIterator[HttpDoor]:
    given = {"frame_timeout_s": 5.0, "stall_timeout_s": 5.0, "max_connections": 8} | limits
    door = HttpDoor(host, 0, routes, token=TOKEN, max_body_bytes=MAX_BODY, **given)
    async with anyio.create_task_group() as tasks:
        await door.start(tasks)
        try:
            yield door
        finally:
            with anyio.fail_after(5):
                await door.stop()


async def connected(door: HttpDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", door.port)


async def asked(door: HttpDoor, head: list[str], body: bytes = b"") -> tuple[int, bytes]:
    """Send a request made of its lines; return the status and the body of the answer."""
    reader, writer = await connected(door)
    try:
        writer.write("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)
        with anyio.fail_after(5):
            answer = await reader.read()
    finally:
        writer.close()
    first, _, rest = answer.partition(b"\r\n")
    return int(first.split()[1]), rest.partition(b"\r\n\r\n")[2]


def post(body: bytes, *more: str, host: str = "127.0.0.1", path: str = "/echo") -> list[str]:
    return [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}", *more]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([AUTHORIZED], id="as it should be"),
        pytest.param([f"authorization: bearer  {TOKEN}"], id="in small letters"),
        pytest.param([AUTHORIZED, "Origin: http://localhost:5173"], id="a page of this machine"),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:7337", "localhost:1", "[::1]:7337"])
async def test_who_may_come_in(host: str, more: list[str]) -> None:
    async with opened() as door:
        assert await asked(door, post(b"hello", *more, host=host), b"hello") == (200, b"hello")


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        pytest.param(post(b""), 401, "not_authorized", id="no token"),
        pytest.param(post(b"", "Authorization: Bearer x"), 401, "not_authorized", id="another"),
        pytest.param(
            post(b"", f"Authorization: Bearer {TOKEN}x"), 401, "not_authorized", id="a longer one"
        ),
        pytest.param(
            post(b"", f"Authorization: Basic {TOKEN}"), 401, "not_authorized", id="another scheme"
        ),
        pytest.param(post(b"", AUTHORIZED, AUTHORIZED), 401, "not_authorized", id="two"),
        pytest.param(post(b"", "Authorization: Bearer \xfc"), 401, "not_authorized", id="no ascii"),
        pytest.param(
            post(b"", AUTHORIZED, host="evil.example"), 421, "host_refused", id="another host"
        ),
        pytest.param(
            post(b"", AUTHORIZED, host="localhost.evil.example"), 421, "host_refused", id="a prefix"
        ),
        pytest.param(post(b"", AUTHORIZED, host="[::1"), 421, "host_refused", id="no host"),
        pytest.param(
            post(b"", AUTHORIZED, "Origin: http://evil.example"), 403, "origin_refused", id="a page"
        ),
        pytest.param(post(b"", AUTHORIZED, "Origin: null"), 403, "origin_refused", id="a sandbox"),
        pytest.param(
            post(b"", AUTHORIZED, "Origin: http://localhost", "Origin: http://evil.example"),
            403,
            "origin_refused",
            id="two origins",
        ),
        pytest.param(post(b"", AUTHORIZED, path="/nope"), 404, "not_found", id="no such page"),
        pytest.param(
            ["POST /echo HTTP/1.1", "Host: localhost", "Content-Length: 1001", AUTHORIZED],
            413,
            "frame_too_large",
            id="too large, by its own word",
        ),
    ],
)
async def test_what_is_refused_before_a_page_sees_it(
    head: list[str], status: int, code: str
) -> None:
    async with opened() as door:
        found, body = await asked(door, head)
    assert (found, json.loads(body)["error"]["code"]) == (status, code)
    assert TOKEN.encode() not in body


async def test_a_body_that_grows_too_large_is_refused_on_its_way() -> None:
    chunked = ["POST /echo HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", AUTHORIZED]
    chunk = b"1f4\r\n" + b"x" * 500 + b"\r\n"
    async with opened() as door:
        assert (await asked(door, chunked, chunk * 2 + b"0\r\n\r\n"))[0] == 200
        assert (await asked(door, chunked, chunk * 3))[0] == 413


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with opened(frame_timeout_s=QUICK_S) as door:
        status, body = await asked(door, post(b"hello", AUTHORIZED), b"hel")
    assert (status, json.loads(body)["error"]["code"]) == (408, "frame_timeout")


@pytest.mark.parametrize(
    "begun", [b"", b"POST /echo HTTP/1.1\r\nHost: lo"], ids=["nothing", "half a head"]
)
async def test_a_head_that_does_not_come_ends_the_connection(begun: bytes) -> None:
    async with opened(frame_timeout_s=QUICK_S) as door:
        reader, writer = await connected(door)
        writer.write(begun)
        with anyio.fail_after(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    flood = Flood()
    async with opened({"/flood": flood}, stall_timeout_s=QUICK_S) as door:
        _, writer = await connected(door)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        head = post(b"", AUTHORIZED, path="/flood")
        writer.write("\r\n".join([*head, "", ""]).encode())
        with anyio.fail_after(10):
            await flood.over.wait()
        writer.close()


async def test_what_is_no_http_is_told_so() -> None:
    async with opened() as door:
        reader, writer = await connected(door)
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        with anyio.fail_after(5):
            assert b" 400 " in (await reader.read()).partition(b"\r\n")[0]
        writer.close()


async def test_there_are_only_so_many_connections() -> None:
    async with opened(max_connections=2) as door:
        first = await connected(door)
        assert (await asked(door, post(b"", AUTHORIZED)))[0] == 503
        first[1].close()
        with anyio.fail_after(5):
            while (await asked(door, post(b"", AUTHORIZED)))[0] == 503:
                pass


async def test_a_page_that_fails_is_logged_and_the_client_is_told_no_more_than_that() -> None:
    async with opened() as door:
        with capture_logs() as logs:
            status, body = await asked(door, post(b"", AUTHORIZED, path="/broken"))
    assert (status, json.loads(body)["error"]["code"]) == (500, "internal")
    assert b"secret" not in body
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["http_failed"]


async def test_the_door_closes_on_an_answer_that_does_not_end() -> None:
    async with opened() as door:
        reader, writer = await connected(door)
        head = post(b"", AUTHORIZED, path="/endless")
        writer.write("\r\n".join([*head, "", ""]).encode())
        with anyio.fail_after(5):
            await reader.readuntil(b"begun")
        with anyio.fail_after(4):
            await door.stop()
        with pytest.raises(OSError, match=r"refused|Connect"):
            await connected(door)
        writer.close()


async def test_a_door_that_closes_lets_nobody_in_and_ends_what_was_begun() -> None:
    async with opened() as door:
        reader, writer = await connected(door)
        writer.write("\r\n".join([*post(b"hello", AUTHORIZED), "", ""]).encode())
        await writer.drain()
        assert (await asked(door, post(b"", AUTHORIZED)))[0] == 200
        door.stop_listening()
        with pytest.raises(OSError, match=r"refused|Connect"):
            await connected(door)
        writer.write(b"hello")
        with anyio.fail_after(5):
            assert await reader.readuntil(b"hello")
        writer.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.com", "::", ""])
async def test_it_opens_on_loopback_only(host: str) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with opened(host=host):
            pass
    assert caught.group_contains(UsageError, match="the door opens on loopback only")


async def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        door = HttpDoor(
            "localhost",
            other.getsockname()[1],
            ROUTES,
            token=TOKEN,
            max_body_bytes=MAX_BODY,
            frame_timeout_s=1,
            stall_timeout_s=1,
            max_connections=1,
        )
        async with anyio.create_task_group() as tasks:
            with pytest.raises(UsageError, match="Address already in use") as caught:
                await door.start(tasks)
    assert caught.value.hint == "another http_port may be free"
