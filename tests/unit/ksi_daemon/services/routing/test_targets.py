from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.security import SYSTEM, agent
from ksi_daemon.services.routing.targets import Target, ToAgent, named, owned


@pytest.mark.parametrize(
    ("target", "data", "event"),
    [
        pytest.param("a:b", {"k": 1}, ("a:b", {"k": 1}), id="an event"),
        pytest.param("a:b", None, ("a:b", None), id="an event without data"),
        pytest.param(
            ToAgent("ada"),
            {"message": "Hi."},
            ("agent:send", {"message": "Hi.", "agent_id": "ada"}),
            id="an agent",
        ),
        pytest.param(
            ToAgent("ada"), {"agent_id": "bob"}, ("agent:send", {"agent_id": "ada"}), id="no other"
        ),
    ],
)
def test_what_a_target_means(target: Target, data: Any, event: Any) -> None:
    assert named(target, data) == event


def test_who_acts() -> None:
    living = {"ada": agent("ada", ("a:*",))}
    assert owned("ada", living.get) == living["ada"]
    assert owned("bob", living.get) is None
    assert owned(None, living.get) == SYSTEM
