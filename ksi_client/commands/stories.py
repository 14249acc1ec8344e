"""``ksi tree`` and ``ksi why``: what caused what."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from ksi_client.blocking import BlockingClient
from ksi_client.errors import DaemonError
from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.tracing import chrome_trace
from ksi_client.views import causes
from ksi_client.views.stories import Story
from ksi_daemon.errors import KsiError, NotFound
from ksi_daemon.events import Event

__all__ = ["tree", "why"]


class Found(msgspec.Struct):
    """What ``monitor:tree`` answers."""

    correlation_id: str
    events: list[Event]


class Newest(msgspec.Struct):
    """What ``monitor:get_events`` answers, as far as it is used here."""

    events: list[Event]


chrome_option = click.option(
    "--chrome",
    metavar="FILE",
    type=click.Path(allow_dash=True, dir_okay=False),
    help="Write a trace for chrome://tracing or ui.perfetto.dev, - for stdout.",
)


@click.command()
@click.argument("reference", metavar="[SEQ|EVENT_ID|CORRELATION_ID]", required=False)
@chrome_option
@common
@click.pass_obj
def tree(session: Session, reference: str | None, chrome: str | None) -> None:
    """Show a story: what caused what. Without an argument, the latest one.

    \b
      ksi tree 42                      the story that event 42 is part of
      ksi tree 42 --chrome story.json  as a trace, to be opened in a viewer
    """
    with session.client() as client:
        story = _story(client, reference)
    out = session.output()
    if chrome is not None:
        _write_trace(chrome, story.events, out)
        return
    out.each(story.events, lambda: story.tree(out.paint, out.width))


@click.command()
@click.argument("reference", metavar="SEQ|EVENT_ID")
@chrome_option
@common
@click.pass_obj
def why(session: Session, reference: str, chrome: str | None) -> None:
    """Show why an event fired.

    The chain of causes from the first one on; for a call the reply it was written in with its
    place in the text; the checks that it passed, what handled it, how it ended and what it led to.
    """
    with session.client() as client:
        given = client.ask("monitor:why", _which(_key(reference)))
    found = given.read(causes.Why)
    event = found.event
    events = [*found.causes, event, *found.effects]
    out = session.output()
    if chrome is not None:
        _write_trace(chrome, events, out)
        return
    if out.json:
        out.value(given.result)
        return
    story = Story(event.correlation_id, events)
    out.lines(causes.lost_cause(found, out.paint, out.width))
    about = partial(causes.about, found, out.paint)
    out.lines(story.why(event, out.paint, out.width, about=about))


def _story(client: BlockingClient, reference: str | None) -> Story:
    """Return the story of an event, or the one of that correlation id."""
    key = _key(reference) if reference is not None else _latest(client)
    try:
        return _asked(client, _which(key))
    except DaemonError as exc:
        if exc.code != "not_found" or isinstance(key, int):
            raise
        return _asked(client, {"correlation_id": key})


def _asked(client: BlockingClient, which: dict[str, Any]) -> Story:
    found = client.ask("monitor:tree", which).read(Found)
    return Story(found.correlation_id, found.events)


def _latest(client: BlockingClient) -> int:
    newest = client.ask("monitor:get_events", {"limit": 1, "reverse": True}).read(Newest)
    if not newest.events:
        raise NotFound("event", "latest")
    return newest.events[0].seq


def _which(key: str | int) -> dict[str, Any]:
    return {"seq" if isinstance(key, int) else "event_id": key}


def _key(reference: str) -> str | int:
    """Return a seq as a number; it may be written as the log shows it, ``#42``."""
    number = reference.removeprefix("#")
    return int(number) if number.isascii() and number.isdecimal() else reference


def _write_trace(name: str, events: Iterable[Event], out: Output) -> None:
    data = msgspec.json.encode(chrome_trace(events))
    if name == "-":
        click.echo(data.decode())
        return
    try:
        Path(name).write_bytes(data + b"\n")
    except OSError as exc:
        raise KsiError(f"{name} cannot be written: {exc.strerror}", code="unwritable_file") from exc
    out.show({"file": name}, lambda: [f"{name}: open it in chrome://tracing or ui.perfetto.dev"])
