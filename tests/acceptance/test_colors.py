"""Which command writes colours where: every command of ``ksi``, against a real daemon."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from ksi_client import BlockingClient
from ksi_client.cli import COMMANDS, cli
from ksi_daemon.testing import short_directory

STATUS = '{"event": "agent:status", "data": {"status": "ready"}}'
BROKEN = '{"event": "state:set", "data": 5}'
ESCAPE = "\x1b["

# What each command is asked, with the daemon of the fixture. STORY and CALL are events there, TEXT
# is a file with a call in it.
ASKED = {
    "stats": ["stats"],
    "doctor": ["doctor"],
    "spawn": ["spawn", "agents/greeter", "--prompt", "hello", "--provider", "scripted"],
    "send": ["send", "ada", "go"],
    "agents": ["agents"],
    "agents one": ["agents", "ada"],
    "terminate": ["terminate", "ada", "--dry-run"],
    "components": ["components"],
    "tools": ["tools", "list", "--events"],
    "approvals": ["approvals"],
    "rules": ["rules"],
    "timers": ["timers"],
    "emit": ["emit", "system:mark", "label=x"],
    "discover": ["discover"],
    "help": ["help", "agent:spawn"],
    "events": ["events"],
    "tree": ["tree", "STORY"],
    "why": ["why", "CALL"],
    "attempts": ["attempts"],
    "log": ["log", "verify"],
    "replay": ["replay"],
    "reliability": ["reliability"],
    "audit": ["audit"],
    "extract": ["extract", "TEXT"],
    "protocol": ["protocol", "compare", "TEXT"],
}
# Why the others are not asked.
NOT_ASKED = {
    "up": "starts a daemon",
    "down": "stops it",
    "demo": "starts one of its own; its parts are those of events, tree and reliability",
    "chat": "talks for long; tests/unit/ksi_client/commands/test_chat.py",
    "monitor": "fills a terminal; a pipe gets one picture",
    "tail": "never ends; its lines are those of events",
    "open": "serves a browser",
    "mcp": "speaks MCP",
    "unit": "prints a file",
    "export": "writes files",
    "import": "reads them",
    "prompt": "prints a prompt",
    "completion": "prints a script",
}
# Text without a colour: nothing in it is worth one, or nothing is found otherwise.
PLAIN = {"terminate", "replay"}


class House:
    """A daemon, the names of what is in it, and ``ksi``."""

    def __init__(self, var: Path, names: dict[str, str]) -> None:
        self.var = var
        self._names = names

    def words(self, command: str) -> list[str]:
        return [self._names.get(word, word) for word in ASKED[command]]

    def ksi(self, command: str, *flags: str, **environ: str) -> str:
        """Return what a pipe gets."""
        environ = {"NO_COLOR": "", "FORCE_COLOR": "", "COLUMNS": "100", **environ}
        given = ["--var", str(self.var), *flags, *self.words(command)]
        done = CliRunner().invoke(cli, given, env=environ)
        assert done.exit_code == 0, done.output
        return done.stdout

    def terminal(self, command: str, *flags: str, **environ: str) -> str:
        """Return what a terminal gets."""
        ours, theirs = pty.openpty()
        given = [sys.executable, "-m", "ksi_client", "--var", str(self.var), *flags]
        environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", **environ}
        done = subprocess.run(
            [*given, *self.words(command)],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environ, timeout=60, check=True,
        )  # fmt: skip
        os.close(theirs)
        with os.fdopen(ours, "rb") as screen:
            assert done.returncode == 0
            return os.read(screen.fileno(), 65_536).decode()


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with short_directory() as directory:
        var, text = directory / "v", directory / "reply.txt"
        text.write_text(f"I say so.\n{STATUS}\n")
        program = [sys.executable, "-m", "ksi_daemon", "--var", str(var), "--log-level", "error"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            path = process.stdout.readline().removeprefix("ready ").strip()
            with BlockingClient(path) as client:
                yield House(var, {"TEXT": str(text), **_furnished(client)})
            process.terminate()


def _furnished(client: BlockingClient) -> dict[str, str]:
    """Bring in one of each thing that commands list; return the names that ASKED leaves open."""
    replies = [f"{STATUS}\n{BROKEN}\n", STATUS, "Done."]
    provider = {"type": "scripted", "replies": replies, "on_empty": "repeat"}
    ada = {"agent_id": "ada", "system": "S", "provider": provider, "ask": ["state:set"]}
    client.request("agent:spawn", ada)
    calls = ['{"event": "state:set", "data": {"key": "k", "value": 1}}', "Done."]
    asks = {"agent_id": "bob", "provider": {"type": "scripted", "replies": calls}}
    client.request("agent:spawn", ada | asks)
    sent = [client.ask("agent:send", {"agent_id": name, "message": "go", "wait": True})
            for name in ("ada", "bob")]  # fmt: skip
    rule = {"name": "r", "pattern": "agent:result", "target": "system:mark", "max_fires": 1}
    client.request("routing:add_rule", {**rule, "mapping": {"label": "x"}})
    timer = {"name": "t", "after_s": 3600, "target": "system:mark", "data": {"label": "x"}}
    client.request("timer:set", timer)
    [call] = client.request("monitor:get_events", {"patterns": ["agent:status"], "limit": 1})[
        "events"
    ]
    return {"STORY": str(sent[0].seq), "CALL": str(call["seq"])}


def test_every_command_is_here() -> None:
    asked = {words[0] for words in ASKED.values()}
    assert asked | set(NOT_ASKED) == set(COMMANDS)
    assert not asked & set(NOT_ASKED)


@pytest.mark.parametrize("command", ASKED)
def test_colors_go_where_they_are_wanted_and_nowhere_else(house: House, command: str) -> None:
    forced = house.ksi(command, "--text", FORCE_COLOR="1")
    assert (ESCAPE in forced) == (command not in PLAIN)
    assert ESCAPE not in house.ksi(command, "--text")
    assert ESCAPE not in house.ksi(command, "--text", FORCE_COLOR="1", NO_COLOR="1")


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["a pipe", "--json"])
def test_programs_get_json_without_colors(house: House, command: str, flags: list[str]) -> None:
    lines = house.ksi(command, *flags, FORCE_COLOR="1").splitlines()
    assert lines
    for line in lines:
        msgspec.json.decode(line)


@pytest.mark.parametrize(
    ("flags", "environ", "is_colored"),
    [
        pytest.param([], {}, True, id="text"),
        pytest.param([], {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param([], {"TERM": "dumb"}, False, id="a dumb one"),
        pytest.param(["--json"], {}, False, id="--json"),
    ],
)
def test_a_terminal(
    house: House, flags: list[str], environ: dict[str, str], is_colored: bool
) -> None:
    shown = house.terminal("agents", *flags, **environ)
    assert "ada" in shown
    assert (ESCAPE in shown) == is_colored
