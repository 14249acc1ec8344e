from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.commands import components as components_module
from ksi_client.testing import StubDaemon

KSI = Callable[..., Result]
LISTED = {
    "components": [{"name": "agents/b", "component_type": "agent", "description": "B."}],
    "broken": [{"name": "a", "error": "no YAML"}],
}


@pytest.fixture(autouse=True)
def _components(stub: StubDaemon) -> None:
    stub.answers |= {
        "composition:list": LISTED,
        "composition:get_component": lambda data: {
            "name": data["name"],
            "text": "Be {{style}}.",
            "digest": "d1",
        },
        "composition:render_component": {"text": "Be kind.\n"},
        "composition:inspect": {
            "tree": {"name": "agents/b", "relation": "itself", "text_chars": 4, "parts": []},
            "origins": {},
            "component": {},
        },
        "composition:validate": lambda data: {
            "name": data["name"],
            "valid": data["name"] != "a",
            "problems": [{"code": "c", "message": "m", "part": "a"}] if data["name"] == "a" else [],
        },
        "composition:create_component": lambda data: {
            "name": data["name"],
            "draft": False,
            "problems": [],
        },
        "composition:promote": lambda data: {"name": data.get("to") or "agents/x"},
    }


def asked(stub: StubDaemon) -> list[tuple[str, Any]]:
    return [(wire.event, msgspec.json.decode(wire.data)) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "event", "data", "stdout"),
    [
        pytest.param(
            ["show", "agents/b"],
            "composition:get_component",
            {"name": "agents/b"},
            "name  agents/b\n\nBe {{style}}.\n",
            id="as the file has it",
        ),
        pytest.param(
            ["show", "agents/b", "--rendered", "--var-set", "style=kind"],
            "composition:render_component",
            {"name": "agents/b", "variables": {"style": "kind"}},
            "Be kind.\n",
            id="as an agent gets it",
        ),
        pytest.param(
            ["show", "components/agents/b.md"],
            "composition:get_component",
            {"name": "agents/b"},
            "name  agents/b\n\nBe {{style}}.\n",
            id="by its path in a checkout",
        ),
        pytest.param(
            ["inspect", "agents/b"],
            "composition:inspect",
            {"name": "agents/b"},
            "agents/b  4 characters\n",
            id="what it is made of",
        ),
        pytest.param(
            ["create", "agents/x", "-"],
            "composition:create_component",
            {"name": "agents/x", "content": "from stdin", "overwrite": False},
            "written as agents/x\n",
            id="from stdin",
        ),
    ],
)
def test_one_question_one_answer(
    stub: StubDaemon, ksi: KSI, words: list[str], event: str, data: dict[str, Any], stdout: str
) -> None:
    result = ksi("components", *words, stdin="from stdin")
    assert (result.exit_code, result.stdout) == (0, stdout)
    assert asked(stub) == [(event, data)]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param([], {}, id="by default"),
        pytest.param(["list"], {}, id="all"),
        pytest.param(["list", "--type", "agent"], {"component_type": "agent"}, id="of a type"),
    ],
)
def test_list(stub: StubDaemon, ksi: KSI, words: list[str], data: dict[str, Any]) -> None:
    assert ksi("components", *words).stdout.splitlines()[1:] == [
        "a          broken  no YAML",
        "agents/b   agent   B.",
    ]
    assert asked(stub) == [("composition:list", data)]


def test_the_list_as_json(ksi: KSI) -> None:
    lines = ksi("components", text=False).stdout.splitlines()
    assert [msgspec.json.decode(line)["name"] for line in lines] == ["agents/b", "a"]


@pytest.mark.parametrize(
    ("words", "names", "code"),
    [
        pytest.param(["agents/b"], ["agents/b"], 0, id="one that is good"),
        pytest.param(["agents/b", "a"], ["agents/b", "a"], 1, id="one that is not"),
        pytest.param([], ["a", "agents/b"], 1, id="all, those that are broken too"),
    ],
)
def test_validate(
    stub: StubDaemon, ksi: KSI, words: list[str], names: list[str], code: int
) -> None:
    result = ksi("components", "validate", *words)
    assert result.exit_code == code
    checked = [data["name"] for event, data in asked(stub) if event == "composition:validate"]
    assert checked == names
    assert ("    c: m" in result.stdout) == bool(code)


def test_validate_of_a_file_sends_what_it_holds(stub: StubDaemon, ksi: KSI, tmp_path: Path) -> None:
    path = tmp_path / "rhymer.md"
    path.write_text("Rhyme.")
    assert ksi("components", "validate", str(path)).exit_code == 0
    assert asked(stub) == [("composition:validate", {"name": str(path), "content": "Rhyme."})]


@pytest.mark.parametrize("words", [["validate", "{file}"], ["create", "agents/x", "{file}"]])
def test_a_file_that_is_no_text(
    stub: StubDaemon, ksi: KSI, tmp_path: Path, words: list[str]
) -> None:
    path = tmp_path / "latin.md"
    path.write_bytes(b"caf\xe9")
    result = ksi("components", *(word.format(file=path) for word in words))
    assert result.exit_code == 1
    assert "error component_invalid: the file is not UTF-8: " in result.stderr
    assert asked(stub) == []


def test_variables_are_for_what_is_rendered(ksi: KSI) -> None:
    result = ksi("components", "show", "agents/b", "--var-set", "style=kind")
    assert result.exit_code == 2
    assert "--var-set goes with --rendered" in result.stderr


DRAFT = "agents_drafts/bob/agents/x"


@pytest.mark.parametrize(
    ("words", "data", "name"),
    [
        pytest.param([], {"overwrite": False}, "agents/x", id="as it was named"),
        pytest.param(
            ["--to", "agents/y", "--overwrite"],
            {"to": "agents/y", "overwrite": True},
            "agents/y",
            id="under another name",
        ),
    ],
)
def test_promote_names_what_it_found(
    stub: StubDaemon, ksi: KSI, words: list[str], data: dict[str, Any], name: str
) -> None:
    result = ksi("components", "promote", DRAFT, *words)
    assert (result.exit_code, result.stdout) == (0, f"{name} can be used now\n")
    assert asked(stub) == [
        ("composition:get_component", {"name": DRAFT}),
        ("composition:promote", {"name": DRAFT, "digest": "d1", **data}),
    ]


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_promote_on_a_terminal_shows_the_draft_and_asks(
    stub: StubDaemon, ksi: KSI, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr(components_module, "is_asked", lambda: True)
    result = ksi("components", "promote", DRAFT, stdin=typed)
    assert result.exit_code == code
    assert "Be {{style}}.\nPromote it? [y/N]:" in result.stdout
    promoted = [event for event, _ in asked(stub)][1:]
    assert promoted == (["composition:promote"] if code == 0 else [])


def test_promote_without_a_question(
    stub: StubDaemon, ksi: KSI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components_module, "is_asked", lambda: True)
    assert ksi("components", "promote", DRAFT, "--yes").stdout == "agents/x can be used now\n"
