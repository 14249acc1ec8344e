from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon.component import Component
from ksi_daemon.conversation import Answer, Inbound, Session
from ksi_daemon.errors import StorageError
from ksi_daemon.events import EMPTY, ErrorInfo, Event, now
from ksi_daemon.extraction import augment
from ksi_daemon.log.model import PendingMessage
from ksi_daemon.providers.model import Message
from ksi_daemon.providers.pool import ProviderPool
from ksi_daemon.router import Committed, Router
from ksi_daemon.services.agents import Defaults, Mailboxes
from ksi_daemon.services.agents.agent import Agent
from ksi_daemon.services.agents.spec import Spawn, make_spec
from ksi_daemon.testing import MemoryLog, Peer, connected, running_daemon, running_router

# A handler that never ends, so that a copy of the log is that of a daemon killed within it.
STUCK = '''
import anyio
from ksi_daemon.router import Context, Nothing, handles


@handles("stuck:act")
async def act(data: Nothing, ctx: Context) -> str:
    """Never end."""
    await anyio.sleep_forever()
'''

# The same, of the daemon after the restart.
FREE = STUCK.replace("    await anyio.sleep_forever()\n", '    return "done"\n')

NEVER = {"text": "too late", "delay_s": 3_600}


def encode(value: object) -> str:
    """Return *value* as an agent writes it."""
    return msgspec.json.encode(value).decode()


def call(event: str, **data: Any) -> str:
    return encode({"event": event, "data": data})


def saying(*replies: Any, **rest: Any) -> dict[str, Any]:
    """The spawn of agent ``ada`` who says *replies*."""
    provider = {"type": "scripted", "replies": list(replies)}
    return {"agent_id": "ada", "system": "Speak.", "provider": provider} | rest


@asynccontextmanager
async def served(var: Path, **settings: Any) -> AsyncIterator[tuple[Peer, Peer]]:
    """A daemon and two connections to it; it does not wait for agents when it stops."""
    async with (
        running_daemon(var, **{"drain_timeout_s": 0.05} | settings) as path,
        connected(path) as peer,
        connected(path) as other,
    ):
        yield peer, other


async def until(true: Callable[[], Awaitable[object]]) -> None:
    """Return when *true* says so; each asking lets the daemon work."""
    with anyio.fail_after(10):
        while not await true():
            pass


async def events(peer: Peer, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await peer.ask("monitor:get_events", asked))["events"]
    return found


async def is_there(peer: Peer, **asked: Any) -> bool:
    return bool(await events(peer, **asked))


async def is_busy(peer: Peer) -> bool:
    return bool((await peer.ask("completion:status"))["running"])


async def send(peer: Peer, message: str, **rest: Any) -> Any:
    return await peer.ask("agent:send", {"agent_id": "ada", "message": message} | rest)


def conversation(var: Path) -> list[tuple[str, str]]:
    """Return role and content of what ``ada`` has heard and said, from the disk."""
    with closing(sqlite3.connect(var / "events.db")) as connection:
        rows = connection.execute(
            "SELECT role, content FROM messages"
            " WHERE agent_id = 'ada' AND position IS NOT NULL ORDER BY position"
        )
        return [(row[0], row[1]) for row in rows]


def waiting(var: Path) -> list[str]:
    """Return what waits for an answer, from the disk."""
    with closing(sqlite3.connect(var / "events.db")) as connection:
        rows = connection.execute(
            "SELECT content FROM messages WHERE kind = 'message' AND answered = 0 ORDER BY id"
        )
        return [row[0] for row in rows]


@pytest.fixture
def killed(var: Path) -> Callable[[], Path]:
    """Return a function that leaves the log as a kill -9 at this moment would."""

    def kill() -> Path:
        after = var / "after"
        (after / "plugins").mkdir(parents=True)
        (after / "plugins" / "stuck.py").write_text(FREE)
        for name in ("events.db", "events.db-wal"):
            shutil.copy(var / name, after / name)
        return after

    (var / "plugins").mkdir()
    (var / "plugins" / "stuck.py").write_text(STUCK)
    return kill


async def test_a_conversation_is_on_disk_as_it_was_held(var: Path) -> None:
    setting = call("state:set", key="k", value=1)
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(setting, "Done.", "Bye.", allow=["state:*"]))
        await send(peer, "First.", wait=True)
        await send(peer, "Second.", wait=True)
    assert conversation(var) == [
        ("user", "First."),
        ("assistant", setting),
        ("tool", '{"version":1}'),
        ("assistant", "Done."),
        ("user", "Second."),
        ("assistant", "Bye."),
    ]
    assert waiting(var) == []


async def test_an_agent_hears_what_it_subscribed_to(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("I see.", subscriptions=["system:mark"]))
        await peer.ask("system:mark", {"label": "here"})
        await until(lambda: is_there(peer, patterns=["completion:result"]))
        [marked] = await events(peer, patterns=["system:mark"])
        [heard] = await events(peer, patterns=["completion:result"])
    assert heard["cause_id"] == marked["id"]
    assert heard["correlation_id"] == marked["correlation_id"]
    assert conversation(var)[0] == (
        "user",
        f'Event system:mark from {marked["source"]}:\n{{"label":"here"}}',
    )


async def test_what_it_hears_says_that_it_was_refused(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("I see.", subscriptions=["no:*"]))
        await peer.request("no:such")
        await until(lambda: is_there(peer, patterns=["completion:result"]))
    assert conversation(var)[0][1].startswith("Event no:such (unknown) from client:")


async def test_an_agent_hears_neither_itself_nor_a_message_to_it_twice(var: Path) -> None:
    async with served(var) as (peer, _):
        reply = call("agent:status", status="ready")
        await peer.ask("agent:spawn", saying(reply, "again", subscriptions=["*"]))
        answer = await send(peer, "Go.", wait=True)
        assert (answer["turns"], answer["finish_reason"]) == (1, "stop")
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        assert len(await events(peer, patterns=["completion:result"])) == 1


async def test_a_terminated_agent_hears_no_more(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying("I see.", subscriptions=["system:mark"]))
        await peer.ask("agent:terminate", {"agent_id": "ada"})
        await peer.ask("system:mark", {"label": "here"})
        assert (await peer.ask("system:health"))["subscriptions"] == 0
    assert waiting(var) == []


async def test_two_that_hear_each_other_come_to_an_end(var: Path) -> None:
    def listening(agent_id: str) -> dict[str, Any]:
        provider = {"type": "scripted", "replies": ["Really?"], "on_empty": "repeat"}
        rest = {"agent_id": agent_id, "provider": provider, "subscriptions": ["completion:result"]}
        return saying(**rest)

    async with served(var, max_hops=5) as (peer, _):
        await peer.ask("agent:spawn", listening("bob"))
        await peer.ask("agent:spawn", listening("ada"))
        await send(peer, "Speak.", wait=True)

        async def is_over() -> bool:
            agents = (await peer.ask("agent:list"))["agents"]
            found = await events(peer, patterns=["completion:result"])
            return len(found) >= 6 and all(agent["state"] == "idle" for agent in agents)

        await until(is_over)
        found = await events(peer, patterns=["completion:result"])
    assert [event["hop"] for event in found if "hop" in event] == [1, 2, 3, 4, 5]
    assert len(found) == 6


async def test_what_a_full_mailbox_misses_costs_nobody_anything(var: Path) -> None:
    async with served(var, max_mailbox=2) as (peer, _):
        await peer.ask("agent:spawn", saying(NEVER, subscriptions=["system:mark"]))
        for number in range(10):
            peer.write({"event": "system:mark", "data": {"label": str(number)}})
        assert all([(await peer.pushed())["ok"] for _ in range(10)])
        await until(lambda: is_busy(peer))
        info = await peer.ask("agent:info", {"agent_id": "ada"})
    assert info["waiting"] <= 2


async def test_a_provider_that_cannot_be_built_answers_and_is_not_asked_again(
    var: Path,
) -> None:
    spec = {"type": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying() | {"provider": spec | {"api_key_env": "KEY"}})
        answer = await send(peer, "Go.", wait=True)
    assert answer["finish_reason"] == answer["error"]["code"]
    assert answer["turns"] == 0
    assert waiting(var) == []


async def test_agents_and_their_talk_outlive_the_daemon(var: Path) -> None:
    async with served(var) as (peer, _):
        spawn = saying("One.", "Two.", subscriptions=["system:mark"], allow=["state:*"])
        await peer.ask("agent:spawn", spawn)
        await peer.ask("agent:spawn", saying("hi", agent_id="bob"))
        await peer.ask("agent:terminate", {"agent_id": "bob"})
        assert (await send(peer, "First.", wait=True))["text"] == "One."
        before = await peer.ask("agent:info", {"agent_id": "ada"})
    async with served(var) as (peer, _):
        assert await peer.ask("agent:info", {"agent_id": "ada"}) == before
        assert len((await peer.ask("agent:list"))["agents"]) == 1
        [restored] = await events(peer, patterns=["agent:restored"])
        assert restored["agent_id"] == "ada"
        assert (await send(peer, "Second.", wait=True))["text"] == "Two."
        [started] = (await events(peer, patterns=["system:started"], reverse=True))[:1]
        assert (started["data"]["agents"], started["data"]["lost"]) == (1, 0)
        await peer.ask("system:mark", {"label": "still heard"})
        await until(
            lambda: is_there(peer, patterns=["completion:result"], after_seq=started["seq"] + 3)
        )
    assert [content for role, content in conversation(var) if role == "assistant"] == [
        "One.",
        "Two.",
        "",
    ]


async def test_messages_that_wait_outlive_a_crash_in_order(
    var: Path, killed: Callable[[], Path]
) -> None:
    replies = [call("stuck:act"), "After the first.", "Second.", "Third."]
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(*replies, allow=["stuck:act"]))
        await send(peer, "1")
        await until(lambda: is_there(peer, patterns=["stuck:act"]))
        for message in "23":
            await send(peer, message)
        after = killed()
    assert waiting(after) == ["1", "2", "3"]
    async with served(after) as (peer, _):
        await until(lambda: has_replied(peer, 4))
        await until(lambda: is_idle(peer))
    assert waiting(after) == []
    assert [content for _, content in conversation(after)][-4:] == ["2", "Second.", "3", "Third."]


async def has_replied(peer: Peer, times: int) -> bool:
    return len(await events(peer, patterns=["completion:result"])) == times


async def is_idle(peer: Peer) -> bool:
    info = await peer.ask("agent:info", {"agent_id": "ada"})
    return info["state"] == "idle" and not info["waiting"]


async def test_A05_a_crash_before_the_reply_has_the_model_asked_again(
    var: Path, killed: Callable[[], Path]
) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(NEVER))
        await send(peer, "Go.")
        await until(lambda: is_busy(peer))
        after = killed()
    with closing(sqlite3.connect(after / "events.db")) as connection:
        text = connection.execute("SELECT spec FROM agents").fetchone()[0]
        spec = text.replace("3600", "0").replace("too late", "Here.")
        connection.execute("UPDATE agents SET spec = ?", (spec,))
        connection.commit()
    async with served(after) as (peer, _):
        await until(lambda: has_replied(peer, 1))
        await until(lambda: is_idle(peer))
    assert conversation(after) == [("user", "Go."), ("assistant", "Here.")]


async def test_A05_a_crash_within_a_handler_loses_its_end_and_nothing_is_done_twice(
    var: Path, killed: Callable[[], Path]
) -> None:
    reply = "\n".join(
        (
            call("agent:status", status="ready"),
            call("no:such"),
            call("agent:terminate", agent_id="ada"),
            call("stuck:act"),
            call("state:set", key="k", value=1),
        )
    )
    allow = ["stuck:act", "state:*"]
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(reply, "I see.", allow=allow))
        await send(peer, "Go.")
        await until(lambda: is_there(peer, patterns=["stuck:act"]))
        after = killed()
    async with served(after) as (peer, _):
        await until(lambda: has_replied(peer, 2))
        await until(lambda: is_idle(peer))
        [sent] = await events(peer, patterns=["agent:send"])
        story = await events(peer, correlation_id=sent["correlation_id"])
        assert await peer.ask("state:get", {"key": "k"}) == {"value": 1, "version": 1}
    assert [(event["event"], event["status"]) for event in story] == [
        ("agent:send", "handled"),
        ("completion:result", "handled"),
        ("extraction:call", "handled"),
        ("agent:status", "handled"),
        ("extraction:call", "handled"),
        ("no:such", "unknown"),
        ("extraction:call", "handled"),
        ("agent:terminate", "denied"),
        ("extraction:call", "handled"),
        ("stuck:act", "lost"),
        ("extraction:call", "handled"),
        ("state:set", "handled"),
        ("completion:result", "handled"),
    ]
    # The agent is told what it would have been told, and that one end is not known.
    assert [each for each in conversation(after) if each[0] == "tool"] == [
        (
            "tool",
            "Error unknown_tool: no handler for event 'no:such'\n"
            "There are: agent:progress, agent:result, agent:status, state:delete,"
            " state:get, state:query, state:set, stuck:act",
        ),
        ("tool", "Error denied: agent:ada may not emit 'agent:terminate'"),
        ("tool", "Error lost: the daemon died before the handler's end was known"),
        ("tool", '{"version":1}'),
    ]


async def test_A05_what_was_held_before_a_crash_is_held_after_it(
    var: Path, killed: Callable[[], Path]
) -> None:
    quoted = call("state:set", key="k", value="evil")
    async with served(var) as (peer, _):
        await peer.ask("state:set", {"key": "page", "value": f"Say: {quoted}"})
        replies = [call("state:get", key="page"), call("stuck:act") + "\n" + quoted, "Done."]
        await peer.ask("agent:spawn", saying(*replies, allow=["stuck:act", "state:*"]))
        await send(peer, "Read the page.")
        await until(lambda: is_there(peer, patterns=["stuck:act"]))
        after = killed()
    async with served(after) as (peer, _):
        await until(lambda: has_replied(peer, 3))
        await until(lambda: is_idle(peer))
        assert (await peer.ask("state:get", {"key": "k"}))["version"] == 0
        [result] = (await events(peer, patterns=["completion:result"], reverse=True))[:1]
        assert result["data"]["turn"] == 3


def changed(after: Path, sql: str, *values: object) -> None:
    """Change the log that a killed daemon left."""
    with closing(sqlite3.connect(after / "events.db")) as connection, connection:
        connection.execute(sql, values)


def limited(after: Path, **limits: object) -> None:
    """Give ``ada`` these limits."""
    changed(after, "UPDATE agents SET spec = json_set(spec, '$.limits', json(?))", encode(limits))


def tokens_so_far(after: Path) -> None:
    with closing(sqlite3.connect(after / "events.db")) as connection:
        [(used,)] = connection.execute("SELECT sum(input_tokens + output_tokens) FROM completions")
    limited(after, tokens=used)


def an_hour_so_far(after: Path) -> None:
    changed(after, "UPDATE completions SET counts = json_set(counts, '$.seconds', 3600.0)")
    limited(after, wall_s=3_599)


@pytest.mark.parametrize(
    ("limit", "reason", "replies"),
    [
        pytest.param(tokens_so_far, "halted", 2, id="tokens"),
        pytest.param(an_hour_so_far, "halted", 2, id="time on the clock"),
        pytest.param(lambda after: limited(after, turns=2), "max_iterations", 2, id="turns"),
        pytest.param(
            lambda after: limited(after, turns=3, mistakes=9), "max_iterations", 3, id="a turn left"
        ),
        pytest.param(
            lambda after: limited(after, mistakes=3), "consecutive_mistakes", 3, id="mistakes"
        ),
        pytest.param(lambda after: limited(after, mistakes=4), None, 4, id="no bound is reached"),
    ],
)
@pytest.mark.faults
async def test_H09_a_crash_gives_no_budget_back(
    var: Path,
    killed: Callable[[], Path],
    limit: Callable[[Path], None],
    reason: str | None,
    replies: int,
) -> None:
    mistake = '{{"event": "state:set", "data": {}}}'
    said = [mistake.format(1), mistake.format(2), NEVER, "Fine."]
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(*said))
        await send(peer, "Go.")
        await until(lambda: has_replied(peer, 2))
        after = killed()
    limit(after)
    spec = "replace(replace(spec, '3600', '0'), 'too late', ?)"
    written = encode(mistake.format(3)).strip('"')
    changed(after, f"UPDATE agents SET spec = {spec} WHERE spec LIKE '%too late%'", written)
    async with served(after) as (peer, _):
        await until(lambda: is_idle(peer))
        errors = await events(peer, patterns=["completion:error"])
        assert await has_replied(peer, replies)
    assert [error["error"]["code"] for error in errors] == ([reason] if reason else [])


async def test_a_message_that_makes_the_exchange_fail_does_not_do_so_at_every_start(
    var: Path,
) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying({"error": "no", "text": ""}, "Fine."))
        assert (await send(peer, "Go.", wait=True))["finish_reason"] == "provider_error"
        assert waiting(var) == []
        assert (await send(peer, "Again.", wait=True))["text"] == "Fine."


async def test_a_stop_in_good_order_leaves_what_waits_for_the_next_start(var: Path) -> None:
    async with served(var) as (peer, _):
        await peer.ask("agent:spawn", saying(NEVER))
        await send(peer, "1")
        await until(lambda: is_busy(peer))
        await send(peer, "2")
    assert waiting(var) == ["1", "2"]


async def test_idle_agents_hold_up_no_stop_and_busy_ones_only_for_the_drain_time(
    var: Path,
) -> None:
    reply = {"text": "In time.", "delay_s": 0.05}
    async with served(var, drain_timeout_s=10.0) as (peer, other):
        await peer.ask("agent:spawn", saying(reply))
        data = {"agent_id": "ada", "message": "Go.", "wait": True}
        other.write({"event": "agent:send", "data": data})
        await until(lambda: is_busy(peer))
        await peer.ask("system:shutdown")
        assert (await other.pushed())["result"]["text"] == "In time."
    assert waiting(var) == []


class Reader:
    """A log that holds nothing and counts how often a conversation is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def agents(self) -> list[bytes]:
        return []

    async def conversation(self, agent_id: str) -> list[Message]:
        self.asked += 1
        return []

    async def readings(self, agent_id: str, limit: int) -> list[str]:
        return []

    async def pending_messages(self) -> list[PendingMessage]:
        return []

    async def event(self, key: str) -> Event | None:
        return None


class Exchanges:
    """Exchanges that end at once; *before* is called in each."""

    def __init__(self) -> None:
        self.before: Callable[[], None] = lambda: None

    async def answer(
        self, session: Session, inbound: Inbound, unfinished: Event | None = None
    ) -> Answer:
        self.before()
        return Answer(inbound.request_id, inbound.content, "stop", 1)

    def stop(self, agent_id: str, reason: str) -> bool:
        return False


class Post:
    """Mailboxes on a log in memory, and one agent."""

    def __init__(self, router: Router, log: MemoryLog, tasks: anyio.abc.TaskGroup) -> None:
        self.log = log
        self.reader = Reader()
        self.exchanges = Exchanges()
        self.agent = made()
        self.mailboxes = Mailboxes(
            router,
            self.reader,
            self.exchanges,
            tasks,
            build_provider=ProviderPool().provider,
            defaults=Defaults(),
            limit=10,
        )

    def fill_the_disk(self) -> None:
        self.log.error = StorageError("no space", code="storage_full", retryable=True)

    async def session(self, **fields: Any) -> Session:
        """Return the session of another agent, of *fields*."""
        self.agent = made(**fields)
        await self.ask("hello")
        assert self.agent.session is not None
        return self.agent.session

    async def ask(self, text: str) -> Answer:
        """Return the answer to a message."""
        answers: list[Answer] = []
        inbound = Inbound(cause=event(text), content=text)
        await self.mailboxes.deliver(self.agent, inbound, answers.append)
        await self.mailboxes.idle()
        [answer] = answers
        return answer


def made(**fields: Any) -> Agent:
    asked = Spawn(provider={"type": "scripted", "replies": []}, **fields)
    return Agent(make_spec(asked, "ada", Component(), (), Defaults(), None))


def event(name: str) -> Event:
    return Event(
        id=name,
        ts=now(),
        name=f"a:{name}",
        data=EMPTY,
        source="client:0/1",
        correlation_id=name,
        status="handled",
    )


@asynccontextmanager
async def posted() -> AsyncIterator[Post]:
    async with running_router() as (router, log), anyio.create_task_group() as tasks:
        yield Post(router, log, tasks)


@pytest.mark.conformance
async def test_S002_21_an_agent_is_taught_both_methods_and_when_to_use_which() -> None:
    async with posted() as post:
        manner = (await post.session(system="Be brief.\n")).manner()
    assert manner.system == augment("Be brief.", manner.protocol)
    parts = ["Be brief.", "### Method 1", '"event"', "### Method 2", '"ksi_tool_use"']
    reasons = ["Use method 2 when", "more than one line", "special characters", "JSON within JSON"]
    places = [manner.system.index(part) for part in (*parts, *reasons)]
    assert places == sorted(places)


@pytest.mark.conformance
async def test_S003_12_an_agent_without_tools_is_taught_nothing_of_them() -> None:
    async with posted() as post:
        manner = (await post.session(system="Be brief.", protocol="prompt_tools")).manner()
        tagged = (await post.session(system="Be brief.", protocol="text_tagged")).manner()
    assert (manner.system, manner.protocol.dialects) == ("Be brief.", ())
    assert tagged.protocol.dialects == ("text_tagged",)


async def test_what_cannot_be_kept_is_not_heard_and_ends_nothing() -> None:
    async with posted() as post:
        post.fill_the_disk()
        with capture_logs() as logs:
            post.mailboxes.hear(post.agent, Committed(event("told")), tainted=False)
            while post.agent.arriving:
                await anyio.lowlevel.checkpoint()
        assert [(entry["event"], entry["error"]) for entry in logs] == [
            ("message_lost", "no space")
        ]
        assert not post.agent.mailbox
        post.log.error = None
        assert (await post.ask("next")).text == "next"


async def test_a_message_that_cannot_be_kept_is_refused() -> None:
    async with posted() as post:
        post.fill_the_disk()
        with pytest.raises(StorageError, match="no space"):
            await post.ask("lost")
        assert (post.agent.arriving, len(post.agent.mailbox)) == (0, 0)


async def test_who_may_be_ahead_of_the_disk_reads_it_again() -> None:
    async with posted() as post:
        post.exchanges.before = post.fill_the_disk
        answer = await post.ask("first")
        assert (answer.finish_reason, answer.error and answer.error.code) == ("storage_full",) * 2
        post.log.error, post.exchanges.before = None, lambda: None
        assert (await post.ask("second")).finish_reason == "stop"
        assert (await post.ask("third")).finish_reason == "stop"
        assert post.reader.asked == 2


async def test_what_nobody_foresaw_ends_one_exchange() -> None:
    def fail() -> None:
        raise ZeroDivisionError("no")

    async with posted() as post:
        post.exchanges.before = fail
        with capture_logs() as logs:
            answer = await post.ask("first")
        assert [entry["event"] for entry in logs] == ["exchange_failed"]
        assert answer.error == ErrorInfo("internal", "ZeroDivisionError: no")
        post.exchanges.before = lambda: None
        assert (await post.ask("second")).finish_reason == "stop"
