from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from sqlite3 import Connection

import pytest

from ksi_daemon import security
from ksi_daemon.errors import Conflict, KsiError, StorageError, UsageError
from ksi_daemon.events import Event
from ksi_daemon.router import Context, Nothing, Submission, handles
from ksi_daemon.testing import MemoryLog, connected, running_daemon, running_router, short_directory
from ksi_daemon.work import Work

CLIENT = security.client(1000, 1)


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        yield path


class Table:
    """A handler that writes beside its event."""

    @handles("table:add", transaction=True)
    def add(self, data: Nothing, ctx: Context, connection: Connection) -> int:
        """Add a row, and say how many there are."""
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])

    @handles("table:refuse", transaction=True)
    def refuse(self, data: Nothing, ctx: Context, connection: Connection) -> None:
        """Refuse."""
        raise Conflict("no")


async def test_a_log_in_memory_gives_seqs_and_runs_transactions() -> None:
    async with running_router(Table()) as (router, log):
        for expected in (1, 2):
            submitted = await router.submit(Submission(event="table:add", principal=CLIENT))
            assert (submitted.event.seq, submitted.result()) == (expected, expected)
        refused = await router.submit(Submission(event="table:refuse", principal=CLIENT))
        assert [(e.seq, e.name, e.status) for e in log.events] == [
            (1, "table:add", "handled"),
            (2, "table:add", "handled"),
            (3, "table:refuse", "failed"),
        ]
    assert refused.outcome.status == "failed"


async def test_a_log_in_memory_tells_of_its_commits() -> None:
    told: list[Event] = []
    log = MemoryLog(told.extend)
    work = Work()
    assert await log.submit(work) is work
    log.error = StorageError("full")
    with pytest.raises(StorageError, match="full"):
        await log.submit(Work())
    assert (told, log.works) == ([], [work])
    log.close()


def test_a_short_directory_is_private_and_goes_away() -> None:
    with short_directory() as path:
        (path / "file").write_text("")
        assert path.stat().st_mode & 0o777 == 0o700
        assert len(str(path)) < 60
    assert not path.exists()


async def test_a_daemon_in_this_process(var: Path) -> None:
    async with running_daemon(var, max_turns=3) as socket:
        assert socket == var / "run" / "daemon.sock"
        async with connected(socket) as peer:
            assert (await peer.ask("system:health"))["status"] == "ok"
    assert not socket.exists()


async def test_a_daemon_that_cannot_start_says_why(var: Path) -> None:
    async with running_daemon(var):
        with pytest.RaisesGroup(pytest.RaisesExc(UsageError, match="already running")):
            async with running_daemon(var):
                pass


async def test_a_peer_asks_and_hears_what_is_pushed(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        subscribed = await peer.ask("monitor:subscribe", {"patterns": ["system:mark"]})
        reply = await peer.request("system:mark", {"label": "here"}, idempotency_key="k")
        assert (reply["ok"], reply["durable"]) == (True, "process")
        push = await peer.pushed()
        assert (push["subscription"], push["seq"]) == (subscribed["subscription"], reply["seq"])
        with pytest.raises(KsiError, match="no handler for event 'no:such'") as caught:
            await peer.ask("no:such")
        assert caught.value.code == "unknown_event"


async def test_a_peer_is_told_when_the_daemon_is_gone(var: Path) -> None:
    async with AsyncExitStack() as stack:
        async with running_daemon(var) as socket:
            peer = await stack.enter_async_context(connected(socket))
            assert await peer.ask("system:stats")
        with pytest.raises(ConnectionResetError):
            await peer.ask("system:stats")
