"""The rows that services have committed together with their events. Nobody else writes SQL."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Final

import msgspec

from ksi_daemon.errors import Conflict
from ksi_daemon.events import now
from ksi_daemon.log.model import Attempt, MessageKind
from ksi_daemon.log.rows import json_text, microseconds
from ksi_daemon.log.standing import standing_ended
from ksi_daemon.log.texts import LONG, in_event
from ksi_daemon.providers.model import Message
from ksi_daemon.work import Statement

__all__ = [
    "ATTEMPT_CORRECTED",
    "COMPLETION",
    "COMPLETION_DONE",
    "FAILURE",
    "agent",
    "agent_changed",
    "agent_said",
    "agent_tainted",
    "agent_terminated",
    "attempt",
    "attempt_corrected",
    "completion",
    "completion_done",
    "completion_failed",
    "delete_state",
    "message",
    "message_answered",
    "message_taken",
    "set_state",
    "spawned",
    "waiting_message",
]

# The statements that the roll-up counts, by which it knows them.
COMPLETION: Final = """
INSERT INTO completions (id, ts, agent_id, request_id, turn, provider, model, preset, stop_reason,
                         latency_us, input_tokens, output_tokens, state, extractor, cached_tokens,
                         counts, cost_nusd)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'stored', ?, ?, ?, ?)
"""
COMPLETION_DONE: Final = """
UPDATE completions SET state = 'done', counts = ?2 WHERE id = ?1 AND state = 'stored'
"""
ATTEMPT_CORRECTED: Final = """
UPDATE attempts SET corrected = ? WHERE completion_id = ? AND ordinal = ? AND corrected = 0
"""
FAILURE: Final = """
INSERT INTO failures (event_id, ts, agent_id, provider, model, code) VALUES (?, ?, ?, ?, ?, ?)
"""

_BILLION: Final = 1_000_000_000


def agent(agent_id: str, spec: bytes, spawned: datetime) -> Statement:
    """Enter an agent; one of the same id that was terminated gives way."""
    return (
        "INSERT OR REPLACE INTO agents (agent_id, spec, state, spawned) VALUES (?, ?, 'active', ?)",
        (agent_id, spec.decode(), microseconds(spawned)),
    )


def agent_changed(agent_id: str, spec: bytes) -> Statement:
    """Give a living agent another spec."""
    return (
        "UPDATE agents SET spec = ? WHERE agent_id = ? AND state = 'active'",
        (spec.decode(), agent_id),
    )


def agent_said(connection: sqlite3.Connection, agent_id: str, kind: str, value: bytes) -> bool:
    """Keep what an agent says of itself inside a transaction handler; say whether it lives."""
    updated = connection.execute(
        "UPDATE agents SET said = json_set(said, '$.' || ?, json(?))"
        " WHERE agent_id = ? AND state = 'active'",
        (kind, value.decode(), agent_id),
    )
    return updated.rowcount == 1


def agent_tainted(agent_id: str, event_id: str) -> Statement:
    """Note the event by which an agent first read untrusted text."""
    return (
        "UPDATE agents SET tainted = ? WHERE agent_id = ? AND state = 'active' AND tainted IS NULL",
        (event_id, agent_id),
    )


def agent_terminated(agent_id: str, ended: datetime) -> list[Statement]:
    """End an agent, its conversation, its rules and timers; what was said stays in the events."""
    return [
        (
            "UPDATE agents SET state = 'terminated', ended = ? WHERE agent_id = ?",
            (microseconds(ended), agent_id),
        ),
        ("DELETE FROM messages WHERE agent_id = ?", (agent_id,)),
        *standing_ended(agent_id),
    ]


def spawned(parent: str, root: str) -> list[Statement]:
    """Count a child of the agent that the event *parent* spawned, a descendant of *root*'s."""
    return [
        (
            "INSERT INTO spawns (spawn_id, children) VALUES (?, 1)"
            " ON CONFLICT (spawn_id) DO UPDATE SET children = children + 1",
            (parent,),
        ),
        (
            "INSERT INTO spawns (spawn_id, descendants) VALUES (?, 1)"
            " ON CONFLICT (spawn_id) DO UPDATE SET descendants = descendants + 1",
            (root,),
        ),
    ]


def waiting_message(
    *,
    agent_id: str,
    content: str,
    untrusted: bool,
    request_id: str,
    ts: datetime,
    tainted: bool = False,
) -> Statement:
    """Put a message into a mailbox; the same event twice is one message."""
    given = (agent_id, int(untrusted), int(tainted), request_id, microseconds(ts))
    insertion = (
        "INSERT OR IGNORE INTO messages"
        " (agent_id, untrusted, tainted, request_id, ts, role, kind, content, text_of)"
        " SELECT ?, ?, ?, ?, ?, 'user', 'message',"
    )
    written = in_event(content)
    if written is None:
        return f"{insertion} ?, NULL", (*given, content)
    return (
        f"{insertion} iif(e.id IS NULL, ?, ''), e.id FROM (SELECT 1) LEFT JOIN events e"
        " ON e.id = ? AND e.name = 'agent:send' AND (instr(e.data, ?) OR instr(e.data, ?))",
        (*given, content, request_id, *written),
    )


def message_taken(agent_id: str, request_id: str, position: int) -> Statement:
    """Take a message out of the mailbox into the conversation."""
    return (
        "UPDATE messages SET position = ?"
        " WHERE agent_id = ? AND request_id = ? AND kind = 'message'",
        (position, agent_id, request_id),
    )


def message_answered(agent_id: str, request_id: str) -> Statement:
    """Note that the exchange which a message began has ended."""
    return (
        "UPDATE messages SET answered = 1"
        " WHERE agent_id = ? AND request_id = ? AND kind = 'message'",
        (agent_id, request_id),
    )


def message(
    *,
    agent_id: str,
    position: int,
    message: Message,
    kind: MessageKind,
    request_id: str,
    completion_id: str | None,
    ts: datetime,
) -> Statement:
    """Add a reply, a result or a correction to a conversation."""
    text_of = completion_id if kind == "reply" and len(message.content) >= LONG else None
    return (
        "INSERT INTO messages"
        " (agent_id, position, role, content, text_of, name, call_id, is_error, native, kind,"
        " request_id, completion_id, ts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            agent_id,
            position,
            message.role,
            message.content if text_of is None else "",
            text_of,
            message.name,
            message.call_id,
            int(message.is_error),
            None if message.native is None else json_text(message.native),
            kind,
            request_id,
            completion_id,
            microseconds(ts),
        ),
    )


def completion(
    *,
    completion_id: str,
    ts: datetime,
    agent_id: str | None,
    request_id: str | None,
    turn: int,
    provider: str,
    model: str,
    preset: str,
    stop_reason: str | None,
    latency_ms: float,
    input_tokens: int,
    output_tokens: int,
    extractor: int,
    cached_tokens: int = 0,
    counts: bytes | None = None,
    usd: float | None = None,
) -> Statement:
    """Enter a completion whose calls have not run yet; *counts*: what its exchange has used up,
    *usd*: what the completion cost, None if nobody knows."""
    return (
        COMPLETION,
        (
            completion_id,
            microseconds(ts),
            agent_id,
            request_id,
            turn,
            provider,
            model,
            preset,
            stop_reason,
            round(latency_ms * 1000),
            input_tokens,
            output_tokens,
            extractor,
            cached_tokens,
            None if counts is None else counts.decode(),
            None if usd is None else round(usd * _BILLION),
        ),
    )


def completion_done(completion_id: str, counts: bytes | None = None) -> Statement:
    """Note that all calls of a completion have run, and the *counts* of its exchange by then."""
    return COMPLETION_DONE, (completion_id, None if counts is None else counts.decode())


def completion_failed(
    *,
    event_id: str,
    ts: datetime,
    agent_id: str | None,
    provider: str,
    model: str,
    code: str,
) -> Statement:
    """Enter a completion that never came, by the event that tells of it."""
    return FAILURE, (event_id, microseconds(ts), agent_id, provider, model, code)


def attempt(made: Attempt) -> Statement:
    """Enter one block of a completion."""
    return (
        "INSERT INTO attempts (completion_id, ordinal, ts, agent_id, provider, model, dialect,"
        " tool, verdict, code, repairs, span_start, span_end, event_id, size, tries, suspect,"
        " complex) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            made.completion_id,
            made.ordinal,
            microseconds(now()),
            made.agent_id,
            made.provider,
            made.model,
            made.dialect,
            made.tool,
            made.verdict,
            made.code,
            json_text(made.repairs),
            made.start,
            made.end,
            made.event_id,
            made.size,
            made.tries,
            int(made.suspect),
            None if made.complex is None else int(made.complex),
        ),
    )


def attempt_corrected(completion_id: str, ordinal: int, turns: int) -> Statement:
    """Note that a block was made good *turns* turns later; what is made good stays so."""
    return ATTEMPT_CORRECTED, (turns, completion_id, ordinal)


def set_state(
    connection: sqlite3.Connection,
    namespace: str,
    key: str,
    value: msgspec.Raw,
    expect_version: int | None,
    *,
    tainted: bool = False,
) -> int:
    """Write a value inside a transaction handler; return its new version.

    *tainted*: who writes it has read untrusted text.

    Raise Conflict (``version_conflict``) if *expect_version* is not the present one.
    """
    text = str(value, "utf-8")
    return _write_state(connection, namespace, key, text, expect_version, tainted=tainted)


def delete_state(
    connection: sqlite3.Connection, namespace: str, key: str, expect_version: int | None
) -> bool:
    """Delete a value inside a transaction handler; say whether there was one."""
    row = connection.execute(
        "SELECT value FROM state WHERE namespace = ? AND key = ?", (namespace, key)
    ).fetchone()
    existed = row is not None and row[0] is not None
    if existed or expect_version is not None:
        _write_state(connection, namespace, key, None, expect_version)
    return existed


def _write_state(
    connection: sqlite3.Connection,
    namespace: str,
    key: str,
    value: str | None,
    expect_version: int | None,
    *,
    tainted: bool = False,
) -> int:
    row = connection.execute(
        "SELECT CASE WHEN value IS NULL THEN 0 ELSE version END, version FROM state"
        " WHERE namespace = ? AND key = ?",
        (namespace, key),
    ).fetchone()
    present, newest = row or (0, 0)
    if expect_version is not None and expect_version != present:
        raise Conflict(
            f"{key!r} has version {present}, not {expect_version}",
            code="version_conflict",
            details={"version": present},
        )
    connection.execute(
        "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?)",
        (namespace, key, value, newest + 1, microseconds(now()), int(tainted)),
    )
    return int(newest) + 1
