"""Clients that do anything in any order, against a daemon that may be killed, and a small model.

The model is what the clients were told: the seq of each key, and which agents live. It must hold
after every step, also when the daemon was killed and started again on its var (FAULTS 3.2).
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.faults.harness import Daemon, missing, sound
from tests.faults.unharmed import Lines

KEYS = st.sampled_from([f"k{number}" for number in range(30)])
AGENTS = st.sampled_from(["a", "b", "c"])
PAD = "x" * 20_000


class Clients(RuleBasedStateMachine):
    """One client that is answered, subscribers that read, and some that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="ksi-"))
        self.var = Path(directory) / "v"
        self.acked: dict[str, int] = {}
        self.agents: set[str] = set()
        self.seen: list[int] = []
        self.start()

    def start(self) -> None:
        self.daemon = Daemon(self.var, env={"KSI_SUBSCRIBER_EVENTS": "20"})
        assert self.daemon.is_ready, self.daemon.said
        self.client = Lines(self.daemon.socket)
        self.subscriber: Lines | None = None
        self.others: list[Lines] = []

    def stop(self) -> None:
        for client in (self.client, self.subscriber, *self.others):
            if client is not None:
                client.__exit__()
        self.daemon.__exit__()

    def ask(self, event: str, data: Any = None, **fields: Any) -> Any:
        request = {"id": 1, "event": event, "data": data or {}, **fields}
        return self.client.ask(json.dumps(request).encode())

    def mark(self, key: str, pad: str = "") -> Any:
        """Emit a mark under *key*."""
        reply = self.ask("system:mark", {"label": key, "data": {"pad": pad}}, idempotency_key=key)
        assert reply["ok"], reply
        return reply

    def new_mark(self, pad: str = "") -> int:
        """Emit a mark under a key of its own; return its seq."""
        key = f"new{len(self.acked)}"
        self.acked[key] = seq = int(self.mark(key, pad)["seq"])
        return seq

    @rule(key=KEYS, pad=st.booleans())
    def emit(self, key: str, pad: bool) -> None:
        """Emit a mark, or the same again: it is there once, where it was."""
        reply = self.mark(key)
        assert reply.get("duplicate", False) == (key in self.acked)
        assert self.acked.setdefault(key, reply["seq"]) == reply["seq"]
        if pad:
            self.new_mark(PAD)

    @precondition(lambda self: self.subscriber is None)
    @rule()
    def subscribe(self) -> None:
        """Follow the log from where the last one ended."""
        self.subscriber = Lines(self.daemon.socket)
        data = {"patterns": ["system:mark"], "after_seq": max(self.seen, default=0)}
        request = {"id": 1, "event": "monitor:subscribe", "data": data}
        assert self.subscriber.ask(json.dumps(request).encode())["ok"]

    @precondition(lambda self: self.subscriber is not None)
    @rule()
    def read(self) -> None:
        """Read up to the newest mark: each comes once, in order, unless it is told to resume."""
        newest = self.new_mark()
        while self.subscriber is not None and max(self.seen, default=0) < newest:
            push = self.subscriber.reply()
            if push.get("lagged"):
                assert push["seq"] >= max(self.seen, default=0)
                self.subscriber.__exit__()
                self.subscriber = None
            else:
                self.seen.append(push["seq"])

    @rule()
    def read_nothing(self) -> None:
        """Subscribe and never read."""
        deaf = Lines(self.daemon.socket)
        deaf.send(b'{"event":"monitor:subscribe"}\n')
        self.others.append(deaf)

    @rule(half=st.sampled_from([b"", b'{"event":"system:mark"', b"\xff\n", b"[[[\n"]))
    def leave(self, half: bytes) -> None:
        """Connect, say something or half of it, and go."""
        with Lines(self.daemon.socket) as gone:
            gone.send(half)

    @rule(agent=AGENTS)
    def spawn(self, agent: str) -> None:
        """Spawn an agent, if there is none of its name."""
        provider = {"type": "scripted", "replies": ["Hello."], "on_empty": "repeat"}
        data = {"agent_id": agent, "system": "Go.", "provider": provider}
        assert self.ask("agent:spawn", data)["ok"] == (agent not in self.agents)
        self.agents.add(agent)

    @rule(agent=AGENTS)
    def end(self, agent: str) -> None:
        """End an agent."""
        self.ask("agent:terminate", {"agent_id": agent})
        self.agents.discard(agent)

    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        """Start again after a kill -9, or an end in good order."""
        if kill:
            self.daemon.kill()
        else:
            assert self.daemon.stop() == 0
        assert not missing(self.var / "events.db", self.acked)
        self.stop()
        self.start()

    @invariant()
    def it_is_well(self) -> None:
        """The daemon answers, and knows of the agents what the model knows."""
        living = self.ask("agent:list")["result"]["agents"]
        assert {agent["agent_id"] for agent in living} == self.agents

    def teardown(self) -> None:
        self.stop()
        with self.stack:
            assert self.seen == sorted(set(self.seen))
            assert not missing(self.var / "events.db", self.acked)
            assert sound(self.var / "events.db")


@pytest.mark.faults
def test_S19_clients_that_do_anything_see_one_truth() -> None:
    short = settings(max_examples=8, stateful_step_count=25, phases=[Phase.generate])
    run_state_machine_as_test(Clients, settings=short)
