from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.providers.model import Request
from ksi_daemon.providers.pool import ProviderPool

SCRIPT: dict[str, Any] = {"type": "scripted", "replies": ["a", "b", "c"]}
LOCAL: dict[str, Any] = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}


async def test_agents_that_name_the_same_provider_share_it() -> None:
    pool = ProviderPool()
    first = pool.provider(LOCAL, 0)
    again = pool.provider(dict(reversed(LOCAL.items())), 5)
    other = pool.provider(LOCAL | {"model": "n"}, 0)
    assert (again is first, other is first) == (True, False)
    await pool.aclose()


@pytest.mark.parametrize(("replies", "text"), [(0, "a"), (2, "c"), (3, "")])
async def test_each_agent_has_a_script_of_its_own_and_goes_on_in_it(
    replies: int, text: str
) -> None:
    pool = ProviderPool()
    other = pool.provider(SCRIPT, 1)
    completion = await pool.provider(SCRIPT, replies).complete(Request(messages=()))
    assert completion.text == text
    assert (await other.complete(Request(messages=()))).text == "b"


def test_check() -> None:
    pool = ProviderPool()
    pool.check(SCRIPT)
    with pytest.raises(InvalidData) as caught:
        pool.check({"type": "script"})
    assert caught.value.hint == "did you mean 'scripted'?"
