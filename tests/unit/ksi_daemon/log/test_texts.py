"""A long text of a conversation is in the log once, and is read as if it were there twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog, statements
from ksi_daemon.log.texts import LONG
from ksi_daemon.providers.model import Message
from ksi_daemon.work import Work

NewEvent = Callable[..., Event]
Ask = Callable[..., list[tuple[object, ...]]]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HANDLED = Outcome("handled")
TEXT = 'Élan "quoted" \\ back\nslash \u0001 😀 ' * 40


def blank(data: object) -> msgspec.Raw:
    """Return JSON as Python's own encoder writes it, with blanks."""
    return msgspec.Raw(msgspec.json.format(msgspec.json.encode(data), indent=0))


async def talk(log: EventLog, new_event: NewEvent, said: str, replied: str) -> None:
    """Have ann hear *said* and reply *replied*, as the services write it."""
    data = {"agent_id": "ann", "message": said}
    sent = new_event("agent:send", id="s1", data=blank(data), ts=NOW)
    await log.submit(Work(event=sent, outcome=HANDLED, statements=(_agent(),)))
    heard = statements.waiting_message(
        agent_id="ann", content=said, untrusted=True, request_id="s1", ts=NOW
    )
    await log.submit(Work(statements=(heard, statements.message_taken("ann", "s1", 1))))
    result = new_event("completion:result", id="c1", data={"text": replied, "turn": 1}, ts=NOW)
    reply = statements.message(
        agent_id="ann", position=2, message=Message("assistant", replied), kind="reply",
        request_id="s1", completion_id="c1", ts=NOW,
    )  # fmt: skip
    await log.submit(Work(event=result, outcome=HANDLED, statements=(reply,)))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param(TEXT, "", id="long"),
        pytest.param("x" * LONG, "", id="just long enough"),
        pytest.param("x" * (LONG - 1), "x" * (LONG - 1), id="short"),
        pytest.param("", "", id="empty"),
    ],
)
async def test_a_text_is_kept_once(
    path: Path, new_event: NewEvent, outside: Ask, text: str, kept: str
) -> None:
    async with EventLog.open(path, durability="process") as log:
        await talk(log, new_event, text, text)
        assert [each.content for each in await log.reader.conversation("ann")] == [text, text]
        assert await log.reader.readings("ann", 10) == [text]
        [pending] = await log.reader.pending_messages()
        assert pending.content == text
    assert outside("SELECT content FROM messages ORDER BY id") == [(kept,), (kept,)]


async def test_it_survives_the_events_that_it_came_with(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with EventLog.open(path, durability="process") as log:
        await talk(log, new_event, TEXT, TEXT[::-1])
        await log.prune(NOW + timedelta(hours=1), NOW + timedelta(hours=2))
        assert outside("SELECT count(*) FROM events") == [(0,)]
        said = [each.content for each in await log.reader.conversation("ann")]
        assert said == [TEXT, TEXT[::-1]]
        assert (await log.reader.pending_messages())[0].content == TEXT


@pytest.mark.parametrize(
    ("event", "data"),
    [
        pytest.param("agent:send", {"message": TEXT[:-1]}, id="another text"),
        pytest.param("agent:result", {"message": TEXT}, id="another event"),
        pytest.param("agent:send", {"text": TEXT}, id="another field"),
    ],
)
async def test_what_stands_in_no_event_is_kept_with_the_message(
    path: Path, new_event: NewEvent, outside: Ask, event: str, data: dict[str, str]
) -> None:
    heard = statements.waiting_message(
        agent_id="ann", content=TEXT, untrusted=False, request_id="s1", ts=NOW
    )
    async with EventLog.open(path, durability="process") as log:
        await log.submit(Work(event=new_event(event, id="s1", data=data), outcome=HANDLED))
        await log.submit(Work(statements=(_agent(), heard)))
        assert (await log.reader.pending_messages())[0].content == TEXT
    assert outside("SELECT content, text_of FROM messages") == [(TEXT, None)]


async def test_the_same_event_twice_is_one_message(
    path: Path, new_event: NewEvent, outside: Ask
) -> None:
    async with EventLog.open(path, durability="process") as log:
        await talk(log, new_event, TEXT, "short")
        again = statements.waiting_message(
            agent_id="ann", content=TEXT, untrusted=True, request_id="s1", ts=NOW
        )
        await log.submit(Work(statements=(again,)))
    assert outside("SELECT count(*) FROM messages WHERE kind = 'message'") == [(1,)]


def _agent() -> tuple[str, tuple[object, ...]]:
    return statements.agent("ann", b"{}", NOW)
