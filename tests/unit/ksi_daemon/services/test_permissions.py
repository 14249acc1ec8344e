from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import Peer, connected, running_daemon

PROFILE = """---
component_type: profile
description: Asks.
allow: ["state:*", "agent:terminate"]
ask: ["state:set", "system:mark"]
deny: ["state:delete"]
---
"""


@asynccontextmanager
async def daemon(var: Path) -> AsyncIterator[Peer]:
    folder = var / "components" / "profiles"
    folder.mkdir(parents=True)
    (folder / "asker.md").write_text(PROFILE)
    (folder / "broken.md").write_text("---\nallow: 5\n---\n")
    async with (
        running_daemon(var, components=str(var / "components")) as socket,
        connected(socket) as peer,
    ):
        yield peer


ABOUT_ITSELF = ["agent:progress", "agent:result", "agent:status"]
RIGHTS = {
    "allow": ["state:*", "agent:terminate"],
    "ask": ["state:set", "system:mark"],
    "deny": ["state:delete"],
}
EVENTS = {
    "may": [*ABOUT_ITSELF, "agent:terminate", "state:get", "state:query"],
    "must_ask": ["state:set", "system:mark"],
}


async def test_profiles_are_listed_and_so_are_those_that_cannot_be_read(var: Path) -> None:
    async with daemon(var) as ksi:
        found = await ksi.ask("permission:list_profiles")
        assert {"name": "asker", "description": "Asks.", **RIGHTS} in found["profiles"]
        assert [each["name"] for each in found["broken"]] == ["broken"]


@pytest.mark.parametrize("name", ["asker", "profiles/asker"])
async def test_a_profile_tells_which_events_it_reaches(var: Path, name: str) -> None:
    async with daemon(var) as ksi:
        assert await ksi.ask("permission:get_profile", {"name": name}) == {
            "name": "asker",
            "description": "Asks.",
            **RIGHTS,
            **EVENTS,
        }


@pytest.mark.parametrize("name", ["asked", "../asker", "agents/greeter"])
async def test_what_is_no_profile_is_not_found(var: Path, name: str) -> None:
    async with daemon(var) as ksi:
        with pytest.raises(KsiError) as caught:
            await ksi.ask("permission:get_profile", {"name": name})
        assert caught.value.code == "not_found"


async def test_an_agents_rights_are_told_as_they_are(var: Path) -> None:
    async with daemon(var) as ksi:
        provider = {"type": "scripted", "replies": []}
        spawn = {"agent_id": "a", "system": "x", "provider": provider, "profile": "asker"}
        await ksi.ask("agent:spawn", spawn)
        found = await ksi.ask("permission:get_agent", {"agent_id": "a"})
        assert {**found, "allow": sorted(found["allow"])} == {
            "agent_id": "a",
            **RIGHTS,
            "allow": ["agent:terminate", "state:*", "state:set", "system:mark"],
            **EVENTS,
        }
        with pytest.raises(KsiError) as caught:
            await ksi.ask("permission:get_agent", {"agent_id": "b"})
        assert caught.value.code == "not_found"
