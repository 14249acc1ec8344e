"""MCP over the HTTP door of a daemon."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from structlog.testing import capture_logs

from ksi_daemon.config import CONFIG_EXIT
from ksi_daemon.errors import KsiError, UsageError
from ksi_daemon.testing import connected, running_daemon
from ksi_daemon.transports.mcp import Callers, Library, McpRoute

ACCEPT = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def served(house: Path, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a daemon on what *house* holds; yield a client that has the token."""
    places = {"components": str(house / "c"), "drain_timeout_s": 0.5, "http_port": 0}
    async with running_daemon(house / "v", **(places | settings)) as path:
        async with connected(path) as peer:
            port = (await peer.ask("system:health"))["http_port"]
        token = (house / "v" / "http.token").read_text().strip()
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {token}", **ACCEPT},
            timeout=10,
        ) as client:
            yield client


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize() -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)


def told(response: httpx2.Response) -> Any:
    """Return the message that *response* holds, as JSON or as an event."""
    if response.headers["content-type"].startswith("text/event-stream"):
        data = [line for line in response.text.splitlines() if line.startswith("data: {")]
        return json.loads(data[-1].removeprefix("data: "))
    return response.json()


async def session(client: httpx2.AsyncClient) -> dict[str, str]:
    """Open a session; return the headers that name it."""
    response = await client.post("/mcp", json=initialize())
    assert told(response)["result"]["protocolVersion"] == "2025-06-18"
    return {"mcp-session-id": response.headers["mcp-session-id"]}


async def test_a_session(house: Path) -> None:
    async with served(house) as client:
        headers = await session(client)
        listed = await client.post("/mcp", json=request("tools/list"), headers=headers)
        assert "state_get" in {each["name"] for each in told(listed)["result"]["tools"]}
        asked = request("tools/call", name="state_get", arguments={"key": "k"})
        called = told(await client.post("/mcp", json=asked, headers=headers))
        assert called["result"]["structuredContent"] == {"value": None, "version": 0}
        refused = request("tools/call", name="state_set", arguments={"key": "k", "value": 1})
        answer = told(await client.post("/mcp", json=refused, headers=headers))
        assert answer["result"]["structuredContent"]["error"]["code"] == "denied"
        assert (await client.delete("/mcp", headers=headers)).status_code == 200
        gone = await client.post("/mcp", json=request("tools/list"), headers=headers)
        assert gone.status_code == 404
    async with running_daemon(house / "v") as path, connected(path) as peer:
        found = await peer.ask("monitor:get_events", {"patterns": ["state:*"]})
        assert [(each["event"], each["source"]) for each in found["events"]] == [
            ("state:get", "mcp:http"),
            ("state:set", "mcp:http"),
        ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"hello", -32700, id="no JSON"),
        pytest.param(b'{"id":1,"x":' + b"[" * 20_000, -32700, id="too deep"),
        pytest.param(b"3", -32600, id="a number"),
        pytest.param(b"[]", -32600, id="a list"),
    ],
)
async def test_a_body_that_is_no_message(house: Path, body: bytes, code: int) -> None:
    headers = {"content-type": "application/json"}
    async with served(house) as client:
        first = await client.post("/mcp", content=body, headers=headers)
        # The package gives what is JSON and no message the code of wrong parameters here.
        older = code if code == -32700 else -32602
        assert (first.status_code, first.json()["error"]["code"]) == (400, older)
        # Where nobody has said which revision it is, the newest one reads it.
        newest = headers | {"mcp-protocol-version": "2026-07-28"}
        second = await client.post("/mcp", content=body, headers=newest)
        assert (second.status_code, second.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"authorization": "Bearer x"}, 401, id="another token"),
        pytest.param({"host": "evil.example"}, 421, id="another host"),
        pytest.param({"origin": "https://evil.example"}, 403, id="a page"),
        pytest.param({"mcp-session-id": "x"}, 404, id="a session that there is not"),
        pytest.param({"mcp-protocol-version": "1999-01-01"}, 400, id="a revision that never was"),
        pytest.param({"content-type": "text/plain"}, 400, id="another type"),
        pytest.param({"accept": "text/html"}, 406, id="who wants a page"),
    ],
)
async def test_what_is_refused(house: Path, headers: dict[str, str], status: int) -> None:
    async with served(house) as client:
        response = await client.post("/mcp", json=initialize(), headers=headers)
        assert response.status_code == status
        assert (await client.post("/mcp", json=initialize())).status_code == 200


async def test_a_hundred_megabytes_are_refused_and_not_read(house: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1024 * 1024

    async with served(house) as client:
        with suppress(httpx2.TransportError):  # it may be refused while it still writes
            assert (await client.post("/mcp", content=pieces())).status_code == 413
        assert (await client.post("/mcp", json=initialize())).status_code == 200


async def test_the_daemon_stops_at_once_though_a_stream_is_open(house: Path) -> None:
    with anyio.fail_after(8):
        async with served(house) as client:
            headers = await session(client)
            async with client.stream("GET", "/mcp", headers=headers) as stream:
                assert stream.status_code == 200


async def test_the_token_is_told_nowhere(house: Path) -> None:
    with capture_logs() as logs:
        async with served(house) as client:
            await session(client)
            for headers in ({}, {"authorization": "Bearer x"}, {"host": "evil.example"}):
                answer = await client.post("/mcp", json=request("tools/list"), headers=headers)
                token = client.headers["authorization"].removeprefix("Bearer ")
                assert token not in answer.text
    assert token not in str(logs)
    found = [path for path in (house / "v").rglob("*") if path.is_file()]
    assert [path.name for path in found if token.encode() in path.read_bytes()] == ["http.token"]


async def test_a_profile_that_there_is_not_stops_the_start(house: Path) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with served(house, mcp_profile="nobody"):
            pass
    assert caught.group_contains(UsageError, match="mcp_profile: no component 'profiles/nobody'")
    error: Any = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert error.exit_code == CONFIG_EXIT


async def test_without_the_package_it_says_so(house: Path) -> None:
    class Missing(Library):
        async def serving(self) -> Any:
            raise KsiError("to serve MCP needs the package mcp", code="extra_missing")

    def load(name: str, may_be_path: bool) -> Any:
        raise AssertionError("nobody is asked")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    route = McpRoute(
        Missing(None, None),  # type: ignore[arg-type]
        Callers(load, "auditor"),
        max_body_bytes=1,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(route.run)
        await route({"type": "http", "headers": []}, receive, send)
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["error"]["code"] == "extra_missing"
