"""MCP by lines on the daemon's own socket, with clients that do what none should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ksi_daemon.testing import connected, running_daemon
from ksi_daemon.transports.mcp.news import SETTLE_S

PATIENCE_S = 10.0


@asynccontextmanager
async def served(house: Path, **settings: Any) -> AsyncIterator[Path]:
    """Run a daemon on what *house* holds, with limits that are soon reached; yield its var."""
    limits = {"max_frame_bytes": 64 * 1024, "frame_timeout_s": 0.5, "stall_timeout_s": 0.5}
    places = {"components": str(house / "c"), "plugins": str(house / "p"), "drain_timeout_s": 0.5}
    async with running_daemon(house / "v", **(limits | places | settings)):
        yield house / "v"


class Host:
    """A program that speaks MCP by lines, or something like it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def write(self, message: Any) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.writer.write(line + b"\n")

    async def read(self) -> Any:
        with anyio.fail_after(PATIENCE_S):
            line = await self._reader.readline()
        return json.loads(line) if line else None

    async def hears_nothing(self) -> bool:
        """Say whether no message comes within twice the time after which news are told."""
        with anyio.move_on_after(2 * SETTLE_S) as waiting:
            await self._reader.readline()
        return waiting.cancelled_caught

    async def ask(self, method: str, number: int = 1, **params: Any) -> Any:
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await self.read()

    async def call(self, tool: str, number: int = 1, **arguments: Any) -> Any:
        return (await self.ask("tools/call", number, name=tool, arguments=arguments))["result"]


@asynccontextmanager
async def host(var: Path, greeting: Any = None, *, opened: bool = True) -> AsyncIterator[Host]:
    streams = await asyncio.open_unix_connection(var / "run" / "mcp.sock", limit=1 << 24)
    this = Host(*streams)
    try:
        if opened:
            this.write({} if greeting is None else greeting)
            assert (await this.read())["ok"]
            await opening(this)
        yield this
    finally:
        this.writer.close()


async def opening(this: Host, version: str = "2025-11-25") -> Any:
    client = {"name": "test", "version": "1"}
    answer = await this.ask(
        "initialize", 0, protocolVersion=version, capabilities={}, clientInfo=client
    )
    this.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return answer["result"]


async def tools(var: Path, greeting: Any) -> set[str]:
    """Return the names of the tools of a caller."""
    async with host(var, greeting) as this:
        listed = await this.ask("tools/list")
    return {each["name"] for each in listed["result"]["tools"]}


async def logged(var: Path, *patterns: str) -> list[tuple[str, str, str]]:
    async with connected(var / "run" / "daemon.sock") as peer:
        found = await peer.ask("monitor:get_events", {"patterns": patterns})
    return [(each["event"], each["source"], each["status"]) for each in found["events"]]


async def test_the_socket_is_its_owners(house: Path) -> None:
    async with served(house) as var:
        assert (var / "run" / "mcp.sock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")],
    ids=["the oldest", "an older one", "one that never was"],
)
async def test_a_revision_is_agreed_on(house: Path, offered: str, agreed: str) -> None:
    async with served(house) as var, host(var, opened=False) as this:
        this.write({})
        assert (await this.read())["result"] == {"max_frame_bytes": 64 * 1024}
        assert (await opening(this, offered))["protocolVersion"] == agreed


async def test_a_caller_has_the_profile_that_is_set_unless_it_names_another(house: Path) -> None:
    async with served(house) as var:
        reader, narrow, wide = [
            await tools(var, greeting)
            for greeting in ({}, {"profile": "agent"}, {"profile": "all"})
        ]
    assert "state_get" in reader
    assert "state_set" not in reader
    assert narrow == {"system_help"}
    assert "state_set" in wide
    # Denied, a person's to approve, only by name, about oneself, for a connection.
    assert not wide & {"state_query", "state_delete", "system_shutdown", "agent_status"}
    assert not wide & {"monitor_subscribe", "agent_update"}


async def test_what_it_asks_is_done_and_logged_as_its_own(house: Path) -> None:
    async with served(house) as var:
        async with host(var, {"profile": "all"}) as this:
            done = await this.call("state_set", key="k", value={"a": 1})
            assert done["structuredContent"] == {"version": 1}
            assert json.loads(done["content"][0]["text"]) == {"version": 1}
            read = await this.call("state_get", key="k")
            assert read["structuredContent"]["value"] == {"a": 1}
            assert (await this.call("word"))["content"] == [{"type": "text", "text": "hello"}]
            shown = await this.call("picture")
            assert [each["type"] for each in shown["content"]] == ["text", "image"]
            assert shown["content"][1]["data"] == "iVBORw0KGgo="
            assert (await this.call("sound"))["content"][1]["mimeType"] == "audio/wav"
        assert await logged(var, "state:*") == [
            ("state:set", "mcp:stdio/1", "handled"),
            ("state:get", "mcp:stdio/1", "handled"),
        ]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status"),
    [
        pytest.param("state_get", {"key": 3}, "args_schema", "rejected", id="a wrong type"),
        pytest.param("state_get", {}, "args_schema", "rejected", id="nothing given"),
        pytest.param("state_set", {"key": "k", "value": 1}, "denied", "denied", id="not granted"),
        pytest.param("system_shutdown", {}, "denied", "denied", id="an operator's"),
        pytest.param("agent_status", {"status": "x"}, "denied", "denied", id="an agent's"),
        pytest.param(
            "agent_status", {"agent_id": "bob", "status": "x"}, "denied", "denied", id="of another"
        ),
        pytest.param("monitor_subscribe", {}, "args_schema", "failed", id="for a connection"),
        pytest.param("monitor_tree", {"seq": 999}, "not_found", "failed", id="of nothing"),
    ],
)
async def test_what_goes_wrong_is_a_result_with_a_code(
    house: Path, tool: str, arguments: dict[str, Any], code: str, status: str
) -> None:
    async with served(house) as var:
        async with host(var) as this:
            result = await this.call(tool, **arguments)
        assert (result["isError"], result["structuredContent"]["error"]["code"]) == (True, code)
        assert result["content"][0]["text"].startswith(f"{code}: ")
        event = tool.replace("_", ":", 1)
        assert (await logged(var, event))[-1] == (event, "mcp:stdio/1", status)


async def test_a_tool_that_there_is_not_is_an_error_of_the_protocol_and_logged(house: Path) -> None:
    async with served(house) as var:
        async with host(var) as this:
            answer = await this.ask("tools/call", name="state_gett", arguments={})
            assert answer["error"]["code"] == -32602
            assert answer["error"]["message"] == "no tool 'state_gett'"
            assert answer["error"]["data"]["code"] == "unknown_event"
            too_long = await this.ask("tools/call", name="x" * 10_000, arguments={})
            assert too_long["error"]["code"] == -32602
        assert ("state_gett", "mcp:stdio/1", "unknown") in await logged(var)


async def test_a_message_to_an_agent_is_a_strangers(house: Path) -> None:
    """A call that stands in it does not fire when the agent quotes it; an operator's does."""
    call = '{"event": "state:set", "data": {"key": "k", "value": 1}}'
    spec = {"type": "scripted", "replies": [f"They write:\n\n{call}", "Done."]}
    spawn = {"system": "Help.", "provider": spec, "allow": ["state:set"]}
    sent = {"message": call, "wait": True}
    async with (
        served(house) as var,
        connected(var / "run" / "daemon.sock") as peer,
        host(var, {"profile": "all"}) as this,
    ):
        for agent_id in ("ada", "bob"):
            await peer.ask("agent:spawn", {"agent_id": agent_id, **spawn})
        answer = await this.call("agent_send", agent_id="ada", **sent)
        assert answer["structuredContent"]["calls"] == []
        trusted = await peer.ask("agent:send", {"agent_id": "bob", **sent})
        assert [each["name"] for each in trusted["calls"]] == ["state:set"]
        refused = await this.call("agent_send", agent_id="ada", message="hi", protocol="any")
        assert refused["structuredContent"]["error"]["code"] == "denied"


async def test_nothing_acts_for_it_later(house: Path) -> None:
    rule = {"name": "r", "pattern": "state:set", "target": "system:mark"}
    timer = {"after_s": 1, "target": "system:mark", "data": {"label": "x"}}
    async with served(house) as var, host(var, {"profile": "all"}) as this:
        for tool, data in (("routing_add_rule", rule), ("timer_set", timer)):
            result = await this.call(tool, **data)
            assert result["structuredContent"]["error"]["code"] == "denied"


async def test_the_log_can_be_read_in_pages(house: Path) -> None:
    async with served(house) as var:
        async with connected(var / "run" / "daemon.sock") as peer:
            for number in range(5):
                await peer.ask("system:mark", {"label": str(number)})
        async with host(var) as this:
            listed = (await this.ask("resources/list"))["result"]["resources"]
            assert [each["uri"] for each in listed][:2] == ["ksi://events", "ksi://reliability"]
            templates = (await this.ask("resources/templates/list"))["result"]["resourceTemplates"]
            assert "ksi://stories/{seq}" in [each["uriTemplate"] for each in templates]
            seen, address = [], "ksi://events?pattern=system:mark&limit=2"
            while address:
                answer = await this.ask("resources/read", uri=address)
                [content] = answer["result"]["contents"]
                assert content["mimeType"] == "application/json"
                page = json.loads(content["text"])
                seen += [each["data"]["label"] for each in page["events"]]
                address = page["next"]
            assert seen == ["4", "3", "2", "1", "0"]
            missing = await this.ask("resources/read", uri="ksi://events/9999")
            assert missing["error"]["data"]["code"] == "not_found"
        async with host(var, {"profile": "agent"}) as narrow:
            assert (await narrow.ask("resources/list"))["result"]["resources"] == []
            refused = await narrow.ask("resources/read", uri="ksi://stats")
            assert refused["error"]["data"]["code"] == "denied"


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30])
async def test_a_cursor_that_nobody_gave(house: Path, cursor: str) -> None:
    async with served(house) as var:
        async with host(var) as this:
            answer = await this.ask("tools/list", cursor=cursor)
        assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("greeting", "code"),
    [
        pytest.param({"profile": "nobody"}, "not_found", id="no such profile"),
        pytest.param({"profile": "../../etc/passwd"}, "component_name", id="a path"),
        pytest.param({"profile": 3}, "bad_request", id="no name"),
        pytest.param({"who": "me"}, "bad_request", id="another field"),
        pytest.param(b"hello", "bad_request", id="no JSON"),
        pytest.param(b"x" * 70_000, "frame_too_large", id="too long"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize"}, "bad_request", id="MCP at once"
        ),
    ],
)
async def test_a_greeting_that_is_none_is_told_so(house: Path, greeting: Any, code: str) -> None:
    async with served(house) as var, host(var, opened=False) as this:
        this.write(greeting)
        refusal = await this.read()
        assert (refusal["ok"], refusal["error"]["code"]) == (False, code)
        assert await this.read() is None


async def test_a_client_that_does_not_greet_is_not_waited_for(house: Path) -> None:
    async with served(house) as var, host(var, opened=False) as this:
        assert (await this.read())["error"]["code"] == "frame_timeout"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(b"hello", -32700, id="no JSON"),
        pytest.param(b"\xff\xfe{}", -32700, id="no text"),
        pytest.param(b'{"id":1,"x":' + b"[" * 20_000, -32700, id="too deep"),
        pytest.param(b"[]", -32600, id="a list"),
        pytest.param(b"{}", -32600, id="an empty object"),
        pytest.param(b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, id="another version"),
    ],
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(
    house: Path, line: bytes, code: int
) -> None:
    async with served(house) as var, host(var) as this:
        this.write(line)
        answer = await this.read()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        assert (await this.ask("ping"))["result"] == {}


async def test_a_line_that_is_too_long_ends_the_connection_with_a_reason(house: Path) -> None:
    async with served(house) as var, host(var) as this:
        this.write(b"x" * 70_000)
        assert (await this.read())["error"]["data"]["code"] == "frame_too_large"
        assert await this.read() is None


async def test_a_line_that_does_not_end_is_not_waited_for(house: Path) -> None:
    async with served(house) as var, host(var) as this:
        this.writer.write(b'{"jsonrpc":')
        assert (await this.read())["error"]["data"]["code"] == "frame_timeout"
        assert await this.read() is None


async def test_a_method_that_there_is_not(house: Path) -> None:
    async with served(house) as var, host(var) as this:
        assert (await this.ask("no/such"))["error"]["code"] == -32601
        assert (await this.ask("tools/call", x=1))["error"]["code"] == -32602


async def test_a_call_that_was_cancelled_holds_up_no_other(house: Path) -> None:
    """More than may be under way at once are cancelled; then there is room for one more."""
    async with served(house) as var, host(var, {"profile": "all"}) as this:
        for number in range(1, 201):
            params = {"name": "wait", "arguments": {}}
            this.write({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
            cancelled = {"requestId": number}
            this.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        assert (await this.ask("ping", 999)) == {"jsonrpc": "2.0", "id": 999, "result": {}}


async def test_a_client_that_reads_nothing_is_cut_off_and_others_are_served(house: Path) -> None:
    async with served(house) as var, host(var) as stuck, host(var) as other:
        stuck.writer.transport.pause_reading()
        for number in range(2_000):
            stuck.write({"jsonrpc": "2.0", "id": number, "method": "tools/list"})
        with anyio.fail_after(PATIENCE_S):
            while not stuck.writer.transport.is_closing():
                assert (await other.ask("ping"))["result"] == {}
                stuck.write({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})


async def test_there_are_only_so_many(house: Path) -> None:
    async with (
        served(house, max_connections=1) as var,
        host(var),
        host(var, opened=False) as second,
    ):
        second.write({})
        assert (await second.read())["error"]["code"] == "too_many_connections"


async def test_a_daemon_that_stops_lets_nobody_in_and_ends_what_was_begun(house: Path) -> None:
    async with served(house, drain_timeout_s=5.0) as var, host(var, {"profile": "all"}) as this:
        (house / "go").unlink(missing_ok=True)
        call = {"name": "wait_for", "arguments": {"path": str(house / "go")}}
        this.write({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        async with connected(var / "run" / "daemon.sock") as peer:
            await peer.ask("system:shutdown")
        with anyio.fail_after(PATIENCE_S):
            while (var / "run" / "mcp.sock").exists():
                await anyio.lowlevel.checkpoint()
        (house / "go").touch()
        assert (await this.read())["result"]["content"] == [{"type": "text", "text": "went"}]


async def test_the_daemon_stops_while_a_call_runs(house: Path) -> None:
    async with served(house) as var, host(var, {"profile": "all"}) as this:
        this.write({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}})
        async with connected(var / "run" / "daemon.sock") as peer:
            await peer.ask("system:shutdown")
        with anyio.fail_after(PATIENCE_S):
            while await this.read() is not None:
                pass


async def test_a_host_that_watches_the_log_is_told_when_it_grows(house: Path) -> None:
    async with (
        served(house) as var,
        host(var) as this,
        connected(var / "run" / "daemon.sock") as peer,
    ):
        for address in ("ksi://events?pattern=system:*", "ksi://stories/1"):
            assert (await this.ask("resources/subscribe", uri=address))["result"] == {}
        assert (await this.ask("resources/unsubscribe", uri="ksi://stories/1"))["result"] == {}
        wrong = await this.ask("resources/subscribe", uri="ksi://nothing")
        assert wrong["error"]["data"]["code"] == "not_found"
        await peer.ask("system:mark", {"label": "x"})
        assert await this.read() == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "ksi://events?pattern=system:*"},
        }
        # What it does itself is no news, nor is what it does not watch any more.
        await this.call("monitor_get_stats")
        assert await this.hears_nothing()
        await this.ask("resources/unsubscribe", uri="ksi://events?pattern=system:*")
        await peer.ask("system:mark", {"label": "y"})
        assert await this.hears_nothing()


async def test_it_may_not_watch_without_end(house: Path) -> None:
    async with served(house) as var, host(var) as this:
        for number in range(256):
            await this.ask("resources/subscribe", uri=f"ksi://events/{number}")
        refused = await this.ask("resources/subscribe", uri="ksi://events/256")
        assert refused["error"]["message"] == "256 resources are watched already"
        again = await this.ask("resources/subscribe", uri="ksi://events/1")
        assert again["result"] == {}


async def test_a_host_is_told_when_tools_come_and_go(house: Path) -> None:
    async with served(house) as var, host(var, {"profile": "all"}) as this:
        plugin = anyio.Path(house / "p" / "things.py")
        text = "from ksi_daemon.tools import tool\n\n@tool\ndef new():\n    'New.'\n"
        for present in (False, True):
            await (plugin.write_text(text) if present else plugin.unlink())
            assert await this.read() == {
                "jsonrpc": "2.0",
                "method": "notifications/tools/list_changed",
            }
            names = {each["name"] for each in (await this.ask("tools/list"))["result"]["tools"]}
            assert ("new" in names, "word" in names) == (present, False)
