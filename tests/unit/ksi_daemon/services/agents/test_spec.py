from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.component import Component, Limits
from ksi_daemon.conversation import LoopLimits
from ksi_daemon.errors import InvalidData, KsiError
from ksi_daemon.services.agents.spec import (
    Defaults,
    Spawn,
    Spec,
    loop_limits,
    make_spec,
)

SCRIPT = {"type": "scripted", "replies": ["hi"]}
DEFAULTS = Defaults(provider=SCRIPT)


def made(
    asked: Spawn | None = None,
    component: Component | None = None,
    defaults: Defaults = DEFAULTS,
    **rest: Any,
) -> Spec:
    given = {"agent_id": "ada", "grant": ("a:*",), "parent": None} | rest
    return make_spec(
        asked or Spawn(),
        given["agent_id"],
        component or Component(text="Be {{style|kind}}.\n"),
        given["grant"],
        defaults,
        given["parent"],
    )


def test_an_agent_of_nothing_but_a_component() -> None:
    assert made(Spawn(component="agents/ada"), parent="bob") == Spec(
        agent_id="ada",
        component="agents/ada",
        system="Be kind.\n",
        provider=SCRIPT,
        model=None,
        protocol="ksi",
        tools=None,
        allow=("a:*",),
        profile="agent",
        subscriptions=(),
        limits=Limits(),
        parent="bob",
    )


FULL = Component(
    text="Component.",
    model="component-model",
    protocol={"preset": "ksi", "mode": "strict"},
    profile="team",
    tools=["c:t"],
    subscriptions=["c:*"],
    limits=Limits(turns=7, calls=7),
)


@pytest.mark.parametrize(
    ("asked", "component", "field", "value"),
    [
        pytest.param(Spawn(system="Asked."), FULL, "system", "Asked.", id="system: asked"),
        pytest.param(Spawn(system=""), FULL, "system", "", id="system: asked to be empty"),
        pytest.param(Spawn(), FULL, "system", "Component.", id="system: component"),
        pytest.param(
            Spawn(variables={"style": "rude"}), None, "system", "Be rude.\n", id="system: variables"
        ),
        pytest.param(Spawn(model="m"), FULL, "model", "m", id="model: asked"),
        pytest.param(Spawn(), FULL, "model", "component-model", id="model: component"),
        pytest.param(Spawn(protocol="ksi"), FULL, "protocol", "ksi", id="protocol: asked"),
        pytest.param(Spawn(), FULL, "protocol", FULL.protocol, id="protocol: component"),
        pytest.param(Spawn(tools=("a:t",)), FULL, "tools", ("a:t",), id="tools: asked"),
        pytest.param(Spawn(tools=()), FULL, "tools", (), id="tools: asked to be none"),
        pytest.param(Spawn(), FULL, "tools", ("c:t",), id="tools: component"),
        pytest.param(Spawn(allow=("x:y",)), None, "allow", ("x:y",), id="allow: asked"),
        pytest.param(Spawn(allow=()), None, "allow", (), id="allow: asked to be none"),
        pytest.param(Spawn(), None, "allow", ("a:*",), id="allow: the profile's"),
        pytest.param(Spawn(), FULL, "allow", ("a:*", "c:t"), id="allow: profile and tools"),
        pytest.param(Spawn(tools=("t",)), None, "allow", ("t",), id="allow: tools only"),
        pytest.param(Spawn(tools=()), None, "allow", (), id="allow: no tools"),
        pytest.param(
            Spawn(tools=("t",), allow=("x:y",)), None, "allow", ("x:y", "t"), id="allow: both"
        ),
        pytest.param(Spawn(profile="p"), FULL, "profile", "p", id="profile: asked"),
        pytest.param(Spawn(), FULL, "profile", "team", id="profile: component"),
        pytest.param(
            Spawn(subscriptions=("x:*",)),
            FULL,
            "subscriptions",
            ("x:*",),
            id="subscriptions: asked",
        ),
        pytest.param(
            Spawn(subscriptions=()), FULL, "subscriptions", (), id="subscriptions: asked to be none"
        ),
        pytest.param(Spawn(), FULL, "subscriptions", ("c:*",), id="subscriptions: component"),
        pytest.param(
            Spawn(limits=Limits(turns=2)), FULL, "limits", Limits(turns=2, calls=7), id="limits"
        ),
    ],
)
def test_the_spawn_goes_before_the_component(
    asked: Spawn, component: Component | None, field: str, value: Any
) -> None:
    assert getattr(made(asked, component), field) == value


OPENAI = {"type": "openai", "base_url": "http://127.0.0.1:1", "model": "m"}


@pytest.mark.parametrize(
    ("asked", "component", "default", "provider"),
    [
        pytest.param(SCRIPT, {}, OPENAI, SCRIPT, id="asked object"),
        pytest.param(None, {"provider": SCRIPT}, OPENAI, SCRIPT, id="component's object"),
        pytest.param(
            {"type": "faulty", "slips": 0.3},
            {"script": {"replies": ["a"]}},
            OPENAI,
            {"type": "faulty", "slips": 0.3, "of": OPENAI},
            id="slips for what the agent would have",
        ),
        pytest.param(
            {"type": "faulty", "slips": 0.3},
            {"script": {"replies": ["a"]}},
            None,
            {"type": "faulty", "slips": 0.3, "of": {"type": "scripted", "replies": ["a"]}},
            id="slips for the component's script",
        ),
        pytest.param(
            None,
            {"provider": {"type": "faulty"}},
            OPENAI,
            {"type": "faulty", "of": OPENAI},
            id="slips that a component asks for",
        ),
        pytest.param(None, {}, OPENAI, OPENAI, id="default"),
        pytest.param("openai", {}, OPENAI, OPENAI, id="asked name is the default's type"),
        pytest.param("ollama", {}, OPENAI, {"type": "ollama"}, id="asked name is another type"),
        pytest.param(None, {"provider": "openai"}, OPENAI, OPENAI, id="component's name"),
        pytest.param(
            None,
            {"script": {"replies": ["hi"]}},
            None,
            SCRIPT,
            id="the script, where there is no other",
        ),
        pytest.param(
            None, {"script": {"replies": ["hi"]}}, OPENAI, OPENAI, id="a default beats the script"
        ),
        pytest.param(
            "scripted", {"script": {"replies": ["hi"]}}, OPENAI, SCRIPT, id="the script by name"
        ),
        pytest.param(
            None,
            {"script": {"replies": ["hi"]}},
            {"type": "scripted"},
            SCRIPT,
            id="the script, where the default has none",
        ),
    ],
)
def test_where_the_provider_comes_from(
    asked: Any, component: dict[str, Any], default: Any, provider: dict[str, Any]
) -> None:
    spec = made(Spawn(provider=asked), Component(**component), Defaults(provider=default))
    assert spec.provider == provider


def test_no_provider_is_an_error_with_the_remedy() -> None:
    with pytest.raises(InvalidData, match="the agent has no provider") as caught:
        made(defaults=Defaults())
    assert caught.value.hint == "give one at the spawn, or start the daemon with --provider"


@pytest.mark.parametrize("agent_id", ["a", "a-b_c", "0", "_", "a" * 64])
def test_ids_that_can_be(agent_id: str) -> None:
    assert made(agent_id=agent_id).agent_id == agent_id


@pytest.mark.parametrize(
    "agent_id",
    ["-a", "A", "a b", "a.b", "..", "a/b", "a" * 65, "\u00e9", "a\n", "a\0", "*"],
    ids=ascii,
)
def test_ids_that_cannot_be(agent_id: str) -> None:
    with pytest.raises(InvalidData) as caught:
        made(agent_id=agent_id)
    assert caught.value.message == f"{agent_id[:80]!r} is no agent id"
    assert caught.value.details == {"path": "agent_id"}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        pytest.param("ski", "not_found", id="no such preset"),
        pytest.param({"preset": "ski"}, "not_found", id="no such preset in an object"),
        pytest.param({"preset": 5}, "args_schema", id="a preset that is a number"),
        pytest.param({"preset": ["ksi"]}, "args_schema", id="a preset that is a list"),
        pytest.param({"name": "x"}, "args_schema", id="a name"),
        pytest.param({"mode": "loose"}, "invalid_configuration", id="no such mode"),
        pytest.param({"dialects": ["latin"]}, "not_found", id="no such dialect"),
        pytest.param({"odd": 1}, "invalid_configuration", id="no such setting"),
    ],
)
def test_a_protocol_that_cannot_be(wanted: Any, code: str) -> None:
    with pytest.raises(KsiError) as caught:
        made(Spawn(protocol=wanted))
    assert caught.value.code == code


def test_limits_over_the_daemons() -> None:
    defaults = LoopLimits(turns=1, calls=2, mistakes=3, identical=4)
    assert loop_limits(Limits(), defaults) == defaults
    assert loop_limits(Limits(turns=7, calls=8, mistakes=9, wall_s=5), defaults) == LoopLimits(
        turns=7, calls=8, mistakes=9, identical=4, wall_s=5
    )


def test_a_spec_outlives_the_daemon() -> None:
    spec = made(Spawn(component="c", tools=("a:b",), limits=Limits(turns=3)), parent="bob")
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec


def test_the_model_is_for_the_provider_that_slips_are_made_in() -> None:
    asked = Spawn(provider={"type": "faulty", "of": OPENAI}, model="m-2")
    spec = made(asked, Component(), DEFAULTS)
    assert spec.provider == {"type": "faulty", "of": {"model": "m-2", **OPENAI}}
