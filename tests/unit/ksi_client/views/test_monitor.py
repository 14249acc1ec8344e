from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint, width
from ksi_client.views.monitor import screen
from ksi_client.watching import Polled, Watch
from ksi_client.wire import Push
from ksi_daemon.events import CallRef, ErrorInfo, Event

pytestmark = pytest.mark.usefixtures("utc")

PLAIN = Paint(False)
BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NOW = BEGIN + timedelta(seconds=30)
SECRET = "what the agent wrote"
HEALTH = {
    "uptime_s": 180.0,
    "pid": 42,
    "handlers_running": 1,
    "last_seq": 5,
    "connections": 3,
    "subscriptions": 1,
    "writer": {"depth": 2},
}
ROW = {"model": "m", "dialect": "event", "seen": 8, "completions": 8, "rate": 0.75, "low": 0.41,
       "high": 0.93, "p50_ms": 1200.0, "tokens": 12_345}  # fmt: skip


def event(seq: int, name: str, data: Any = None, **fields: Any) -> Push:
    given = {"source": "client:0/1", "status": "handled", "correlation_id": "s"}
    made = Event(
        seq=seq,
        id=f"e{seq}",
        ts=BEGIN + timedelta(seconds=seq),
        name=name,
        data=msgspec.Raw(msgspec.json.encode(data or {})),
        **{**given, **fields},
    )
    return Push(seq, made)


def watch(agents: int = 2, words: str = SECRET) -> Watch:
    watched = Watch(BEGIN)
    listed = [
        {
            "agent_id": f"a{n}",
            "state": "running" if n == 0 else "idle",
            "model": "m",
            "status": words,
        }
        for n in range(agents)
    ]
    watched.poll(
        Polled(
            health=HEALTH,
            agents=listed,
            running=[{"agent_id": "a0", "turn": 2}],
            answered_ms=0.5,
            models=[ROW],
            tokens={"a0": 1_500},
            spawned={"a0": BEGIN},
        )
    )
    reply = {"text": words, "latency_ms": 12, "usage": {"output_tokens": 7}}
    error = ErrorInfo("args_schema", words)
    for push in (
        event(1, "agent:send", {"message": words}, duration_ms=2.0),
        event(2, "completion:result", reply, agent_id="a0"),
        event(3, "state:set", {"v": words}, agent_id="a1", status="rejected", error=error),
        event(4, "state:set", agent_id="a0", status="received", call=CallRef("k", "event", 0, 1)),
    ):
        watched.take(push, NOW)
    return watched


def test_a_small_terminal() -> None:
    assert screen(watch(), NOW, PLAIN, 80, 18, text=False) == [
        "ksi  ● up  3m, pid 42  0.0 events/s  answers in 500 µs                  12:00:30",
        "to write 2  handlers 1  to see 1  lag 26.0 s  clients 3  subscribers 1  log #5",
        "─ agents  2, 1 at work ─────────────────────────────────────────────────────────",
        "● a0   state:set 26s              1.5k tok   30s old   26s  state:set",
        "○ a1   -                             0 tok             27s  state:set",
        "━ events " + "━" * 71,
        "     #1 12:00:01 ✓ agent:send              client:0/1      2.0 ms",
        "     #2 12:00:02 ✓ completion:result       a0              12 ms, 7 tokens",
        "     #3 12:00:03 ✗ state:set               a1              args_schema",
        "     #4 12:00:04 … state:set               a0              since 26s",
        "",
        "",
        "",
        "",
        "─ models  one way to write calls " + "─" * 47,
        "model  dialect  calls  came to good     95 %     p50  tokens",
        "m      event        8  ████████░░  75%  41-93  1.2 s   12.3k",
        "q quit  p pause  / filter  ! problems  tab pane  ? help",
    ]


def test_a_wide_terminal_has_the_events_beside_the_rest() -> None:
    lines = screen(watch(), NOW, PLAIN, 200, 30, text=False)
    assert "agents" in lines[2]
    assert "events" in lines[2]
    assert any(line.startswith("─ models") for line in lines)


def test_what_agents_wrote_is_shown_when_it_is_asked_for() -> None:
    hidden = "\n".join(screen(watch(), NOW, PLAIN, 200, 50, text=False))
    shown = "\n".join(screen(watch(), NOW, PLAIN, 200, 50, text=True))
    assert SECRET not in hidden
    assert shown.count(SECRET) >= 3


@pytest.mark.parametrize("cells", [20, 40, 80, 139, 140, 200])
@pytest.mark.parametrize("rows", [4, 10, 24, 50])
@pytest.mark.parametrize("pane", ["agents", "events", "models"])
@pytest.mark.parametrize("state", ["usual", "help", "typing", "gone", "paused", "empty", "evil"])
def test_it_fits_every_terminal(cells: int, rows: int, pane: str, state: str) -> None:
    evil = "\x1b]0;x\x07\u202e\n" * 9
    watched = Watch(BEGIN) if state == "empty" else watch(30, evil if state == "evil" else SECRET)
    watched.pane = pane
    for key in {"help": "?", "typing": "/x", "paused": "p!"}.get(state, ""):
        watched.press(key)
    if state == "gone":
        watched.gone(evil)
    for text, paint in itertools.product((True, False), (PLAIN, Paint(True))):
        lines = screen(watched, NOW, paint, cells, rows, text=text)
        assert len(lines) == rows
        if not paint.enabled:
            assert max(map(width, lines)) <= cells
            assert all(line.isprintable() for line in lines)


def test_the_pane_that_is_looked_at_gets_the_room() -> None:
    watched = watch(30)
    for pane in ("agents", "events"):
        watched.pane = pane
        lines = screen(watched, NOW, PLAIN, 80, 24, text=False)
        shown = [line for line in lines if line.startswith(("● a", "○ a"))]
        assert len(shown) == (12 if pane == "agents" else 4)


def test_a_list_is_scrolled() -> None:
    watched = watch(30)
    watched.pane = "agents"
    watched.press("pgdn")
    lines = screen(watched, NOW, PLAIN, 80, 24, text=False)
    assert lines[2].startswith("━ agents  30, 1 at work, from the 11. ")
    assert lines[3].startswith("○ a18 ")


def test_a_daemon_that_is_gone() -> None:
    watched = watch()
    watched.gone("no daemon at 'x'")
    title = screen(watched, NOW, PLAIN, 80, 24, text=False)[0]
    assert title.startswith("ksi  ● gone  waiting for it to come back: no daemon at 'x'")
