"""Cases of source 002 about components: what those that are shipped teach and show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ksi_client import connect
from ksi_daemon.component import parse
from ksi_daemon.extraction import PRESETS, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.services.components.check import TAUGHT
from ksi_daemon.testing import running_daemon, short_directory

pytestmark = pytest.mark.conformance

COMPONENTS = Path(__file__).parents[2] / "components"
BEHAVIORS = COMPONENTS / "behaviors"
NAMES = sorted(
    path.relative_to(COMPONENTS).with_suffix("").as_posix() for path in COMPONENTS.rglob("*.md")
)
LESSON = "behaviors/communication/ksi_events_as_tool_calls"


def text_of(name: str) -> str:
    return parse((COMPONENTS / f"{name}.md").read_text("utf-8"), name=name).text


async def test_S002_21_an_agent_is_taught_both_methods_by_a_component() -> None:
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", components=str(COMPONENTS)) as socket,
            connect(str(socket)) as ksi,
        ):
            provider = {"type": "scripted", "replies": []}
            await ksi.request(
                "agent:spawn", {"agent_id": "a", "component": LESSON, "provider": provider}
            )
            system = (await ksi.request("agent:info", {"agent_id": "a"}))["system"]
    first, second, when = map(system.index, ("Method 1", "Method 2", "Use Method 2 when"))
    assert first < system.index('"event"') < second < system.index('"ksi_tool_use"') < when
    bullets = re.findall(r"^- .*$", system[when:], re.MULTILINE)
    assert len(bullets) == 3
    assert all(map(str.__contains__, bullets, ("lines", "quotes", "within")))


@pytest.mark.parametrize(
    ("name", "preset", "calls"),
    [
        pytest.param(LESSON, "ksi", ["agent:progress", "state:set"], id="both methods"),
        pytest.param("behaviors/protocols/prompt_tools", "prompt_tools", ["state:get"], id="tools"),
        pytest.param("behaviors/protocols/text_tagged", "text_tagged", ["state:get"], id="tagged"),
        pytest.param("behaviors/protocols/command", "command", ["state:get"], id="a line"),
    ],
)
def test_S002_22_the_examples_of_a_behaviour_are_calls(
    name: str, preset: str, calls: list[str]
) -> None:
    found = extract(text_of(name), protocol(preset))
    assert ([call.name for call in found.calls], found.rejected) == (calls, ())


def test_S002_22_the_examples_of_the_strict_protocol_are_replies() -> None:
    action, final = re.findall(
        r"^\{.*\}$", text_of("behaviors/protocols/json_action"), re.MULTILINE
    )
    [call] = extract(action, protocol("json_action")).calls
    assert (call.name, call.args) == ("state:get", {"key": "outline"})
    assert extract(final, protocol("json_action")).final == "The outline has four parts."


@pytest.mark.parametrize("preset", PRESETS)
def test_S002_21_there_is_a_behaviour_for_each_preset(preset: str) -> None:
    path = BEHAVIORS / "protocols" / f"{preset}.md"
    assert parse(path.read_text("utf-8"), name=preset).protocol == preset


async def test_S002_30_nothing_is_wrong_with_any_component() -> None:
    """Events, tools, dialects, parts exist; examples are calls that fit, in the form for them."""
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", components=str(COMPONENTS)) as socket,
            connect(str(socket)) as ksi,
        ):
            listed = await ksi.request("composition:list")
            found = {
                name: (await ksi.request("composition:validate", {"name": name}))["problems"]
                for name in NAMES
            }
    assert listed["broken"] == []
    assert [row["name"] for row in listed["components"]] == NAMES
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_S002_30_the_dialects_that_components_show_exist() -> None:
    assert set(TAUGHT) <= set(DIALECTS)
