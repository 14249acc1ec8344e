"""MCP servers that the settings name: what they may say, and what becomes of them over restarts."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_daemon.config import CONFIG_EXIT, load
from ksi_daemon.errors import KsiError, UsageError
from ksi_daemon.services.mcp import specs_of
from ksi_daemon.services.mcp.model import ServerSpec
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory
from tests import mcp_server
from tests.mcp_server import tool
from tests.serving import Exchange, serving

PATIENCE_S = 60.0
SECRET = "s3cret-and-not-for-the-log"


def settings_of(tmp_path: Path, toml: str) -> list[ServerSpec]:
    (tmp_path / "ksi.toml").write_text(toml)
    settings = load({"var": str(tmp_path)}, {})
    return specs_of(settings.mcp_servers, exit_code=CONFIG_EXIT)


def test_a_program_and_an_address(tmp_path: Path) -> None:
    toml = """
        [mcp_servers.files]
        command = "npx"
        args = ["-y", "server"]
        env = {TOKEN = "${GITHUB_TOKEN}", MODE = "quiet"}
        pass_env = ["PATH"]
        allow = ["read_*"]
        timeout_s = 5

        [mcp_servers.search]
        url = "https://example.com/mcp"
        headers = {Authorization = "Bearer ${SEARCH_TOKEN}"}
        prefix = "web.search"
    """
    assert settings_of(tmp_path, toml) == [
        ServerSpec(
            name="files",
            argv=("npx", "-y", "server"),
            env={"TOKEN": "${GITHUB_TOKEN}", "MODE": "quiet"},
            pass_env=("PATH",),
            allow=("read_*",),
            timeout_s=5,
        ),
        ServerSpec(
            name="search",
            url="https://example.com/mcp",
            headers={"Authorization": "Bearer ${SEARCH_TOKEN}"},
            prefix="web.search",
        ),
    ]


def test_the_environment_has_them_as_json() -> None:
    environ = {"KSI_MCP_SERVERS": '{"files": {"command": "x"}}'}
    settings = load({"var": "v"}, environ)
    assert specs_of(settings.mcp_servers, exit_code=CONFIG_EXIT) == [
        ServerSpec(name="files", argv=("x",))
    ]
    with pytest.raises(UsageError, match="KSI_MCP_SERVERS is not JSON"):
        load({"var": "v"}, {"KSI_MCP_SERVERS": "files"})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param("", "mcp_servers.x: give command or url, one of them", id="neither"),
        pytest.param('command = "a"\nurl = "http://b"', "give command or url", id="both"),
        pytest.param('url = "http://b"\nargs = ["a"]', "args are a command's", id="args of none"),
        pytest.param('url = "ftp://b"', "'ftp://b' is no http address", id="another scheme"),
        pytest.param('command = ["a"]', "Expected `str | null`, got `array`", id="a list"),
        pytest.param('comand = "a"', "unknown field `comand`", id="misspelt"),
        pytest.param('command = "a"\ntimeout_s = 0', ">| 0", id="no time"),
        pytest.param('command = "a"\nprefix = "a:b"', "is no prefix", id="an event as a prefix"),
        pytest.param('command = "a"\nenv = {A = 1}', "Expected `str`", id="a number"),
        pytest.param('command = "a"\nheaders = {A = "b"}', "headers are for a url", id="headers"),
        pytest.param(
            'url = "http://b"\nheaders = {"A b" = "c"}', "odd characters", id="an odd header"
        ),
        pytest.param(
            'url = "http://b"\nheaders = {A = "b\\nC: d"}',
            "odd characters",
            id="two in one",
        ),
    ],
)
def test_what_is_no_server(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        settings_of(tmp_path, f"[mcp_servers.x]\n{entry}")
    assert caught.value.exit_code == CONFIG_EXIT


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mcp_servers\.a b: "):
        settings_of(tmp_path, '[mcp_servers."a b"]\ncommand = "x"')


class House:
    """A directory with a fake server whose tools can be set, and settings that name it."""

    def __init__(self, directory: Path) -> None:
        self.var = directory / "v"
        self._tools = directory / "tools.json"
        self.offer("echo", "environment")

    def offer(self, *names: str) -> None:
        self._tools.write_text(json.dumps([tool(name) for name in names]))

    def entry(self, **more: Any) -> dict[str, Any]:
        args = [str(Path(mcp_server.__file__)), str(self._tools)]
        return {"command": sys.executable, "args": args, **more}

    @asynccontextmanager
    async def peer(self, entry: dict[str, Any] | None = None) -> AsyncIterator[Peer]:
        """Run a daemon whose settings name the server as *entry*; yield a peer of it."""
        servers = {} if entry is None else {"fake": entry}
        async with running_daemon(self.var, mcp_servers=servers) as path, connected(path) as peer:
            yield peer


async def until_ready(peer: Peer, name: str = "fake") -> dict[str, str]:
    """Wait until the server answers; return what became of each of its tools."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            servers = (await peer.ask("mcp:list"))["servers"]
            for server in servers:
                if server["name"] == name and server["state"] == "ready":
                    return {each["tool"]: each["state"] for each in server["tools"]}


async def test_a_server_of_the_settings_is_there_and_its_secret_is_not_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    with short_directory() as directory:
        house = House(directory)
        entry = house.entry(env={"TOKEN": "${MY_TOKEN}"})
        async with house.peer(entry) as peer:
            assert await until_ready(peer) == {"echo": "offered", "environment": "offered"}
            assert await peer.ask("fake.echo", {"text": "hi"}) == "hi"
            told = json.loads(await peer.ask("fake.environment", {}))
            assert told["TOKEN"] == SECRET
            with pytest.raises(KsiError, match="is in the settings") as caught:
                await peer.ask("mcp:remove_server", {"name": "fake"})
            assert caught.value.code == "configured"
        with sqlite3.connect(house.var / "events.db") as database:
            [(spec,)] = database.execute("SELECT spec FROM mcp_servers").fetchall()
        assert SECRET not in spec
        assert json.loads(spec)["env"] == {"TOKEN": "${MY_TOKEN}"}


async def test_what_was_approved_holds_until_the_settings_say_otherwise() -> None:
    with short_directory() as directory:
        house = House(directory)
        entry = house.entry()
        async with house.peer(entry) as peer:
            await until_ready(peer)
        house.offer("echo", "environment", "number")
        async with house.peer(entry) as peer:
            assert (await until_ready(peer))["number"] == "new"
            await peer.ask("mcp:approve", {"name": "fake"})
        changed = {**entry, "timeout_s": 5}
        house.offer("echo", "fail")
        async with house.peer(changed) as peer:
            assert await until_ready(peer) == {"echo": "offered", "fail": "offered"}
        async with house.peer() as peer:
            assert (await peer.ask("mcp:list"))["servers"] == []


async def test_a_server_that_is_not_there_at_the_start_is_kept_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with short_directory() as directory:
        house = House(directory)
        gone = directory / "tools.json"
        listed = gone.read_text()
        gone.unlink()
        async with house.peer(house.entry()) as peer:
            while (await peer.ask("mcp:list"))["servers"][0]["state"] != "down":
                pass
            gone.write_text(listed)
            assert (await until_ready(peer))["echo"] == "offered"
        house.offer("echo", "environment", "number")
        async with house.peer(house.entry()) as peer:
            assert (await until_ready(peer))["number"] == "new"


async def test_a_header_is_filled_in_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)

    async def refused(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n")

    with short_directory() as directory:
        async with serving(refused) as server:
            headers = {"Authorization": "Bearer ${MY_TOKEN}"}
            entry = {"url": server.url, "headers": headers}
            async with running_daemon(directory / "v", mcp_servers={"far": entry}):
                with anyio.fail_after(PATIENCE_S):
                    await server.asked.wait()
        assert server.exchanges[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_a_variable_that_is_not_there_is_told() -> None:
    with short_directory() as directory:
        house = House(directory)
        entry = house.entry(env={"TOKEN": "${NOT_IN_ANY_ENVIRONMENT}"})
        async with house.peer(entry) as peer:
            with anyio.fail_after(PATIENCE_S):
                while not (error := (await peer.ask("mcp:list"))["servers"][0]["error"]):
                    pass
    assert error == "'NOT_IN_ANY_ENVIRONMENT' is not in the environment"
