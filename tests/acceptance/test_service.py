"""The daemon under a service manager: what it tells, what it is handed, what it reads again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_client import BlockingClient
from ksi_daemon.testing import short_directory


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        (directory / "v" / "run").mkdir(parents=True, mode=0o700)
        (directory / "v").chmod(0o700)
        yield directory / "v"


@pytest.fixture
def manager(var: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(var.parent / "notify"))
        listening.settimeout(60)
        yield listening


@contextmanager
def daemon(var: Path, manager: socket.socket, **options: Any) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "NOTIFY_SOCKET": manager.getsockname(), **options.pop("environ", {})}
    command = options.pop("command", [sys.executable, "-m", "ksi_daemon", "--var", str(var)])
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert manager.recv(1000) == b"READY=1\nSTATUS=serving"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def client(var: Path) -> BlockingClient:
    return BlockingClient(var / "run" / "daemon.sock", patience_s=0)


def told(var: Path, pattern: str) -> list[dict[str, Any]]:
    with client(var) as ksi:
        found = ksi.request("monitor:get_events", {"patterns": [pattern]})
    return [event["data"] for event in found["events"]]


def test_A2_settings_are_read_again(var: Path, manager: socket.socket) -> None:
    (var / "ksi.toml").write_text("max_turns = 7\n", encoding="utf-8")
    with daemon(var, manager) as process:
        (var / "ksi.toml").write_text("max_hops = 1\nmax_connections = 9\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert manager.recv(1000).startswith(b"READY=1")
        assert told(var, "system:reloaded") == [
            {"changed": ["max_hops", "max_turns"], "needs_restart": ["max_connections"]}
        ]


def test_A2_settings_in_force_are_the_new_ones(var: Path, manager: socket.socket) -> None:
    spawn = {
        "agent_id": "a",
        "system": "Go on.",
        "provider": {
            "type": "scripted",
            "replies": ['{"event": "state:get", "data": {"key": "k"}}'],
            "on_empty": "repeat",
        },
        "allow": ["state:get"],
    }
    with daemon(var, manager) as process:
        (var / "ksi.toml").write_text("max_turns = 2\nmax_identical_turns = 9\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        for _ in range(2):
            manager.recv(1000)
        with client(var) as ksi:
            ksi.request("agent:spawn", spawn)
            answer = ksi.request("agent:send", {"agent_id": "a", "message": "go", "wait": True})
    assert (answer["turns"], answer["finish_reason"]) == (2, "max_iterations")


def test_A2_settings_that_make_no_sense_change_nothing(var: Path, manager: socket.socket) -> None:
    with daemon(var, manager) as process:
        (var / "ksi.toml").write_text("max_turns = 2\nmax_hopes = 1\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        for _ in range(2):
            manager.recv(1000)
        (refused,) = told(var, "system:not_reloaded")
        assert "unknown setting 'max_hopes'" in refused["error"]
        assert refused["hint"] == "did you mean 'max_hops'?"
        assert told(var, "system:reloaded") == []


def test_A3_what_it_does_is_shown_at_sigusr1(var: Path, manager: socket.socket) -> None:
    with daemon(var, manager) as process:
        process.send_signal(signal.SIGUSR1)
        assert process.stderr is not None
        for line in process.stderr:
            if '"stacks"' in line:
                break
        assert "thread MainThread" in line
        assert "task ksi_daemon" in line
        with client(var) as ksi:
            assert ksi.request("system:health")["status"] == "ok"


def test_A1_the_manager_is_told_of_the_end(var: Path, manager: socket.socket) -> None:
    with daemon(var, manager) as process:
        process.send_signal(signal.SIGTERM)
        assert manager.recv(1000) == b"STOPPING=1"
        assert process.wait(20) == 0


# The pid of a process is known to itself only: the shell says it, and becomes the daemon.
HANDED = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"'


def test_the_socket_is_handed_over(var: Path, manager: socket.socket) -> None:
    path = var / "run" / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        inode = path.stat().st_ino

        def third() -> None:
            os.dup2(listening.fileno(), 3)

        command = ["sh", "-c", HANDED, sys.executable, "-m", "ksi_daemon", "--var", str(var)]
        # A client that comes before the daemon waits for it.
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(str(path))
            early.sendall(b'{"id": 1, "event": "system:health"}\n')
            options: dict[str, Any] = {"preexec_fn": third, "pass_fds": [3]}
            with daemon(var, manager, command=command, **options) as process:
                early.settimeout(60)
                assert b'"ok":true' in early.recv(65536)
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
        assert path.stat().st_ino == inode
