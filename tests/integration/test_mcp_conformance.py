"""The public MCP conformance suite, against the daemon as a server and against our client.

What it finds missing is listed in ``tests/data/mcp_conformance.yaml`` with a reason each. The suite
fails for what is not listed, and for what is listed and passes: the list can only shrink.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.services.mcp.connection import connected as connected_to
from ksi_daemon.services.mcp.model import ServerSpec
from ksi_daemon.testing import connected, running_daemon, short_directory
from tests.node_programs import node, program

TESTS: Final = Path(__file__).parent.parent
EXPECTED: Final = TESTS / "data" / "mcp_conformance.yaml"
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {"add_numbers": {"a": 5, "b": 3}}
SUITE_S: Final = 100.0
CLIENT_S: Final = 20.0


async def suite(*words: str) -> tuple[int, str]:
    """Run the suite with what is expected of it; return its exit code and what it says."""
    command = [node(), program("conformance"), *words, "--expected-failures", str(EXPECTED)]
    with short_directory() as directory, anyio.fail_after(SUITE_S):
        ended = await anyio.run_process(
            [*command, "--output-dir", str(directory)],
            check=False,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
    text = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout.decode())
    return ended.returncode, text[text.rfind("SUMMARY ===") :]


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    """Run a daemon with the tools that the suite wants; yield its address for who has no token."""
    plugins, profiles = directory / "p", directory / "c" / "profiles"
    plugins.mkdir()
    (plugins / "suite.py").symlink_to(TESTS / "mcp_conformance_tools.py")
    profiles.mkdir(parents=True)
    allow = "allow: [test_*, json_*, 'monitor:*', 'state:*']"
    (profiles / "suite.md").write_text(f"---\ncomponent_type: profile\n{allow}\n---\n")
    async with running_daemon(
        directory / "v",
        plugins=str(plugins),
        components=str(directory / "c"),
        http_port=0,
        mcp_profile="suite",
    ) as path:
        async with connected(path) as peer:
            port = (await peer.ask("system:health"))["http_port"]
        token = (directory / "v" / "http.token").read_text().strip()
        async with authorizing(port, token) as address:
            yield address


@asynccontextmanager
async def authorizing(port: int, token: str) -> AsyncIterator[str]:
    """Pass on requests with *token*, which the suite cannot be told to send."""

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, forth = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(copied(back_reader, writer))
                await authorized(reader, forth, token)
        except* (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            forth.close()

    listener = await asyncio.start_server(passed_on, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    finally:
        listener.close()


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def authorized(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Copy requests with a header more; raise IncompleteReadError when there are no more."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        length = re.search(rb"(?i)^content-length: *(\d+)", rest, re.MULTILINE)
        body = await reader.readexactly(int(length[1])) if length else b""
        writer.write(b"%s\r\nAuthorization: Bearer %s\r\n%s" % (first, token.encode(), rest) + body)
        await writer.drain()


async def test_the_daemon_as_a_server() -> None:
    with short_directory() as directory:
        async with served(directory) as address:
            code, text = await suite("server", "--url", address, "--suite", "all")
    assert code == 0, text
    assert "✓ server-initialize: 1 passed" in text


@asynccontextmanager
async def clients() -> AsyncIterator[int]:
    """Have our client do what a client does at each address that comes in; yield the port."""

    async def done(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        url = (await reader.readline()).decode().strip()
        spec = ServerSpec(name="suite", url=url, start_timeout_s=CLIENT_S)
        try:
            async with connected_to(spec) as server:
                for tool in await server.tools():
                    await server.run_tool(tool.name, ARGUMENTS.get(tool.name, {}), CLIENT_S)
            writer.write(b"0\n")
        except KsiError:
            writer.write(b"1\n")
        finally:
            writer.close()

    listener = await asyncio.start_server(done, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


@pytest.mark.parametrize("name", ["core", "extensions", "backcompat", "draft"])
async def test_our_client(name: str) -> None:
    script = TESTS / "mcp_conformance_client.sh"
    async with clients() as port:
        command = f"bash {script} {port}"
        code, text = await suite("client", "--suite", name, "--command", command)
    assert code == 0, text


def test_each_expected_failure_has_a_reason() -> None:
    lines = EXPECTED.read_text().splitlines()
    entries = [number for number, line in enumerate(lines) if line.strip().startswith("- ")]
    assert entries
    for number in entries:
        assert re.search(r"- \S+ # \S.{6,}", lines[number]), lines[number]
