"""Rules, timers and messages over ends of the daemon that it did not choose: SIGKILL, in a
process of its own, while clients go on."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_client import BlockingClient
from ksi_daemon.errors import KsiError
from ksi_daemon.testing import short_directory

KILLS: Final = 5
MARKS: Final = 40
LIMIT_S: Final = 60


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "v"


@contextmanager
def daemon(var: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "ksi_daemon", "--var", str(var)]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | environ
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def client(var: Path) -> BlockingClient:
    return BlockingClient(var / "run" / "daemon.sock", patience_s=0)


def rows(var: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(var / "events.db")) as database:
        return database.execute(sql).fetchall()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"


def count(ksi: BlockingClient, pattern: str) -> int:
    asked = {"patterns": [pattern], "limit": 1000}
    return len(ksi.request("monitor:get_events", asked)["events"])


def test_a_rule_fires_once_for_each_event_whenever_the_daemon_is_killed(var: Path) -> None:
    rule = {
        "name": "copy",
        "pattern": "system:mark",
        "target": "state:set",
        "mapping": {"key": "{{data.label}}", "value": 1},
    }
    with daemon(var), client(var) as ksi:
        ksi.request("routing:add_rule", rule)
    for round_ in range(KILLS):
        with daemon(var) as process, client(var) as ksi:
            for n in range(MARKS):
                ksi.request("system:mark", {"label": f"{round_}.{n}"}, wait="logged")
                if n == MARKS - 1 - round_:  # while what was set off is on its way
                    process.kill()
                    break
    with daemon(var), client(var) as ksi:
        ksi.request("system:mark", {"label": "last"})
        marks = count(ksi, "system:mark")
        until(lambda: count(ksi, "state:set") >= marks)
        [kept] = ksi.request("routing:list_rules")["rules"]
    fired = rows(var, "SELECT json_extract(data, '$.key') FROM events WHERE name = 'state:set'")
    marked = rows(
        var, "SELECT json_extract(data, '$.label') FROM events WHERE name = 'system:mark'"
    )
    assert sorted(fired) == sorted(marked)
    assert len(set(fired)) == len(fired) == kept["fires"]
    versions = rows(var, "SELECT DISTINCT version FROM state")
    assert versions == [(1,)], "each was handled once"


def test_a_timer_fires_once_whenever_the_daemon_is_killed(var: Path) -> None:
    names = [f"t{n}" for n in range(50)]
    with daemon(var) as process, client(var) as ksi:
        for name in names:
            asked = {"name": name, "after_s": 0, "target": "system:mark", "data": {"label": name}}
            ksi.request("timer:set", asked)
        process.kill()
    with daemon(var), client(var) as ksi:
        until(lambda: not ksi.request("timer:list")["timers"])
    fired = rows(var, "SELECT json_extract(data, '$.label') FROM events WHERE name = 'system:mark'")
    assert sorted(label for (label,) in fired) == sorted(names)


SLOW: Final = {"type": "scripted", "replies": [{"text": "42", "delay_s": 3600}]}


@pytest.mark.parametrize(
    "kill", [pytest.param(True, id="killed"), pytest.param(False, id="stopped")]
)
def test_a_message_that_is_in_its_mailbox_is_not_lost(var: Path, kill: bool) -> None:
    with daemon(var, KSI_DRAIN_TIMEOUT_S="0.1") as process, client(var) as ksi:
        ksi.request("agent:spawn", {"agent_id": "ada", "system": "Work.", "provider": SLOW})
        with closing(client(var)) as other:
            asked = {"agent_id": "ada", "message": "How much?", "wait": True}
            with pytest.raises(KsiError):
                other.request("agent:send", asked, timeout=1.0)
            if kill:
                process.kill()
            else:
                process.terminate()
            process.wait(timeout=20)
    assert rows(var, "SELECT status FROM v_events WHERE event = 'agent:send'") == [("received",)]
    with closing(sqlite3.connect(var / "events.db")) as database, database:
        database.execute("UPDATE agents SET spec = replace(spec, '3600', '0')")
    with daemon(var), client(var) as ksi:
        until(lambda: count(ksi, "completion:result") == 1)
        [sent] = ksi.request("monitor:get_events", {"patterns": ["agent:send"]})["events"]
        [started] = ksi.request("monitor:get_events", {"patterns": ["system:started"]})["events"][
            1:
        ]
    assert (sent["status"], started["data"]["lost"]) == ("handled", 0)
    [(result,)] = rows(var, "SELECT result FROM v_events WHERE event = 'agent:send'")
    assert result == f'{{"request_id":"{sent["id"]}"}}'
