"""The daemon as a process: how it starts, how it refuses to, how it ends, what outlives it."""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ksi_client import BlockingClient, DaemonError
from ksi_daemon.testing import short_directory


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "v"


def command(var: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "ksi_daemon", "--var", str(var), *flags]


@contextmanager
def daemon(var: Path, *flags: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(var, *flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready {var}/run/daemon.sock\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def client(var: Path) -> BlockingClient:
    return BlockingClient(var / "run" / "daemon.sock", patience_s=0)


def refused(*args: str, **environ: str) -> tuple[int, str]:
    """Return the exit code and the words of a daemon that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "ksi_daemon", *args],
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ | environ,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_S5_everything_is_private_whatever_the_umask(var: Path) -> None:
    with daemon(var, preexec_fn=lambda: os.umask(0)):
        modes = {
            path.relative_to(var).as_posix(): stat.S_IMODE(path.stat().st_mode)
            for path in [var, *var.rglob("*")]
        }
    assert modes["."] == modes["run"] == 0o700
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_S2_a_second_daemon_leaves_the_first_alone(var: Path) -> None:
    with daemon(var) as first:
        inode = (var / "run" / "daemon.sock").stat().st_ino
        code, words = refused("--var", str(var))
        assert (code, f"pid {first.pid}" in words) == (75, True)
        assert (var / "run" / "daemon.sock").stat().st_ino == inode
        with client(var) as ksi:
            assert ksi.request("system:health")["pid"] == first.pid


def test_S1_a_stale_socket_is_replaced(var: Path) -> None:
    with daemon(var) as first:
        first.kill()
        first.wait()
        assert (var / "run" / "daemon.sock").exists()
        with daemon(var) as second, client(var) as ksi:
            assert ksi.request("system:health")["pid"] == second.pid


@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_S3_what_is_no_socket_is_not_removed(var: Path, kind: str) -> None:
    path = var / "run" / "daemon.sock"
    path.parent.mkdir(parents=True)
    make = {"file": path.touch, "directory": path.mkdir, "symlink": lambda: path.symlink_to("/x")}
    make[kind]()
    code, words = refused("--var", str(var))
    assert (code, "is not a socket" in words) == (73, True)
    assert path.is_symlink() or path.exists()


def test_S4_a_path_too_long_for_a_socket(var: Path) -> None:
    code, words = refused("--var", str(var / ("x" * 100)))
    assert code == 73
    assert "the limit is 107" in words
    assert "hint: use a shorter --var" in words


@pytest.mark.parametrize(
    ("flags", "environ", "code", "words"),
    [
        pytest.param(["--nonsense"], {}, 64, "unrecognized arguments", id="unknown flag"),
        pytest.param(["--durability", "x"], {}, 78, "`$.durability`", id="bad value"),
        pytest.param([], {"KSI_MAX_HOPS": "0"}, 78, "`$.max_hops`", id="out of range"),
        pytest.param([], {"KSI_DURABLITY": "power"}, 78, "did you mean", id="misspelt variable"),
        pytest.param(["--provider", "nope"], {}, 78, "no type 'nope'", id="unknown provider"),
        pytest.param(["--config", "/nowhere.toml"], {}, 78, "no configuration", id="no file"),
    ],
)
def test_settings_that_make_no_sense(
    var: Path, flags: list[str], environ: dict[str, str], code: int, words: str
) -> None:
    found, said = refused("--var", str(var), *flags, **environ)
    assert (found, words in said) == (code, True), said
    assert not (var / "run" / "daemon.sock").exists()


def test_a_flag_wins_over_the_environment_over_the_file(var: Path) -> None:
    var.mkdir(mode=0o700)
    (var / "ksi.toml").write_text('durability = "power"\nmax_agents = 1\n')
    environ = os.environ | {"KSI_DURABILITY": "power"}
    with daemon(var, "--durability", "process", env=environ), client(var) as ksi:
        assert ksi.request("system:health")["durability"] == "process"
        ksi.request("agent:spawn", {"component": "agents/greeter"})
        with pytest.raises(DaemonError) as caught:
            ksi.request("agent:spawn", {"component": "agents/greeter"})
        assert caught.value.code == "too_many_agents"


def test_D11_a_newer_schema_is_left_as_it_is(var: Path) -> None:
    with daemon(var) as process:
        process.terminate()
        process.wait(20)
    database = sqlite3.connect(var / "events.db")
    database.execute("PRAGMA user_version = 999")
    database.close()
    before = (var / "events.db").read_bytes()
    code, words = refused("--var", str(var))
    assert (code, "999" in words) == (78, True)
    assert (var / "events.db").read_bytes() == before


def test_D8_a_file_that_is_no_database_is_left_as_it_is(var: Path) -> None:
    var.mkdir(mode=0o700)
    (var / "events.db").write_bytes(b"not a database" * 1000)
    code, words = refused("--var", str(var))
    assert (code, str(var / "events.db") in words) == (74, True)
    assert (var / "events.db").read_bytes() == b"not a database" * 1000


def test_A1_sigterm_ends_what_is_under_way_and_exits_clean(var: Path) -> None:
    slow = {"type": "scripted", "replies": [{"text": "done", "delay_s": 0.3}]}
    with daemon(var) as process, client(var) as ksi:
        ksi.request("agent:spawn", {"agent_id": "a", "system": "x", "provider": slow})
        ksi.request("agent:send", {"agent_id": "a", "message": "go"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not (var / "run" / "daemon.sock").exists()
    database = sqlite3.connect(var / "events.db")
    names = [name for (name,) in database.execute("SELECT name FROM events ORDER BY seq")]
    database.close()
    assert "completion:result" in names
    assert not (var / "events.db-wal").exists()


def test_system_shutdown_is_acknowledged(var: Path) -> None:
    with daemon(var) as process, client(var) as ksi:
        assert ksi.request("system:shutdown") == {"stopping": True}
        assert process.wait(20) == 0


def test_D1_what_was_acknowledged_survives_kill_9(var: Path) -> None:
    acked = {}
    with daemon(var) as process, client(var) as ksi:
        for number in range(200):
            answer = ksi.ask("system:mark", {"label": f"m{number}"}, idempotency_key=f"k{number}")
            acked[answer.seq] = f"m{number}"
        process.kill()
        process.wait()
    with daemon(var), client(var) as ksi:
        page = ksi.request("monitor:get_events", {"patterns": ["system:mark"], "limit": 1000})
        assert {each["seq"]: each["data"]["label"] for each in page["events"]} == acked
        again = ksi.ask("system:mark", {"label": "m0"}, idempotency_key="k0")
        assert (again.seq, again.duplicate) == (min(acked), True)
        assert ksi.ask("system:mark", {"label": "new"}).seq > max(acked)


def test_A4_agents_and_their_conversations_survive_kill_9(var: Path) -> None:
    provider = {"type": "scripted", "replies": ["one", "two", "three"]}
    with daemon(var) as process, client(var) as ksi:
        ksi.request("agent:spawn", {"agent_id": "a", "system": "x", "provider": provider})
        assert ksi.request("agent:send", _waited("first"))["text"] == "one"
        process.kill()
        process.wait()
    with daemon(var), client(var) as ksi:
        assert [each["agent_id"] for each in ksi.request("agent:list")["agents"]] == ["a"]
        assert ksi.request("agent:send", _waited("second"))["text"] == "two"
    database = sqlite3.connect(var / "events.db")
    talk = database.execute("SELECT role, content FROM messages ORDER BY position").fetchall()
    database.close()
    assert talk == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]


def test_A5_an_exchange_that_was_cut_off_is_taken_up_again(var: Path) -> None:
    replies = [{"text": "late", "delay_s": 30}, "late"]
    provider = {"type": "scripted", "replies": replies}
    with daemon(var) as process, client(var) as ksi:
        ksi.request("agent:spawn", {"agent_id": "a", "system": "x", "provider": provider})
        ksi.request("agent:send", {"agent_id": "a", "message": "go"})
        process.kill()
        process.wait()
    database = sqlite3.connect(var / "events.db")
    spec = database.execute("SELECT spec FROM agents").fetchone()[0]
    database.execute("UPDATE agents SET spec = ?", (spec.replace('"delay_s":30', '"delay_s":0'),))
    database.commit()
    database.close()
    with daemon(var), client(var) as ksi:
        for push in ksi.stream(["completion:result"], after_seq=0):
            if push.event is not None:
                break
        assert push.event.agent_id == "a"


@pytest.mark.parametrize("kind", ["device", "pipe", "directory", "too large"])
def test_what_is_no_component_file_costs_only_its_own_request(var: Path, kind: str) -> None:
    path = var.parent / "component"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "too large":
        path.write_bytes(b"x" * 200_000)
    given = "/dev/zero" if kind == "device" else str(path)
    with daemon(var), client(var) as ksi:
        with pytest.raises(DaemonError) as caught:
            ksi.request("agent:spawn", {"component": given}, timeout=5.0)
        assert caught.value.code == "component_invalid"
        assert ksi.request("system:health")["agents"] == 0


def test_a_plugin_is_one_file(var: Path) -> None:
    (var / "plugins").mkdir(parents=True, mode=0o700)
    (var / "plugins" / "words.py").write_text(_readme_plugin())
    (var / "plugins" / "broken.py").write_text("raise RuntimeError('no')\n")
    with daemon(var), client(var) as ksi:
        assert ksi.request("words:count", {"text": "one two three"}) == {"words": 3}
        described = ksi.request("system:help", {"event": "words:count"})
        assert described["summary"] == "Count the words of a text."


def _readme_plugin() -> str:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    return next(
        block.removeprefix("python\n")
        for block in readme.split("```")
        if block.startswith('python\n"""Words')
    )


def _waited(message: str) -> dict[str, Any]:
    return {"agent_id": "a", "message": message, "wait": True}


# A command that starts another one, tells of both, and would stay for long.
STAYS = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as told:
    told.write(f"{os.getpid()} {other.pid}")
time.sleep(600)
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(signal.SIGKILL, id="kill -9"),
        pytest.param(signal.SIGTERM, id="in good order"),
    ],
)
def test_A5_no_command_outlives_the_daemon(var: Path, end: signal.Signals) -> None:
    var.mkdir(mode=0o700)
    pids = var / "pids"
    os.mkfifo(pids)
    provider = {"type": "cli", "argv": [sys.executable, "-c", STAYS, str(pids)]}
    hurried = {**os.environ, "KSI_DRAIN_TIMEOUT_S": "0.1"}
    with daemon(var, env=hurried) as process:
        with client(var) as ksi:
            spawn = {"agent_id": "ada", "system": "S", "provider": provider, "prompt": "go"}
            ksi.request("agent:spawn", spawn)
        running = [os.pidfd_open(int(pid)) for pid in pids.read_text().split()]
        process.send_signal(end)
        gone = [bool(select.select([pidfd], [], [], 20)[0]) for pidfd in running]
    for pidfd in running:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
    assert gone == [True, True]
