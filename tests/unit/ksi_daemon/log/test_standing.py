from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ksi_daemon.log import EventLog, standing, statements
from ksi_daemon.log.standing import LoggedRule, LoggedTimer
from ksi_daemon.work import Statement, Work

TS = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


async def record(log: EventLog, *rows: Statement) -> None:
    await log.submit(Work(statements=rows))


async def test_rules(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        later = TS + timedelta(seconds=1)
        await record(
            log,
            standing.rule("b", b'{"n":2}', None, later, 7),
            standing.rule("a", b'{"n":1}', "ada", TS, 5),
        )
        assert await log.reader.rules() == [
            LoggedRule("a", b'{"n":1}', "ada", TS, 5, 0),
            LoggedRule("b", b'{"n":2}', None, later, 7, 0),
        ]
        # None goes back, and each is counted by itself.
        await record(log, standing.rule_fired("a"), standing.rule_fired("a"), standing.rules_at(6))
        found = await log.reader.rules()
        assert [(rule.name, rule.position, rule.fires) for rule in found] == [
            ("a", 6, 2),
            ("b", 7, 0),
        ]
        await record(log, standing.rule_deleted("b"))
        assert [rule.name for rule in await log.reader.rules()] == ["a"]


async def test_timers(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        later = TS + timedelta(seconds=1)
        await record(
            log,
            standing.timer("b", b'{"n":2}', None, "e2", later),
            standing.timer("a", b'{"n":1}', "ada", "e1", TS),
        )
        assert await log.reader.timers() == [
            LoggedTimer("a", b'{"n":1}', "ada", "e1", TS, 0),
            LoggedTimer("b", b'{"n":2}', None, "e2", later, 0),
        ]
        latest = later + timedelta(days=9)
        await record(log, standing.timer_fired("a", latest))
        assert [(t.name, t.due, t.fires) for t in await log.reader.timers()] == [
            ("b", later, 0),
            ("a", latest, 1),
        ]
        await record(log, standing.timer_deleted("b"))
        assert [timer.name for timer in await log.reader.timers()] == ["a"]


async def test_what_an_agent_made_ends_with_it(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        for name, owner in (("a", "ada"), ("b", "bob"), ("o", None)):
            await record(
                log,
                standing.rule(name, b"{}", owner, TS, 1),
                standing.timer(name, b"{}", owner, "e1", TS),
            )
        await record(log, *statements.agent_terminated("ada", TS))
        assert [rule.name for rule in await log.reader.rules()] == ["b", "o"]
        assert [timer.name for timer in await log.reader.timers()] == ["b", "o"]


async def test_spawns_are_counted_by_parent_and_by_root(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        await record(log, *statements.spawned("root", "root"), *statements.spawned("root", "root"))
        await record(log, *statements.spawned("child", "root"))
        assert sorted(await log.reader.spawns()) == [("child", 1, 0), ("root", 2, 3)]
