"""Commands do not outlive the daemon, also when it is killed.

Who gets SIGKILL can end nothing any more. So beside each command a shell waits, the smallest
program that is everywhere: told that all is over it goes, and when the pipe through which it would
be told is closed instead, it kills the command and whatever that has started.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import structlog
from anyio.abc import Process

__all__ = ["guarded"]

SHELL: Final = "/bin/sh"
_PROGRAM: Final = 'read -r over || kill -s KILL -- "-$1"'


@asynccontextmanager
async def guarded(group: int) -> AsyncIterator[None]:
    """Have the process group *group* killed should the daemon die within the block.

    Where there is no shell the command runs all the same, and the log says so.
    """
    with anyio.CancelScope(shield=True):
        guard = await _started(group)
    try:
        yield
    finally:
        if guard is not None:
            with anyio.CancelScope(shield=True):
                await _dismiss(guard)


async def _started(group: int) -> Process | None:
    try:
        return await anyio.open_process(
            [SHELL, "-c", _PROGRAM, "sh", str(group)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # What ends the daemon from its terminal must not end the guard first.
            start_new_session=True,
        )
    except OSError as exc:
        structlog.get_logger().warning("command_unguarded", error=str(exc))
        return None


async def _dismiss(guard: Process) -> None:
    if guard.stdin is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await guard.stdin.send(b"over\n")
    await guard.aclose()
