from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon.errors import Conflict, StorageError
from ksi_daemon.log import EventLog, statements
from ksi_daemon.log.database import open_writer
from ksi_daemon.log.model import Attempt, PendingMessage
from ksi_daemon.log.statements import delete_state, set_state
from ksi_daemon.providers.model import Message
from ksi_daemon.work import Statement, Work

Ask = Callable[..., list[tuple[Any, ...]]]

TS = datetime(2026, 1, 31, 12, tzinfo=UTC)
TS_US = 1_769_860_800_000_000


async def record(log: EventLog, *rows: Statement) -> None:
    await log.submit(Work(statements=rows))


# -- agents --------------------------------------------------------------------------------------


async def test_agents(path: Path, outside: Ask) -> None:
    async with EventLog.open(path, durability="process") as log:
        await record(
            log,
            statements.agent("bob", b'{"n":1}', TS),
            statements.agent("ann", b'{"n":2}', TS),
            statements.agent("eve", b'{"n":3}', TS),
        )
        await record(log, *statements.agent_terminated("bob", TS))
        assert await log.reader.agents() == [(b'{"n":2}', None), (b'{"n":3}', None)]
        await record(log, statements.agent("bob", b'{"n":4}', TS))
        await record(log, *(statements.agent_tainted("ann", each) for each in ("e1", "e2")))
        assert await log.reader.agents() == [
            (b'{"n":2}', "e1"),
            (b'{"n":4}', None),
            (b'{"n":3}', None),
        ]
    assert outside("SELECT * FROM agents WHERE agent_id = 'bob'") == [
        ("bob", '{"n":4}', "active", TS_US, None, "{}", None)
    ]


# -- messages ------------------------------------------------------------------------------------


def waiting(request_id: str, content: str = "hello", agent_id: str = "ann") -> Statement:
    return statements.waiting_message(
        agent_id=agent_id, content=content, untrusted=content != "hello", request_id=request_id,
        ts=TS,
    )  # fmt: skip


def said(position: int, role: str, content: str, completion_id: str | None = None) -> Statement:
    return statements.message(
        agent_id="ann", position=position, message=Message(role, content),
        kind="reply" if role == "assistant" else "feedback", request_id="r1",
        completion_id=completion_id, ts=TS,
    )  # fmt: skip


def stored(completion_id: str, turn: int) -> Statement:
    return statements.completion(
        completion_id=completion_id, ts=TS, agent_id="ann", request_id="r1", turn=turn,
        provider="p", model="m", preset="ksi", stop_reason="stop", latency_ms=1, input_tokens=1,
        output_tokens=1, extractor=1,
    )  # fmt: skip


async def test_a_message_from_mailbox_to_answer(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        pending, conversation = log.reader.pending_messages, log.reader.conversation
        await record(log, statements.agent("ann", b"{}", TS), waiting("r1"), waiting("r2", "psst"))
        first = PendingMessage(
            agent_id="ann", request_id="r1", content="hello", untrusted=False, taken=False,
            unfinished_completion=None,
        )  # fmt: skip
        second = msgspec.structs.replace(first, request_id="r2", content="psst", untrusted=True)
        assert await pending() == [first, second]
        assert await conversation("ann") == []

        await record(log, statements.message_taken("ann", "r1", 1))
        taken = msgspec.structs.replace(first, taken=True)
        assert await pending() == [taken, second]
        await record(
            log, stored("c1", 1), said(2, "assistant", "a call", "c1"),
            statements.completion_done("c1"), said(3, "user", "a result"),
            stored("c2", 2), said(4, "assistant", "an answer", "c2"),
        )  # fmt: skip
        assert await pending() == [
            msgspec.structs.replace(taken, unfinished_completion="c2", counts=b'{"turn":2}'),
            second,
        ]
        await record(log, statements.completion_done("c2", b'{"turn":2,"tokens":7}'))
        assert await pending() == [
            msgspec.structs.replace(taken, counts=b'{"turn":2,"tokens":7}'),
            second,
        ]
        await record(log, statements.message_answered("ann", "r1"))
        assert await pending() == [second]
        assert await conversation("ann") == [
            Message("user", "hello"),
            Message("assistant", "a call"),
            Message("user", "a result"),
            Message("assistant", "an answer"),
        ]
        await record(log, *statements.agent_terminated("ann", TS))
        assert await pending() == []
        assert await conversation("ann") == []


async def test_one_event_is_one_message(path: Path, outside: Ask) -> None:
    async with EventLog.open(path, durability="process") as log:
        await record(log, waiting("r1"), waiting("r1", "again"), waiting("r1", agent_id="bob"))
    assert outside("SELECT agent_id, content FROM messages") == [("ann", "hello"), ("bob", "hello")]


async def test_a_place_in_a_conversation_is_taken_once(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        await record(log, said(1, "assistant", "one"))
        with pytest.raises(StorageError, match="UNIQUE"):
            await record(log, said(1, "assistant", "two"))
        assert await log.reader.conversation("ann") == [Message("assistant", "one")]


async def test_an_attempt_belongs_to_a_completion(path: Path) -> None:
    orphan = Attempt(
        completion_id="nobody's", ordinal=1, agent_id=None, provider="p", model="m",
        dialect="event", tool=None, verdict="strict", start=0, end=1,
    )  # fmt: skip
    async with EventLog.open(path, durability="process") as log:
        with pytest.raises(StorageError, match="FOREIGN KEY"):
            await record(log, statements.attempt(orphan))


# -- state ---------------------------------------------------------------------------------------


def put(
    key: str, value: str, expect_version: int | None = None, namespace: str = "default"
) -> Callable[[sqlite3.Connection], msgspec.Raw]:
    def transaction(connection: sqlite3.Connection) -> msgspec.Raw:
        raw = msgspec.Raw(value.encode())
        version = set_state(connection, namespace, key, raw, expect_version)
        return msgspec.Raw(b"%d" % version)

    return transaction


def drop(
    key: str, expect_version: int | None = None
) -> Callable[[sqlite3.Connection], msgspec.Raw]:
    def transaction(connection: sqlite3.Connection) -> msgspec.Raw:
        deleted = delete_state(connection, "default", key, expect_version)
        return msgspec.Raw(msgspec.json.encode(deleted))

    return transaction


async def run(log: EventLog, transaction: Callable[[sqlite3.Connection], msgspec.Raw]) -> Any:
    """Return what *transaction* answered, or the code and details of its error."""
    outcome = (await log.submit(Work(transaction=transaction))).outcome
    assert outcome is not None
    if outcome.error is not None:
        return outcome.error.code, outcome.error.details
    assert outcome.result is not None
    return msgspec.json.decode(outcome.result)


async def held(log: EventLog, key: str, namespace: str = "default") -> tuple[bytes, int] | None:
    found = await log.reader.state(namespace, key)
    return None if found is None else (bytes(found.value), found.version)


async def test_versions_count_the_writes(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        assert await held(log, "k") is None
        assert [await run(log, put("k", value)) for value in ("1", '{"a":null}', "null")] == [
            1, 2, 3,
        ]  # fmt: skip
        assert await held(log, "k") == (b"null", 3)
        assert await run(log, put("k", "1", namespace="other")) == 1
        assert await held(log, "k", "other") == (b"1", 1)


async def test_compare_and_set(path: Path) -> None:
    async with EventLog.open(path, durability="process") as log:
        conflict = "version_conflict"
        assert await run(log, put("k", "1", 1)) == (conflict, {"version": 0})
        assert await run(log, put("k", "1", 0)) == 1
        assert await run(log, put("k", "2", 0)) == (conflict, {"version": 1})
        assert await run(log, put("k", "2", 1)) == 2
        assert await run(log, drop("k", 1)) == (conflict, {"version": 2})
        assert await held(log, "k") == (b"2", 2)
        assert await run(log, drop("k", 2)) is True


async def test_a_deleted_key_is_gone_but_its_versions_do_not_return(path: Path) -> None:
    """Otherwise a compare-and-set could succeed on a value that was deleted and made anew."""
    async with EventLog.open(path, durability="process") as log:
        assert await run(log, put("k", "1")) == 1
        assert await run(log, drop("k")) is True
        assert await run(log, drop("k")) is False
        assert await run(log, drop("never")) is False
        assert await held(log, "k") is None
        assert await log.reader.states("default", "*", 10) == []
        assert await run(log, put("k", "2", 1)) == ("version_conflict", {"version": 0})
        assert await run(log, put("k", "2", 0)) == 3
        assert await held(log, "k") == (b"2", 3)


def test_a_conflict_says_what_is(path: Path) -> None:
    with closing(open_writer(path, "process")) as connection:
        set_state(connection, "default", "k", msgspec.Raw(b"1"), None)
        with pytest.raises(Conflict, match="'k' has version 1, not 4"):
            set_state(connection, "default", "k", msgspec.Raw(b"2"), 4)


@pytest.mark.parametrize(
    ("pattern", "limit", "keys"),
    [
        pytest.param("*", 10, ["a", "a*b", "a?b", "ab", "b", "é\0é"], id="all"),
        pytest.param("*", 2, ["a", "a*b"], id="the first"),
        pytest.param("a*", 10, ["a", "a*b", "a?b", "ab"], id="prefix"),
        pytest.param("a?b", 10, ["a?b"], id="a question mark is one"),
        pytest.param("*b", 10, ["a*b", "a?b", "ab", "b"], id="suffix"),
        pytest.param("é*é", 10, ["é\0é"], id="NUL"),
        pytest.param("ab", 10, ["ab"], id="exact"),
        pytest.param("c*", 10, [], id="none"),
    ],
)
async def test_states(path: Path, pattern: str, limit: int, keys: list[str]) -> None:
    async with EventLog.open(path, durability="process") as log:
        for key in ("b", "ab", "a", "a?b", "a*b", "é\0é"):
            await run(log, put(key, "1"))
        await run(log, put("a", "1", namespace="other"))
        found = await log.reader.states("default", pattern, limit)
    assert [each.key for each in found] == keys
