from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from ksi_daemon.log import EventLog
from ksi_daemon.log.audit import Audit, audit
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.testing import connected, running_daemon, short_directory
from tests.random_log import RandomLog

STATUS = '{"event": "agent:status", "data": {"status": "ready"}}'
BROKEN = '{"event": "state:set", "data": 5}'


@pytest.fixture
def var() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's."""
    with short_directory() as directory:
        yield directory / "v"


def audited(path: Path) -> Audit:
    with Snapshot.open(path) as snapshot:
        return audit(snapshot)


async def talk(var: Path, *replies: str) -> Path:
    """Have an agent answer with *replies*; return the log."""
    provider = {"type": "scripted", "replies": list(replies)}
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("agent:spawn", {"agent_id": "ada", "system": "S", "provider": provider})
        await peer.ask("agent:send", {"agent_id": "ada", "message": "Go.", "wait": True})
    return var / "events.db"


def changed(path: Path, *statements: str) -> None:
    """Damage the log at *path*, as nothing in ksi does."""
    with closing(sqlite3.connect(path)) as connection:
        for sql in statements:
            connection.execute(sql)
        connection.commit()


async def test_a_log_that_is_sound(var: Path) -> None:
    found = audited(await talk(var, f"{STATUS} and {BROKEN}", "Sorry."))
    assert found.is_sound
    assert msgspec.structs.asdict(found) == {
        "replies": 2,
        "unread": (),
        "unknown": 0,
        "without_event": (),
        "cubes": 8,
        "miscounted": (),
    }


async def test_a_block_that_was_not_counted_is_found(var: Path) -> None:
    path = await talk(var, f"{STATUS} and {BROKEN}", "Sorry.")
    changed(path, "DELETE FROM attempts WHERE ordinal = 2")
    found = audited(path)
    assert not found.is_sound
    assert len(found.unread) == 1


async def test_a_call_without_an_event_is_found(path: Path) -> None:
    made = RandomLog(33)
    async with EventLog.open(path, durability="process") as log:
        for work in made.units(40):
            await log.submit(work)
    expected = {
        (fact["completion_id"], fact["ordinal"])
        for fact in made.facts
        if fact["verdict"] in ("strict", "repaired") and fact["done"] and not fact.get("logged")
    }
    assert len(expected) > 1
    assert set(audited(path).without_event) == expected


@pytest.mark.parametrize(
    ("sql", "cubes"),
    [
        pytest.param(
            "UPDATE rollup SET counts = json_set(counts, '$.seen', 999) WHERE cube = 'tool'"
            " AND span = 3600",
            ("tool",),
            id="an hour",
        ),
        pytest.param(
            "UPDATE rollup SET counts = json_set(counts, '$.seen', 999) WHERE cube = ''"
            " AND span = 86400",
            ("all",),
            id="a day",
        ),
        pytest.param(
            "DELETE FROM rollup WHERE cube = 'agent,dialect'", ("agent,dialect",), id="a cube"
        ),
        pytest.param("DELETE FROM completions", 8, id="the rows"),
    ],
)
async def test_counts_that_are_wrong_are_found(
    path: Path, sql: str, cubes: tuple[str, ...] | int
) -> None:
    async with EventLog.open(path, durability="process") as log:
        for work in RandomLog(33).units(40):
            await log.submit(work)
    assert audited(path).miscounted == ()
    changed(path, sql)
    found = audited(path).miscounted
    assert (len(found) if isinstance(cubes, int) else found) == cubes


async def test_what_retention_has_begun_to_prune_is_left_out(
    path: Path, outside: Callable[..., list[tuple[int]]]
) -> None:
    async with EventLog.open(path, durability="process") as log:
        for work in RandomLog(33).units(40):
            await log.submit(work)
    [(middle,)] = outside("SELECT ts FROM completions ORDER BY ts LIMIT 1 OFFSET 20")
    changed(
        path,
        "DROP TRIGGER anchor_follows",
        "UPDATE anchor SET seq = 1",
        f"DELETE FROM completions WHERE ts < {middle}",
    )
    assert audited(path).miscounted == ()


async def test_progress_is_told(var: Path) -> None:
    told: list[int] = []
    with Snapshot.open(await talk(var, STATUS)) as snapshot:
        audit(snapshot, told.append)
    assert told == [1]
