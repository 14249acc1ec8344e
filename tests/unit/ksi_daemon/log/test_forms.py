from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ksi_daemon.log import EventLog
from ksi_daemon.log.forms import Form, Migration, migration
from tests.random_log import RandomLog

LAST = datetime(2026, 1, 31, tzinfo=UTC)


def form(
    dialect: str, complex_: bool | None, n: int = 10, agent: str = "ann", good: int | None = None
) -> Form:
    return Form(agent, "m", dialect, complex_, n, n if good is None else good, LAST)


def verdicts(found: Migration) -> dict[str, str]:
    return {phase.legacy_event: phase.verdict for phase in found.phases}


@pytest.mark.parametrize(
    ("forms", "complex_", "all_", "furthest"),
    [
        pytest.param([], "too few calls", "too few calls", "warn", id="nothing"),
        pytest.param(
            [form("event", False, 30)], "safe", "not yet", "reject_complex", id="only simple data"
        ),
        pytest.param([form("event", True, 30)], "not yet", "not yet", "warn", id="complex data"),
        pytest.param(
            [form("event", None, 1), form("event", False, 30)],
            "safe",
            "not yet",
            "reject_complex",
            id="what cannot be read is refused as it is",
        ),
        pytest.param(
            [form("ksi_tool_use", True, 30)], "safe", "safe", "reject", id="none of the direct form"
        ),
        pytest.param(
            [form("ksi_body", True, 19)],
            "too few calls",
            "too few calls",
            "warn",
            id="19 calls tell little",
        ),
    ],
)
def test_phases(forms: list[Form], complex_: str, all_: str, furthest: str) -> None:
    found = migration(forms)
    assert verdicts(found) == {"warn": "safe", "reject_complex": complex_, "reject": all_}
    assert found.furthest == furthest


def test_who_holds_a_phase_up() -> None:
    found = migration(
        [
            form("event", True, 2, "bob"),
            form("event", False, 40, "ann"),
            form("event", None, 9, "eve"),
            form("event", False, 5, "eve"),
            form("ksi_tool_use", True, 50, "ann"),
        ]
    )
    [_, complex_, all_] = found.phases
    assert [(each["agent"], each["calls"]) for each in complex_.agents] == [("bob", 2)]
    assert (complex_.calls, complex_.refused) == (106, 2)
    assert [(each["agent"], each["calls"]) for each in all_.agents] == [
        ("ann", 40),
        ("eve", 14),
        ("bob", 2),
    ]
    assert all_.refused == 56
    assert all_.agents[0] == {"agent": "ann", "model": "m", "calls": 40, "last": LAST}


def test_how_each_form_fares() -> None:
    found = migration(
        [
            form("ksi_tool_use", True, 40, good=39),
            form("event", True, 20, "bob", 5),
            form("event", True, 20, "ann", 15),
            form("event", None, 3, good=0),
            form("event", False, 10),
        ]
    ).kinds
    assert [(each.dialect, each.complex, each.n, each.good, each.rate) for each in found] == [
        ("event", False, 10, 10, 1.0),
        ("event", True, 40, 20, 0.5),
        ("event", None, 3, 0, 0.0),
        ("ksi_tool_use", True, 40, 39, 0.975),
    ]
    assert found[1].high < found[3].low


async def test_forms_of_a_log(path: Path) -> None:
    made = RandomLog(5)
    async with EventLog.open(path, durability="process") as log:
        for work in made.units(80):
            await log.submit(work)
        found = await log.reader.forms(None, None)
    for agent in ("ann", "bob", None):
        blocks = [
            fact for fact in made.facts
            if fact["agent_id"] == agent and fact["model"] == "m"
            and fact["dialect"] == "event" and fact["verdict"] != "held"
        ]  # fmt: skip
        good = [
            fact for fact in blocks
            if fact["verdict"] != "rejected"
            and not (fact["end"] and fact["end"].error and fact["end"].error.code == "args_schema")
        ]  # fmt: skip
        [one] = [
            each
            for each in found
            if (each.agent, each.model, each.dialect) == (agent, "m", "event")
        ]
        assert (one.n, one.good) == (len(blocks), len(good))
        assert one.last == max(fact["ts"] for fact in blocks)
        assert one.complex is None
