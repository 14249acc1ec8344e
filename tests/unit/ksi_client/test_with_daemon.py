"""The client and the command line with the real daemon, in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_client.blocking import BlockingClient
from ksi_client.client import connect
from ksi_client.wire import Push

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
SCRIPT = {
    "type": "scripted",
    "replies": [
        'I say so.\n{"event": "agent:status", "data": {"status": "ready"}}\nDone.',
        'And now {"event": "no:such", "data": {}}',
        "I am sorry.",
    ],
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def command(run_dir: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ksi_client", "--var", str(run_dir), *words]


@pytest.fixture
def run(run_dir: Path) -> Iterator[Run]:
    """``ksi`` with a directory of its own; a daemon that is left is killed."""

    def ksi(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(run_dir, *words), capture_output=True, text=True, cwd=ROOT, timeout=60
        )

    yield ksi
    with suppress(OSError, ValueError):
        os.kill(int((run_dir / "run" / "daemon.lock").read_text()), signal.SIGKILL)


@pytest.fixture
def up(run: Run) -> Callable[[], int]:
    """Start the daemon and return its pid."""

    def start() -> int:
        started = run("up", "-d", "--durability", "process")
        assert (started.returncode, started.stderr) == (0, "")
        return int(msgspec.json.decode(started.stdout)["pid"])

    return start


def test_up_and_down(run: Run, up: Callable[[], int], run_dir: Path) -> None:
    pid = up()
    second = run("up", "-d")
    assert second.returncode == 1
    assert second.stderr == (
        f"error already_running: a daemon serves '{run_dir}/run/daemon.sock', pid {pid}\n"
        "hint: ksi down stops it\n"
    )
    down = run("down", "--text")
    assert (down.returncode, down.stdout) == (0, f"stopped  pid {pid}\n")
    assert not (run_dir / "run" / "daemon.sock").exists()
    assert run("down").returncode == 69


def test_of_several_that_start_at_once_one_does(run: Run, run_dir: Path) -> None:
    with ThreadPoolExecutor() as threads:
        started = list(threads.map(lambda _: run("up", "-d"), range(3)))
    serving = int((run_dir / "run" / "daemon.lock").read_text())
    [winner] = [each for each in started if each.returncode == 0]
    assert msgspec.json.decode(winner.stdout)["pid"] == serving
    for each in started:
        if each is not winner:
            assert (each.returncode, each.stdout) == (1, "")
            assert f"pid {serving}" in each.stderr


def test_a_stopped_daemon_is_told_and_takes_up_again(run: Run, up: Callable[[], int]) -> None:
    pid = up()
    asked = [["agents"], ["emit", "system:mark", "label=x"], ["tail"]]
    os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as threads:
            stuck = list(threads.map(lambda words: run(*words), asked))
    finally:
        os.kill(pid, signal.SIGCONT)
    for each in stuck:
        assert (each.returncode, each.stdout) == (69, "")
        assert each.stderr.startswith("error not_answering: ")
        assert f"kill -CONT {pid}" in each.stderr
    assert run("agents").returncode == 0


def test_up_that_fails_says_why(run: Run, run_dir: Path) -> None:
    failed = run("up", "-d", "--config", str(run_dir / "absent.toml"))
    assert failed.returncode == 1
    assert failed.stderr == (
        "error not_started: the daemon ended with status 78\n"
        f"ksi-daemon: no configuration file '{run_dir}/absent.toml'\n"
        f"hint: all that it said is in {run_dir}/run/daemon.log\n"
    )


def test_up_in_the_foreground_is_the_daemon(run_dir: Path) -> None:
    up = command(run_dir, "up", "--log-level", "error")
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True, cwd=ROOT) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == f"ready {run_dir}/run/daemon.sock\n"
        assert int((run_dir / "run" / "daemon.lock").read_text()) == daemon.pid
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0


def test_an_agents_story(run: Run, up: Callable[[], int]) -> None:
    up()
    provider = msgspec.json.encode(SCRIPT).decode()
    spawned = run(
        "spawn", "agents/greeter", "--provider", provider, "--id", "ada", "--prompt", "go"
    )
    answer = msgspec.json.decode(spawned.stdout)["answer"]
    assert (answer["text"], answer["finish_reason"]) == ("I say so.\n\nDone.", "stop")

    ready = events(run, "agent:status")[0]
    why = run("why", str(ready["seq"]), "--text").stdout.splitlines()
    assert '> {"event": "agent:status", "data": {"status": "ready"}}' in "\n".join(why)
    assert f"#{ready['seq']}  agent:status  ada" in why[-3]
    assert why[-2].split()[:3] == ["checks", "✓", "read"]
    assert why[-1].split()[:2] == ["handler", "write,"]

    sent = run("send", "ada", "more", "--text").stdout.splitlines()
    assert sent[0] == "I am sorry."
    assert sent[1].startswith("? no:such  unknown_event:")
    assert "? #" in run("tree", "--text").stdout

    rows = [msgspec.json.decode(line) for line in run("reliability").stdout.splitlines()]
    assert {row["dialect"]: row["seen"] for row in rows if row["seen"]} == {"event": 2}


def test_every_event_is_described(run: Run, up: Callable[[], int], run_dir: Path) -> None:
    up()
    with BlockingClient(run_dir / "run" / "daemon.sock") as ksi:
        names = [event["name"] for event in ksi.request("system:discover")["events"]]
        for name in names:
            assert ksi.request("system:help", {"event": name})["name"] == name
    described = run("help", "agent:spawn", "--text").stdout
    assert "$ ksi emit agent:spawn '{" in described


async def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(
    run: Run, up: Callable[[], int], run_dir: Path
) -> None:
    pid = up()
    marks, kill_at = 300, 100

    async with connect(run_dir / "run" / "daemon.sock", patience_s=PATIENCE_S) as ksi:

        async def mark(number: int) -> None:
            await ksi.request("system:mark", {"label": str(number)})
            if number == kill_at:
                os.kill(pid, signal.SIGKILL)
                await asyncio.to_thread(up)

        async def marking() -> None:
            for begin in range(0, marks, 20):
                await asyncio.gather(*(mark(n) for n in range(begin, begin + 20)))

        async def following() -> list[Push]:
            seen: list[Push] = []
            async for push in ksi.subscribe("system:mark", after_seq=0):
                seen.append(push)
                if len({label(each) for each in seen}) == marks:
                    return seen
            pytest.fail("the subscription ended")

        seen, _ = await asyncio.gather(following(), marking())

    seqs = [push.seq for push in seen]
    assert seqs == sorted(set(seqs))
    assert Counter(map(label, seen)) == Counter(map(str, range(marks)))


def events(run: Run, pattern: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in run("events", pattern).stdout.splitlines()]


def label(push: Push) -> str:
    assert push.event is not None
    return str(msgspec.json.decode(push.event.data)["label"])
