from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.component import Component, parse
from ksi_daemon.errors import ComponentError, NotFound
from ksi_daemon.registry import Notice, Registry, handles
from ksi_daemon.services.components.check import MAX_PROBLEMS, Problem, problems
from tests.growth import LINEAR, doubling


class Pair(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    value: Any = None


class Status(msgspec.Struct):
    agent_id: str
    status: Literal["ready", "done"]


class Spawn(msgspec.Struct):
    component: str


class Handlers:
    """A small house: what is read and written, what is said of oneself, who is brought to life."""

    NOTICES: Final = (Notice("agent:spawned", "An agent began to live."),)

    @handles("state:get", effect="observe")
    def get(self, data: Pair, ctx: object) -> None:
        """Get a value."""

    @handles("state:set")
    def set(self, data: Pair, ctx: object) -> None:
        """Set a value."""

    @handles("agent:status", own="agent_id")
    def status(self, data: Status, ctx: object) -> None:
        """Say how one is."""

    @handles("agent:spawn", effect="spawn")
    def spawn(self, data: Spawn, ctx: object) -> None:
        """Bring an agent to life."""


HOUSE = {
    "agents/greeter": "You greet.",
    "agents/circle": "---\nextends: agents/circle\n---\n",
    "profiles/keeper": "---\ncomponent_type: profile\nallow: ['state:*']\n---\n",
    "profiles/agent": "---\ncomponent_type: profile\nallow: []\n---\n",
}


def load(name: str) -> Component:
    if name.startswith("agents_drafts/"):
        raise ComponentError(f"{name!r} is a draft", code="component_draft")
    if name not in HOUSE:
        raise NotFound("component", name, HOUSE)
    return parse(HOUSE[name], name=name)


@pytest.fixture(scope="module")
def registry() -> Registry:
    registry = Registry()
    registry.include(Handlers())
    return registry


def front(*lines: str, body: str = "Text.") -> str:
    return "\n".join(("---", *lines, "---", body))


READY = '{"event": "agent:status", "data": {"status": "ready"}}'
SET = '{"event": "state:set", "data": {"key": "k", "value": 1}}'
GOOD = front(
    "extends: agents/greeter",
    "profile: keeper",
    "protocol: {preset: ksi, legacy_event: warn, use_native_tools: auto}",
    "subscriptions: ['agent:spawned']",
    "variables: {style: kind}",
    f"script: {{replies: ['{SET}', {{text: '{READY}', delay_s: 1}}]}}",
    body=f"Be {{{{style}}}}. Use `state:get` and `state:*`, dialect `event`.\n\n{READY}",
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("Just text, {{x}} and `code: too` and `a b`.", id="plain"),
        pytest.param(GOOD, id="all that there is"),
        pytest.param(front("name: x", "color: red", body="{{y}}"), id="a file of another program"),
        pytest.param(
            front("component_type: part", body=SET), id="no rights of its own to judge by"
        ),
        pytest.param(front("tools: ['state:set']", body=SET), id="a tool of its own"),
        pytest.param(
            front("profile: keeper", "tools: ['agent:spawn']", body=SET), id="a profile and a tool"
        ),
        pytest.param(front("protocol: best"), id="the protocol that the log recommends"),
        pytest.param("Start `agents/greeter` as `profiles/agent`.", id="components that exist"),
        pytest.param("Read `docs/agents/none`, `agents/`.", id="paths of something else"),
        pytest.param('{"tool": "read_file", "arguments": {}}', id="a tool of a plugin"),
    ],
)
def test_nothing_is_wrong(registry: Registry, text: str) -> None:
    assert problems("it", text, load, registry) == []


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        pytest.param(front("a: [", body=""), "component_invalid", "not usable YAML", id="YAML"),
        pytest.param("a\0b", "component_invalid", "NUL", id="no text"),
        pytest.param(
            front("profile: keeper", "colour: red"), "unknown_field", "'colour'", id="a field"
        ),
        pytest.param(front("extends: agents/gone"), "not_found", "'agents/gone'", id="a part"),
        pytest.param(
            front("extends: agents_drafts/bob/x"), "component_draft", "draft", id="made of a draft"
        ),
        pytest.param(
            front("mixins: [agents/circle]"),
            "component_cycle",
            "agents/circle -> agents/circle",
            id="a circle",
        ),
        pytest.param(front("variables: {}", body="{{a}}"), "unset_variable", "{{a}}", id="unset"),
        pytest.param(front("protocol: ksl"), "not_found", "no preset 'ksl'", id="a preset"),
        pytest.param(
            front("protocol: {legacy_event: maybe}"),
            "invalid_configuration",
            "legacy_event",
            id="a setting of a protocol",
        ),
        pytest.param(
            front("protocol: {use_native_tools: perhaps}"),
            "invalid_configuration",
            "use_native_tools",
            id="a setting of the loop",
        ),
        pytest.param(
            front("protocol: {name: ksi}"), "args_schema", "by its preset", id="no preset"
        ),
        pytest.param(front("protocol: {dialects: [evnt]}"), "not_found", "'evnt'", id="a dialect"),
        pytest.param(
            front("script: {replies: 5}"), "bad_script", "Expected `array`", id="a script"
        ),
        pytest.param(front("script: {}"), "bad_script", "`replies`", id="a script without replies"),
        pytest.param(
            front("script: {replies: [[]], type: openai}"), "bad_script", "replies[0]", id="a reply"
        ),
        pytest.param(
            front("script: {replies: [{txt: a}]}"), "bad_script", "`txt`", id="a field of a reply"
        ),
        pytest.param(front("tools: ['a:*']"), "unknown_event", "tools: ", id="a tool"),
        pytest.param(
            front("subscriptions: ['a:b']"), "unknown_event", "subscriptions: ", id="an event heard"
        ),
        pytest.param(
            front("allow: ['state:gte']"), "unknown_event", "allow: ", id="an event granted"
        ),
        pytest.param(front("ask: ['state:gte']"), "unknown_event", "ask: ", id="an event asked of"),
        pytest.param(front("deny: ['state:gte']"), "unknown_event", "deny: ", id="an event denied"),
        pytest.param("Emit `state:gte`.", "unknown_event", "'state:gte'", id="an event named"),
        pytest.param("The preset `kis`.", "unknown_dialect", "'kis'", id="a preset named"),
        pytest.param("See `agents/gone`.", "not_found", "'agents/gone'", id="a component named"),
        pytest.param(
            '{"event": "agent:spawn", "data": {"component": "agents/gone"}}',
            "not_found",
            "'agents/gone'",
            id="a component brought to life",
        ),
        pytest.param(
            '{"event": "state:gte", "data": {}}', "unknown_event", "an example: ", id="an example"
        ),
        pytest.param(
            READY.replace("ready", "redy"), "args_schema", "'agent:status'", id="its arguments"
        ),
        pytest.param(
            READY[:-2] + ', "x": y}}', "malformed_block", "an example is no call", id="no call"
        ),
        pytest.param(
            '{"event": "state:set", "data": {"key": "k", "value": "a\\nb"}}',
            "legacy_complex",
            "ksi_tool_use or ksi_body",
            id="complex data in the form for short",
        ),
        pytest.param(front("profile: gone"), "not_found", "'profiles/gone'", id="a profile"),
        pytest.param(
            front("profile: agent", body=SET),
            "denied",
            "'state:set'",
            id="not granted, in the text",
        ),
        pytest.param(
            front("profile: agent", f"script: {{replies: ['{SET}']}}"),
            "denied",
            "'state:set'",
            id="not granted, in the script",
        ),
        pytest.param(
            front("tools: ['state:get']", body=SET), "denied", "'state:set'", id="no tool of its"
        ),
    ],
)
def test_what_is_wrong(registry: Registry, text: str, code: str, message: str) -> None:
    [problem] = problems("it", text, load, registry)
    assert (problem.code, problem.part) == (code, "it")
    assert message in problem.message


def test_all_is_told_at_once_with_what_was_perhaps_meant(registry: Registry) -> None:
    text = front("extends: agents/gretter", "odd: 1", body="Use `state:gte` and `state:gett`.")
    assert problems("it", text, load, registry) == [
        Problem("unknown_field", "ksi does not know the field 'odd'", "it"),
        Problem(
            "not_found", "no component 'agents/gretter'", "it", "did you mean 'agents/greeter'?"
        ),
        Problem("unknown_event", "no event fits 'state:gte'", "it", "did you mean 'state:get'?"),
        Problem("unknown_event", "no event fits 'state:gett'", "it", "did you mean 'state:get'?"),
    ]


def test_of_very_many_the_first_are_told(registry: Registry) -> None:
    text = " ".join(f"`a:b{number}`" for number in range(5_000))
    found = problems("it", text, load, registry)
    assert len(found) == MAX_PROBLEMS
    assert found[-1].code == "too_many"


@given(st.text(max_size=400), st.booleans())
def test_any_text_can_be_checked(text: str, has_front: bool) -> None:
    registry = Registry()
    registry.include(Handlers())
    assert problems("it", front(text) if has_front else text, load, registry) is not None


@pytest.mark.parametrize("piece", ["`a:b`", "`agents/a`", "{{a}}", READY, '{"event": "', "a:\n"])
def test_what_a_check_costs_doubles_with_the_text(registry: Registry, piece: str) -> None:
    def cost(size: int) -> None:
        problems("it", front("profile: keeper", body=piece * (size // len(piece))), load, registry)

    assert doubling(cost, 8_000) < LINEAR
