from __future__ import annotations

from pathlib import Path

from ksi_daemon.log import EventLog
from ksi_daemon.log.purses import purse_used, purses_gone
from ksi_daemon.work import Work


async def test_uses_are_counted_and_end_with_their_family(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        uses = ("f/1.0", "f/1.0", "f/2.3", "f0/1.0", "fa/1.0")
        await log.submit(Work(statements=tuple(purse_used(each) for each in uses)))
        assert await log.reader.purses() == {"f/1.0": 2, "f/2.3": 1, "f0/1.0": 1, "fa/1.0": 1}
        await log.submit(Work(statements=(purses_gone("f"),)))
        assert await log.reader.purses() == {"f0/1.0": 1, "fa/1.0": 1}
