from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.errors import KsiError, StorageError
from ksi_daemon.events import Event
from ksi_daemon.feed import Feed
from ksi_daemon.log import EventLog
from ksi_daemon.log.model import EventFilter
from ksi_daemon.router import Context, Nothing, Router, Submission, handles
from ksi_daemon.services.subscriptions import PAGE, Subscriptions
from ksi_daemon.testing import Peer, connected, running_daemon

CLIENT = security.client(0, 1)
BIG = {"label": "x" * 1_000}


async def marks(peer: Peer, number: int, data: object = None) -> list[int]:
    """Write *number* markers one after the other; return their seqs."""
    given = {"label": "m"} if data is None else data
    return [(await peer.request("system:mark", given))["seq"] for _ in range(number)]


async def pushed(peer: Peer, until: int) -> list[dict[str, Any]]:
    """Return what is pushed up to the event of seq *until*, or to a last word."""
    lines: list[dict[str, Any]] = []
    with anyio.fail_after(20):
        while not lines or not (
            lines[-1]["seq"] >= until or {"lagged", "closing"} & set(lines[-1])
        ):
            lines.append(await peer.pushed())
    return lines


def seqs(lines: list[dict[str, Any]]) -> list[int]:
    return [line["seq"] for line in lines if "event" in line]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        pytest.param(["*"], ["system:mark", "state:set", "no:such"], id="all"),
        pytest.param(["state:*"], ["state:set"], id="pattern"),
        pytest.param(["system:mark", "no:*"], ["system:mark", "no:such"], id="several"),
    ],
)
async def test_events_are_pushed_as_they_are_committed(
    var: Path, patterns: list[str], names: list[str]
) -> None:
    async with running_daemon(var) as path, connected(path) as peer:
        subscribed = await peer.ask("monitor:subscribe", {"patterns": patterns})
        assert subscribed == {"subscription": "s1", "last_seq": 1}
        await peer.request("system:mark", {"label": "m"})
        await peer.request("state:set", {"key": "k", "value": 1})
        last = (await peer.request("no:such"))["error"]
        assert last["code"] == "unknown_event"
        lines = [await peer.pushed() for _ in names]
    assert [line["event"]["event"] for line in lines] == names
    assert {line["subscription"] for line in lines} == {"s1"}
    assert all(line["seq"] == line["event"]["seq"] for line in lines)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({}, [6], id="from now on"),
        pytest.param({"after_seq": 0}, [1, 2, 3, 4, 5, 6], id="from the beginning"),
        pytest.param({"after_seq": 3}, [4, 5, 6], id="from where one was"),
        pytest.param({"after_seq": 5}, [6], id="missed nothing"),
        pytest.param({"after_seq": 0, "patterns": ["system:mark"]}, [2, 3, 4, 5, 6], id="pattern"),
    ],
)
async def test_the_missed_ones_come_first(
    var: Path, asked: dict[str, Any], expected: list[int]
) -> None:
    async with running_daemon(var) as path, connected(path) as peer:
        await marks(peer, 4)
        await peer.ask("monitor:subscribe", asked)
        [last] = await marks(peer, 1)
        assert seqs(await pushed(peer, last)) == expected


async def test_no_gap_and_no_duplicate_while_events_are_written(var: Path) -> None:
    backlog, live = 2 * PAGE + 100, 600
    last = backlog + live + 1
    received: list[list[int]] = []

    async def follow(after: int) -> None:
        async with connected(path) as peer:
            await peer.ask("monitor:subscribe", {"after_seq": after})
            received.append(seqs(await pushed(peer, last)))

    async with (
        running_daemon(var) as path,
        connected(path) as one,
        connected(path) as another,
    ):
        await marks(one, backlog)
        async with anyio.create_task_group() as tasks:
            for after in (0, 0, PAGE):
                tasks.start_soon(follow, after)
            tasks.start_soon(marks, one, live // 2)
            tasks.start_soon(marks, another, live // 2)
    assert sorted(received) == sorted(
        [list(range(1, last + 1)), list(range(1, last + 1)), list(range(PAGE + 1, last + 1))]
    )


async def nothing() -> None:
    """Let nothing happen."""


class Busy:
    """A reader of a log in which something happens whenever it is read."""

    def __init__(self, log: EventLog) -> None:
        self.reads = 0
        self.write: Callable[[], Awaitable[None]] = nothing
        self._log = log

    async def events(self, wanted: EventFilter) -> list[Event]:
        self.reads += 1
        page = await self._log.reader.events(wanted)
        await self.write()
        return page


class Ear:
    """A channel that takes lines as long as *room* is left."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.lines: list[dict[str, Any]] = []
        self.room = room
        self.drained: list[Callable[[], None]] = []
        self.closed: list[Callable[[], None]] = []

    def push(self, line: bytes, *, always: bool = False) -> bool:
        if not self.room and not always:
            return False
        self.room -= not always
        self.lines.append(msgspec.json.decode(line))
        return True

    def on_drained(self, call: Callable[[], None]) -> None:
        self.drained.append(call)

    def on_closed(self, call: Callable[[], None]) -> None:
        self.closed.append(call)

    def drain(self, room: int) -> None:
        self.room = room
        waiting, self.drained = self.drained, []
        for call in waiting:
            call()


class Slow:
    """Handlers that end when they are told to."""

    def __init__(self) -> None:
        self.release = anyio.Event()

    @handles("slow:act")
    async def act(self, data: Nothing, ctx: Context) -> str:
        """End when released."""
        await self.release.wait()
        return "done"


class House:
    """A router on a real log, and subscriptions that read it through *reader*."""

    def __init__(self, router: Router, log: EventLog, slow: Slow) -> None:
        self.router = router
        self.slow = slow
        self.reader = Busy(log)
        self.subscriptions: Subscriptions

    async def write(self, number: int = 1, event: str = "no:such") -> None:
        submissions = [Submission(event=event, principal=CLIENT) for _ in range(number)]
        for each in [self.router.submit(submission) for submission in submissions]:
            await each

    async def subscribe(self, ear: Ear, **asked: Any) -> None:
        data = msgspec.Raw(msgspec.json.encode(asked))
        submission = Submission(event="monitor:subscribe", data=data, principal=CLIENT, channel=ear)
        (await self.router.submit(submission)).result()


@asynccontextmanager
async def opened(var: Path, **limits: int) -> AsyncIterator[House]:
    given = {"max_events": 1_000, "max_bytes": 1 << 22} | limits
    feed, slow = Feed(), Slow()
    async with (
        EventLog.open(var / "events.db", durability="process", on_commit=feed.publish) as log,
        anyio.create_task_group() as tasks,
        Router(log, feed) as router,
    ):
        house = House(router, log, slow)
        router.include(slow)
        house.subscriptions = Subscriptions(router, house.reader, tasks, **given)
        router.include(house.subscriptions)
        yield house
        slow.release.set()
        await router.drained()
        tasks.cancel_scope.cancel()


async def until(true: Callable[[], object]) -> None:
    """Return when *true* is, let the loop turn meanwhile."""
    with anyio.fail_after(10):
        while not true():
            await anyio.lowlevel.checkpoint()


async def test_who_is_behind_catches_up_though_the_writing_never_pauses(var: Path) -> None:
    async with opened(var) as house:
        house.reader.write = house.write
        ear, other = Ear(), Ear()
        await house.write(PAGE + 10)
        await house.subscribe(ear, after_seq=0)
        await house.subscribe(other, after_seq=0, patterns=["none:*"])
        # Each read finds that more was written meanwhile, and yet the reading ends.
        await until(lambda: len(house.router.feed) == 2)
        house.reader.write = nothing
        await house.write()
        await until(lambda: seqs(ear.lines) == list(range(1, house.router.feed.last_seq + 1)))
        assert other.lines == []
        assert house.reader.reads <= 6


async def test_who_asks_for_what_is_to_come_hears_nothing_before_it(var: Path) -> None:
    async with opened(var) as house:
        await house.write(3)
        ear = Ear()
        await house.subscribe(ear, after_seq=5)
        await house.write(4)
        await until(lambda: ear.lines)
        assert seqs(ear.lines) == [6, 7]


async def test_S19_who_does_not_keep_up_is_told_where_to_resume(var: Path) -> None:
    async with opened(var, max_events=5) as house:
        stuck, free = Ear(room=3), Ear()
        for ear in (stuck, free):
            await house.subscribe(ear)
        await house.write(20)
        assert seqs(free.lines) == list(range(1, 21))
        assert seqs(stuck.lines) == [1, 2, 3]
        assert stuck.lines[-1] == {"subscription": "s1", "seq": 3, "lagged": True}
        assert len(house.router.feed) == 1
        again = Ear()
        await house.subscribe(again, after_seq=3)
        await until(lambda: len(again.lines) == 17)
        assert seqs(again.lines) == list(range(4, 21))


async def test_S19_a_queue_is_bounded_in_bytes_too(var: Path) -> None:
    async with opened(var, max_bytes=1_000) as house:
        stuck = Ear(room=1)
        await house.subscribe(stuck)
        await house.write(20)
        assert stuck.lines[-1] == {"subscription": "s1", "seq": 1, "lagged": True}


async def test_who_is_slow_for_a_while_gets_all_in_order(var: Path) -> None:
    async with opened(var, max_events=10) as house:
        slow = Ear(room=2)
        await house.subscribe(slow)
        await house.write(8)
        assert seqs(slow.lines) == [1, 2]
        slow.drain(room=3)
        assert seqs(slow.lines) == [1, 2, 3, 4, 5]
        await house.write(4)
        slow.drain(room=100)
        await house.write(1)
        assert seqs(slow.lines) == list(range(1, 14))


async def test_the_backlog_waits_for_who_reads_slowly(var: Path) -> None:
    async with opened(var, max_events=5) as house:
        await house.write(50)
        slow = Ear(room=10)
        await house.subscribe(slow, after_seq=0)
        for expected in (10, 20, 30, 40):
            await until(lambda: slow.drained)
            assert seqs(slow.lines) == list(range(1, expected + 1))
            slow.drain(room=10)
        slow.drain(room=100)
        await house.write(1)
        await until(lambda: len(slow.lines) == 51)
        assert seqs(slow.lines) == list(range(1, 52))


async def test_who_lags_at_the_end_of_its_backlog_resumes_in_it(var: Path) -> None:
    async def write() -> None:
        # The second read is the last short of joining the feed, the third is held up by it.
        await house.write({2: 3, 3: 20}.get(house.reader.reads, 0))

    async with opened(var, max_events=5) as house:
        await house.write(PAGE + 3)
        house.reader.write = write
        ear = Ear()
        await house.subscribe(ear, after_seq=0)
        await until(lambda: house.reader.reads == 3 and "lagged" in ear.lines[-1])
        await house.router.drained()
        assert seqs(ear.lines) == list(range(1, PAGE + 4))
        assert ear.lines[-1] == {"subscription": "s1", "seq": PAGE + 3, "lagged": True}


async def test_a_log_that_cannot_be_read_ends_the_subscription_where_it_is(var: Path) -> None:
    async def fail() -> None:
        if house.reader.reads == 2:
            raise StorageError("gone", code="storage_read")

    async with opened(var) as house:
        await house.write(PAGE + 10)
        house.reader.write = fail
        ear = Ear()
        await house.subscribe(ear, after_seq=0)
        await until(lambda: len(ear.lines) == PAGE + 1)
        assert ear.lines[-1] == {"subscription": "s1", "seq": PAGE, "lagged": True}


@pytest.mark.parametrize("after_seq", [None, 0], ids=["live", "backlog"])
async def test_how_events_ended_is_told_to_who_asked(var: Path, after_seq: int | None) -> None:
    async with opened(var) as house:
        plain, asking = Ear(), Ear()
        async with anyio.create_task_group() as tasks:
            if after_seq is None:
                await house.subscribe(plain)
                await house.subscribe(asking, include=["outcomes"])
            tasks.start_soon(house.write, 1, "slow:act")
            await until(lambda: house.router.feed.last_seq == 1)
            if after_seq is not None:
                await house.subscribe(plain, after_seq=after_seq)
                await house.subscribe(asking, after_seq=after_seq, include=["outcomes"])
            await until(lambda: plain.lines and asking.lines)
            house.slow.release.set()
            # One that is still reading its backlog tells the end when it has read it.
            await until(lambda: len(asking.lines) == 2)
        assert [line["event"]["status"] for line in plain.lines] == ["received"]
        started, ended = asking.lines
        assert started["event"]["status"] == "received"
        assert ended.pop("outcome").pop("duration_ms") >= 0
        assert ended == {"subscription": "s2", "seq": 1}


async def test_an_end_that_falls_into_the_reading_of_the_backlog_is_told(var: Path) -> None:
    async def end() -> None:
        house.slow.release.set()
        await house.router.drained()

    async with opened(var) as house, anyio.create_task_group() as tasks:
        tasks.start_soon(house.write, 1, "slow:act")
        await until(lambda: house.router.feed.last_seq == 1)
        house.reader.write = end
        ear = Ear()
        await house.subscribe(ear, after_seq=0, include=["outcomes"])
        await until(lambda: len(ear.lines) == 2)
        assert ear.lines[0]["event"]["status"] == "received"
        assert ear.lines[1]["outcome"]["status"] == "handled"


async def test_who_lags_behind_an_outcome_resumes_before_its_event(var: Path) -> None:
    async with opened(var, max_events=3) as house, anyio.create_task_group() as tasks:
        ear = Ear(room=2)
        await house.subscribe(ear, include=["outcomes"])
        tasks.start_soon(house.write, 1, "slow:act")
        await until(lambda: ear.lines)
        await house.write(2)
        house.slow.release.set()
        await house.router.drained()
        await house.write(3)
        assert seqs(ear.lines) == [1, 2]
        assert ear.lines[-1] == {"subscription": "s1", "seq": 0, "lagged": True}


async def test_who_unsubscribes_hears_no_more_and_others_do(var: Path) -> None:
    async with running_daemon(var) as path, connected(path) as peer:
        first = (await peer.ask("monitor:subscribe"))["subscription"]
        second = (await peer.ask("monitor:subscribe", {"after_seq": 0}))["subscription"]
        await marks(peer, 1)
        assert await peer.ask("monitor:unsubscribe", {"subscription": first}) == {}
        await marks(peer, 1)
        lines = [await peer.pushed() for _ in range(4)]
    assert [line["seq"] for line in lines if line["subscription"] == first] == [2]
    assert [line["seq"] for line in lines if line["subscription"] == second] == [1, 2, 3]


async def test_nobody_ends_the_subscription_of_another(var: Path) -> None:
    async with running_daemon(var) as path, connected(path) as peer, connected(path) as other:
        name = (await peer.ask("monitor:subscribe"))["subscription"]
        for wrong in (
            other.ask("monitor:unsubscribe", {"subscription": name}),
            peer.ask("monitor:unsubscribe", {"subscription": "s9"}),
        ):
            with pytest.raises(KsiError, match=r"no subscription 's[19]'"):
                await wrong
        await marks(other, 1)
        assert seqs([await peer.pushed()]) == [2]


@pytest.mark.parametrize("asked", [{}, {"after_seq": 0}], ids=["live", "backlog"])
async def test_a_subscription_ends_with_its_connection(var: Path, asked: dict[str, Any]) -> None:
    async with running_daemon(var) as path, connected(path) as other:
        await marks(other, 5)
        async with connected(path) as peer:
            await peer.ask("monitor:subscribe", asked)
            assert (await other.ask("system:health"))["connections"] == 2
        with anyio.fail_after(10):
            while (await other.ask("system:health"))["subscriptions"]:
                pass


async def test_who_follows_is_told_that_the_daemon_stops(var: Path) -> None:
    async with running_daemon(var) as path, connected(path) as peer, connected(path) as other:
        await peer.ask("monitor:subscribe")
        await marks(other, 3)
        await other.ask("system:shutdown")
        lines = await pushed(peer, 1_000)
    shutdown = lines[-2]["event"]
    assert (shutdown["event"], shutdown["seq"]) == ("system:shutdown", 5)
    assert lines[-1] == {"subscription": "s1", "seq": 5, "closing": True}


async def test_who_stops_at_once_is_told_the_place_it_asked_for(var: Path) -> None:
    async with opened(var) as house:
        await house.write(20)
        ear = Ear()
        await house.subscribe(ear, after_seq=7)
        house.subscriptions.close()
        assert ear.lines == [{"subscription": "s1", "seq": 7, "closing": True}]


async def test_S19_a_stuck_subscriber_costs_the_others_nothing(var: Path) -> None:
    subscribe = b'{"event": "monitor:subscribe"}\n'
    async with running_daemon(var, subscriber_events=50) as path, connected(path) as peer:
        stuck = connect(path)
        stuck.sendall(subscribe)
        await peer.ask("monitor:subscribe")
        written = await marks(peer, 1_500, BIG)
        assert seqs([await peer.pushed() for _ in written]) == written
        late = Peer(*await asyncio.open_unix_connection(sock=stuck))
        name = (await late.pushed())["result"]["subscription"]
        lines = await pushed(late, written[-1])
        resume = lines[-1]["seq"]
        assert lines[-1] == {"subscription": name, "seq": resume, "lagged": True}
        assert seqs(lines) == list(range(2, resume + 1))
        await late.ask("monitor:subscribe", {"after_seq": resume})
        assert seqs(await pushed(late, written[-1])) == list(range(resume + 1, written[-1] + 1))
        await late.close()


def connect(path: Path) -> socket.socket:
    """Return a connection that nobody reads."""
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(str(path))
    return connected


async def test_only_who_has_a_connection_can_subscribe(var: Path) -> None:
    async with opened(var) as house:
        submitted = await house.router.submit(
            Submission(event="monitor:subscribe", principal=CLIENT)
        )
        assert submitted.outcome.error is not None
        assert submitted.outcome.error.message == "only a client with a connection can subscribe"


async def test_what_a_model_writes_is_told_while_it_writes_and_not_logged(var: Path) -> None:
    text = "A reply that is long enough to come in several pieces. " * 5
    provider = {"type": "scripted", "replies": [text, "two"]}
    async with running_daemon(var) as path, connected(path) as peer, connected(path) as deaf:
        await peer.ask("monitor:subscribe", {"include": ["text"]})
        await deaf.ask("monitor:subscribe", {"patterns": ["completion:*"]})
        await peer.ask("agent:spawn", {"agent_id": "ada", "system": "s", "provider": provider})
        sent = await peer.ask("agent:send", {"agent_id": "ada", "message": "go", "wait": True})
        lines: list[dict[str, Any]] = []
        with anyio.fail_after(20):
            while not lines or lines[-1].get("event", {}).get("event") != "completion:result":
                lines.append(await peer.pushed())
            quiet = await deaf.pushed()
        logged = await peer.ask("monitor:get_events", {"patterns": ["*"]})
    pieces = [line["text"] for line in lines if "text" in line]
    assert "".join(piece["text"] for piece in pieces) == text
    assert len(pieces) > 1
    assert {(each["agent_id"], each["request_id"], each["turn"]) for each in pieces} == {
        ("ada", sent["request_id"], 1)
    }
    assert quiet["event"]["event"] == "completion:result"
    assert not [each for each in logged["events"] if each["event"] == "completion:text"]
