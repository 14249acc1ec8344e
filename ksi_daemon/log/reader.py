"""Reading the log: read-only connections beside the writer, which they never block.

Each query is one statement on one connection, so its answer is one moment of the log, and no
transaction stays open between answers. Searches that no index helps go through the log in
windows of WINDOW seqs: a reader that stays too long keeps the WAL from being cut.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast, get_args

import aiosqlite
import anyio
import anyio.to_thread
import msgspec

from ksi_daemon.errors import InvalidData, StorageError
from ksi_daemon.events import Event, Outcome, matches
from ksi_daemon.log import queries
from ksi_daemon.log.approvals import Approval
from ksi_daemon.log.database import BUSY_TIMEOUT_MS, read_only
from ksi_daemon.log.filters import condition, is_narrow
from ksi_daemon.log.forms import Form
from ksi_daemon.log.mcp import LoggedServer
from ksi_daemon.log.metrics import latency_bin
from ksi_daemon.log.model import (
    AgentUsage,
    EventFilter,
    GroupKey,
    LoggedAttempt,
    LoggedCompletion,
    LoggedState,
    PendingMessage,
    Stats,
)
from ksi_daemon.log.reliability import gather, reliability_rows
from ksi_daemon.log.rows import event_from_row, microseconds, moment, outcome_from_row, raw
from ksi_daemon.log.scan import FOREVER_US
from ksi_daemon.log.search import Match, holds, locate
from ksi_daemon.log.standing import LoggedRule, LoggedTimer
from ksi_daemon.log.texts import text_of_row
from ksi_daemon.log.watch import wal_path
from ksi_daemon.providers.model import Message

__all__ = ["MAX_TREE", "WINDOW", "LogReader"]

MAX_TREE: Final = 10_000
# Seqs that one statement searches: some 50 ms on a slow machine.
WINDOW: Final = 50_000
CONNECTIONS: Final = 2
_TABLES: Final = ("events", "outcomes", "completions", "attempts", "agents", "messages", "state")


class LogReader:
    """The questions that ksi asks of its log. ``open`` it."""

    def __init__(self, path: Path, connections: Sequence[aiosqlite.Connection]) -> None:
        self._path = path
        self._queries = queries.load()
        self._free = list(connections)
        self._limit = anyio.Semaphore(len(connections))

    @staticmethod
    @asynccontextmanager
    async def open(path: Path) -> AsyncIterator[LogReader]:
        """Open read-only connections to the log at absolute *path* for the time of the block."""
        opened: list[aiosqlite.Connection] = []
        try:
            for _ in range(CONNECTIONS):
                connection = await aiosqlite.connect(
                    read_only(path), uri=True, isolation_level=None
                )
                opened.append(connection)
                await connection.execute("PRAGMA query_only = 1")
                await connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
                await connection.create_function("matches", 2, matches, deterministic=True)
                await connection.create_function("holds", -1, holds, deterministic=True)
                await connection.create_function("latency_bin", 1, latency_bin, deterministic=True)
            yield LogReader(path, opened)
        finally:
            with anyio.CancelScope(shield=True):
                for connection in opened:
                    await connection.close()

    async def events(self, wanted: EventFilter) -> list[Event]:
        """Return the events that *wanted* describes, in the order of seq, or reversed."""
        which, values = condition(wanted)
        order = "DESC" if wanted.reverse else "ASC"
        suffix = f"WHERE e.seq BETWEEN ? AND ? AND {which} ORDER BY e.seq {order} LIMIT ?"
        found: list[Event] = []
        for low, high in await self._windows(wanted):
            found += await self._events(suffix, (low, high, *values, wanted.limit - len(found)))
            if len(found) >= wanted.limit:
                break
        return found

    async def matches(self, events: Sequence[Event], words: Sequence[str]) -> list[Match]:
        """Return where *events* hold the first of *words* that can be shown."""
        found = []
        for event in events:
            [(_, result, error, _)] = await self._rows(self._queries["outcome"], (event.seq,))
            match = locate(event.seq, words, str(event.data, "utf-8"), result, error, event.name)
            if match is not None:
                found.append(match)
        return found

    async def event(self, key: str | int) -> Event | None:
        """Return the event of an id or a seq, None if there is none.

        By its id also one that was pruned, if something that lives still names it.
        """
        column = "seq" if isinstance(key, int) else "id"
        found = await self._events(f"WHERE e.{column} = ?", (key,))
        if not found and isinstance(key, str):
            rows = await self._rows(self._queries["kept_event"], (key,))
            found = [event_from_row(row) for row in rows]
        return found[0] if found else None

    async def newest(self) -> datetime | None:
        """Return the time of the newest event, None in an empty log."""
        rows = await self._rows(self._queries["newest_time"])
        return moment(rows[0][0]) if rows else None

    async def outcome(self, seq: int) -> Outcome | None:
        """Return how an event ended; None if it has not, or is not there."""
        rows = await self._rows(self._queries["outcome"], (seq,))
        return outcome_from_row(rows[0]) if rows else None

    async def tree(self, correlation_id: str) -> list[Event]:
        """Return the events of one story in the order of seq, at most MAX_TREE."""
        which = "WHERE e.correlation_id = ? ORDER BY e.seq LIMIT ?"
        return await self._events(which, (correlation_id, MAX_TREE))

    async def causes(self, event_id: str) -> list[Event]:
        """Return what led to an event, from the first event of its story down to itself."""
        return await self._related("causes", event_id)

    async def effects(self, event_id: str) -> list[Event]:
        """Return an event and all that it led to, in the order of seq, at most MAX_TREE."""
        return await self._related("effects", event_id)

    async def last_seq(self) -> int:
        """Return the seq of the newest event, 0 in an empty log."""
        return (await self.bounds())[1]

    async def bounds(self) -> tuple[int, int]:
        """Return the seqs of the oldest and the newest event; 1 and 0 of an empty log."""
        [(oldest, newest)] = await self._rows(self._queries["bounds"])
        return oldest, newest

    async def unfinished(self) -> list[int]:
        """Return the seqs of the events that have no outcome."""
        return [row[0] for row in await self._rows(self._queries["unfinished"])]

    async def delivered(self) -> dict[int, str]:
        """Return the ids of sent messages by seq that have no outcome but are in a mailbox."""
        return dict(await self._rows(self._queries["delivered"]))

    async def agents(self) -> list[tuple[bytes, str | None]]:
        """Return the specs of the living agents as JSON, in the order of their spawning, each with
        the event that tainted the agent."""
        return [(row[0].encode(), row[1]) for row in await self._rows(self._queries["agents"])]

    async def conversation(self, agent_id: str) -> list[Message]:
        """Return what an agent has heard and said, in order."""
        rows = await self._rows(self._queries["conversation"], (agent_id,))
        return [_message(row) for row in rows]

    async def readings(self, agent_id: str, limit: int) -> list[str]:
        """Return what an agent was given to read that is not trusted, the last *limit* in order."""
        rows = await self._rows(self._queries["readings"], (agent_id, limit))
        return [text_of_row(*row) for row in reversed(rows)]

    async def pending_messages(self) -> list[PendingMessage]:
        """Return the messages to living agents whose exchange has not ended."""
        return [
            PendingMessage(
                agent_id=row[0],
                request_id=row[1],
                content=text_of_row(row[2], row[8]),
                untrusted=bool(row[3]),
                taken=bool(row[4]),
                unfinished_completion=row[5],
                counts=None if row[6] is None else row[6].encode(),
                tainted=bool(row[7]),
            )
            for row in await self._rows(self._queries["pending_messages"])
        ]

    async def usage(self, agent_id: str) -> AgentUsage:
        """Return what the replies to a living agent have cost since its spawn."""
        [row] = await self._rows(self._queries["usage"], (agent_id, agent_id))
        return AgentUsage(*row)

    async def completion(self, completion_id: str) -> LoggedCompletion | None:
        """Return one completion; its text is in the event of the same id."""
        rows = await self._rows(self._queries["completion"], (completion_id,))
        return _completion(rows[0]) if rows else None

    async def attempts(self, completion_id: str) -> list[LoggedAttempt]:
        """Return the blocks of a completion in the order of its text."""
        rows = await self._rows(self._queries["attempts"], (completion_id,))
        return [_attempt(row) for row in rows]

    async def mcp_servers(self) -> list[LoggedServer]:
        """Return the MCP servers in the order in which they were added."""
        rows = await self._rows(self._queries["mcp_servers"])
        return [LoggedServer(name, spec.encode(), tools.encode()) for name, spec, tools in rows]

    async def state(self, namespace: str, key: str) -> LoggedState | None:
        """Return the value of *key*, None if there is none."""
        rows = await self._rows(self._queries["state"], (namespace, key))
        return _state(rows[0]) if rows else None

    async def states(self, namespace: str, pattern: str, limit: int) -> list[LoggedState]:
        """Return at most *limit* values whose keys match *pattern*, by key."""
        prefix = pattern.partition("*")[0]
        rows = await self._rows(self._queries["states"], (namespace, prefix, pattern, limit))
        return [_state(row) for row in rows]

    async def said(self) -> list[tuple[str, bytes]]:
        """Return what living agents said last of themselves, as JSON objects by agent."""
        return [(row[0], row[1].encode()) for row in await self._rows(self._queries["said"])]

    async def spawns(self) -> list[tuple[str, int, int]]:
        """Return how many children and descendants agents have had, by the spawn's event."""
        return [(row[0], row[1], row[2]) for row in await self._rows(self._queries["spawns"])]

    async def story_size(self, correlation_id: str) -> int:
        """Return how many events of a story count against its budget: none of a client's own, no
        notices."""
        return int((await self._rows(self._queries["story_size"], (correlation_id,)))[0][0])

    async def purses(self) -> dict[str, int]:
        """Return how often rights with a budget were used, by their purses."""
        return {row[0]: row[1] for row in await self._rows(self._queries["purses"])}

    async def rules(self) -> list[LoggedRule]:
        """Return the routing rules in the order in which they were made."""
        return [
            LoggedRule(name, spec.encode(), agent_id, moment(made), position, fires)
            for name, spec, agent_id, made, position, fires in await self._rows(
                self._queries["rules"]
            )
        ]

    async def pending_approvals(self) -> list[Approval]:
        """Return the calls of living agents that wait for a person, expired ones too."""
        return [
            Approval(
                approval_id=row[0],
                agent_id=row[1],
                event_id=row[2],
                event=row[3],
                data=msgspec.Raw(row[4].encode()),
                digest=row[5],
                made=moment(row[6]),
                expires=moment(row[7]),
            )
            for row in await self._rows(self._queries["pending_approvals"])
        ]

    async def timers(self) -> list[LoggedTimer]:
        """Return the timers, the one that is due first first."""
        return [
            LoggedTimer(name, spec.encode(), agent_id, event_id, moment(due), fires)
            for name, spec, agent_id, event_id, due, fires in await self._rows(
                self._queries["timers"]
            )
        ]

    async def reliability(
        self,
        group_by: Sequence[GroupKey],
        since: datetime | None,
        until: datetime | None,
        *,
        exact: bool = False,
    ) -> list[dict[str, Any]]:
        """Return reliability by *group_by* over completions in [since, until); see ``reliability``.

        With *exact* all rows of that time are counted, else the roll-up is read where it can be.
        """
        if not group_by or not set(group_by) <= set(get_args(GroupKey)):
            raise InvalidData(f"cannot group by {list(group_by)}")
        span = _span(since, until)
        groups = await gather(self._rows, self._queries, group_by, span, exact=exact)
        return await anyio.to_thread.run_sync(reliability_rows, group_by, groups)

    async def forms(self, since: datetime | None, until: datetime | None) -> list[Form]:
        """Return what agents wrote in [since, until) in each form of events."""
        rows = await self._rows(self._queries["forms"], _span(since, until))
        return [
            Form(agent, model, dialect, None if flag is None else bool(flag), n, good, moment(last))
            for agent, model, dialect, flag, n, good, last in rows
        ]

    async def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query of another room of the log; raise StorageError."""
        return await self._rows(sql, values)

    async def stats(self) -> Stats:
        """Return what the log holds."""
        events: dict[str, dict[str, int]] = {}
        for name, status, count in await self._rows(self._queries["counts"]):
            events.setdefault(name, {})[status] = count
        *sizes, newest, size = (await self._rows(self._queries["sizes"]))[0]
        wal = wal_path(self._path)
        return Stats(
            events=events,
            rows=dict(zip(_TABLES, sizes, strict=True)),
            last_seq=newest,
            bytes=size,
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
        )

    async def _windows(self, wanted: EventFilter) -> list[tuple[int, int]]:
        """Return the first and last seq of each window that can hold events of *wanted*."""
        oldest, newest = await self.bounds()
        low, high = max(oldest, (wanted.after_seq or 0) + 1), newest
        if wanted.before_seq is not None:
            high = min(high, wanted.before_seq - 1)
        step = max(1, high - low + 1) if is_narrow(wanted) else WINDOW
        if wanted.reverse:
            return [(max(low, end - step + 1), end) for end in range(high, low - 1, -step)]
        return [(start, min(high, start + step - 1)) for start in range(low, high + 1, step)]

    async def _related(self, query: str, event_id: str) -> list[Event]:
        which = f"WHERE e.id IN ({self._queries[query]}) ORDER BY e.seq LIMIT ?"
        return await self._events(which, (event_id, MAX_TREE))

    async def _events(self, which: str, values: Sequence[Any]) -> list[Event]:
        rows = await self._rows(f"{self._queries['events']} {which}", values)
        return [event_from_row(row) for row in rows]

    async def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of one query; raise StorageError."""
        async with self._limit:
            connection = self._free.pop()
            try:
                rows = await connection.execute_fetchall(sql, values)
            except sqlite3.Error as exc:
                raise StorageError(f"the log cannot be read: {exc}", code="storage_read") from exc
            finally:
                self._free.append(connection)
        return cast("list[tuple[Any, ...]]", list(rows))


def _span(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Return a time in microseconds, its end excluded."""
    return (
        max(0, microseconds(since)) if since else 0,
        max(0, microseconds(until)) if until else FOREVER_US,
    )


def _message(row: tuple[Any, ...]) -> Message:
    role, content, name, call_id, is_error, native, data = row
    decoded = None if native is None else msgspec.json.decode(native)
    text = text_of_row(content, data)
    return Message(role, text, name, call_id, bool(is_error), decoded)


def _completion(row: tuple[Any, ...]) -> LoggedCompletion:
    names = LoggedCompletion.__struct_fields__
    given = dict(zip(names, row, strict=True))
    return LoggedCompletion(
        **given | {"ts": moment(given["ts"]), "latency_ms": given["latency_ms"] / 1000}
    )


def _attempt(row: tuple[Any, ...]) -> LoggedAttempt:
    given = dict(zip(LoggedAttempt.__struct_fields__, row, strict=True))
    repairs = msgspec.json.decode(given["repairs"], type=tuple[str, ...])
    return LoggedAttempt(**given | {"repairs": repairs, "ts": moment(given["ts"])})


def _state(row: tuple[Any, ...]) -> LoggedState:
    namespace, key, value, version, ts, tainted = row
    return LoggedState(namespace, key, raw(value), version, moment(ts), bool(tainted))
