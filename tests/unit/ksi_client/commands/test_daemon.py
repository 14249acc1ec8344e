from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its stdin is closed, and is not collected before the test ends."""
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


@pytest.fixture
def stoppable(stub: StubDaemon, child: subprocess.Popen[bytes]) -> StubDaemon:
    def shut_down(data: object) -> dict[str, bool]:
        os.unlink(stub.path)
        if child.stdin is not None:
            child.stdin.close()
        return {"stopping": True}

    stub.answers |= {"system:health": {"pid": child.pid}, "system:shutdown": shut_down}
    return stub


def test_down_waits_for_the_process(
    stoppable: StubDaemon, child: subprocess.Popen[bytes], ksi: Callable[..., Result]
) -> None:
    assert ksi("down").stdout == f"stopped  pid {child.pid}\n"
    with open(f"/proc/{child.pid}/stat") as stat:
        assert stat.read().split()[2] == "Z"


def test_the_answer_may_be_lost_with_the_daemon(
    stoppable: StubDaemon, child: subprocess.Popen[bytes], ksi: Callable[..., Result]
) -> None:
    stoppable.faults.extend([None, "close"])
    assert ksi("down").exit_code == 0


def test_a_daemon_that_does_not_end_is_named(
    stub: StubDaemon,
    child: subprocess.Popen[bytes],
    ksi: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ksi_client.commands.daemon.STOP_S", 0.05)
    stub.answers |= {"system:health": {"pid": child.pid}, "system:shutdown": {}}
    result = ksi("down")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error timeout: pid {child.pid} has not ended within 0.05 s\n"
        f"hint: kill {child.pid} stops it harder\n"
    )
