"""MCP servers that others wrote, over both transports, through the daemon."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory
from tests.node_programs import program

PATIENCE_S = 60.0


@asynccontextmanager
async def house() -> AsyncIterator[tuple[Peer, Path]]:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as path, connected(path) as peer:
            yield peer, directory


async def add(peer: Peer, name: str, *arguments: str, **rest: Any) -> dict[str, str]:
    """Add the server *name* as a program; return what became of each of its tools."""
    spec = {"argv": [program(f"mcp-server-{name}"), *arguments], "pass_env": ["PATH"], **rest}
    added = await peer.ask("mcp:add_server", {"name": name, **spec})
    return {each["tool"]: each["state"] for each in added["tools"]}


async def refused(peer: Peer, event: str, data: object) -> KsiError:
    with pytest.raises(KsiError) as caught:
        await peer.ask(event, data)
    return caught.value


async def speaks_to_everything(peer: Peer, directory: Path) -> None:
    assert await peer.ask("everything.echo", {"message": "hi"}) == "Echo: hi"
    assert await peer.ask("everything.get-sum", {"a": 1, "b": 2}) == "The sum of 1 and 2 is 3."
    assert (await refused(peer, "everything.get-sum", {"a": 1})).code == "args_schema"
    picture = await peer.ask("everything.get-tiny-image", {})
    [image] = picture["files"]
    assert image["media_type"] == "image/png"
    content = await anyio.Path(image["path"]).read_bytes()
    assert content.startswith(b"\x89PNG")
    weather = await peer.ask("everything.get-structured-content", {"location": "Chicago"})
    assert json.loads(weather)["humidity"] > 0


async def test_the_server_of_everything_as_a_program() -> None:
    async with house() as (peer, directory):
        tools = await add(peer, "everything")
        assert set(tools.values()) == {"offered"}
        await speaks_to_everything(peer, directory)
        # It shows the environment that it was given.
        environment = json.loads(await peer.ask("everything.get-env", {}))
        assert set(environment) <= {"PATH", "_", "PWD", "SHLVL"}


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[anyio.abc.Process]:
    """Run the server of everything on *port*."""
    # It wants what node 18, which Debian has, hides behind this option.
    environment = {
        **os.environ,
        "PORT": str(port),
        "NODE_OPTIONS": "--experimental-global-webcrypto",
    }
    process = await anyio.open_process(
        [program("mcp-server-everything"), "streamableHttp"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    async with process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


async def test_the_server_of_everything_over_http() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with house() as (peer, directory), serving(port) as process:
        spec = {"name": "everything", "url": f"http://127.0.0.1:{port}/mcp"}
        with anyio.fail_after(PATIENCE_S):
            while not await is_added(peer, spec):
                pass  # until it listens
        await speaks_to_everything(peer, directory)
        process.kill()
        await process.wait()
        gone = await refused(peer, "everything.echo", {"message": "hi"})
        assert gone.code == "mcp_unavailable"
        async with serving(port):
            with anyio.fail_after(PATIENCE_S):
                while not await is_back(peer):
                    pass
            assert await peer.ask("everything.echo", {"message": "again"}) == "Echo: again"


async def is_back(peer: Peer) -> bool:
    [server] = (await peer.ask("mcp:list"))["servers"]
    return bool(server["state"] == "ready")


async def is_added(peer: Peer, spec: dict[str, Any]) -> bool:
    try:
        await peer.ask("mcp:add_server", spec)
    except KsiError as exc:
        if exc.code != "mcp_unavailable":
            raise
        return False
    return True


async def test_the_server_of_memory() -> None:
    entity = {"name": "ksi", "entityType": "daemon", "observations": ["is small"]}
    async with house() as (peer, directory):
        env = {"MEMORY_FILE_PATH": str(directory / "memory.jsonl")}
        await add(peer, "memory", env=env, prefix="kom.memory.v1")
        await peer.ask("kom.memory.v1.create_entities", {"entities": [entity]})
        graph = json.loads(await peer.ask("kom.memory.v1.read_graph", {}))
    assert graph["entities"] == [entity]


async def test_the_server_of_files() -> None:
    async with house() as (peer, directory):
        root = directory / "data"
        await anyio.Path(root).mkdir()
        tools = await add(peer, "filesystem", str(root), allow=["read_*", "write_file"])
        assert "move_file" not in tools
        note = str(root / "note.txt")
        await peer.ask("filesystem.write_file", {"path": note, "content": "hello"})
        assert await peer.ask("filesystem.read_text_file", {"path": note}) == "hello"
        outside = await refused(peer, "filesystem.read_text_file", {"path": "/etc/hostname"})
    assert outside.code == "mcp_tool_error"
    assert "outside allowed directories" in outside.message
