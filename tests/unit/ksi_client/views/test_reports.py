from __future__ import annotations

import re
from typing import Any

import pytest

from ksi_client.text import Paint, width
from ksi_client.views import reports

PLAIN = Paint(False)

ROW: dict[str, Any] = {
    "model": "m-1",
    "dialect": "event",
    "completions": 120,
    "seen": 130,
    "strict": 110,
    "repaired": 14,
    "rejected": 6,
    "invalid": 0,
    "unknown": 0,
    "denied": 0,
    "handled": 122,
    "failed": 0,
    "corrected": 5,
    "quoted": 0,
    "rate": 0.938,
    "low": 0.88,
    "high": 0.97,
    "p50_ms": 240.4,
    "p95_ms": 910.0,
    "tokens": 48120,
}


def test_agents() -> None:
    listed: list[dict[str, Any]] = [
        {"agent_id": "ada", "state": "running", "status": "busy", "provider": "scripted"},
        {"agent_id": "bob", "state": "idle", "progress": 0.5, "component": "agents/bob\x1b"},
    ]
    assert list(reports.agents(listed, PLAIN, 80)) == [
        "agent  state    says  provider  model  component",
        "ada    running  busy  scripted  -      -",
        r"bob    idle     0.5   -         -      agents/bob\e",
    ]


def test_no_agents() -> None:
    assert list(reports.agents([], PLAIN, 80)) == ["no agents; ksi spawn brings one to life"]


def test_an_answer() -> None:
    answer = {
        "text": "Stored.\x1b\nBye.",
        "finish_reason": "stop",
        "turns": 2,
        "calls": [
            {"id": "1", "name": "state:set", "status": "handled", "result": {"version": 1}},
            {"id": "2", "name": "agent:status", "status": "handled"},
            {
                "id": "3",
                "name": "agent:spawn",
                "status": "denied",
                "error": {"code": "denied", "message": "not you"},
            },
        ],
    }
    assert list(reports.answer(answer, PLAIN, 80)) == [
        r"Stored.\e",
        "Bye.",
        '✓ state:set  {"version":1}',
        "✓ agent:status",
        "⊘ agent:spawn  denied: not you",
        "2 turns, stop",
    ]


def test_an_answer_that_is_none() -> None:
    answer = {
        "text": "",
        "finish_reason": "provider_auth",
        "turns": 1,
        "error": {"code": "provider_auth", "message": "no key"},
    }
    assert list(reports.answer(answer, PLAIN, 80)) == ["1 turn, provider_auth: no key"]


def test_reliability() -> None:
    [head, row] = reports.reliability(["model", "dialect"], [ROW], PLAIN, 200)
    assert re.split(" {2,}", head) == [
        *("model", "dialect", "completions", "seen", "strict", "repaired", "rejected", "handled"),
        *("corrected", "rate", "95 %", "p50", "p95", "tokens"),
    ]
    assert re.split(" {2,}", row) == [
        *("m-1", "event", "120", "130", "110", "14", "6", "122"),
        *("5", "93.8", "88.0-97.0", "240 ms", "910 ms", "48120"),
    ]


@pytest.mark.parametrize("cells", [60, 80, 100])
def test_reliability_on_a_narrow_terminal_keeps_the_rate(cells: int) -> None:
    [head, row] = reports.reliability(["model", "dialect"], [ROW], PLAIN, cells)
    assert width(head) <= cells
    assert "93.8" in row
    assert "88.0-97.0" in row


def test_reliability_of_nothing() -> None:
    row = {"model": None, "seen": 0, "rate": None}
    [_, line] = reports.reliability(["model"], [row], PLAIN, 100)
    assert line.split() == ["-", "0", "0", "0", "0", "-", "---", "-", "-", "0"]
    assert list(reports.reliability(["model"], [], PLAIN, 100)) == [
        "no completions yet; ksi send gives an agent something to answer"
    ]


def test_events() -> None:
    listed = [{"name": "b:x", "class": "write", "summary": "Do x."}]
    notices = [{"name": "a:told", "summary": "It was told."}]
    assert list(reports.events(listed, notices, PLAIN, 80)) == [
        "event   class   what it does",
        "a:told  notice  It was told.",
        "b:x     write   Do x.",
    ]


def test_an_event_described() -> None:
    described = {
        "name": "agent:spawn",
        "class": "spawn",
        "summary": "Bring an agent to life.",
        "schema": {
            "description": "What it\n    shall be.",
            "required": ["component"],
            "properties": {
                "component": {"type": "string"},
                "prompt": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "allow": {"type": "array", "items": {"type": "string"}, "default": []},
                "limits": {"$ref": "#/$defs/Limits"},
                "mode": {"enum": ["a", "b"], "default": "a"},
                "any": {},
            },
        },
        "example": {"event": "agent:spawn", "data": {"component": "it's"}},
    }
    assert list(reports.described(described, PLAIN, 80)) == [
        "agent:spawn  spawn",
        "Bring an agent to life.",
        "",
        "What it shall be.",
        "",
        "field      type            default",
        "component  string          required",
        "prompt     string",
        "allow      list of string  []",
        "limits     Limits",
        'mode       "a" or "b"      "a"',
        "any        any",
        "",
        """$ ksi emit agent:spawn '{"component":"it'"'"'s"}'""",
    ]


def test_a_notice_described() -> None:
    described = {"name": "a:told", "class": "notice", "summary": "It was told."}
    assert list(reports.described(described, PLAIN, 80)) == ["a:told  notice", "It was told."]
