from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.events import CallRef, Outcome
from ksi_daemon.log import EventLog, rollup, statements
from ksi_daemon.log.audit import audit
from ksi_daemon.log.database import open_writer
from ksi_daemon.log.model import GroupKey
from ksi_daemon.log.rollup import (
    CUBES,
    DAY,
    HOURS_KEPT,
    KEYS,
    Tally,
    add_counts,
    cube_of,
    size_class,
)
from ksi_daemon.log.scan import rebuild
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.work import Ended, Work
from tests.random_log import BEGIN, RandomLog

Rows = list[dict[str, Any]]

GROUPS: tuple[tuple[GroupKey, ...], ...] = (
    ("model", "dialect"),
    ("provider",),
    ("agent",),
    ("agent", "dialect"),
    ("tool", "model"),
    ("dialect", "tool"),
    ("size",),
    ("size", "dialect", "provider"),
    ("hour",),
    ("day", "model"),
    ("hour", "agent"),
)
TIMES: tuple[tuple[datetime | None, datetime | None], ...] = (
    (None, None),
    (BEGIN + timedelta(hours=13, minutes=1), BEGIN + timedelta(hours=70)),
    (BEGIN + timedelta(hours=5), None),
    (None, BEGIN + timedelta(minutes=50)),
    (BEGIN + timedelta(minutes=2), BEGIN + timedelta(minutes=9)),
)


@settings(max_examples=30, deadline=None)
@given(st.integers(), st.integers(1, 40), st.booleans(), st.sampled_from([0, DAY, HOURS_KEPT]))
def test_the_roll_up_is_the_full_scan(seed: int, length: int, at_once: bool, kept: int) -> None:
    async def compare() -> None:
        with TemporaryDirectory() as directory:
            async with EventLog.open(Path(directory, "e.db"), durability="process") as log:
                units = list(RandomLog(seed).units(length))
                if at_once:
                    await asyncio.gather(*map(log.submit, units))
                else:
                    for unit in units:
                        await log.submit(unit)
                for group_by in GROUPS:
                    for since, until in TIMES:
                        rolled = await log.reader.reliability(group_by, since, until)
                        exact = await log.reader.reliability(group_by, since, until, exact=True)
                        assert rolled == exact

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "HOURS_KEPT", kept)
        asyncio.run(compare())


async def test_a_unit_that_is_undone_counts_nothing(path: Path) -> None:
    """One bad unit has its batch written again unit by unit."""
    async with EventLog.open(path, durability="process") as log:
        units = list(RandomLog(3).units(20))
        bad = Work(statements=(*units[0].statements, ("INSERT INTO nowhere VALUES (1)", ())))
        units.insert(9, bad)
        results = await asyncio.gather(*map(log.submit, units), return_exceptions=True)
        assert sum(isinstance(each, Exception) for each in results) == 1
        rolled = await log.reader.reliability(["agent", "dialect"], None, None)
        assert rolled == await log.reader.reliability(["agent", "dialect"], None, None, exact=True)
    assert sum(row["completions"] for row in rolled) >= 20


async def test_a_unit_that_is_repeated_counts_once(path: Path) -> None:
    [first, *_] = RandomLog(1).units(1)
    async with EventLog.open(path, durability="process") as log:
        await log.submit(first)
        with pytest.raises(Exception, match="UNIQUE"):
            await log.submit(first)
        [row] = await log.reader.reliability(["provider"], None, None)
    assert row["completions"] == 1


async def test_ends_that_are_no_calls_are_not_looked_up(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        for unit in RandomLog(3).units(9):
            await log.submit(unit)
        before = await log.reader.reliability(["tool"], None, None)
        handled = Outcome("handled")
        event = next(unit.event for unit in RandomLog(5).units(1) if unit.event)
        event.id, event.call = "another", CallRef("x", "event", 0, 1)
        done = await log.submit(Work(event=event))
        assert done.event is not None
        await log.submit(Work(ended=Ended(done.event.seq, handled)))
        assert await log.reader.reliability(["tool"], None, None) == before


def stored(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        order = "cube, span, start, agent, model, provider, dialect, tool, size"
        rows = connection.execute(f"SELECT {order}, counts FROM rollup ORDER BY {order}")
        return [dict(row) | {"counts": add_counts(row["counts"], "{}")} for row in rows]


def counted(rows: Rows) -> list[tuple[Any, ...]]:
    """Return *rows* with their counts in any order, but for what is zero."""
    return [
        (*list(row.values())[:-1], sorted(msgspec.json.decode(row["counts"]).items()))
        for row in rows
    ]


async def test_a_roll_up_that_is_made_anew_is_the_same(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        for unit in RandomLog(8).units(120):
            await log.submit(unit)
    kept = counted(stored(path))
    with closing(open_writer(path, "process")) as connection:
        rebuild(connection)
    assert counted(stored(path)) == kept


async def test_a_log_without_a_roll_up_gets_one(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        for unit in RandomLog(8).units(30):
            await log.submit(unit)
        rows = await log.reader.reliability(["model"], None, None)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM rollup")
        connection.execute("UPDATE rollup_days SET before = NULL")
        connection.commit()
    async with EventLog.open(path, durability="process") as log:
        assert await log.reader.reliability(["model"], None, None) == rows


async def test_hours_are_forgotten_after_a_while(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "HOURS_KEPT", DAY)
    async with EventLog.open(path, durability="process") as log:
        for unit in RandomLog(8).units(60):
            await log.submit(unit)
    rows = stored(path)
    newest = max(row["start"] for row in rows)
    oldest_hour = min(row["start"] for row in rows if row["span"] == 3_600)
    assert oldest_hour >= newest // DAY * DAY - DAY
    assert min(row["start"] for row in rows if row["span"] == 86_400) < oldest_hour
    with Snapshot.open(path) as snapshot:
        assert audit(snapshot).miscounted == ()


async def test_days_that_are_over_are_summed_up(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        for unit in RandomLog(8).units(60):
            await log.submit(unit)
    spans = [row["span"] for row in stored(path) if row["cube"] == "dialect"]
    assert spans.count(86_400) < spans.count(3_600)
    assert {row["start"] % 86_400 for row in stored(path) if row["span"] == 86_400} == {0}


@pytest.mark.parametrize(
    "keys",
    [keys for n in range(len(KEYS) + 1) for keys in combinations(KEYS, n)],
    ids=lambda keys: "+".join(keys) or "none",
)
def test_a_report_is_made_of_the_cube_that_has_its_keys(keys: tuple[str, ...]) -> None:
    wanted = frozenset(keys) - {"model", "provider"}
    cube = cube_of(keys)
    assert (cube is not None) == (wanted in CUBES)
    assert cube is None or frozenset(filter(None, cube.split(","))) == wanted


@pytest.mark.parametrize(
    ("length", "name"),
    [(0, "<256"), (255, "<256"), (256, "256-1k"), (1_024, "1k-4k"), (4_096, "4k-16k"),
     (16_383, "4k-16k"), (16_384, ">16k"), (10**9, ">16k")],
)  # fmt: skip
def test_sizes(length: int, name: str) -> None:
    assert size_class(length) == name


def test_a_statement_that_changes_nothing_counts_nothing() -> None:
    sql, values = statements.attempt_corrected("c1", 1, 2)
    tally = Tally()
    tally.note(sql, values, 0)
    assert not tally
    tally.note(sql, values, 1)
    assert tally
