"""The documented views, asked as a stranger would: with the sqlite3 shell."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon.events import ErrorInfo, Event, Outcome
from ksi_daemon.log import EventLog, statements
from ksi_daemon.log.database import migrations
from ksi_daemon.log.model import Attempt
from ksi_daemon.work import Ended, Work
from tests.random_log import RandomLog

NewEvent = Callable[..., Event]

pytestmark = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell")

TS = datetime(2026, 1, 31, 12, 0, 0, 42, tzinfo=UTC)
FAILED = Outcome("failed", error=ErrorInfo("handler_failed", "it broke"), duration_ms=2.5)


def shell(path: Path, sql: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["sqlite3", "-readonly", "-json", path, sql], capture_output=True, check=True, timeout=10
    )
    assert done.stderr == b""
    rows: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    return rows


def completion(name: str, model: str = "m") -> Work:
    row = statements.completion(
        completion_id=name, ts=TS, agent_id="ann", request_id="r1", turn=1, provider="p",
        model=model, preset="ksi", stop_reason="stop", latency_ms=1, input_tokens=1,
        output_tokens=1, extractor=1,
    )  # fmt: skip
    return Work(statements=(row,))


def attempt(name: str, ordinal: int, verdict: str = "strict", code: str | None = None) -> Work:
    made = Attempt(
        completion_id=name, ordinal=ordinal, agent_id="ann", provider="p", model="m",
        dialect="event", tool="a:b", verdict=verdict, code=code, start=3, end=9,
        event_id=f"{name}.{ordinal}", size=6, tries=2, complex=True,
    )  # fmt: skip
    return Work(statements=(statements.attempt(made),))


async def write(path: Path, *works: Work) -> None:
    async with EventLog.open(path, durability="process") as log:
        for work in works:
            await log.submit(work)


async def test_v_events(path: Path, new_event: NewEvent) -> None:
    await write(
        path,
        Work(event=new_event("a:b", {"k": 1}, ts=TS)),
        Work(event=new_event(), outcome=Outcome("handled", msgspec.Raw(b"7"))),
        Work(ended=Ended(1, FAILED)),
    )
    rows = shell(path, "SELECT * FROM v_events ORDER BY seq")
    assert rows[0] == {
        "seq": 1, "id": "e1", "time": "2026-01-31T12:00:00.000042Z", "event": "a:b",
        "data": '{"k":1}', "source": "client:1000/1", "agent_id": None, "correlation_id": "e1",
        "cause_id": None, "hop": 0, "completion_id": None, "call": None, "status": "failed",
        "result": None, "error_code": "handler_failed",
        "error": '{"code":"handler_failed","message":"it broke","retryable":false}',
        "duration_ms": 2.5,
    }  # fmt: skip
    assert (rows[1]["status"], rows[1]["result"], rows[1]["error_code"]) == ("handled", "7", None)


async def test_v_attempts(path: Path, new_event: NewEvent) -> None:
    await write(
        path,
        completion("c1"),
        attempt("c1", 1),
        attempt("c1", 2, "rejected", "malformed"),
        Work(event=new_event(id="c1.1"), outcome=FAILED),
    )
    rows = shell(path, "SELECT * FROM v_attempts ORDER BY ordinal")
    assert rows[0] == {
        "completion_id": "c1", "ordinal": 1, "time": "2026-01-31T12:00:00.000042Z",
        "agent_id": "ann", "provider": "p", "model": "m", "preset": "ksi", "dialect": "event",
        "tool": "a:b", "size": 6, "complex": 1, "tries": 2, "verdict": "strict", "code": None,
        "repairs": "[]", "suspect": 0, "span_start": 3, "span_end": 9, "corrected": 0,
        "event_seq": 1, "event_id": "c1.1", "status": "failed", "error_code": "handler_failed",
        "came_to": "failed", "reason": "handler_failed",
    }  # fmt: skip
    assert (rows[1]["verdict"], rows[1]["code"], rows[1]["event_seq"]) == (
        "rejected", "malformed", None,
    )  # fmt: skip


async def test_v_attempts_says_how_far_each_came(path: Path) -> None:
    made = RandomLog(33)
    await write(path, *made.units(60))
    rows = shell(path, "SELECT completion_id, ordinal, came_to, reason FROM v_attempts")
    expected = {
        (fact["completion_id"], fact["ordinal"]): came_to(fact)
        for fact in made.facts
        if fact["verdict"]
    }
    found = {(row["completion_id"], row["ordinal"]): row["came_to"] for row in rows}
    assert found == expected
    assert {"nothing", "received", "handled", "invalid", "refused", "held"} <= set(found.values())
    assert {row["reason"] for row in rows if row["came_to"] == "unknown"} == {"unknown_event"}


def came_to(fact: dict[str, Any]) -> str:
    if fact["verdict"] in ("rejected", "held"):
        return str(fact["verdict"])
    if fact["end"] is None:
        return "received" if fact.get("logged") else "nothing"
    end: Outcome = fact["end"]
    if end.status != "rejected":
        return end.status
    return "invalid" if end.error and end.error.code == "args_schema" else "refused"


@pytest.mark.parametrize("seed", range(3))
async def test_v_reliability_is_the_report(path: Path, seed: int) -> None:
    async with EventLog.open(path, durability="process") as log:
        for work in RandomLog(seed).units(60):
            await log.submit(work)
        report = await log.reader.reliability(["model", "dialect"], None, None)
    rows = shell(path, "SELECT * FROM v_reliability ORDER BY model, dialect")
    assert rows == [{name: near(row[name]) for name in rows[0]} for row in report]
    assert sum(row["lost"] for row in rows) > 0


def near(value: Any) -> Any:
    return pytest.approx(value) if isinstance(value, float) else value


async def test_v_tree(path: Path, new_event: NewEvent) -> None:
    def step(name: str, cause: str | None, story: str = "root") -> Work:
        return Work(event=new_event(name, id=name, cause_id=cause, correlation_id=story))

    await write(
        path, step("root", None), step("left", "root"), step("other", None, "other"),
        step("right", "root"), step("leaf", "left"), step("lost", "pruned"),
    )  # fmt: skip
    rows = shell(
        path, "SELECT event, depth FROM v_tree WHERE correlation_id = 'root' ORDER BY path"
    )
    assert [(row["event"], row["depth"]) for row in rows] == [
        ("root", 0), ("left", 1), ("leaf", 2), ("right", 1), ("lost", 0),
    ]  # fmt: skip


async def test_v_tree_ends_in_a_loop(path: Path, new_event: NewEvent) -> None:
    await write(
        path,
        Work(event=new_event(cause_id="e2", correlation_id="s")),
        Work(event=new_event(cause_id="e1", correlation_id="s")),
    )
    rows = shell(path, "SELECT seq, depth FROM v_tree WHERE correlation_id = 's' ORDER BY seq")
    assert rows == [{"seq": 1, "depth": 1000}, {"seq": 2, "depth": 1000}]


@pytest.mark.parametrize("view", ["v_events", "v_attempts", "v_reliability", "v_tree"])
async def test_views_of_an_empty_log(path: Path, view: str) -> None:
    await write(path)
    assert shell(path, f"SELECT * FROM {view}") == []


def test_each_view_says_what_it_shows() -> None:
    lines = "\n".join(migrations()).splitlines()
    before = [lines[n - 1] for n, line in enumerate(lines) if line.startswith("CREATE VIEW")]
    assert len(before) >= 4
    assert [line for line in before if not line.startswith("-- ")] == []
