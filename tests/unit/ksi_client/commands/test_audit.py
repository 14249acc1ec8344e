from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_daemon.log import EventLog
from tests.random_log import RandomLog


async def made(path: Path, seed: int, length: int) -> Path:
    async with EventLog.open(path, durability="process") as log:
        for work in RandomLog(seed).units(length):
            await log.submit(work)
    return path


def ksi(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


async def test_a_log_that_is_sound(run_dir: Path) -> None:
    await made(run_dir / "events.db", 33, 0)
    found = ksi("--text", "audit", "--var", str(run_dir))
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        [
            "✓ 0 replies read again: no block was lost",
            "✓ calls that ran: each has its event",
            "✓ 8 tables of counts: as a full scan has them",
        ],
    )


async def test_a_log_that_lost_calls(run_dir: Path) -> None:
    log = await made(run_dir / "other.db", 33, 20)
    found = ksi("--json", "audit", "--log", str(log))
    told = msgspec.json.decode(found.stdout)
    assert (found.exit_code, told["miscounted"], bool(told["without_event"])) == (1, [], True)


@pytest.mark.parametrize("words", [["--var", "none"], ["--log", "none.db"]], ids=" ".join)
def test_no_log(run_dir: Path, words: list[str]) -> None:
    found = ksi("--text", "audit", words[0], str(run_dir / words[1]))
    assert (found.exit_code, "error not_found: no log" in found.stderr) == (1, True)
