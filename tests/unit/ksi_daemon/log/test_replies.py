from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon.events import Event, Outcome
from ksi_daemon.extraction import protocol
from ksi_daemon.log import EventLog, attempts, statements
from ksi_daemon.log.model import Attempt
from ksi_daemon.log.replies import LoggedReply, Manner, ReplyFilter, count_replies, replies
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.work import Statement, Work

NewEvent = Callable[..., Event]

TS = datetime(2026, 1, 31, 12, tzinfo=UTC)
STRICT = protocol("ksi", mode="strict")
SCHEMAS = {"a:b": {"type": "object"}}
HANDLED = Outcome("handled")


def completion(name: str, **fields: Any) -> Statement:
    given = {
        "completion_id": name, "ts": TS, "agent_id": "ann", "request_id": "r", "turn": 1,
        "provider": "p", "model": "m", "preset": "ksi", "stop_reason": "stop", "latency_ms": 1,
        "input_tokens": 1, "output_tokens": 1, "extractor": 1,
    }  # fmt: skip
    return statements.completion(**given | fields)


def block(name: str, ordinal: int, verdict: str = "strict") -> Statement:
    made = Attempt(
        completion_id=name, ordinal=ordinal, agent_id="ann", provider="p", model="m",
        dialect="event", tool="a:b", verdict=verdict, repairs=("comment",), start=3, end=9,
        event_id=f"{name}.{ordinal}",
    )  # fmt: skip
    return statements.attempt(made)


async def write(path: Path, new_event: NewEvent, *rows: Statement, **fields: Any) -> None:
    """Log the reply ``c1`` with *rows*, and the calls that it has events of."""
    data = {"text": "Some words.", "message": {"role": "assistant"}}
    async with EventLog.open(path, durability="process") as log:
        reply = new_event("completion:result", data, id="c1")
        work = (completion("c1", **fields), *rows)
        await log.submit(Work(event=reply, outcome=HANDLED, statements=work))
        for ordinal in (1, 2):
            call = new_event("a:b", {"n": ordinal}, id=f"c1.{ordinal}")
            await log.submit(Work(event=call, outcome=HANDLED))


def found(path: Path, **wanted: Any) -> list[LoggedReply]:
    with Snapshot.open(path) as log:
        every = list(replies(log, ReplyFilter(**wanted)))
        assert count_replies(log, ReplyFilter(**wanted)) == len(every)
    return every


async def test_a_reply_with_its_blocks(path: Path, new_event: NewEvent) -> None:
    await write(path, new_event, block("c1", 1), block("c1", 2, "held"))
    [reply] = found(path)
    assert (reply.id, reply.seq, reply.text, reply.message) == (
        "c1",
        1,
        "Some words.",
        {"role": "assistant"},
    )
    one, two = reply.blocks
    assert (one.tool, one.repairs, one.start, one.data) == ("a:b", ("comment",), 3, {"n": 1})
    assert (two.verdict, two.data) == ("held", None)  # it did not run


async def test_it_is_read_by_what_it_was_read_by(path: Path, new_event: NewEvent) -> None:
    settings, tools = msgspec.json.encode(STRICT), msgspec.json.encode(SCHEMAS)
    row = attempts.manner(b"digest", settings, tools, native=True)
    await write(path, new_event, row, row, attempts.read_by("c1", b"digest"))
    assert found(path)[0].manner == Manner(STRICT, SCHEMAS, True)


@pytest.mark.parametrize(
    ("rows", "preset", "manner"),
    [
        pytest.param((), "any", Manner(protocol("any")), id="a log of an earlier ksi"),
        pytest.param((), "of tomorrow", None, id="a preset that there is not"),
        pytest.param((attempts.read_by("c1", b"gone"),), "ksi", Manner(protocol("ksi")), id="gone"),
        pytest.param(
            (
                attempts.manner(b"d", b'{"name": "ksi", "odd": 1}', b"{}", native=False),
                attempts.read_by("c1", b"d"),
            ),
            "ksi",
            Manner(protocol("ksi")),
            id="settings of tomorrow",
        ),
    ],
)
async def test_what_it_was_read_by_is_not_known(
    path: Path, new_event: NewEvent, rows: tuple[Statement, ...], preset: str, manner: Any
) -> None:
    await write(path, new_event, *rows, preset=preset)
    assert found(path)[0].manner == manner


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param({"agent_id": "ann", "model": "m"}, 1, id="of an agent and a model"),
        pytest.param({"agent_id": "bob"}, 0, id="of another agent"),
        pytest.param({"model": "n"}, 0, id="of another model"),
        pytest.param({"since": TS}, 1, id="since"),
        pytest.param({"until": TS}, 0, id="until"),
        pytest.param({"since": TS + timedelta(seconds=1)}, 0, id="since later"),
    ],
)
async def test_which(path: Path, new_event: NewEvent, wanted: dict[str, Any], count: int) -> None:
    await write(path, new_event)
    assert len(found(path, **wanted)) == count


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"agent_id": None}, id="asked without an agent"),
        pytest.param({"stop_reason": None}, id="broke off, so nothing of it counts"),
    ],
)
async def test_replies_that_are_not_read(
    path: Path, new_event: NewEvent, fields: dict[str, Any]
) -> None:
    await write(path, new_event, **fields)
    assert found(path) == []
