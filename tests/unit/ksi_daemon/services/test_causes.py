from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon import errors
from ksi_daemon.errors import KsiError
from ksi_daemon.services.causes import CHECKS
from ksi_daemon.testing import Peer, connected, running_daemon

QUOTED = '{"event": "agent:status", "data": {"status": "as in the prompt"}}'
REPLIES = [
    'On it.\n{"event": "agent:status", "data": {"status": "ready"}}\n'
    '{"event": "state:set", "data": {"key": "k"}}\n'
    '{"event": "no:such", "data": {}}\n'
    '{"event": "system:shutdown", "data": {}}\n'
    f"{QUOTED}\n"
    '{"event": "state:set", "data": {"key":',
    "Done.",
]
READ = ["read", "meant", "reply"]
TAKEN = [*READ, "story", "known", "permitted", "data"]


@asynccontextmanager
async def told(var: Path) -> AsyncIterator[Peer]:
    """A daemon whose log holds the story of an agent that got most things wrong."""
    async with running_daemon(var) as socket, connected(socket) as peer:
        agent = {
            "agent_id": "ada",
            "system": f"Speak, like {QUOTED}",
            "provider": {"type": "scripted", "replies": REPLIES},
            "allow": ["state:*"],
        }
        await peer.ask("agent:spawn", agent)
        await peer.ask("agent:send", {"agent_id": "ada", "message": "Go.", "wait": True})
        yield peer


async def find(peer: Peer, **wanted: Any) -> dict[str, Any]:
    found = (await peer.ask("monitor:get_events", wanted))["events"]
    return dict(found[0])


async def test_a_story_is_found_by_any_of_its_events(var: Path) -> None:
    async with told(var) as peer:
        sent = await find(peer, patterns=["agent:send"])
        story = await peer.ask("monitor:tree", {"correlation_id": sent["correlation_id"]})
        assert {event["event"] for event in story["events"]} >= {"agent:send", "no:such"}
        for event in story["events"]:
            assert await peer.ask("monitor:tree", {"seq": event["seq"]}) == story
            assert await peer.ask("monitor:tree", {"event_id": event["id"]}) == story


@pytest.mark.parametrize(
    ("wanted", "passed", "failed"),
    [
        pytest.param({"patterns": ["agent:status"]}, TAKEN, [], id="a call that was handled"),
        pytest.param({"patterns": ["agent:send"]}, TAKEN[3:], [], id="of a client"),
        pytest.param({"patterns": ["state:set"]}, TAKEN[:-1], ["data"], id="data that do not fit"),
        pytest.param({"patterns": ["no:such"]}, TAKEN[:4], ["known"], id="unknown"),
        pytest.param({"patterns": ["system:shutdown"]}, TAKEN[:5], ["permitted"], id="denied"),
        pytest.param(
            {"patterns": ["extraction:rejected"], "reverse": True}, [], ["read"], id="not readable"
        ),
        pytest.param({"patterns": ["extraction:rejected"]}, ["read"], ["meant"], id="quoted"),
        pytest.param({"patterns": ["completion:result"]}, [], [], id="a notice of the daemon"),
    ],
)
async def test_why_tells_the_checks_in_their_order(
    var: Path, wanted: dict[str, Any], passed: list[str], failed: list[str]
) -> None:
    async with told(var) as peer:
        event = await find(peer, **wanted)
        why = await peer.ask("monitor:why", {"seq": event["seq"]})
    assert why["checks"] == [
        *({"check": name, "passed": True} for name in passed),
        *({"check": name, "passed": False} for name in failed),
    ]


def test_each_code_of_a_refusal_has_its_check() -> None:
    """Whoever adds a code to the tree of errors says at which check it ends an event."""
    tree = (errors.__doc__ or "").partition("InvalidData")[2].partition("HandlerFailed")[0]
    codes = set(re.findall(r"[a-z]+_[a-z_]+|denied|tainted", tree))
    in_handlers = {"spawn_limit"}
    assert codes - in_handlers <= {code for check in CHECKS for code in check.codes}
    assert {"args_schema", "approval_required"} < codes


async def test_why_tells_causes_effects_handler_and_result(var: Path) -> None:
    async with told(var) as peer:
        status = await find(peer, patterns=["agent:status"])
        reply = await find(peer, patterns=["completion:result"])
        of_status = await peer.ask("monitor:why", {"event_id": status["id"]})
        of_reply = await peer.ask("monitor:why", {"seq": reply["seq"]})
    assert of_status["event"] == status
    assert [each["event"] for each in of_status["causes"]] == ["agent:send", "completion:result"]
    assert (of_status["effects"], of_status["result"]) == ([], None)
    assert of_status["lost_cause"] is None
    assert of_status["handler"]["effect"] == "write"
    assert status["id"] in [each["id"] for each in of_reply["effects"]]
    assert of_reply["handler"]["kind"] == "notice"


async def test_why_a_call_went_wrong_and_what_was_said_and_done(var: Path) -> None:
    async with told(var) as peer:
        unknown = await find(peer, patterns=["no:such"])
        good = await find(peer, patterns=["agent:status"])
        asked = {"attempt": unknown["seq"], "event": "system:mark", "data": {"label": "x"}}
        fixed = await peer.ask("monitor:retry_attempt", asked)
        of_unknown = await peer.ask("monitor:why", {"seq": unknown["seq"]})
        of_fixed = await peer.ask("monitor:why", {"seq": fixed["seq"]})
        of_good = await peer.ask("monitor:why", {"seq": good["seq"]})
    assert of_unknown["state"] == "resolved"
    assert of_unknown["correction"].startswith("Error unknown_tool: no handler for event 'no:such'")
    assert (of_fixed["state"], of_fixed["fixes"]) == (None, unknown["seq"])
    assert (of_good["state"], of_good["correction"], of_good["fixes"]) == (None, None, None)


async def test_why_after_a_restart_is_the_same(var: Path) -> None:
    async with told(var) as peer:
        event = await find(peer, patterns=["agent:status"])
        before = await peer.ask("monitor:why", {"seq": event["seq"]})
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("monitor:why", {"seq": event["seq"]}) == before


@pytest.mark.parametrize(
    ("asked", "code", "message", "hint"),
    [
        pytest.param({}, "args_schema", "say which: event_id, seq", None, id="none"),
        pytest.param(
            {"seq": 99}, "not_found", "no event '99'", "the log has #1 to #1", id="to come"
        ),
        pytest.param({"seq": 0}, "not_found", "no event '0'", "the log has #1 to #1", id="zero"),
        pytest.param({"event_id": "x"}, "not_found", "no event 'x'", None, id="event"),
        pytest.param(
            {"seq": 2**63},
            "args_schema",
            "Expected `int` <= 9223372036854775807 - at `$.seq`",
            None,
            id="S14 more than 64 bits",
        ),
    ],
)
@pytest.mark.parametrize("event", ["monitor:why", "monitor:tree"])
async def test_an_event_that_is_not_there(
    var: Path, event: str, asked: dict[str, Any], code: str, message: str, hint: str | None
) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError) as caught:
            await peer.ask(event, asked)
    if event == "monitor:tree" and not asked:
        message = "say which: correlation_id, event_id, seq"
    assert (caught.value.code, caught.value.message, caught.value.hint) == (code, message, hint)


async def test_a_story_that_is_not_there(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="no story 'x'"):
            await peer.ask("monitor:tree", {"correlation_id": "x"})


async def test_what_retention_deleted_is_told_from_what_never_was(var: Path) -> None:
    async with told(var) as peer:
        status = await find(peer, patterns=["agent:status"])
        reply = await find(peer, patterns=["completion:result"])
    with closing(sqlite3.connect(var / "events.db")) as log, log:
        log.execute(
            "UPDATE anchor SET (seq, hash) = (SELECT seq, hash FROM events WHERE seq = ?)",
            (reply["seq"],),
        )
        log.execute("DELETE FROM events WHERE seq <= ?", (reply["seq"],))
        log.execute("DELETE FROM outcomes WHERE at < ?", (reply["seq"],))
    async with running_daemon(var) as socket, connected(socket) as peer:
        why = await peer.ask("monitor:why", {"seq": status["seq"]})
        assert (why["causes"], why["lost_cause"]) == ([], reply["id"])
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:why", {"seq": reply["seq"]})
    error = caught.value
    assert (error.code, error.message) == (
        "pruned",
        f"event #{reply['seq']} is no longer in the log",
    )
    assert error.hint == f"retention deleted it with all before #{reply['seq'] + 1}"
