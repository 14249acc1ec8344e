from __future__ import annotations

from typing import Any

from ksi_client.text import Paint
from ksi_client.views import reports

PLAIN = Paint(False)


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
