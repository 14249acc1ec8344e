from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.component import Component
from ksi_daemon.errors import ComponentError, KsiError, NotFound
from ksi_daemon.services.components import MAX_NAME, Components
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


def test_a_component_is_found_by_its_name(root: Path) -> None:
    assert Components(root).load("agents/greeter") == Component(
        name="agents/greeter",
        text="Be {{style}}.\n",
        description="Greets.",
        variables={"style": "kind"},
    )


def test_names_are_those_that_can_be_loaded(root: Path) -> None:
    assert Components(root).names() == ["agents/greeter", "broken", "profiles/agent"]


def test_no_directory_is_no_components(tmp_path: Path) -> None:
    assert Components(tmp_path / "absent").names() == []


def test_a_name_that_is_near_is_told(root: Path) -> None:
    with pytest.raises(NotFound) as caught:
        Components(root).load("agents/greter")
    assert caught.value.message == "no component 'agents/greter'"
    assert caught.value.hint == "did you mean 'agents/greeter'?"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../secret", id="up"),
        pytest.param("agents/../../secret", id="up from within"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("agents//greeter", id="empty part"),
        pytest.param("agents/", id="empty end"),
        pytest.param("", id="empty"),
        pytest.param(".hidden", id="dot"),
        pytest.param("agents/greeter.md", id="ending"),
        pytest.param("UPPER", id="capitals"),
        pytest.param("agents\\greeter", id="backslash"),
        pytest.param("agents/greeter\n", id="newline"),
        pytest.param("a/b/c/d/e/f", id="too many parts"),
        pytest.param("a" * (MAX_NAME + 1), id="too long"),
        pytest.param("agents/gr\u00e9eter", id="not ASCII"),
        pytest.param("a\0b", id="NUL"),
    ],
)
def test_a_name_cannot_leave_the_directory(root: Path, name: str) -> None:
    with pytest.raises(ComponentError) as caught:
        Components(root).load(name)
    assert caught.value.code == "component_name"
    assert caught.value.message == f"{name[:MAX_NAME]!r} is no component name"


def test_a_link_cannot_lead_out(root: Path) -> None:
    (root / "link.md").symlink_to("../secret.md")
    (root / "inside.md").symlink_to("agents/greeter.md")
    with pytest.raises(ComponentError, match="'link' leads out of the components") as caught:
        Components(root).load("link")
    assert caught.value.code == "component_name"
    assert Components(root).load("inside").description == "Greets."


@pytest.mark.parametrize(
    ("given", "may_be_path"),
    [
        pytest.param("agents/greeter", False, id="name"),
        pytest.param("components/agents/greeter.md", False, id="path in a checkout"),
        pytest.param("agents/greeter.md", False, id="name with an ending"),
        pytest.param("{root}/agents/greeter.md", True, id="a person's file"),
    ],
)
def test_what_names_a_component(root: Path, given: str, may_be_path: bool) -> None:
    found = Components(root).load_given(given.format(root=root), may_be_path)
    assert found.description == "Greets."


def test_a_persons_file_may_be_anywhere_but_a_models_may_not(root: Path, tmp_path: Path) -> None:
    secret = str(tmp_path / "secret.md")
    assert Components(root).load_given(secret, True) == Component(
        name="secret", text="the secret\n"
    )
    with pytest.raises(ComponentError, match="is no component name"):
        Components(root).load_given(secret, False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("absent.md", "No such file or directory", id="absent"),
        pytest.param("", "Is a directory", id="a directory"),
        pytest.param("latin.md", "can't decode byte 0xe9", id="not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    path = tmp_path / name
    with pytest.raises(ComponentError) as caught:
        Components(tmp_path).load_given(str(path), True)
    assert caught.value.message.startswith(f"cannot read the component '{path}': ")
    assert reason in caught.value.message


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
        }
        asked: dict[str, Any] = {"name": "agents/greeter"}
        assert await peer.ask("composition:render_component", asked) == {"text": "Be kind.\n"}
        asked["variables"] = {"style": "brief"}
        assert await peer.ask("composition:render_component", asked) == {"text": "Be brief.\n"}
        with pytest.raises(KsiError, match="is no component name") as caught:
            await peer.ask("composition:get_component", {"name": "../secret"})
    assert caught.value.code == "component_name"
