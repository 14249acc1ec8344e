from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon

QUOTED = '{"event": "agent:status", "data": {"status": "as in the prompt"}}'
BROKEN = '{"event": "state:set", "data": {"key": "draft", "value": "he said "hi"}}'
REPLY = (
    '{"event": "agent:status", "data": {"status": "ready"}}\n'
    '{"event": "state:set", "data": {"key": "k"}}\n'
    '{"event": "no:such", "data": {}}\n'
    '{"event": "system:shutdown", "data": {}}\n'
    '{"event": "agent:send", "data": {"agent_id": "nobody", "message": "hi"}}\n'
    f"{QUOTED}\n{BROKEN}"
)
KINDS = ["rejected", "failed", "denied", "unknown", "invalid"]


def agent(*replies: str) -> dict[str, Any]:
    return {
        "agent_id": "ada",
        "system": f"Speak, like {QUOTED}",
        "provider": {"type": "scripted", "replies": list(replies)},
        "allow": ["state:*", "agent:send"],
    }


@asynccontextmanager
async def told(var: Path, *replies: str) -> AsyncIterator[Peer]:
    """A daemon with an agent that wrote *replies*."""
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("agent:spawn", agent(*(replies or (REPLY, "Done."))))
        await peer.ask("agent:send", {"agent_id": "ada", "message": "Go.", "wait": True})
        yield peer


async def listed(peer: Peer, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await peer.ask("monitor:attempts", wanted))["attempts"]
    return found


async def one(peer: Peer, kind: str) -> dict[str, Any]:
    [found] = await listed(peer, kind=kind)
    return found


@pytest.mark.parametrize(
    ("kind", "code", "tool", "text", "correction"),
    [
        pytest.param(
            "rejected", "malformed_block", None, BROKEN, "your event block", id="not readable"
        ),
        pytest.param(
            "invalid",
            "args_schema",
            "state:set",
            '{"event": "state:set", "data": {"key": "k"}}',
            "Error args_schema: Object missing required field `value`",
            id="data that do not fit",
        ),
        pytest.param(
            "unknown",
            "unknown_event",
            "no:such",
            '{"event": "no:such", "data": {}}',
            "Error unknown_tool: no handler for event 'no:such'",
            id="no such event",
        ),
        pytest.param(
            "denied",
            "denied",
            "system:shutdown",
            '{"event": "system:shutdown", "data": {}}',
            "Error denied: agent:ada may not emit 'system:shutdown'",
            id="no such right",
        ),
        pytest.param(
            "failed",
            "not_found",
            "agent:send",
            '{"event": "agent:send", "data": {"agent_id": "nobody", "message": "hi"}}',
            "Error not_found: no agent 'nobody'",
            id="the handler said no",
        ),
        pytest.param(
            "held",
            "quoted",
            "agent:status",
            QUOTED,
            "Not run, quoted: your agent:status call is the example",
            id="maybe only quoted",
        ),
    ],
)
async def test_what_went_wrong_is_kept_with_its_text_its_reason_and_what_was_said_of_it(
    var: Path, kind: str, code: str, tool: str | None, text: str, correction: str
) -> None:
    async with told(var) as peer:
        found = await one(peer, kind)
        [whole] = await listed(peer, attempt=found["seq"])
    assert (found["code"], found["tool"], found["text"]) == (code, tool, text)
    assert (found["state"], found["agent_id"], found["model"]) == ("open", "ada", "scripted")
    assert correction in found["correction"]
    assert found["error"]["code"] == code
    assert whole["reply"][whole["start"] : whole["end"]] == text
    assert (whole["reply"], whole["fixes"]) == (REPLY, [])


async def test_the_newest_come_first_and_what_was_only_held_when_it_is_asked_for(
    var: Path,
) -> None:
    async with told(var) as peer:
        found = await listed(peer)
        assert [each["kind"] for each in found] == KINDS
        page = await listed(peer, limit=2, before_seq=found[1]["seq"])
        assert [each["kind"] for each in page] == KINDS[2:4]
        assert [each["kind"] for each in await listed(peer, code="quoted")] == ["held"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param({"agent_id": "ada"}, 5, id="the agent"),
        pytest.param({"agent_id": "bob"}, 0, id="another agent"),
        pytest.param({"model": "scripted"}, 5, id="the model"),
        pytest.param({"model": "other"}, 0, id="another model"),
        pytest.param({"code": "denied"}, 1, id="a code"),
        pytest.param({"state": "open"}, 5, id="a state"),
        pytest.param({"state": "resolved"}, 0, id="another state"),
        pytest.param({"since": 0}, 5, id="since"),
        pytest.param({"until": 0}, 0, id="until"),
    ],
)
async def test_they_are_chosen_by(var: Path, wanted: dict[str, Any], count: int) -> None:
    async with told(var) as peer:
        answer = await peer.ask("monitor:attempts", wanted)
    assert len(answer["attempts"]) == count
    # The counts are of all states, whichever are listed.
    assert answer["counts"]["open"] == (5 if "state" in wanted else count)


async def test_what_the_agent_makes_good_itself_is_resolved(var: Path) -> None:
    again = '{"event": "state:set", "data": {"key": "k", "value": 1}}'
    replies = ('{"event": "state:set", "data": {"key": "k"}}', again, "Done.")
    async with told(var, *replies) as peer:
        found = await one(peer, "invalid")
        assert (found["state"], found["corrected"]) == ("resolved", 1)
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:retry_attempt", {"attempt": found["seq"], "data": {}})
        assert caught.value.code == "already_corrected"
        forced = {"attempt": found["seq"], "data": {"key": "k", "value": 2}, "force": True}
        assert (await peer.ask("monitor:retry_attempt", forced))["status"] == "handled"


async def test_a_fix_is_the_operators_event_caused_by_the_attempt(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "rejected")
        data = {"key": "draft", "value": 'he said "hi"'}
        fixed = await peer.ask(
            "monitor:retry_attempt",
            {"attempt": found["seq"], "event": "state:set", "data": data},
        )
        assert (fixed["status"], fixed["result"]) == ("handled", {"version": 1})
        assert (fixed["attempt"], fixed["fixes"]) == (found["seq"], found["event_id"])
        assert (await peer.ask("state:get", {"key": "draft"}))["value"] == data["value"]
        why = await peer.ask("monitor:why", {"seq": fixed["seq"]})
        [whole] = await listed(peer, attempt=found["seq"])
        counts = (await peer.ask("monitor:attempts", {}))["counts"]
    assert why["event"]["source"].startswith("client:")
    assert [each["event"] for each in why["causes"]] == [
        "agent:send",
        "completion:result",
        "extraction:rejected",
    ]
    assert why["event"]["cause_id"] == found["event_id"]
    assert whole["state"] == "resolved"
    [fix] = whole["fixes"]
    assert (fix["kind"], fix["seq"], fix["status"]) == ("edited", fixed["seq"], "handled")
    assert (counts["open"], counts["resolved"], counts["fixes"]) == (4, 1, {"handled": 1})


async def test_what_an_agent_says_of_itself_is_said_of_it(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "held")
        asked = {"attempt": found["seq"], "data": {"status": "as in the prompt"}}
        assert (await peer.ask("monitor:retry_attempt", asked))["status"] == "handled"
        assert (await peer.ask("agent:info", {"agent_id": "ada"}))["status"] == "as in the prompt"


async def test_a_second_fix_is_refused_also_at_once_and_after_a_restart(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "invalid")
        asked = {"attempt": found["seq"], "data": {"key": "k", "value": 1}}
        ends = await asyncio.gather(
            *(fix_of_another_client(var, asked) for _ in range(8)), return_exceptions=True
        )
        done = [each for each in ends if isinstance(each, dict)]
        codes = {each.code for each in ends if isinstance(each, KsiError)}
        assert (len(done), codes) == (1, {"already_fixed"})
        assert (await peer.ask("state:get", {"key": "k"}))["version"] == 1
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:retry_attempt", asked)
        assert caught.value.code == "already_fixed"
        assert caught.value.details == {
            "seq": done[0]["seq"],
            "event_id": done[0]["event_id"],
            "status": "handled",
        }
        assert (await peer.ask("state:get", {"key": "k"}))["version"] == 1


async def fix_of_another_client(var: Path, asked: dict[str, Any]) -> Any:
    async with connected(var / "run" / "daemon.sock") as peer:
        return await peer.ask("monitor:retry_attempt", asked)


@pytest.mark.parametrize(
    ("event", "data", "status"),
    [
        pytest.param("state:set", {"key": "k"}, "rejected", id="data that do not fit"),
        pytest.param("no:such", {}, "unknown", id="no such event"),
        pytest.param("agent:info", {"agent_id": "nobody"}, "failed", id="the handler says no"),
    ],
)
async def test_a_fix_that_came_to_nothing_may_be_followed_by_another(
    var: Path, event: str, data: dict[str, Any], status: str
) -> None:
    async with told(var) as peer:
        found = await one(peer, "unknown")
        first = {"attempt": found["seq"], "event": event, "data": data}
        assert (await peer.ask("monitor:retry_attempt", first))["status"] == status
        assert (await one(peer, "unknown"))["state"] == "open"
        second = {"attempt": found["seq"], "event": "state:set", "data": {"key": "k", "value": 1}}
        assert (await peer.ask("monitor:retry_attempt", second))["status"] == "handled"
        [whole] = await listed(peer, attempt=found["seq"])
    assert [fix["status"] for fix in whole["fixes"]] == [status, "handled"]
    assert whole["state"] == "resolved"


async def test_a_fix_that_only_reads_is_kept_like_any_other(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "unknown")
        asked = {"attempt": found["seq"], "event": "state:get", "data": {"key": "k"}}
        fixed = await peer.ask("monitor:retry_attempt", asked)
        assert (fixed["status"], fixed["seq"] > found["seq"]) == ("handled", True)
        with pytest.raises(KsiError, match=f"was fixed by event #{fixed['seq']}"):
            await peer.ask("monitor:retry_attempt", asked)


async def test_what_was_denied_is_not_done_with_other_rights_by_the_way(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "denied")
        with pytest.raises(KsiError, match="'system:shutdown' would run with") as caught:
            await peer.ask("monitor:retry_attempt", {"attempt": found["seq"]})
        assert caught.value.code == "was_denied"
        assert (await one(peer, "denied"))["state"] == "open"
        forced = {"attempt": found["seq"], "force": True}
        assert (await peer.ask("monitor:retry_attempt", forced))["result"] == {"stopping": True}


async def test_attempts_outlive_their_agent_and_the_daemon(var: Path) -> None:
    async with told(var) as peer:
        before = await listed(peer)
        await peer.ask("agent:terminate", {"agent_id": "ada"})
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await listed(peer) == before
        found = await one(peer, "rejected")
        asked = {"attempt": found["seq"], "event": "system:mark", "data": {"label": "x"}}
        assert (await peer.ask("monitor:retry_attempt", asked))["status"] == "handled"


async def test_one_is_dismissed_and_may_be_fixed_all_the_same(var: Path) -> None:
    async with told(var) as peer:
        found = await one(peer, "denied")
        asked = {"attempt": found["seq"], "reason": "and rightly so"}
        await peer.ask("monitor:dismiss_attempt", asked)
        [whole] = await listed(peer, attempt=found["seq"])
        assert (whole["state"], whole["fixes"][0]["reason"]) == ("dismissed", "and rightly so")
        with pytest.raises(KsiError) as caught:
            await peer.ask("monitor:dismiss_attempt", asked)
        assert caught.value.code == "already_dismissed"
        again = {"attempt": found["seq"], "event": "system:mark", "data": {"label": "x"}}
        assert (await peer.ask("monitor:retry_attempt", again))["status"] == "handled"
        assert (await one(peer, "denied"))["state"] == "resolved"


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        pytest.param({"attempt": 99}, "not_found", "no attempt '99'", id="no such event"),
        pytest.param(
            {"attempt": 1}, "no_attempt", "event #1 is no call of an agent, so it is no attempt",
            id="no call",
        ),
        pytest.param(
            {"attempt": 0}, "args_schema", "Expected `int` >= 1 - at `$.attempt`", id="zero"
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "event", ["monitor:attempts", "monitor:retry_attempt", "monitor:dismiss_attempt"]
)
async def test_what_is_no_attempt(
    var: Path, event: str, asked: dict[str, Any], code: str, message: str
) -> None:
    async with told(var) as peer:
        with pytest.raises(KsiError) as caught:
            await peer.ask(event, asked)
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_a_call_that_came_to_good_is_nothing_to_be_fixed(var: Path) -> None:
    async with told(var) as peer:
        [status] = (await peer.ask("monitor:get_events", {"patterns": ["agent:status"]}))["events"]
        with pytest.raises(KsiError, match="is handled: nothing is wrong"):
            await peer.ask("monitor:retry_attempt", {"attempt": status["seq"]})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param({}, "became no event of its own: say event and data", id="as it was"),
        pytest.param({"data": {"key": "k"}}, "say which event", id="which event"),
        pytest.param({"event": "odd one", "data": {}}, "'odd one' is no event name", id="no name"),
    ],
)
async def test_a_block_that_could_not_be_read_needs_an_event(
    var: Path, more: dict[str, Any], message: str
) -> None:
    async with told(var) as peer:
        found = await one(peer, "rejected")
        with pytest.raises(KsiError, match=message):
            await peer.ask("monitor:retry_attempt", {"attempt": found["seq"], **more})
        assert (await one(peer, "rejected"))["state"] == "open"
