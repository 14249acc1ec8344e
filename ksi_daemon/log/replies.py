"""Replies of models as the log has them: the text, how it was read, what was found in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from typing import Protocol as Interface

import msgspec

from ksi_daemon import extraction
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Protocol, Schemas
from ksi_daemon.log import queries
from ksi_daemon.log.rows import microseconds, moment

__all__ = ["LoggedBlock", "LoggedReply", "Manner", "ReplyFilter", "count_replies", "replies"]


class Manner(msgspec.Struct, frozen=True):
    """What a reply is read by: settings, the tools' schemas, and whether these went to the provider
    as native tools."""

    protocol: Protocol
    tools: Schemas = {}
    native: bool = False


class LoggedBlock(msgspec.Struct, frozen=True):
    """One block of a reply. *data* is what the call was submitted with, None if it did not run."""

    dialect: str
    tool: str | None
    verdict: str
    code: str | None
    repairs: tuple[str, ...]
    start: int
    end: int
    data: Mapping[str, Any] | None


class LoggedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply. *manner* is None if it is not known how it was read: in a log of an earlier ksi
    only the *preset* is. *extractor* is the version that read it."""

    id: str
    seq: int
    ts: datetime
    agent_id: str
    model: str
    preset: str
    stop_reason: str
    extractor: int
    manner: Manner | None
    text: str
    message: dict[str, Any] | None
    blocks: tuple[LoggedBlock, ...]


class ReplyFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which replies: all given conditions hold."""

    agent_id: str | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Rows(Interface):
    """What runs a query and yields its rows as they are read: ``Snapshot``."""

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]: ...


class _Data(msgspec.Struct):
    text: str = ""
    message: dict[str, Any] | None = None


def count_replies(log: Rows, wanted: ReplyFilter) -> int:
    """Return how many replies *wanted* describes."""
    which, values = _which(wanted)
    sql = f"SELECT count(*) FROM ({queries.load()['replies']}{which})"
    return int(next(log.rows(sql, values))[0])


def replies(log: Rows, wanted: ReplyFilter) -> Iterator[LoggedReply]:
    """Yield the replies that *wanted* describes in the order of their ids, the order of time."""
    named = queries.load()
    manners = {row[0]: _manner(row) for row in log.rows(named["manners"])}
    which, values = _which(wanted)
    blocks = _Blocks(
        log.rows(f"{named['blocks_of_replies']}{which} ORDER BY c.id, a.ordinal", values)
    )
    for row in log.rows(f"{named['replies']}{which} ORDER BY c.id", values):
        reply_id, seq, ts, agent_id, model, preset, stop_reason, extractor, manner, data = row
        said = msgspec.json.decode(data, type=_Data)
        yield LoggedReply(
            id=reply_id,
            seq=seq,
            ts=moment(ts),
            agent_id=agent_id,
            model=model,
            preset=preset,
            stop_reason=stop_reason,
            extractor=extractor,
            manner=manners.get(manner) or _of_preset(preset),
            text=said.text,
            message=said.message,
            blocks=tuple(blocks.of(reply_id)),
        )


class _Blocks:
    """The blocks of all replies in the order of the replies, handed out reply by reply."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, reply_id: str) -> Iterator[LoggedBlock]:
        while self._next is not None and self._next[0] <= reply_id:
            row, self._next = self._next, next(self._rows, None)
            if row[0] == reply_id:
                yield _block(row)


def _which(wanted: ReplyFilter) -> tuple[str, tuple[Any, ...]]:
    conditions = [
        ("c.agent_id = ?", wanted.agent_id),
        ("c.model = ?", wanted.model),
        ("c.ts >= ?", wanted.since and microseconds(wanted.since)),
        ("c.ts < ?", wanted.until and microseconds(wanted.until)),
    ]
    given = [(sql, value) for sql, value in conditions if value is not None]
    return "".join(f" AND {sql}" for sql, _ in given), tuple(value for _, value in given)


def _manner(row: tuple[Any, ...]) -> Manner | None:
    """Return the manner of a row, None if it has settings that this ksi does not know."""
    _, protocol, tools, native = row
    try:
        return Manner(
            msgspec.json.decode(protocol, type=Protocol), msgspec.json.decode(tools), bool(native)
        )
    except msgspec.ValidationError:
        return None


def _of_preset(preset: str) -> Manner | None:
    try:
        return Manner(extraction.protocol(preset))
    except KsiError:
        return None


def _block(row: tuple[Any, ...]) -> LoggedBlock:
    _, dialect, tool, verdict, code, repairs, start, end, data = row
    return LoggedBlock(
        dialect=dialect,
        tool=tool,
        verdict=verdict,
        code=code,
        repairs=msgspec.json.decode(repairs, type=tuple[str, ...]),
        start=start,
        end=end,
        data=None if data is None else msgspec.json.decode(data),
    )
