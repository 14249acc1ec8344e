"""monitor:*: the log asked over the socket. Reads only; nothing here is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import Event, Status
from ksi_daemon.log.forms import Form, migration
from ksi_daemon.log.model import EventFilter, GroupKey, Stats
from ksi_daemon.log.recommendation import recommendations
from ksi_daemon.log.search import MAX_WORDS, Match, words_of
from ksi_daemon.moments import Moment, moment_of
from ksi_daemon.router import Context, Nothing, Router, handles

__all__ = ["Monitor", "MonitorReader"]

# SQLite's integers have 64 bits.
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class GetEvents(msgspec.Struct, forbid_unknown_fields=True):
    """Which events. *after_seq* and *before_seq* are exclusive; *reverse* begins at the newest.

    *grep* are words that are all in the data, the result, the error or the name of an event, in
    any case; several in double quotes stand together.
    """

    patterns: Annotated[tuple[str, ...], msgspec.Meta(max_length=64)] = ()
    after_seq: Seq | None = None
    before_seq: Seq | None = None
    agent_id: str | None = None
    correlation_id: str | None = None
    completion_id: str | None = None
    status: Status | None = None
    grep: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    reverse: bool = False


class Reliability(msgspec.Struct, forbid_unknown_fields=True):
    """Rows for each combination of the keys in *group_by*, of completions in [since, until).

    With *exact* every row of the log is counted, else the roll-up is read where it can be: both
    say the same. *include* asks for more: ``recommendations``, which dialect fits each model, and
    ``migration``, how far the agents are from doing without the direct form of events.
    """

    group_by: Annotated[tuple[GroupKey, ...], msgspec.Meta(min_length=1, max_length=8)] = (
        "model",
        "dialect",
    )
    since: Moment | None = None
    until: Moment | None = None
    exact: bool = False
    include: tuple[Literal["recommendations", "migration"], ...] = ()


class MonitorReader(Protocol):
    """The part of the log that is read here."""

    async def events(self, wanted: EventFilter) -> list[Event]: ...

    async def matches(self, events: Sequence[Event], words: Sequence[str]) -> list[Match]: ...

    async def reliability(
        self,
        group_by: Sequence[GroupKey],
        since: datetime | None,
        until: datetime | None,
        *,
        exact: bool = False,
    ) -> list[dict[str, Any]]: ...

    async def forms(self, since: datetime | None, until: datetime | None) -> list[Form]: ...

    async def stats(self) -> Stats: ...


class Monitor:
    """The log's questions and answers."""

    def __init__(self, router: Router, reader: MonitorReader) -> None:
        self._router = router
        self._reader = reader

    @handles(
        "monitor:get_events",
        effect="observe",
        outside=True,
        example={"patterns": ["agent:*"], "limit": 10},
    )
    async def get_events(self, data: GetEvents, ctx: Context) -> dict[str, Any]:
        """Return events of the log in the order of seq, with how each ended."""
        words = _words(data.grep)
        given = {name: getattr(data, name) for name in data.__struct_fields__ if name != "grep"}
        wanted = EventFilter(**given, words=words)
        # Read before the events: what is committed meanwhile must not be skipped by a resume.
        last_seq = self._router.feed.last_seq
        events = await self._reader.events(wanted)
        if data.reverse or len(events) == data.limit:
            next_after = max((event.seq for event in events), default=data.after_seq or 0)
        else:
            next_after = max(last_seq, events[-1].seq if events else 0)
        found = {"events": events, "next_after_seq": next_after, "last_seq": last_seq}
        return found | ({"matches": await self._reader.matches(events, words)} if words else {})

    @handles("monitor:reliability", effect="observe", example={"group_by": ["model", "dialect"]})
    async def reliability(self, data: Reliability, ctx: Context) -> dict[str, Any]:
        """Say for each model and way of writing how many calls came to a good end."""
        since, until = moment_of(data.since, "since"), moment_of(data.until, "until")
        report = partial(self._reader.reliability, since=since, until=until, exact=data.exact)
        told: dict[str, Any] = {
            "group_by": list(data.group_by),
            "rows": await report(data.group_by),
        }
        if "recommendations" in data.include:
            told["recommendations"] = recommendations(await report(("model", "dialect")))
        if "migration" in data.include:
            told["migration"] = migration(await self._reader.forms(since, until))
        return told

    @handles("monitor:get_stats", effect="observe", example={})
    async def get_stats(self, data: Nothing, ctx: Context) -> Stats:
        """Count what the log holds: events by name and status, rows, bytes."""
        return await self._reader.stats()


def _words(text: str | None) -> tuple[str, ...]:
    """Return the words to look for, none if nothing is; raise InvalidData."""
    words = words_of(text or "")
    if text is not None and not 1 <= len(words) <= MAX_WORDS:
        raise InvalidData(
            f"grep has {len(words)} words, and one to {MAX_WORDS} can be looked for",
            details={"path": "grep"},
        )
    return words
