"""Agent, skill and rule files in the shapes of other programs, made up for this test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.component import Component, parse, render, unknown_fields
from ksi_daemon.testing import connected, running_daemon, short_directory

FOREIGN = Path(__file__).parents[1] / "data" / "foreign"
FILES = sorted(path.relative_to(FOREIGN).as_posix() for path in FOREIGN.rglob("*.md"))
# What ksi understands of each beside its description.
UNDERSTOOD: dict[str, dict[str, Any]] = {
    "chat_mode.md": {"tools": ["codebase", "search", "fetch"], "model": "Some Model 4"},
    "everything_allowed.md": {},
    "examples_in_description.md": {},
    "hooks.md": {"tools": ["Bash", "mcp__files__read"]},
    "no_front_matter.md": {},
    "opencode.md": {"tools": ["read"], "model": "anthropic/some-model"},
    "reviewer.md": {"tools": ["Read", "Grep", "Glob", "Bash"], "model": "sonnet"},
    "rule.md": {},
    "skills/table-reader/SKILL.md": {},
    "templates.md": {"tools": ["Read", "Write"]},
    "windows.md": {"tools": ["Read", "Bash"], "model": "haiku"},
}


def text_of(name: str) -> str:
    return (FOREIGN / name).read_bytes().decode("utf-8")


def body_of(name: str) -> str:
    """Return what stands behind the second line of dashes, found without our parser."""
    text = text_of(name)
    rows = text.removeprefix("\ufeff").split("\n")
    if rows[0].rstrip() == "---":
        end = next(n for n, row in enumerate(rows[1:], start=1) if row.rstrip() == "---")
        text = "\n".join(rows[end + 1 :])
    return text.strip() + "\n"


@pytest.mark.parametrize("name", FILES)
def test_the_text_is_taken_as_it_is(name: str) -> None:
    component = parse(text_of(name), name="n")
    assert component.text == body_of(name)
    assert render(component, {}) == body_of(name)
    assert unknown_fields(text_of(name), name="n") == []


@pytest.mark.parametrize("name", FILES)
def test_what_is_understood_of_the_rest(name: str) -> None:
    component = parse(text_of(name), name="n")
    expected = Component(
        name="n",
        text=body_of(name),
        description=component.description,
        plain=component.plain,
        **UNDERSTOOD[name],
    )
    assert component == expected
    assert (component.description is None) == (name == "no_front_matter.md")


def test_a_description_that_is_no_yaml_is_whole() -> None:
    description = parse(text_of("examples_in_description.md"), name="n").description
    assert description is not None
    assert description.startswith("Use this agent when a release is near. Examples: <example>")
    assert description.endswith("It knows: tags, notes: all of it.")


async def test_each_lives_as_an_agent_with_its_text_as_the_prompt() -> None:
    with short_directory() as var:
        async with running_daemon(var) as socket, connected(socket) as peer:
            for number, name in enumerate(FILES):
                provider = {"type": "scripted", "replies": ["Well."]}
                spawned = {"component": str(FOREIGN / name), "provider": provider}
                await peer.ask("agent:spawn", {"agent_id": f"a{number}", **spawned})
                info = await peer.ask("agent:info", {"agent_id": f"a{number}"})
                assert info["system"] == body_of(name), name
                # Names of other programs' tools are no rights here, and no pattern is made of them.
                assert [each for each in info["allow"] if "*" in each] == [], name
