from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon
from ksi_daemon.extraction import PRESETS, Tool, augment, protocol, teach

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = Tool("notes:read", "Read a note.", SCHEMA)
TOLD = {"name": READ.name, "description": READ.description, "schema": SCHEMA}


@pytest.fixture
def tools_file(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([TOLD]))
    return str(path)


@pytest.mark.parametrize("command", ["prompt", "extract"])
def test_the_help_names_every_preset(ksi: Callable[..., Result], command: str) -> None:
    words = set(re.findall(r"\w+", ksi(command, "--help").stdout))
    assert {*PRESETS} <= words


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "prompt_tools"])
def test_a_preset(ksi: Callable[..., Result], preset: str) -> None:
    assert ksi("prompt", preset).stdout == teach(protocol(preset))


def test_ksi_by_default(ksi: Callable[..., Result]) -> None:
    assert ksi("prompt").stdout == teach(protocol("ksi"))


def test_tools_of_a_file(ksi: Callable[..., Result], tools_file: str) -> None:
    words = ["--tools", tools_file, "--compact", "--nonce", "ABCDE234"]
    assert ksi("prompt", "prompt_tools", *words).stdout == teach(
        protocol("prompt_tools"), [READ], compact=True, nonce="ABCDE234"
    )


def test_tools_of_stdin_as_json(ksi: Callable[..., Result]) -> None:
    result = ksi("prompt", "any", "--tools", "-", stdin=json.dumps(TOLD), text=False)
    assert msgspec.json.decode(result.stdout) == {
        "preset": "any",
        "prompt": teach(protocol("any"), [READ]),
        "tools": ["notes:read"],
    }


def test_events_of_the_daemon(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    described = {"name": READ.name, "summary": READ.description, "schema": SCHEMA}
    stub.answers["system:discover"] = {"events": [{"name": READ.name}], "notices": []}
    stub.answers["system:help"] = {**described, "example": {"event": READ.name, "data": {}}}
    assert ksi("prompt", "--events", "notes:*").stdout == teach(protocol("ksi"), [READ])
    asked = [(wire.event, msgspec.json.decode(wire.data)) for wire in stub.requests]
    assert asked == [
        ("system:discover", {"pattern": "notes:*"}),
        ("system:help", {"event": "notes:read"}),
    ]


@pytest.mark.parametrize(
    ("words", "told", "preset", "settings"),
    [
        pytest.param([], "prompt_tools", "prompt_tools", {}, id="its own preset"),
        pytest.param(
            [],
            {"preset": "ksi", "dialects": ["event"]},
            "ksi",
            {"dialects": ("event",)},
            id="its own settings",
        ),
        pytest.param(["text_tagged"], "prompt_tools", "text_tagged", {}, id="another preset"),
    ],
)
def test_what_an_agent_is_taught(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    told: Any,
    preset: str,
    settings: dict[str, Any],
) -> None:
    stub.answers["agent:info"] = {"system": "Be brief.", "protocol": told, "told": [TOLD]}
    shown = ksi("prompt", *words, "--agent", "ada").stdout
    assert shown == augment("Be brief.", protocol(preset, **settings), [READ])
    assert msgspec.json.decode(stub.requests[0].data) == {"agent_id": "ada", "told": True}


def test_nothing_to_teach_is_said(ksi: Callable[..., Result]) -> None:
    result = ksi("prompt", "prompt_tools")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "teaches nothing where there are no tools" in result.stderr


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        pytest.param(["odd"], 2, "'odd' is not one of 'ksi'", id="preset"),
        pytest.param(["--tools", "/nowhere"], 2, "No such file", id="file"),
        pytest.param(["--tools", "-"], 1, "error bad_tools: the tools cannot be read", id="tools"),
        pytest.param(["--nonce", "x"], 1, "error bad_nonce: a nonce is eight", id="nonce"),
        pytest.param(["--events", "*", "--agent", "a"], 2, "exclude each other", id="two sources"),
    ],
)
def test_bad_input(
    ksi: Callable[..., Result], words: list[str], exit_code: int, message: str
) -> None:
    result = ksi("prompt", *words, stdin="{")
    assert result.exit_code == exit_code
    assert message in " ".join(result.stderr.split())
