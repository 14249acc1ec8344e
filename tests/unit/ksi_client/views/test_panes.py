from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint
from ksi_client.views.panes import Look, Part, agents_pane, events_pane, joined, models_pane, span
from ksi_client.watching import Polled, Watch
from ksi_client.wire import Ending, Push
from ksi_daemon.events import ErrorInfo, Event

pytestmark = pytest.mark.usefixtures("utc")

PLAIN = Paint(False)
BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LOOK = Look(BEGIN + timedelta(seconds=90), PLAIN, 80, False)


def event(seq: int, name: str = "a:b", data: Any = None, **fields: Any) -> Push:
    given = {"source": "client:0", "status": "handled", "correlation_id": "s"}
    raw = msgspec.Raw(msgspec.json.encode(data or {}))
    return Push(seq, Event(seq=seq, id=f"e{seq}", ts=BEGIN, name=name, data=raw, **given | fields))


def watch(*pushes: Push, **polled: Any) -> Watch:
    watched = Watch(BEGIN)
    given = {"health": {}, "agents": [], "running": [], "answered_ms": 1.0}
    watched.poll(Polled(**given | polled))
    for push in pushes:
        watched.take(push, BEGIN)
    return watched


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0s"), (59.4, "59s"), (60, "1m"), (3_600, "1h"), (90_000, "1d"), (864_000, "10d")],
)
def test_a_time(seconds: float, told: str) -> None:
    assert span(seconds) == told


@pytest.mark.parametrize(
    ("cells", "line"),
    [(20, "one  two  three"), (12, "one  two"), (7, "one  t…"), (4, "one"), (1, ""), (0, "")],
)
def test_parts_in_a_line(cells: int, line: str) -> None:
    assert joined([Part("one"), Part(""), Part("two"), Part("three")], PLAIN, cells).startswith(
        line[:-1]
    )
    assert len(joined([Part("one"), Part("two")], PLAIN, cells)) <= max(cells, 0)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        pytest.param({"duration_ms": 2.0}, "2.0 ms", id="handled"),
        pytest.param({}, "", id="a notice"),
        pytest.param({"status": "received"}, "since 1m", id="under way"),
        pytest.param(
            {"status": "denied", "error": ErrorInfo("denied", "x")}, "denied", id="once is enough"
        ),
        pytest.param(
            {"status": "failed", "error": ErrorInfo("odd", "secret")}, "odd", id="the code"
        ),
        pytest.param({"status": "lost"}, "lost", id="without an error"),
        pytest.param(
            {"name": "completion:result", "data": {"text": "secret", "latency_ms": 5}},
            "5.0 ms, 0 tokens",
            id="a reply tells what it cost",
        ),
    ],
)
def test_how_an_event_ended(fields: dict[str, Any], end: str) -> None:
    [line] = events_pane(watch(event(1, **fields)), LOOK, 5).lines
    assert line.rstrip().endswith(end)
    assert "secret" not in line


def test_the_newest_events_are_shown() -> None:
    watched = watch(*(event(n) for n in range(1, 9)))
    assert [line.split()[0] for line in events_pane(watched, LOOK, 3).lines] == ["#6", "#7", "#8"]
    watched.press("up")
    pane = events_pane(watched, LOOK, 3)
    assert [line.split()[0] for line in pane.lines] == ["#5", "#6", "#7"]
    assert pane.title == "1 newer below"


def test_what_stands_in_the_title_of_events() -> None:
    watched = watch(event(1))
    for key in ("/", "x", "enter", "!", "p"):
        watched.press(key)
    title = "filter x, only what went wrong, standing still"
    assert events_pane(watched, LOOK, 3).title == title


@pytest.mark.parametrize(
    ("said", "text", "doing"),
    [("busy", True, "busy"), ("busy", False, "-"), ("", True, "-")],
)
def test_an_agent_says_something_if_that_is_asked_for(said: str, text: bool, doing: str) -> None:
    agent = {"agent_id": "ada", "state": "idle", "status": said}
    [line] = agents_pane(watch(agents=[agent]), LOOK._replace(text=text), 5).lines
    assert line.split()[:3] == ["○", "ada", doing]


def test_an_agent_at_work() -> None:
    agent = {"agent_id": "ada", "state": "running", "model": "m"}
    watched = watch(agents=[agent], running=[{"agent_id": "ada", "turn": 3}])
    [line] = agents_pane(watched, LOOK, 5).lines
    assert line.startswith("● ada   asks m, turn 3 ")
    watched.take(event(1, status="failed"), BEGIN)
    watched.take(Push(1, outcome=Ending("failed")), BEGIN)  # of nobody's call


def test_nothing_yet() -> None:
    assert agents_pane(watch(), LOOK, 5).title == "none; ksi spawn brings one to life"
    assert models_pane(watch(models=[{"model": "m", "seen": 0}]), LOOK, 5).title == "no replies yet"
    assert events_pane(watch(), LOOK, 5) == ("", [])


def test_a_model_without_a_rate() -> None:
    row = {"model": "m", "dialect": None, "completions": 2, "rate": None, "tokens": 2_000_000}
    [_, line] = models_pane(watch(models=[row]), LOOK, 5).lines
    assert line.split() == ["m", "-", "0", "-", "-", "-", "2.0M"]
