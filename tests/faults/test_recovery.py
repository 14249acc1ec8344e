"""A daemon dies at each step of a turn, and the next one goes on from there (FAULTS A5)."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_client import BlockingClient
from ksi_client.errors import NoDaemon
from ksi_daemon.failpoints import DIED_EXIT, POINTS
from ksi_daemon.testing import short_directory
from tests.faults.harness import Daemon, refused, sound, until

pytestmark = pytest.mark.faults

# A handler whose every run is seen from outside, whatever becomes of the daemon.
PLUGIN: Final = '''
"""Notes in a file."""
import os
from pathlib import Path
from pydantic import BaseModel
from ksi_daemon.router import Context, handles

class Note(BaseModel):
    text: str

@handles("notes:write", effect="write", example={"text": "x"})
async def write(note: Note, ctx: Context) -> dict[str, str]:
    """Write a note."""
    with open(Path(__file__).with_name("notes"), "a", encoding="utf-8") as file:
        file.write(f"{note.text}\\\\n")
        file.flush()
        os.fsync(file.fileno())
    return {"written": note.text}
'''
REPLY: Final = "\n".join(
    json.dumps(call)
    for call in (
        {"event": "notes:write", "data": {"text": "one"}},
        {"event": "state:set", "data": {"key": "k", "value": 1}},
        {"event": "notes:write", "data": {"text": "two"}},
    )
)
CALLS: Final = ["notes:write", "state:set", "notes:write"]
PROVIDER: Final = {
    "type": "scripted",
    "replies": [{"text": REPLY, "delay_s": 0.05}, "That was all."],
    "on_empty": "stop",
}
# Where a call was logged and its handler's end was not, and the note that was not written then:
# whether a handler ran is not known, so it is not run again. The first call of a reply is logged
# together with the reply.
UNKNOWN: Final = {"reply_stored": "one", "call_logged": "one", "call_handled": None}


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        plugins = directory / "v" / "plugins"
        plugins.mkdir(parents=True, mode=0o700)
        (directory / "v").chmod(0o700)
        (plugins / "notes.py").write_text(PLUGIN.replace("\\\\n", "\\n"))
        yield directory / "v"


def begin(ksi: BlockingClient) -> None:
    ksi.request(
        "agent:spawn",
        {
            "agent_id": "ann", "system": "Write notes.", "provider": PROVIDER,
            "allow": ["notes:write", "state:set"],
        },
    )  # fmt: skip
    with suppress(NoDaemon):  # it may be gone before it answers
        ksi.request("agent:send", {"agent_id": "ann", "message": "Begin."})


def answered(ksi: BlockingClient, log: Path) -> bool:
    """Say whether the agent has said its last word and holds no exchange."""
    if ksi.request("agent:info", {"agent_id": "ann"})["state"] != "idle":
        return False
    return rows(log, "SELECT answered FROM messages WHERE kind = 'message'") == [(1,)]


def rows(log: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(log)) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("point", POINTS)
def test_A5_a_crash_at_each_step_of_a_turn(var: Path, point: str) -> None:
    log = var / "events.db"
    with Daemon(var, env={"KSI_FAILPOINT": point}) as daemon:
        assert daemon.is_ready, daemon.said
        with daemon.client() as ksi:
            begin(ksi)
        assert daemon.process.wait(20) == DIED_EXIT
    with Daemon(var) as daemon, daemon.client() as ksi:
        assert daemon.is_ready, daemon.said
        until(lambda: answered(ksi, log), 10)
        assert daemon.stop() == 0
    # Each call that was extracted is one event, however often its reply was read.
    called = rows(
        log,
        "SELECT id, name, completion_id, json_extract(call, '$.start') FROM events"
        " WHERE call IS NOT NULL AND name NOT LIKE 'extraction:%' ORDER BY seq",
    )
    assert [name for _, name, _, _ in called] == CALLS
    assert len({(completion, start) for _, _, completion, start in called}) == len(CALLS)
    attempts = rows(log, "SELECT event_id FROM attempts ORDER BY completion_id, ordinal")
    assert [event_id for (event_id,) in attempts] == [event_id for event_id, *_ in called]
    # No handler ran twice, and only one that was cut off may not have run.
    notes = (var / "plugins" / "notes").read_text().split()
    assert Counter(notes) == Counter({"one", "two"} - {UNKNOWN.get(point)})
    ends = dict(rows(log, "SELECT seq, status FROM v_events WHERE event LIKE 'notes:%'"))
    assert list(ends.values()) == ["lost" if point in UNKNOWN else "handled", "handled"]
    assert rows(log, "SELECT count(*) FROM v_events WHERE status = 'received'") == [(0,)]
    # The agent has its conversation, with nothing said twice.
    talk = rows(log, "SELECT role, content FROM messages ORDER BY position")
    assert [role for role, _ in talk].count("assistant") == 2
    assert (talk[0], talk[-1]) == (("user", "Begin."), ("assistant", "That was all."))
    recovered = rows(log, "SELECT data FROM events WHERE name = 'system:recovered'")
    assert len(recovered) == 1
    assert json.loads(recovered[0][0])["unknown"] == (point in UNKNOWN)
    assert sound(log)


def test_A5_a_failpoint_that_there_is_not(var: Path) -> None:
    with Daemon(var, env={"KSI_FAILPOINT": "call_loged"}) as daemon:
        code, said = refused(daemon)
    assert (code, "did you mean 'call_logged'?" in said) == (78, True)
