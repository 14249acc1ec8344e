"""The watchdog names the handler that a loop stands still in, and tells when it goes on."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from ksi_daemon.router import Context, Nothing, handles
from ksi_daemon.testing import running_router
from ksi_daemon.watchdog import watched
from tests.unit.ksi_daemon.test_router import submit


class Bench:
    """Handlers that block the loop until the watchdog has *told* of it."""

    def __init__(self, told: list[Any]) -> None:
        self._told = told

    @handles("bench:task")
    async def task(self, data: Nothing, ctx: Context) -> None:
        """Block in a coroutine."""
        self._block()

    @handles("bench:inline", effect="observe", inline=True)
    def inline(self, data: Nothing, ctx: Context) -> None:
        """Block at once."""
        self._block()

    def _block(self) -> None:
        deadline = time.monotonic() + 10
        while not self._told and time.monotonic() < deadline:
            time.sleep(0.001)


@pytest.mark.faults
@pytest.mark.parametrize("event", ["bench:task", "bench:inline"])
async def test_H3_who_blocks_the_loop_is_named(event: str) -> None:
    with capture_logs() as told:
        async with running_router(Bench(told)) as (router, _):
            with watched(patience_s=0.02):
                await submit(router, event)
                with anyio.fail_after(10):
                    while len(told) < 2:
                        await anyio.lowlevel.checkpoint()
    blocked, free = told[:2]
    assert (blocked["event"], blocked["handler"]) == ("loop_blocked", event)
    assert "in _block" in blocked["stack"]
    assert (free["event"], free["handler"]) == ("loop_runs_again", event)
