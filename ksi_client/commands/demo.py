"""``ksi demo``: three agents at work on a daemon of their own, and what the log says of it.

Nothing is staged here but the task: the agents are the components of that name, which play the
scripts in their files because no model is configured. With ``--slips`` the daemon's faulty provider
stands between. What is printed is read from the daemon.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ksi_client.blocking import BlockingClient
from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.views.events import LogLine
from ksi_client.views.reliability import rates
from ksi_client.views.slips import slips as slips_table
from ksi_client.views.stories import Story
from ksi_client.wire import Push
from ksi_daemon.errors import KsiError
from ksi_daemon.events import Event

__all__ = ["demo"]

TEAM: Final = ("writer", "reviewer", "planner")
TASK: Final = "We need a note for newcomers: how to add a handler. Have it written and reviewed."
# What ends the story: the planner says what has come of it.
LAST_EVENT: Final = "agent:result"
START_S: Final = 20.0
STORY_S: Final = 60.0
# When nothing happens for so long, it is time to see whether anybody is at work.
GLANCE_S: Final = 1.0
# One of which something is mended and something goes back, at a rate of 0.3.
SEED: Final = 7
# Told for the record of a call whose own event follows; here it would only double the lines.
UNINTERESTING: Final = frozenset({"extraction:call", "agent:spawned"})


class Found(msgspec.Struct):
    """What ``monitor:tree`` answers."""

    correlation_id: str
    events: list[Event]


@click.command()
@click.option(
    "--slips",
    type=click.FloatRange(0, 1),
    metavar="RATE",
    help="How many replies get a mistake as models make them: 0.3.",
)
@click.option("--seed", type=int, default=SEED, help="Which of them, and what mistakes.")
@common
@click.pass_obj
def demo(session: Session, slips: float | None, seed: int) -> None:
    """Watch three agents work, on a daemon of their own; no model and no key needed.

    With --slips they make mistakes, the same ones for the same --seed: watch what is mended, what
    goes back with a correction, and that the work gets done. The log is kept: its place is printed
    at the end.
    """
    out = session.output()
    out.json = False
    var = Path(tempfile.mkdtemp(prefix="ksi-demo-"))
    began = time.monotonic()
    with _daemon(var) as client:
        _say(out, f"a daemon with its own log, ready after {time.monotonic() - began:.2f} s")
        for number, name in enumerate(TEAM):
            provider = _faulty(slips, seed + number)
            agent = client.request("agent:spawn", {"component": f"agents/{name}", **provider})
            _say(out, f"agent {out.paint(agent['agent_id'], 'cyan')} lives")
        out.lines(["", out.paint("The task, and the events as they happen", "bold")])
        story = _follow(client, out)
        out.lines(["", out.paint("What caused what", "bold"), *story.tree(out.paint, out.width)])
        if slips is not None:
            _tell_slips(story, out)
        _report(client, out)
    _farewell(out, var, story)


@contextmanager
def _daemon(var: Path) -> Iterator[BlockingClient]:
    """Run a daemon on *var* and yield a client of it; stop it in good order."""
    command = [sys.executable, "-m", "ksi_daemon", "--var", str(var), "--log-level", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = process.stdout.readline() if process.stdout else ""
        if not ready.startswith("ready "):
            raise KsiError("the daemon did not start", code="not_started")
        with BlockingClient(Path(ready.removeprefix("ready ").rstrip("\n"))) as client:
            yield client
    finally:
        process.terminate()
        process.wait(START_S)


def _follow(client: BlockingClient, out: Output) -> Story:
    """Give the planner its task and show the events until the work is over; return the story."""
    after = client.request("system:health")["last_seq"]
    sent = client.request("agent:send", {"agent_id": "planner", "message": TASK})
    line = LogLine(out.paint, out.width)
    deadline = time.monotonic() + STORY_S
    last: int | None = None
    for push in _pushes(client, after):
        event = push.event
        if event is not None and event.name not in UNINTERESTING:
            out.lines([line.event(event)])
        if event is not None and event.name == LAST_EVENT:
            last = event.seq
        if push.seq == last and (push.outcome or (event and event.status != "received")):
            break
        if time.monotonic() > deadline:
            raise KsiError(f"no result within {STORY_S:g} s", code="timeout")
    found = client.ask("monitor:tree", {"event_id": sent["request_id"]}).read(Found)
    return Story(found.correlation_id, found.events)


def _pushes(client: BlockingClient, after: int) -> Iterator[Push]:
    """Yield what happens until all agents rest: one that makes too many mistakes gives up."""
    while True:
        for push in client.stream(["*"], after_seq=after, include=["outcomes"], idle_s=GLANCE_S):
            after = max(after, push.seq)
            yield push
        if not any(agent["state"] == "running" for agent in client.request("agent:list")["agents"]):
            return


def _faulty(rate: float | None, seed: int) -> dict[str, Any]:
    """Return the field of a spawn that puts the faulty provider before the agent's own."""
    if rate is None:
        return {}
    return {"provider": {"type": "faulty", "slips": rate, "seed": seed}}


def _tell_slips(story: Story, out: Output) -> None:
    out.lines(["", out.paint("The mistakes, and what came of them", "bold")])
    out.lines(slips_table(story.events, out.paint, out.width))


def _report(client: BlockingClient, out: Output) -> None:
    group_by = ["agent", "dialect"]
    rows: list[dict[str, Any]] = client.request("monitor:reliability", {"group_by": group_by})[
        "rows"
    ]
    out.lines(["", out.paint("How reliable each agent was, by the way it wrote its calls", "bold")])
    out.lines(rates(group_by, rows, out.paint, out.width))
    out.lines(
        [
            "",
            f"{_counted(_sum(rows, 'rejected'), 'block')} could not be read and went back with a "
            f"correction, {_sum(rows, 'corrected')} of these put right;",
            f"{_counted(_sum(rows, 'quoted'), 'call')} only quoted from the draft did not fire.",
        ]
    )


def _farewell(out: Output, var: Path, story: Story) -> None:
    rejected = next((each.seq for each in story.events if each.status == "rejected"), 1)
    out.lines(
        [
            "",
            f"The daemon has stopped. Its log stays: {visible(str(var / 'events.db'))}",
            "To look into it:",
            f"  ksi up -d --var {var}",
            f"  ksi why {rejected} --var {var}",
            f"  ksi down --var {var}",
        ]
    )


def _say(out: Output, text: str) -> None:
    out.lines([f"{out.paint('•', 'green')} {text}"])


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
