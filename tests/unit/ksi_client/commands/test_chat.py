"""``ksi chat`` as a process with the real daemon: piped, and at a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
import pytest

from ksi_client.blocking import BlockingClient
from ksi_daemon.testing import running_daemon, short_directory

T = TypeVar("T")
PATIENCE_S = 60.0
LOOKUP = 'I look it up.\n{"event": "state:get", "data": {"key": "k"}}'
REPLIES = [LOOKUP, "There is nothing.", LOOKUP, "Still nothing."]


async def beside_a_daemon(talk: Callable[[Path], T]) -> T:
    """Return what *talk* returns, which gets the directory of a running daemon."""
    with short_directory() as directory:
        async with running_daemon(directory / "v"):
            return await anyio.to_thread.run_sync(talk, directory / "v")


def client(var: Path) -> BlockingClient:
    return BlockingClient(var / "run" / "daemon.sock")


def spawn(var: Path, agent_id: str, *replies: Any) -> None:
    provider = {"type": "scripted", "replies": list(replies)}
    data = {"agent_id": agent_id, "system": "s", "provider": provider, "allow": ["state:*"]}
    with client(var) as ksi:
        ksi.request("agent:spawn", data)


def command(var: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ksi_client", "--var", str(var), "chat", *words]


def piped(var: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(var, *words), input=text, capture_output=True, text=True, timeout=PATIENCE_S
    )


async def test_each_line_is_a_message_and_each_answer_a_line() -> None:
    def talk(var: Path) -> subprocess.CompletedProcess[str]:
        spawn(var, "ada", *REPLIES)
        return piped(var, "first\n\nsecond\n", "ada")

    done = await beside_a_daemon(talk)
    answers = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert [(answer["text"], answer["turns"]) for answer in answers] == [
        ("There is nothing.", 2),
        ("Still nothing.", 2),
    ]
    assert (done.returncode, done.stderr) == (0, "")


async def test_text_and_calls_in_their_order() -> None:
    def talk(var: Path) -> subprocess.CompletedProcess[str]:
        spawn(var, "ada", *REPLIES)
        return piped(var, "first\n", "ada", "--text")

    done = await beside_a_daemon(talk)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        ["I look it up.", '✓ state:get  {"value":null,"version":0}', "There is nothing."],
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["nobody"], 1, "error not_found: no agent 'nobody'", id="no agent"),
        pytest.param(["ada"], 1, "", id="a provider that fails"),
    ],
)
async def test_what_goes_wrong(words: list[str], code: int, said: str) -> None:
    def talk(var: Path) -> subprocess.CompletedProcess[str]:
        spawn(var, "ada", {"error": "out of order"})
        return piped(var, "go\n", *words)

    done = await beside_a_daemon(talk)
    assert (done.returncode, done.stderr.strip().splitlines()[:1]) == (code, [said] if said else [])


async def test_a_message_that_is_no_text_is_refused_and_what_came_before_is_answered() -> None:
    def talk(var: Path) -> subprocess.CompletedProcess[bytes]:
        spawn(var, "ada", *REPLIES)
        return subprocess.run(
            command(var, "ada"), input=b"go\n\xff\n", capture_output=True, timeout=PATIENCE_S
        )

    done = await beside_a_daemon(talk)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    assert done.stderr == b"error not_utf8: line 2 is not UTF-8: invalid start byte\n"


async def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    def talk(var: Path) -> tuple[int, bytes]:
        spawn(var, "ada", *REPLIES)
        with subprocess.Popen(
            command(var, "ada", "--text"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stdin.write(b"go\n")
            process.stdin.close()
            return process.wait(PATIENCE_S), process.stderr.read()

    assert await beside_a_daemon(talk) == (141, b"")


async def test_an_interrupt_cancels_the_exchange_and_not_the_agent() -> None:
    def talk(var: Path) -> str:
        spawn(var, "ada", {"text": "Never said.", "delay_s": 3600}, "Here I am.")
        with at_a_terminal(var, "ada") as (process, keys, screen), client(var) as ksi:
            keys("think\n")
            until(lambda: bool(ksi.request("completion:status")["running"]))
            process.send_signal(signal.SIGINT)
            until(lambda: "cancelled" in screen() and screen().count("> ") == 2)
            keys("still there?\n")
            until(lambda: "Here I am." in screen() and screen().count("> ") == 3)
            keys("\x04")
            assert process.wait(PATIENCE_S) == 0
            assert (var / "run" / "chat_history").read_text() == "think\nstill there?\n"
            return screen()

    shown = await beside_a_daemon(talk)
    assert "ada listens" in shown
    assert "Never said." not in shown


@contextmanager
def at_a_terminal(
    var: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], object], Callable[[], str]]]:
    """Yield the process, what types into its terminal, and what tells all it wrote there."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    given = {**os.environ, "TERM": "dumb"}
    written: list[str] = []

    def screen() -> str:
        with suppress(OSError):  # nothing new, or its last writer is gone
            written.append(os.read(ours, 65536).decode())
        return "".join(written)

    with subprocess.Popen(
        command(var, *words), stdin=theirs, stdout=theirs, stderr=theirs, env=given
    ) as process:
        os.close(theirs)
        try:
            until(lambda: "> " in screen())
            yield process, lambda text: os.write(ours, text.encode()), screen
        finally:
            process.kill()
            os.close(ours)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
