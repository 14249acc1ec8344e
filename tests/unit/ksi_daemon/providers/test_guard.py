"""That it kills when the daemon is killed is shown by tests/acceptance/test_process.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import Process
from structlog.testing import capture_logs

from ksi_daemon.providers import guard
from ksi_daemon.providers.guard import guarded


@pytest.fixture
async def stays() -> AsyncIterator[Process]:
    """A process in a group of its own that ends when its input does, and says that."""
    async with await anyio.open_process(
        ["/bin/sh", "-c", "read -r line; echo over"], start_new_session=True
    ) as process:
        yield process


async def ended_well(process: Process) -> bool:
    assert process.stdin is not None
    await process.stdin.aclose()
    return await process.wait() == 0


async def test_what_is_over_is_let_be(stays: Process) -> None:
    async with guarded(stays.pid):
        pass
    assert await ended_well(stays)


async def test_what_fails_is_over_too(stays: Process) -> None:
    with pytest.raises(ZeroDivisionError):
        async with guarded(stays.pid):
            raise ZeroDivisionError
    assert await ended_well(stays)


async def test_a_guard_that_is_gone_harms_nobody(
    stays: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_PROGRAM", "exit")
    async with guarded(stays.pid):
        pass
    assert await ended_well(stays)


async def test_without_a_shell_the_log_says_so(
    stays: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SHELL", "/nowhere/sh")
    with capture_logs() as logs:
        async with guarded(stays.pid):
            pass
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("command_unguarded", "warning")
    ]
    assert await ended_well(stays)
