"""``ksi monitor``: agents, events, models and queues as they stand, in a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from math import inf
from queue import Empty, Queue
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

import click
import msgspec

from ksi_client.blocking import BlockingClient
from ksi_client.errors import NoDaemon, NotAnswering
from ksi_client.output import wants_color
from ksi_client.session import Session, located
from ksi_client.terminal import Screen
from ksi_client.text import Paint
from ksi_client.views.monitor import screen
from ksi_client.watching import Polled, Watch
from ksi_client.wire import Push
from ksi_daemon.errors import KsiError
from ksi_daemon.events import Event, now

__all__ = ["monitor"]

# How often the screen is drawn, the daemon is asked how it is, and for its figures.
FRAME_S: Final = 0.2
POLL_S: Final = 1.0
FIGURES_S: Final = 5.0
# The daemon shall not be busy with being watched.
SHARE: Final = 20
BEFORE: Final = 200  # events to begin with
# More pushes than these wait in the daemon's log.
WAITING: Final = 10_000
PLAIN: Final = (100, 40)  # cells and rows where there is no terminal

# A push comes with the time of its coming.
News = tuple[Push, datetime] | Polled | KsiError


class _Page(msgspec.Struct):
    events: list[Event]


@click.command()
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@click.option("--text", is_flag=True, help="Show what agents wrote, too.")
@click.option("--once", is_flag=True, help="Print what there is now, and end.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON; goes with --once.")
@located
@click.pass_obj
def monitor(
    session: Session, words: tuple[str, ...], text: bool, once: bool, as_json: bool
) -> None:
    """Watch the daemon: its agents, events, models and queues.

    What agents wrote is not shown unless --text asks for it. Over restarts of the daemon it goes
    on. Keys: q quit, p pause, / filter, ! problems, tab the next pane, ? help.

    \b
      ksi monitor
      ksi monitor 'agent:*' ada
    """
    watch = Watch(now(), " ".join(words))
    with session.client() as client:
        polled = _polled(client, figures=True)
    watch.poll(polled)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if once or as_json or not terminal:
        _print(session, watch, polled, text=text, as_json=as_json)
        return
    with Screen() as taken:
        _watch(session, watch, taken, text=text)


def _watch(session: Session, watch: Watch, taken: Screen, *, text: bool) -> None:
    """Draw, take keys and news, until it is quit."""
    news: Queue[News] = Queue(WAITING)
    stop = Flag()
    after = max(0, int(watch.health.get("last_seq", 0)) - BEFORE)
    for work in (_follow, _ask):
        Thread(target=work, args=(session, news, stop, after), daemon=True).start()
    paint = Paint(wants_color(sys.stdout, os.environ))
    try:
        while not watch.done:
            _take(watch, news)
            cells, rows = taken.size
            taken.draw(screen(watch, now(), paint, cells, rows, text=text))
            for key in taken.keys(FRAME_S):
                if key == "redraw":
                    taken.forget()
                watch.press(key)
    except (KeyboardInterrupt, EOFError):
        return
    finally:
        stop.set()


def _take(watch: Watch, news: Queue[News]) -> None:
    """Give *watch* the news that came, as many as may come in one frame."""
    for _ in range(WAITING):
        try:
            each = news.get_nowait()
        except Empty:
            return
        if isinstance(each, tuple):
            watch.take(*each)
        elif isinstance(each, Polled):
            watch.poll(each)
        else:
            watch.gone(each.message)


def _follow(session: Session, news: Queue[News], stop: Flag, after: int) -> None:
    """Put the events into *news*, over restarts of the daemon."""
    while not stop.is_set():
        try:
            with session.client(patience_s=inf) as client:
                for push in client.stream(
                    "*", after_seq=after, include=["outcomes"], on_lost=news.put
                ):
                    news.put((push, now()))
                    after = max(after, push.seq if push.event else after)
        except KsiError as exc:
            news.put(exc)
            stop.wait(POLL_S)


def _ask(session: Session, news: Queue[News], stop: Flag, after: int) -> None:
    """Put into *news* how the daemon is, again and again."""
    figures_at = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        due = began - figures_at >= FIGURES_S
        try:
            with session.client(patience_s=0) as client:
                news.put(_polled(client, figures=due))
            figures_at = began if due else figures_at
        except (NoDaemon, NotAnswering) as exc:
            news.put(exc)
        except KsiError:
            pass  # it goes down, and will be gone when it is asked again
        stop.wait(max(POLL_S, SHARE * (time.monotonic() - began)))


def _polled(client: BlockingClient, *, figures: bool) -> Polled:
    began = time.perf_counter()
    health = client.request("system:health")
    answered_ms = (time.perf_counter() - began) * 1000
    polled = Polled(
        health=health,
        agents=client.request("agent:list")["agents"],
        running=client.request("completion:status")["running"],
        answered_ms=answered_ms,
    )
    if not figures:
        return polled
    by_agent = _reliability(client, "agent")
    return Polled(
        health=health,
        agents=polled.agents,
        running=polled.running,
        answered_ms=answered_ms,
        models=_reliability(client, "model", "dialect"),
        tokens={str(row["agent"]): int(row["tokens"]) for row in by_agent},
        spawned=_spawned(client),
    )


def _reliability(client: BlockingClient, *keys: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.request("monitor:reliability", {"group_by": keys})["rows"]
    return rows


def _spawned(client: BlockingClient) -> Mapping[str, datetime]:
    """Return when the agents that were spawned last were."""
    wanted = {"patterns": ["agent:spawned"], "reverse": True, "limit": 1_000}
    found = client.request("monitor:get_events", wanted)["events"]
    return {
        str(each.get("agent_id")): datetime.fromisoformat(each["ts"]) for each in reversed(found)
    }


def _print(session: Session, watch: Watch, polled: Polled, *, text: bool, as_json: bool) -> None:
    """Print what there is now, for a pipe."""
    out = session.output()
    if as_json:
        out.value({name: getattr(polled, name) for name in polled.__struct_fields__})
        return
    with session.client() as client:
        after = max(0, int(watch.health.get("last_seq", 0)) - BEFORE)
        wanted = {"after_seq": after, "limit": BEFORE}
        page = client.ask("monitor:get_events", wanted).read(_Page)
    for event in page.events:
        watch.take(Push(event.seq, event), now())
    lines = screen(watch, now(), out.paint, *PLAIN, text=text)
    out.lines(lines[:-1])
