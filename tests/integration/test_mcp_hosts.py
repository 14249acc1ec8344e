"""Programs that ask over MCP, as others wrote them: the Python client, the official inspector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

from ksi_daemon.testing import connected, running_daemon, short_directory
from tests.node_programs import node, program

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
PATIENCE_S: Final = 30.0


def configuration(var: Path, *words: str) -> dict[str, Any]:
    """Return what ``ksi mcp --config`` prints for a daemon at *var*."""
    command = [sys.executable, "-m", "ksi_client", "mcp", "--config", "--var", str(var), *words]
    printed = subprocess.run(
        command, capture_output=True, check=True, timeout=PATIENCE_S, env=ENVIRONMENT
    )
    entries: dict[str, Any] = json.loads(printed.stdout)
    return entries


@asynccontextmanager
async def by_program(var: Path, mode: Any = "auto") -> AsyncIterator[Client]:
    """Connect as a host does that was given the configuration."""
    entry = configuration(var)["mcpServers"]["ksi"]
    program = StdioServerParameters(command=entry["command"], args=entry["args"], env=ENVIRONMENT)
    async with Client(stdio_client(program), mode=mode) as client:
        yield client


@asynccontextmanager
async def by_http(var: Path, mode: Any = "auto") -> AsyncIterator[Client]:
    token = (var / "http.token").read_text().strip()
    async with connected(var / "run" / "daemon.sock") as peer:
        port = (await peer.ask("system:health"))["http_port"]
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("host", [by_program, by_http])
@pytest.mark.parametrize(
    ("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")], ids=["new", "old"]
)
async def test_the_python_client(host: Any, mode: str, version: str) -> None:
    with short_directory() as directory, anyio.fail_after(PATIENCE_S):
        var = directory / "v"
        async with running_daemon(var, http_port=0), host(var, mode) as client:
            assert client.protocol_version == version
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert tools["state_get"].title == "state:get"
            assert all(each.annotations.read_only_hint for each in tools.values())
            got = await client.call_tool("state_get", {"key": "k"})
            assert got.structured_content == {"value": None, "version": 0}
            wrong = await client.call_tool("state_get", {"key": 3})
            assert (wrong.is_error, wrong.structured_content["error"]["code"]) == (
                True,
                "args_schema",
            )
            with pytest.raises(MCPError, match="no tool 'nope'"):
                await client.call_tool("nope", {})
            listed = await client.list_resources()
            for resource in listed.resources:
                [content] = (await client.read_resource(resource.uri)).contents
                assert json.loads(content.text) is not None
            templates = (await client.list_resource_templates()).resource_templates
            assert "ksi://events/{seq}" in [each.uri_template for each in templates]
            [content] = (await client.read_resource("ksi://events/1")).contents
            assert json.loads(content.text)["event"] == "system:started"


async def test_a_session_outlives_the_daemon() -> None:
    with short_directory() as directory, anyio.fail_after(PATIENCE_S):
        var = directory / "v"
        changes: list[str] = []

        async def heard(message: Any) -> None:
            changes.append(getattr(message, "method", ""))

        entry = configuration(var)["mcpServers"]["ksi"]
        host = StdioServerParameters(command=entry["command"], args=entry["args"], env=ENVIRONMENT)
        async with Client(stdio_client(host), mode="legacy", message_handler=heard) as client:
            with pytest.raises(MCPError, match=r"no daemon at .*; ksi up starts one") as caught:
                await client.list_tools()
            assert caught.value.data["code"] == "no_daemon"
            for _ in range(2):
                changes.clear()
                async with running_daemon(var):
                    while "notifications/tools/list_changed" not in changes:
                        await anyio.lowlevel.checkpoint()
                    got = await client.call_tool("state_get", {"key": "k"})
                    assert got.structured_content == {"value": None, "version": 0}
                with pytest.raises(MCPError, match="no daemon at "):
                    await client.call_tool("state_get", {"key": "k"})


async def inspected(directory: Path, *words: str) -> Any:
    """Run the official inspector's command line; return the result that it prints."""
    with anyio.fail_after(PATIENCE_S):
        ended = await anyio.run_process(
            [node(), program("mcp-inspector"), "--cli", "--format", "json", *words],
            check=False,
            env={**ENVIRONMENT, "HOME": str(directory)},
        )
    assert ended.returncode == 0, (ended.stdout, ended.stderr.decode())
    return json.loads(ended.stdout)["result"]


async def test_the_inspector_with_the_configuration() -> None:
    with short_directory() as directory:
        path = directory / "ksi.json"
        path.write_text(json.dumps(configuration(directory / "v", "--profile", "wide")))
        server = ("--config", str(path), "--server", "ksi")
        profile = directory / "c" / "profiles" / "wide.md"
        profile.parent.mkdir(parents=True)
        profile.write_text("---\ncomponent_type: profile\nallow: ['*']\n---\n")
        async with running_daemon(directory / "v", components=str(directory / "c")):
            # --strict: also whether the schemas are such as all hosts can take.
            listed = await inspected(directory, *server, "--method", "tools/list", "--strict")
            names = [each["name"] for each in listed["tools"]]
            assert {"agent_send", "state_set"} <= set(names)
            called = await inspected(
                directory,
                *server,
                *("--method", "tools/call", "--tool-name", "state_set"),
                *("--tool-args-json", '{"key": "k", "value": {"a": 1}}'),
            )
            assert called["structuredContent"] == {"version": 1}
            read = await inspected(
                directory, *server, "--method", "resources/read", "--uri", "ksi://events"
            )
            page = json.loads(read["contents"][0]["text"])
            assert page["events"][0]["event"] == "state:set"
            assert page["events"][0]["source"].startswith("mcp:stdio/")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_over_http(era: str) -> None:
    with short_directory() as directory:
        var = directory / "v"
        async with running_daemon(var, http_port=0) as path:
            async with connected(path) as peer:
                port = (await peer.ask("system:health"))["http_port"]
            token = (var / "http.token").read_text().strip()
            server = ("--transport", "http", "--server-url", f"http://127.0.0.1:{port}/mcp")
            listed = await inspected(
                directory,
                *server,
                *("--header", f"Authorization: Bearer {token}"),
                *("--method", "resources/list", "--protocol-era", era),
            )
    assert "ksi://events" in [each["uri"] for each in listed["resources"]]


@pytest.mark.parametrize("host", [by_program, by_http])
async def test_a_host_that_listens_is_told_of_new_tools(host: Any) -> None:
    text = (
        "from ksi_daemon.tools import tool\n\n\n@tool(effect='observe')\ndef new():\n    'New.'\n"
    )
    with short_directory() as directory, anyio.fail_after(PATIENCE_S):
        var = directory / "v"
        profile = directory / "c" / "profiles" / "auditor.md"
        profile.parent.mkdir(parents=True)
        profile.write_text("---\ncomponent_type: profile\nallow: [new]\n---\n")
        async with (
            running_daemon(var, http_port=0, components=str(directory / "c")) as path,
            host(var) as client,
            client.listen(
                tools_list_changed=True, resource_subscriptions=["ksi://events"]
            ) as changes,
        ):
            news = aiter(changes)
            assert (await client.list_tools()).tools == []
            (var / "plugins").mkdir()
            (var / "plugins" / "new.py").write_text(text)
            assert await anext(news) == ToolsListChanged()
            assert [each.name for each in (await client.list_tools()).tools] == ["new"]
            async with connected(path) as peer:
                await peer.ask("system:mark", {"label": "x"})
            assert await anext(news) == ResourceUpdated("ksi://events")
