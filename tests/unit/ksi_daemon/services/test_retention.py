"""The oldest events go by themselves; a daemon's own log, its clock in the test's hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.events import now
from ksi_daemon.log.verification import verify
from ksi_daemon.services.retention import CHECK_S
from ksi_daemon.testing import FakeClock, connected, running_daemon, short_directory

DAY = timedelta(days=1)


def seqs(var: Path) -> list[int]:
    with closing(sqlite3.connect(var / "events.db")) as connection:
        return [row[0] for row in connection.execute("SELECT seq FROM events ORDER BY seq")]


@pytest.mark.parametrize(
    ("settings", "days", "why"),
    [
        pytest.param({}, 29, None, id="young"),
        pytest.param({}, 31, "age", id="old"),
        pytest.param({"retention_days": 0}, 3000, None, id="no limit"),
        pytest.param({"retention_days": 3}, 4, "age", id="another limit"),
        pytest.param({"retention_days": 0.001}, 0.9, None, id="keys are kept for a day"),
        pytest.param({"retention_days": 0.001}, 1.1, "age", id="and no longer"),
        pytest.param({"retention_bytes": 1}, 1.1, "bytes", id="too much"),
        pytest.param({"retention_bytes": 1}, 0.9, None, id="too much, but of today"),
        pytest.param({"retention_bytes": 0, "retention_days": 0}, 9, None, id="neither"),
    ],
)
async def test_what_is_kept(settings: dict[str, Any], days: float, why: str | None) -> None:
    clock = FakeClock(now())
    with short_directory() as directory:
        var = directory / "v"
        async with (
            running_daemon(var, clock=clock, **settings) as socket,
            connected(socket) as ksi,
        ):
            await ksi.ask("monitor:subscribe", {"patterns": ["log:pruned", "system:mark"]})
            await ksi.ask("system:mark", {"label": "old"})
            assert (await ksi.pushed())["event"]["event"] == "system:mark"
            clock.advance(days * DAY.total_seconds() + CHECK_S)
            if why is None:
                clock.advance(CHECK_S)
                assert len(seqs(var)) == 2
                return
            pruned = (await ksi.pushed())["event"]
        assert pruned["event"] == "log:pruned"
        assert pruned["data"]["why"] == why
        assert (pruned["data"]["events"], pruned["data"]["through_seq"]) == (2, 2)
        assert len(pruned["data"]["hash"]) == 64
        with closing(sqlite3.connect(var / "events.db")) as connection:
            assert verify(connection).bad_seq is None


async def test_a_clock_that_lags_behind_the_log_prunes_nothing() -> None:
    clock = FakeClock(datetime(1970, 1, 1, tzinfo=UTC))
    with short_directory() as directory:
        var = directory / "v"
        async with running_daemon(var, clock=clock) as socket, connected(socket) as ksi:
            await ksi.ask("system:mark", {"label": "m"})
            clock.advance(400 * DAY.total_seconds())
            clock.advance(CHECK_S)
            await ksi.ask("system:health")
            assert seqs(var) == [1, 2]


async def test_asked_for() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connected(socket) as ksi:
            for label in "abc":
                last = await ksi.request("system:mark", {"label": label})
            gone = await ksi.ask("log:prune", {"before": now().timestamp() + 1})
            assert (gone["why"], gone["events"]) == ("asked", last["seq"])
            page = await ksi.ask("monitor:get_events", {"patterns": ["log:*"]})
            assert [each["event"] for each in page["events"]] == ["log:prune", "log:pruned"]
            assert page["events"][1]["data"] == gone
            again = await ksi.ask("log:prune", {"before": "2020-01-31T12:00:00Z"})
            assert again["events"] == 0
            with pytest.raises(KsiError, match="is no time"):
                await ksi.ask("log:prune", {"before": "yesterday"})
