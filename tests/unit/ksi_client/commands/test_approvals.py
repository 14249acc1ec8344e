from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

KSI = Callable[..., Result]
WAITING = {
    "approval_id": "ap_1",
    "agent_id": "ada",
    "event_id": "e1",
    "event": "state:set",
    "data": {"key": "k", "value": 1},
    "made": "2026-01-01T00:00:00Z",
    "expires": "2026-01-01T00:10:00Z",
}


@pytest.fixture(autouse=True)
def _approvals(stub: StubDaemon) -> None:
    stub.answers |= {
        "approval:list": {"approvals": [WAITING]},
        "approval:grant": {"approval_id": "ap_1", "status": "handled", "result": {"version": 1}},
        "approval:deny": {"approval_id": "ap_1"},
    }


def asked(stub: StubDaemon) -> list[tuple[str, Any, bool]]:
    """What was asked, with which data, and whether it was said that a person asks."""
    return [(wire.event, msgspec.json.decode(wire.data), wire.human) for wire in stub.requests]


def test_what_waits(ksi: KSI) -> None:
    assert ksi("approvals").stdout == (
        "approval  agent  event      left  data\n"
        'ap_1      ada    state:set  0 s   {"key":"k","value":1}\n'
    )


def test_what_waits_as_json(ksi: KSI) -> None:
    assert msgspec.json.decode(ksi("approvals", text=False).stdout) == WAITING


def test_a_person_grants(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("approvals", "grant", "ap_1", "--yes")
    assert (result.exit_code, result.stdout) == (0, '✓ state:set  {"version":1}\n')
    assert asked(stub)[1:] == [("approval:grant", {"approval_id": "ap_1"}, True)]


def test_nobody_grants_who_has_not_seen_the_call(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("approvals", "grant", "ap_1", stdin="y\n")
    assert result.exit_code == 2
    assert "--yes says that the call was seen" in result.stderr
    assert asked(stub) == []


def test_what_does_not_wait_is_not_granted(stub: StubDaemon, ksi: KSI) -> None:
    result = ksi("approvals", "grant", "ap_2", "--yes")
    assert (result.exit_code, result.stderr.splitlines()) == (
        1,
        ["error not_found: no pending approval 'ap_2'", "hint: did you mean 'ap_1'?"],
    )
    assert [event for event, *_ in asked(stub)] == ["approval:list"]


def test_a_call_that_fails_after_all(stub: StubDaemon, ksi: KSI) -> None:
    error = {"code": "conflict", "message": "it has version 2", "retryable": False}
    stub.answers["approval:grant"] = {"approval_id": "ap_1", "status": "failed", "error": error}
    result = ksi("approvals", "grant", "ap_1", "--yes")
    assert (result.exit_code, result.stdout) == (1, "✗ state:set  conflict: it has version 2\n")


def test_a_person_denies(stub: StubDaemon, ksi: KSI) -> None:
    assert ksi("approvals", "deny", "ap_1", "--reason", "no").stdout == "denied ap_1\n"
    assert asked(stub) == [("approval:deny", {"approval_id": "ap_1", "reason": "no"}, True)]
