from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ksi_client.watching import KEPT, Polled, Watch
from ksi_client.wire import Ending, Push
from ksi_daemon.events import CallRef, ErrorInfo, Event

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def push(seq: int, name: str = "a:b", **fields: Any) -> Push:
    given = {"source": "client:0", "status": "handled", "correlation_id": "s", "ts": at(seq)}
    event = Event(seq=seq, id=f"e{seq}", name=name, data=msgspec.Raw(b"{}"), **{**given, **fields})
    return Push(seq, event)


def call(seq: int, agent_id: str, name: str = "state:set") -> Push:
    return push(seq, name, agent_id=agent_id, status="received", call=CallRef("k", "event", 0, 1))


def ended(seq: int, status: Any = "handled", code: str | None = None) -> Push:
    return Push(seq, outcome=Ending(status, None, ErrorInfo(code, "no") if code else None, 2.0))


def polled(*agents: dict[str, Any], **fields: Any) -> Polled:
    given = {"health": {"last_seq": 9}, "agents": agents, "running": (), "answered_ms": 1.0}
    return Polled(**{**given, **fields})


def agent(agent_id: str, state: str = "idle") -> dict[str, Any]:
    return {"agent_id": agent_id, "state": state, "model": "m", "provider": "scripted"}


def watch(*pushes: Push, filter_text: str = "") -> Watch:
    watched = Watch(BEGIN, filter_text)
    for each in pushes:
        watched.take(each, at(each.seq + 0.5))
    return watched


def seqs(watched: Watch) -> list[int]:
    return [entry.event.seq for entry in watched.events()]


def test_events_come_with_their_ends() -> None:
    watched = watch(push(1), push(2, status="received"), ended(2, "failed", "odd"), ended(7))
    one, two = watched.events()
    assert (one.status, two.status, two.code, two.duration_ms) == ("handled", "failed", "odd", 2.0)
    assert (one.wrong, two.wrong) == (False, True)


def test_the_announcement_of_a_call_is_no_line_of_its_own() -> None:
    watched = watch(push(1), push(2, "extraction:call"))
    watched.poll(polled(health={"last_seq": 2}))
    assert (seqs(watched), watched.behind) == ([1], 0)


def test_only_the_last_events_are_kept() -> None:
    watched = watch(*(push(n, status="received") for n in range(1, KEPT + 10)))
    assert (len(watched.events()), seqs(watched)[0]) == (KEPT, 10)
    watched.take(ended(1), at(0))  # of one that is not kept: nothing happens


def test_how_far_behind_and_how_late() -> None:
    watched = watch(push(1), push(4))
    watched.poll(polled())
    assert (watched.behind, watched.lag_ms) == (5, 500.0)
    assert watched.rate(at(5)) == pytest.approx(2 / 5)
    assert watched.rate(at(60)) == 0


def test_what_happened_before_says_nothing_about_lag() -> None:
    assert watch(push(1, ts=at(-60))).lag_ms is None


def test_an_agent_does_what_it_called_until_that_ends() -> None:
    watched = watch()
    watched.poll(polled(agent("ada", "running"), running=[{"agent_id": "ada", "turn": 2}]))
    watched.take(call(1, "ada"), at(1))
    [row] = watched.rows()
    assert (row.doing, row.since, row.turn, row.last) == ("state:set", at(1), 2, "state:set")
    watched.take(ended(1), at(2))
    assert (row.doing, row.since) == (None, None)


def test_what_an_agent_did_last_is_known_of_events_before_it_was_listed() -> None:
    watched = watch(push(1, "agent:status", agent_id="ada"))
    watched.poll(polled(agent("ada")))
    [row] = watched.rows()
    assert (row.last, row.last_at) == ("agent:status", at(1))


def test_figures_stay_until_there_are_others() -> None:
    watched = watch()
    figures = {"tokens": {"ada": 7}, "spawned": {"ada": BEGIN}, "models": [{"model": "m"}]}
    watched.poll(polled(agent("ada"), **figures))
    watched.poll(polled(agent("ada")))
    [row] = watched.rows()
    assert (row.tokens, row.spawned, watched.models) == (7, BEGIN, [{"model": "m"}])


def test_those_at_work_come_first_then_those_that_did_something_last() -> None:
    watched = watch()
    agents = (agent("a"), agent("b"), agent("c", "running"), agent("d"))
    watched.poll(polled(*agents))
    watched.take(push(1, agent_id="d"), at(1))
    assert [row.agent_id for row in watched.rows()] == ["c", "d", "a", "b"]
    watched.poll(polled(agent("d")))
    assert [row.agent_id for row in watched.rows()] == ["d"]


def test_a_daemon_that_is_gone_may_come_back() -> None:
    watched = watch()
    watched.gone("no daemon")
    assert watched.lost == "no daemon"
    watched.poll(polled())
    assert watched.lost is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", [1, 2, 3], id="none"),
        pytest.param("state", [2, 3], id="a part of a name"),
        pytest.param("state:*", [2, 3], id="a pattern"),
        pytest.param("ada", [2], id="an agent"),
        pytest.param("denied", [3], id="a code"),
        pytest.param("state bob", [3], id="all of them"),
        pytest.param("st*", [2, 3], id="a pattern is of the whole name"),
        pytest.param("zzz", [], id="nothing"),
    ],
)
def test_the_filter(text: str, found: list[int]) -> None:
    denied = {"status": "denied", "error": ErrorInfo("denied", "no")}
    pushes = [push(1), push(2, "state:set", agent_id="ada"),
              push(3, "state:get", agent_id="bob", **denied)]  # fmt: skip
    assert seqs(watch(*pushes, filter_text=text)) == found


def pressed(watched: Watch, *keys: str) -> Watch:
    for key in keys:
        watched.press(key)
    return watched


def test_a_filter_is_typed() -> None:
    watched = pressed(watch(push(1), push(2, "x:y")), "/", *"x:z", "backspace", "y")
    assert (watched.typed, watched.filter) == ("x:y", "")
    assert seqs(pressed(watched, "enter")) == [2]
    assert seqs(pressed(watched, "/", "q", "esc")) == [2]  # q is a letter here
    assert not watched.done
    assert seqs(pressed(watched, "c")) == [1, 2]


def test_only_problems() -> None:
    watched = watch(push(1), push(2, status="denied"), push(3, status="received"))
    assert seqs(pressed(watched, "!")) == [2]
    assert seqs(pressed(watched, "!")) == [1, 2, 3]


def test_a_pause_loses_nothing() -> None:
    watched = pressed(watch(push(1)), "p")
    watched.take(push(2), at(2))
    assert (seqs(watched), watched.paused) == ([1], True)
    assert (seqs(pressed(watched, " ")), watched.paused) == ([1, 2], False)


def test_panes_and_help_and_the_end() -> None:
    watched = watch()
    assert pressed(watched, "tab").pane == "models"
    assert pressed(watched, "tab").pane == "agents"
    assert pressed(watched, "backtab").pane == "models"
    assert pressed(watched, "?").helping
    assert not pressed(watched, "p").helping
    assert not watched.paused
    assert pressed(watched, "q").done


@pytest.mark.parametrize(
    ("pane", "keys", "offset"),
    [
        pytest.param("events", ["up", "up"], 2, id="up is back"),
        pytest.param("events", ["up", "down", "down"], 0, id="not beyond the newest"),
        pytest.param("events", ["g"], 19, id="to the oldest"),
        pytest.param("events", ["pgup", "G"], 0, id="to the newest"),
        pytest.param("agents", ["down"], 1, id="down a list"),
        pytest.param("agents", ["pgdn"], 2, id="not beyond its end"),
        pytest.param("agents", ["end", "home"], 0, id="and up again"),
        pytest.param("models", ["down"], 0, id="of nothing"),
    ],
)
def test_scrolling(pane: str, keys: list[str], offset: int) -> None:
    watched = watch(*(push(n) for n in range(1, 21)))
    watched.poll(polled(*(agent(name) for name in "abc")))
    watched.pane = pane
    assert pressed(watched, *keys).offsets[pane] == offset
