from __future__ import annotations

import msgspec
import pytest

from ksi_daemon import security
from ksi_daemon.events import Event, now
from ksi_daemon.security.taint import is_carried

LIVING = {
    "clean": security.agent("clean", ()),
    "led": security.agent("led", (), tainted=True),
}


@pytest.mark.parametrize(
    ("name", "source", "agent_id", "carried"),
    [
        pytest.param("a:b", "client:0/1", None, False, id="a client's"),
        pytest.param("a:b", "agent:clean", "clean", False, id="a clean agent's"),
        pytest.param("a:b", "agent:led", "led", True, id="a tainted agent's"),
        pytest.param("a:b", "agent:gone", "gone", True, id="that of one that is no more"),
        pytest.param("a:b", "rule:x", "led", True, id="of what acts for a tainted agent"),
        pytest.param("agent:terminated", "system", "led", False, id="the daemon's own word"),
        pytest.param("completion:result", "system", "led", True, id="what its model wrote"),
        pytest.param("completion:result", "system", "clean", False, id="or a clean one's"),
    ],
)
def test_what_carries_taint(name: str, source: str, agent_id: str | None, carried: bool) -> None:
    event = Event(
        id="1",
        ts=now(),
        name=name,
        data=msgspec.Raw(b"{}"),
        source=source,
        correlation_id="1",
        agent_id=agent_id,
        status="handled",
    )
    assert is_carried(event, LIVING.get) is carried
