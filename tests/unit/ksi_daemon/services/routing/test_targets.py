from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.errors import Denied
from ksi_daemon.security import SYSTEM, Principal, agent
from ksi_daemon.services.routing.targets import Target, ToAgent, check_target, named, owned
from ksi_daemon.testing import running_router


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


async def test_nothing_stands_for_a_program_that_is_no_agent() -> None:
    program = Principal("client", "mcp:1", "mcp:1", ("*",))
    async with running_router() as (router, _):
        with pytest.raises(Denied, match="mcp:1 is no agent: nothing can act for it later"):
            check_target(router, "a:b", program)
