from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.services.components.service import MAX_DRAFTS
from ksi_daemon.testing import connected, running_daemon

GREETER = "---\ndescription: Greets.\nvariables: {style: kind}\n---\nBe {{style}}.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory of three components, one broken, and a secret beside it."""
    root = tmp_path / "components"
    for name, text in (
        ("agents/greeter.md", GREETER),
        ("profiles/agent.md", "---\ncomponent_type: profile\nallow: [a:b]\n---\n"),
        ("broken.md", "---\nlimits: 1\n---\n"),
        ("UPPER.md", "no component: its name is no name"),
        ("notes.txt", "no component"),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.md").write_text("the secret")
    return root


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        pytest.param({}, ["agents/greeter", "profiles/agent"], id="all"),
        pytest.param({"component_type": "profile"}, ["profiles/agent"], id="a type"),
        pytest.param({"component_type": "tool"}, [], id="no such type"),
    ],
)
async def test_list(var: Path, root: Path, asked: dict[str, Any], names: list[str]) -> None:
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        found = await peer.ask("composition:list", asked)
    assert [row["name"] for row in found["components"]] == names
    assert found["broken"] == [
        {"name": "broken", "error": "'broken': Expected `object`, got `int` - at `$.limits`"}
    ]


async def test_get_and_render(var: Path, root: Path) -> None:
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        assert await peer.ask("composition:get_component", {"name": "agents/greeter"}) == {
            "name": "agents/greeter",
            "text": "Be {{style}}.\n",
            "description": "Greets.",
            "variables": {"style": "kind"},
            "digest": hashlib.sha256(GREETER.encode()).hexdigest(),
        }
        asked: dict[str, Any] = {"name": "agents/greeter"}
        assert (await peer.ask("composition:render_component", asked))["text"] == "Be kind.\n"
        asked["variables"] = {"style": "brief"}
        assert (await peer.ask("composition:render_component", asked))["text"] == "Be brief.\n"
        with pytest.raises(KsiError, match="is no component name") as caught:
            await peer.ask("composition:get_component", {"name": "../secret"})
    assert caught.value.code == "component_name"


async def test_parts_are_in_what_is_rendered_and_inspected(var: Path, root: Path) -> None:
    (root / "agents" / "polite.md").write_text("---\nextends: agents/greeter\n---\nBow.\n")
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        asked = {"name": "agents/polite"}
        rendered = await peer.ask("composition:render_component", asked)
        assert rendered["text"] == "Be kind.\n\nBow.\n"
        inspected = await peer.ask("composition:inspect", asked)
        assert inspected["origins"] == {"variables.style": "agents/greeter"}
        assert [part["name"] for part in inspected["tree"]["parts"]] == ["agents/greeter"]
        assert rendered["tree"] == inspected["tree"]
        spawned = {"component": "agents/polite", "provider": {"type": "scripted", "replies": []}}
        agent = await peer.ask("agent:spawn", spawned)
        info = await peer.ask("agent:info", {"agent_id": agent["agent_id"]})
    assert info["system"] == "Be kind.\n\nBow.\n"


DRAFTER = """
{"event": "composition:create_component",
 "data": {"name": "agents/scout", "content": "You scout."}}
"""


async def test_what_an_agent_writes_is_a_draft_until_a_person_promotes_it(
    var: Path, root: Path
) -> None:
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        await peer.ask(
            "agent:spawn",
            {
                "agent_id": "bob",
                "system": "Write.",
                "allow": ["composition:create_component"],
                "provider": {"type": "scripted", "replies": [DRAFTER, "Done."]},
            },
        )
        answer = await peer.ask("agent:send", {"agent_id": "bob", "message": "go", "wait": True})
        draft = "agents_drafts/bob/agents/scout"
        assert answer["calls"][0]["result"] == {"name": draft, "draft": True, "problems": []}
        with pytest.raises(KsiError, match="is a draft of an agent") as caught:
            await peer.ask("agent:spawn", {"component": draft})
        assert caught.value.code == "component_draft"
        assert await peer.ask("composition:promote", {"name": draft}) == {"name": "agents/scout"}
        listed = await peer.ask("composition:list", {})
    assert "agents/scout" in [row["name"] for row in listed["components"]]
    assert not (root / f"{draft}.md").exists()


FAULTY = """---
protocol: {preset: kis}
tools: [state:gte]
extends: agents/gretter
odd: 1
---
Say `agent:statsu`. {{name}} {{style|kind}}

{"event": "agent:status", "data": {"status": 5}}

{"event": "agent:result", "data": {"agent_id": "x", "result": "two\\nlines"}}
"""


async def test_validate_tells_every_fault_at_once(var: Path, root: Path) -> None:
    (root / "faulty.md").write_text(FAULTY)
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        found = await peer.ask("composition:validate", {"name": "faulty"})
        assert (await peer.ask("composition:validate", {"name": "agents/greeter"}))["valid"]
    assert [problem["code"] for problem in found["problems"]] == [
        "unknown_field",
        "not_found",
        "unset_variable",
        "not_found",
        "unknown_event",
        "unknown_event",
        "legacy_complex",
        "args_schema",
    ]
    assert found["problems"][1]["hint"] == "did you mean 'agents/greeter'?"
    assert found["problems"][5]["hint"] == "did you mean 'agent:status'?"


async def test_validate_of_a_text_that_is_no_component_yet(var: Path, root: Path) -> None:
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        asked = {"name": "./new.md", "content": "---\nextends: agents/greeter\n---\nSay `a:b`."}
        found = await peer.ask("composition:validate", asked)
        good = await peer.ask("composition:validate", asked | {"content": "Say hello."})
    assert found["name"] == "./new.md"
    assert [problem["code"] for problem in found["problems"]] == ["unknown_event"]
    assert good == {"name": "./new.md", "valid": True, "problems": []}


async def test_drafts_are_listed_as_drafts(var: Path, root: Path) -> None:
    draft = root / "agents_drafts" / "bob" / "scout.md"
    draft.parent.mkdir(parents=True)
    draft.write_text("You scout.\n")
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        listed = (await peer.ask("composition:list", {}))["components"]
    drafts = {row["name"]: row.get("draft", False) for row in listed}
    assert drafts["agents_drafts/bob/scout"] is True
    assert drafts["agents/greeter"] is False


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        pytest.param("---\nprofile: agent\n---\n{{a}} {{b}}", {}, "{{a}}, {{b}}", id="missing"),
        pytest.param(GREETER, {"stlye": "x"}, "has no variable 'stlye'", id="unknown"),
        pytest.param("Hi {{name}}.", {"name": "x"}, "has no variable 'name'", id="of plain text"),
    ],
)
async def test_a_spawn_with_variables_that_do_not_fit_makes_no_agent(
    var: Path, root: Path, text: str, variables: dict[str, str], message: str
) -> None:
    (root / "it.md").write_text(text)
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        provider = {"type": "scripted", "replies": []}
        asked = {"component": "it", "variables": variables, "provider": provider}
        with pytest.raises(KsiError) as caught:
            await peer.ask("agent:spawn", asked)
        assert (await peer.ask("agent:list"))["agents"] == []
    assert caught.value.code == "args_schema"
    assert message in caught.value.message


async def test_the_drafts_of_an_agent_are_bounded(var: Path, root: Path) -> None:
    def draft(name: str) -> str:
        data = {"name": name, "content": "You scout.", "overwrite": True}
        return json.dumps({"event": "composition:create_component", "data": data})

    for number in range(MAX_DRAFTS):
        path = root / "agents_drafts" / "bob" / f"d{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("You scout.\n")
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        replies = [f"{draft('one_more')}\n{draft('d0')}", "Done."]
        await peer.ask(
            "agent:spawn",
            {
                "agent_id": "bob",
                "system": "Write.",
                "allow": ["composition:create_component"],
                "provider": {"type": "scripted", "replies": replies},
            },
        )
        answer = await peer.ask("agent:send", {"agent_id": "bob", "message": "go", "wait": True})
    refused, taken = answer["calls"]
    assert refused["error"]["code"] == "too_many_drafts"
    assert taken["result"]["name"] == "agents_drafts/bob/d0"
    assert not (root / "agents_drafts" / "bob" / "one_more.md").exists()


async def test_a_draft_that_was_changed_after_a_look_at_it_stays_one(var: Path, root: Path) -> None:
    draft = root / "agents_drafts" / "bob" / "scout.md"
    draft.parent.mkdir(parents=True)
    draft.write_text("You scout.\n")
    name = "agents_drafts/bob/scout"
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        looked_at = (await peer.ask("composition:get_component", {"name": name}))["digest"]
        draft.write_text("You obey nobody.\n")
        asked = {"name": name, "digest": looked_at}
        with pytest.raises(KsiError, match="has changed since you looked at it") as caught:
            await peer.ask("composition:promote", asked)
        assert not (root / "scout.md").exists()
        draft.write_text("You scout.\n")
        assert await peer.ask("composition:promote", asked) == {"name": "scout"}
    assert caught.value.code == "changed"
    assert (root / "scout.md").read_text() == "You scout.\n"


async def test_no_agent_promotes_a_draft_even_if_it_was_granted(var: Path, root: Path) -> None:
    draft = root / "agents_drafts" / "bob" / "scout.md"
    draft.parent.mkdir(parents=True)
    draft.write_text("You scout.\n")
    call = '{"event": "composition:promote", "data": {"name": "agents_drafts/bob/scout"}}'
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        await peer.ask(
            "agent:spawn",
            {
                "agent_id": "bob",
                "system": "Write.",
                "allow": ["composition:promote"],
                "provider": {"type": "scripted", "replies": [call, "Well."]},
            },
        )
        answer = await peer.ask("agent:send", {"agent_id": "bob", "message": "go", "wait": True})
    [refused] = answer["calls"]
    assert (refused["status"], refused["error"]["code"]) == ("failed", "denied")
    assert draft.exists()


async def test_a_profile_is_no_agent(var: Path, root: Path) -> None:
    async with running_daemon(var, components=str(root)) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="'profiles/agent' is a profile and no agent"):
            await peer.ask("agent:spawn", {"component": "profiles/agent"})
