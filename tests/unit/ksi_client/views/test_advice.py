from __future__ import annotations

from typing import Any

import pytest

from ksi_client.text import Paint
from ksi_client.views import advice

PLAIN = Paint(False)


def contender(dialect: str, n: int, rate: float) -> dict[str, Any]:
    return {
        "dialect": dialect, "n": n, "good": round(n * rate), "rate": rate, "low": rate - 0.05,
        "high": rate + 0.04,
    }  # fmt: skip


EVENT, NATIVE, BODY = (
    contender("event", 200, 0.6),
    contender("native", 200, 0.95),
    contender("ksi_body", 100, 0.94),
)


def told(verdict: str, *contenders: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"dialect": None, "protocol": None, "more_calls": None, "avoid": []}
    return {"model": "m", "verdict": verdict, "contenders": list(contenders), **given, **more}


@pytest.mark.parametrize(
    ("each", "sentence"),
    [
        pytest.param(
            told("clear", NATIVE, EVENT, dialect="native", avoid=["event"], protocol="native_auto"),
            "use native: 95.0 % against event 60.0 %",
            id="clear",
        ),
        pytest.param(
            told("open", NATIVE, BODY, EVENT, avoid=["event"], more_calls=1_234),
            "cannot tell native and ksi_body apart; event is worse; about 1,300 more calls of each "
            "would tell",
            id="open",
        ),
        pytest.param(
            told("open", NATIVE, BODY),
            "cannot tell native and ksi_body apart: they do the same",
            id="the same",
        ),
        pytest.param(
            told("open", NATIVE, BODY, EVENT, contender("x", 9, 0.1), avoid=["event", "x"]),
            "cannot tell native and ksi_body apart; event and x are worse: they do the same",
            id="several are worse",
        ),
        pytest.param(
            told("single", EVENT, dialect="event"),
            "wrote only event: there is nothing to compare it with",
            id="single",
        ),
        pytest.param(told("unknown"), "made no call yet", id="unknown"),
    ],
)
def test_a_recommendation_in_words(each: dict[str, Any], sentence: str) -> None:
    lines = list(advice.recommendations([each], PLAIN, 100))
    assert lines[:2] == ["m", f"  {sentence}"]


def test_a_recommendation_names_the_protocol_and_its_figures() -> None:
    protocol = {"preset": "ksi", "legacy_event": "reject"}
    each = told("clear", NATIVE, EVENT, dialect="native", avoid=["event"], protocol=protocol)
    assert list(advice.recommendations([each, told("unknown")], PLAIN, 80))[2:] == [
        '  protocol: {"preset":"ksi","legacy_event":"reject"}',
        "  dialect  calls   fit  95 %",
        "  native     200  95.0  90.0-99.0",
        "  event      200  60.0  55.0-64.0",
        "",
        "m",
        "  made no call yet",
    ]


def test_nothing_to_recommend() -> None:
    [line] = advice.recommendations([], PLAIN, 80)
    assert line.startswith("no completions yet")


def test_a_migration() -> None:
    calls = (("bob", 9), (None, 2), ("c", 1), ("d", 1))
    agents = [{"agent": name, "calls": number} for name, number in calls]
    phases = [
        {"legacy_event": "warn", "meaning": "refuses nothing", "verdict": "safe", "calls": 30,
         "refused": 0, "agents": []},
        {"legacy_event": "reject_complex", "meaning": "refuses complex data", "verdict": "not yet",
         "calls": 30, "refused": 13, "agents": agents},
    ]  # fmt: skip
    kinds = [
        {"dialect": "event", "complex": True, "n": 13, "good": 5, "rate": 0.385, "low": 0.17,
         "high": 0.65},
        {"dialect": "event", "complex": None, "n": 2, "good": 0, "rate": 0.0, "low": 0.0,
         "high": 0.66},
    ]  # fmt: skip
    found = {"phases": phases, "furthest": "warn", "kinds": kinds}
    assert list(advice.migration(found, PLAIN, 80)) == [
        'The direct form of events, {"event": …, "data": …}, and doing without it',
        "legacy_event    verdict  refuses   by whom",
        "warn            safe     0 of 30   refuses nothing",
        "reject_complex  not yet  13 of 30  bob 9, - 2, c 1, 1 more",
        "",
        "How the calls in each form could be read and fitted",
        "form   data        calls   fit  95 %",
        "event  complex        13  38.5  17.0-65.0",
        "event  unreadable      2   0.0  0.0-66.0",
        "",
        "Safe now: protocol: {preset: ksi, legacy_event: warn}",
    ]


AUDIT: dict[str, Any] = {
    "replies": 12, "unread": [], "unknown": 0, "without_event": [], "cubes": 8, "miscounted": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        pytest.param(
            {},
            [
                "✓ 12 replies read again: no block was lost",
                "✓ calls that ran: each has its event",
                "✓ 8 tables of counts: as a full scan has them",
            ],
            id="sound",
        ),
        pytest.param(
            {
                "unread": ["c1", "c2", "c3", "c4", "c5"],
                "without_event": [["c1", 2]],
                "miscounted": ["tool"],
                "unknown": 3,
            },
            [
                "✗ 12 replies read again: 5 hold more blocks: c1, c2, c3, 2 more",
                "✗ calls that ran: 1 have no event: c1.2",
                "✗ 8 tables of counts: 1 are wrong: tool",
                "  of 3 replies it is not known how they were read",
            ],
            id="unsound",
        ),
    ],
)
def test_an_audit(found: dict[str, Any], lines: list[str]) -> None:
    assert list(advice.audit(AUDIT | found, PLAIN)) == lines
