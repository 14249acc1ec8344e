from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon

AGENT = {
    "agent_id": "ada",
    "system": "Speak.",
    "provider": {
        "type": "scripted",
        "replies": [
            'On it.\n{"event": "agent:status", "data": {"status": "ready"}}\n'
            '{"event": "state:set", "data": {"key": "k"}}\n'
            '{"event": "no:such", "data": {}}',
            "Done.",
        ],
    },
    "allow": ["state:*"],
}


@asynccontextmanager
async def marked(var: Path, marks: int) -> AsyncIterator[Peer]:
    """A daemon whose log holds *marks* markers with seqs from 2 on."""
    async with running_daemon(var) as socket, connected(socket) as peer:
        for number in range(marks):
            await peer.ask("system:mark", {"label": str(number)})
        yield peer


@asynccontextmanager
async def told(var: Path) -> AsyncIterator[Peer]:
    """A daemon whose log holds the story of an agent that answered."""
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("agent:spawn", AGENT)
        await peer.ask("agent:send", {"agent_id": "ada", "message": "Go.", "wait": True})
        yield peer


@pytest.mark.parametrize(
    ("asked", "seqs", "next_after"),
    [
        pytest.param({}, [1, 2, 3, 4, 5, 6], 6, id="all"),
        pytest.param({"after_seq": 4}, [5, 6], 6, id="after"),
        pytest.param({"before_seq": 3}, [1, 2], 6, id="before"),
        pytest.param({"after_seq": 2, "before_seq": 5}, [3, 4], 6, id="between"),
        pytest.param({"limit": 2}, [1, 2], 2, id="a page"),
        pytest.param({"limit": 2, "after_seq": 2}, [3, 4], 4, id="the next page"),
        pytest.param({"limit": 2, "after_seq": 6}, [], 6, id="beyond the last page"),
        pytest.param({"limit": 2, "reverse": True}, [6, 5], 6, id="the newest first"),
        pytest.param({"reverse": True, "before_seq": 3}, [2, 1], 2, id="backwards"),
        pytest.param({"patterns": ["system:mark"]}, [2, 3, 4, 5, 6], 6, id="by name"),
        pytest.param({"patterns": ["system:s*"]}, [1], 6, id="by pattern"),
        pytest.param({"patterns": ["a:b", "*:mark"], "limit": 1}, [2], 2, id="by several"),
        pytest.param({"patterns": ["zzz:*"]}, [], 6, id="nothing, but it was looked through"),
        pytest.param({"status": "failed"}, [], 6, id="by status"),
        pytest.param({"agent_id": "ada"}, [], 6, id="by agent"),
    ],
)
async def test_get_events(
    var: Path, asked: dict[str, Any], seqs: list[int], next_after: int
) -> None:
    async with marked(var, 5) as peer:
        found = await peer.ask("monitor:get_events", asked)
    assert [event["seq"] for event in found["events"]] == seqs
    assert (found["next_after_seq"], found["last_seq"]) == (next_after, 6)


async def test_an_event_tells_how_it_ended(var: Path) -> None:
    async with marked(var, 1) as peer:
        await peer.request("agent:cancel", {"agent_id": "ada"}, correlation_id="story")
        [event] = (await peer.ask("monitor:get_events", {"correlation_id": "story"}))["events"]
    assert event.pop("duration_ms") >= 0
    assert event.pop("ts").endswith("Z")
    source = event.pop("source")
    assert source.startswith("client:")
    assert event == {
        "seq": 3,
        "id": event["id"],
        "event": "agent:cancel",
        "data": {"agent_id": "ada"},
        "correlation_id": "story",
        "cause_id": None,
        "status": "failed",
        "error": {"code": "not_found", "message": "no agent 'ada'", "retryable": False},
    }


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param({"limit": 0}, "Expected `int` >= 1 - at `$.limit`", id="no limit"),
        pytest.param({"limit": 10_001}, "Expected `int` <= 10000 - at `$.limit`", id="too many"),
        pytest.param({"after_seq": -1}, "Expected `int` >= 0 - at `$.after_seq`", id="negative"),
        pytest.param(
            {"after_seq": 2**63},
            "Expected `int` <= 9223372036854775807 - at `$.after_seq`",
            id="S14 more than 64 bits",
        ),
        pytest.param(
            {"patterns": "a:*"}, "Expected `array`, got `str` - at `$.patterns`", id="text"
        ),
        pytest.param({"status": "odd"}, "Invalid enum value 'odd' - at `$.status`", id="status"),
    ],
)
async def test_what_cannot_be_asked(var: Path, asked: dict[str, Any], message: str) -> None:
    async with marked(var, 0) as peer:
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:get_events", asked)
    assert (caught.value.code, caught.value.message) == ("args_schema", message)


async def test_reliability_counts_what_became_of_each_call(var: Path) -> None:
    async with told(var) as peer:
        found = await peer.ask("monitor:reliability", {"group_by": ["agent", "dialect"]})
    counts = (
        "completions",
        "seen",
        "strict",
        "rejected",
        "invalid",
        "unknown",
        "handled",
        "denied",
    )
    assert found["group_by"] == ["agent", "dialect"]
    assert [
        {key: row[key] for key in ("agent", "dialect", *counts)}
        for row in found["rows"]
        if row["dialect"]
    ] == [
        {
            "agent": "ada",
            "dialect": "event",
            "completions": 1,
            "seen": 3,
            "strict": 3,
            "rejected": 0,
            "invalid": 1,
            "unknown": 1,
            "handled": 1,
            "denied": 0,
        }
    ]


async def test_reliability_by_a_full_scan_is_the_same(var: Path) -> None:
    async with told(var) as peer:
        for group_by in (["agent", "dialect"], ["tool"], ["size"], ["hour", "model"]):
            asked = {"group_by": group_by}
            rolled = await peer.ask("monitor:reliability", asked)
            assert rolled == await peer.ask("monitor:reliability", {**asked, "exact": True})
            assert sum(row["seen"] for row in rolled["rows"]) == 3


async def test_reliability_says_more_when_asked(var: Path) -> None:
    asked = {"include": ["recommendations", "migration"]}
    async with told(var) as peer:
        found = await peer.ask("monitor:reliability", asked)
        plain = await peer.ask("monitor:reliability")
    assert "recommendations" not in plain
    assert "migration" not in plain
    [recommended] = found["recommendations"]
    assert (recommended["model"], recommended["verdict"]) == ("scripted", "single")
    assert [phase["verdict"] for phase in found["migration"]["phases"]] == [
        "safe",
        "too few calls",
        "not yet",
    ]
    assert found["migration"]["phases"][2]["agents"][0]["agent"] == "ada"


@pytest.mark.parametrize(
    ("span", "rows"),
    [
        pytest.param({"since": 0}, True, id="since 1970"),
        pytest.param({"since": "2020-01-01T00:00:00Z"}, True, id="text"),
        pytest.param({"since": "2020-01-01T00:00:00+02:00"}, True, id="another zone"),
        pytest.param({"until": "2020-01-01T00:00:00Z"}, False, id="until then"),
        pytest.param({"since": 4102444800.5}, False, id="since 2100"),
    ],
)
async def test_reliability_of_a_time(var: Path, span: dict[str, Any], rows: bool) -> None:
    async with told(var) as peer:
        assert bool((await peer.ask("monitor:reliability", span))["rows"]) is rows


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("yesterday", id="words"),
        pytest.param("2026-01-31T12:00:00", id="no zone: it would mean another time elsewhere"),
        pytest.param(1e300, id="beyond the calendar"),
        pytest.param(-1e15, id="before it"),
    ],
)
async def test_what_is_no_time(var: Path, moment: Any) -> None:
    async with marked(var, 0) as peer:
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:reliability", {"since": moment})
    assert caught.value.message == f"{moment!r} is no time"
    assert caught.value.hint == "seconds since 1970, or 2026-01-31T12:00:00Z"
    assert (caught.value.code, caught.value.details) == ("args_schema", {"path": "since"})


async def test_stats_count_what_the_log_holds(var: Path) -> None:
    async with marked(var, 2) as peer:
        stats = await peer.ask("monitor:get_stats")
    assert stats["events"] == {"system:started": {"handled": 1}, "system:mark": {"handled": 2}}
    assert (stats["rows"]["events"], stats["last_seq"]) == (3, 3)
    assert stats["bytes"] > 0


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"grep": "READY"}, {"agent:status": "data"}, id="data, in any case"),
        pytest.param({"grep": '"no handler"'}, {"no:such": "error"}, id="an error"),
        pytest.param(
            {"grep": "finish_reason", "patterns": ["agent:send"]},
            {"agent:send": "result"},
            id="a result",
        ),
        pytest.param({"grep": "ready", "status": "failed"}, {}, id="with another filter"),
        pytest.param({"grep": "nowhere"}, {}, id="nowhere"),
    ],
)
async def test_words_are_looked_for(
    var: Path, asked: dict[str, Any], found: dict[str, str]
) -> None:
    async with told(var) as peer:
        patterns = {"patterns": ["agent:status", "state:*", "no:*"]}
        page = await peer.ask("monitor:get_events", patterns | asked)
    names = {event["seq"]: event["event"] for event in page["events"]}
    assert {names[match["seq"]]: match["part"] for match in page["matches"]} == found
    assert len(names) == len(found)
    for match in page["matches"]:
        word = asked["grep"].strip('"').lower()
        assert match["text"][match["start"] : match["end"]].lower() == word


@pytest.mark.parametrize("grep", ["", '" "', "a " * 8 + " ".join("bcdefghijklmnopqr")])
async def test_words_that_cannot_be_looked_for(var: Path, grep: str) -> None:
    async with marked(var, 0) as peer:
        with pytest.raises(KsiError, match=r"grep has \d+ words") as caught:
            await peer.ask("monitor:get_events", {"grep": grep})
    assert caught.value.code == "args_schema"
