"""``ksi tree`` and ``ksi why``: what caused what."""

from __future__ import annotations

import click
import msgspec

from ksi_client.blocking import BlockingClient
from ksi_client.errors import DaemonError
from ksi_client.session import Session, common
from ksi_client.views.stories import Story
from ksi_daemon.errors import NotFound
from ksi_daemon.events import Event

__all__ = ["tree", "why"]


class Found(msgspec.Struct):
    """What ``monitor:tree`` answers."""

    correlation_id: str
    events: list[Event]


class Newest(msgspec.Struct):
    """What ``monitor:get_events`` answers, as far as it is used here."""

    events: list[Event]


@click.command()
@click.argument("reference", metavar="[SEQ|EVENT_ID|CORRELATION_ID]", required=False)
@common
@click.pass_obj
def tree(session: Session, reference: str | None) -> None:
    """Show a story: what caused what. Without an argument, the latest one."""
    with session.client() as client:
        story = _story(client, reference)
    out = session.output()
    out.each(story.events, lambda: story.tree(out.paint, out.width))


@click.command()
@click.argument("reference", metavar="SEQ|EVENT_ID")
@common
@click.pass_obj
def why(session: Session, reference: str) -> None:
    """Show why an event fired.

    The chain of causes from the first one on, for a call the reply it was written in with its
    place in the text, then how it ended and what it led to.
    """
    with session.client() as client:
        story = _story(client, reference)
    event = story.find(_key(reference))
    if event is None:
        raise NotFound("event", reference)
    out = session.output()
    out.each(story.chain(event), lambda: story.why(event, out.paint, out.width))


def _story(client: BlockingClient, reference: str | None) -> Story:
    """Return the story of an event, or the one of that correlation id."""
    key = _key(reference) if reference is not None else _latest(client)
    if isinstance(key, int):
        return _asked(client, {"seq": key})
    try:
        return _asked(client, {"event_id": key})
    except DaemonError as exc:
        if exc.code != "not_found":
            raise
        return _asked(client, {"correlation_id": key})


def _asked(client: BlockingClient, which: dict[str, str | int]) -> Story:
    found = client.ask("monitor:tree", which).read(Found)
    return Story(found.correlation_id, found.events)


def _latest(client: BlockingClient) -> int:
    newest = client.ask("monitor:get_events", {"limit": 1, "reverse": True}).read(Newest)
    if not newest.events:
        raise NotFound("event", "latest")
    return newest.events[0].seq


def _key(reference: str) -> str | int:
    """Return a seq as a number; it may be written as the log shows it, ``#42``."""
    number = reference.removeprefix("#")
    return int(number) if number.isdecimal() else reference
