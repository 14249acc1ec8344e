"""``ksi tail`` and ``ksi events``: the log as it grows and as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from ksi_client.blocking import BlockingClient
from ksi_client.completing import agent_ids, event_names
from ksi_client.errors import NoDaemon
from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.views.events import LogLine
from ksi_client.views.matches import Match, matched
from ksi_client.wire import Push
from ksi_daemon.events import Event

__all__ = ["events", "tail"]

STATUSES: Final = (
    "received",
    "handled",
    "failed",
    "timeout",
    "denied",
    "unknown",
    "rejected",
    "lost",
)


class Page(msgspec.Struct):
    """What ``monitor:get_events`` answers, as far as it is used here."""

    events: list[Event]
    last_seq: int
    matches: list[Match] = []


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", shell_complete=event_names)
@click.option("--after", type=click.IntRange(0), metavar="SEQ", help="Begin after this event.")
@click.option("-n", "last", type=click.IntRange(0), metavar="N", help="Begin with the last N.")
@click.option("--outcomes", is_flag=True, help="Show every end, not only what went wrong.")
@click.option(
    "--patience",
    type=float,
    default=60.0,
    metavar="SECONDS",
    help="How long to wait for a daemon that went away (60).",
)
@common
@click.pass_obj
def tail(
    session: Session,
    patterns: tuple[str, ...],
    after: int | None,
    last: int | None,
    outcomes: bool,
    patience: float,
) -> None:
    """Follow the events as they happen, over restarts of the daemon.

    \b
      ksi tail                     everything from now on
      ksi tail 'agent:*' -n 20     the last 20 events of agents, then what comes
    """
    out = session.output()
    wanted = patterns or ("*",)
    line = LogLine(out.paint, out.width)
    with session.client(patience_s=patience) as client:
        if last is not None and after is None:
            after = _before_last(client, wanted, last)
        pushes = client.stream(
            wanted, after_seq=after, include=["outcomes"], on_lost=_say_that_it_is_gone
        )
        for push in pushes:
            if push.event is not None or outcomes or _went_wrong(push):
                _write(out, push, line)


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", shell_complete=event_names)
@click.option("-p", "--pattern", "more", multiple=True, metavar="PATTERN", help="The same.")
@click.option("--agent", "agent_id", metavar="ID", help="Of this agent.", shell_complete=agent_ids)
@click.option("--correlation", "correlation_id", metavar="ID", help="Of this story.")
@click.option("--completion", "completion_id", metavar="ID", help="Written in this reply.")
@click.option("--status", type=click.Choice(STATUSES), help="That ended like this.")
@click.option("--grep", metavar="WORDS", help="That hold all of these words, in any case.")
@click.option("--after", "after_seq", type=click.IntRange(0), metavar="SEQ", help="After this one.")
@click.option("--before", "before_seq", type=click.IntRange(0), metavar="SEQ", help="Before this.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=50, help="How many (50).")
@click.option("--reverse", is_flag=True, help="The newest first.")
@common
@click.pass_obj
def events(
    session: Session,
    /,
    patterns: tuple[str, ...],
    more: tuple[str, ...],
    limit: int,
    reverse: bool,
    **given: Any,
) -> None:
    """Show events of the log: the last ones, or with --after those that follow.

    \b
      ksi events --status failed
      ksi events 'state:*' --agent greeter
      ksi events --grep 'draft "not found"'
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    newest = reverse or "after_seq" not in wanted
    with session.client() as client:
        page = _page(
            client, {**wanted, "patterns": patterns + more, "limit": limit, "reverse": newest}
        )
    found = page.events[::-1] if newest and not reverse else page.events
    out = session.output()
    matches = {match.seq: match for match in page.matches}
    line = LogLine(out.paint, out.width)
    out.each(
        [_with_match(event, matches.get(event.seq)) for event in found],
        lambda: (
            [
                text
                for event in found
                for text in (
                    line.event(event),
                    *matched(matches.get(event.seq), out.paint, out.width),
                )
            ]
            or ["no such events"]
        ),
    )


def _with_match(event: Event, match: Match | None) -> object:
    """Return *event*, with where it holds what was looked for if something was."""
    if match is None:
        return event
    told = msgspec.json.decode(msgspec.json.encode(event), type=dict[str, msgspec.Raw])
    return {**told, "match": match}


def _before_last(client: BlockingClient, patterns: Sequence[str], count: int) -> int:
    """Return the seq after which there are *count* events that match."""
    page = _page(client, {"patterns": patterns, "limit": max(count, 1), "reverse": True})
    if count == 0:
        return page.last_seq
    return min((event.seq for event in page.events), default=1) - 1


def _page(client: BlockingClient, wanted: dict[str, Any]) -> Page:
    return client.ask("monitor:get_events", wanted).read(Page)


def _went_wrong(push: Push) -> bool:
    return push.outcome is not None and push.outcome.status != "handled"


def _write(out: Output, push: Push, line: LogLine) -> None:
    if out.json:
        out.value(push.event if push.event is not None else push)
    else:
        out.lines([line.push(push)])


def _say_that_it_is_gone(lost: NoDaemon) -> None:
    click.echo("the daemon is gone; waiting for it to come back", err=True)
