from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon
from ksi_daemon.events import ErrorInfo

HEALTH = {"uptime_s": 1.0, "pid": 7, "last_seq": 2, "connections": 1, "subscriptions": 0}
AGENT = {"agent_id": "ada", "state": "idle", "model": "m", "status": "a secret"}


@pytest.fixture(autouse=True)
def _answers(stub: StubDaemon) -> None:
    stub.emit("agent:send", {"message": "a secret"})
    event = stub.emit("state:set", {"v": "a secret"}, status="denied")
    event.error = ErrorInfo("denied", "a secret")
    stub.answers |= {
        "system:health": HEALTH,
        "agent:list": {"agents": [AGENT]},
        "completion:status": {"running": []},
        "monitor:reliability": lambda data: {
            "rows": [{"agent": "ada", "model": "m", "dialect": "event", "seen": 1, "tokens": 5}]
        },
        "monitor:get_events": events(stub),
    }


def events(stub: StubDaemon) -> Callable[[Any], Any]:
    def answer(data: dict[str, Any]) -> dict[str, Any]:
        return {"events": [] if data.get("patterns") else stub.log}

    return answer


def test_what_there_is_now(ksi: Callable[..., Result]) -> None:
    lines = ksi("monitor", "--once").stdout.splitlines()
    assert lines[0].startswith("ksi  ● up  1s, pid 7")
    assert any(line.startswith("○ ada") for line in lines)
    assert any("denied" in line and "state:set" in line for line in lines)
    assert "secret" not in "\n".join(lines)


def test_what_agents_wrote_when_it_is_asked_for(ksi: Callable[..., Result]) -> None:
    assert ksi("monitor", "--once", "--text").stdout.count("a secret") >= 2


def test_a_filter(ksi: Callable[..., Result]) -> None:
    told = ksi("monitor", "--once", "agent:*").stdout
    assert "agent:send" in told
    assert "state:set" not in told


def test_as_json(ksi: Callable[..., Result]) -> None:
    [line] = ksi("monitor", "--json").stdout.splitlines()
    told = msgspec.json.decode(line)
    assert (told["health"], told["agents"]) == (HEALTH, [AGENT])
    assert told["tokens"] == {"ada": 5}


def test_where_there_is_no_daemon(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.stop()
    result = ksi("monitor", "--once")
    assert (result.exit_code, "error no_daemon: " in result.stderr) == (69, True)


class Terminal:
    """A monitor in a pseudo terminal, as a person has it."""

    def __init__(self, socket: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ksi_client", "--socket", socket, "monitor"],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(slave)
        self.seen = ""

    def until(self, words: str) -> None:
        """Read until *words* were written."""
        deadline = time.monotonic() + 30
        while words not in self.seen:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"{words!r} never came: {self.seen[-2000:]!r}"
            self.seen += os.read(self._master, 65536).decode(errors="replace")

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._master)


@pytest.fixture
def terminal(stub: StubDaemon, run_dir: Path) -> Iterator[Terminal]:
    found = Terminal(stub.path)
    try:
        yield found
    finally:
        found.close()


def test_a_person_watches_over_a_restart_and_quits(stub: StubDaemon, terminal: Terminal) -> None:
    terminal.until("agent:send")
    terminal.press("/")
    terminal.until("enter takes it")
    terminal.press("new:*\r")
    terminal.until("filter new:*")
    stub.emit("new:thing")
    terminal.until("new:thing")
    stub.stop()
    terminal.until("● gone")
    terminal.seen = ""
    stub.start()
    stub.emit("new:after")
    terminal.until("new:after")
    terminal.until("● up")
    terminal.press("?")
    terminal.until("Any key leads back.")
    terminal.press("xq")
    terminal.until("\x1b[?1049l")
    assert terminal.process.wait(10) == 0


def test_an_interrupt_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.until("agent:send")
    terminal.process.send_signal(2)
    terminal.until("\x1b[?1049l")
    assert terminal.process.wait(10) == 0
