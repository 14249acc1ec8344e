from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ksi_daemon.component import Component
from ksi_daemon.errors import ComponentError, Conflict, InvalidData, NotFound
from ksi_daemon.services.components.files import MAX_NAME, Files, draft_name, name_of_draft

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
    assert Files(root).load("agents/greeter") == Component(
        name="agents/greeter",
        text="Be {{style}}.\n",
        description="Greets.",
        variables={"style": "kind"},
    )


def test_names_are_those_that_can_be_loaded(root: Path) -> None:
    assert Files(root).names() == ["agents/greeter", "broken", "profiles/agent"]


def test_no_directory_is_no_components(tmp_path: Path) -> None:
    assert Files(tmp_path / "absent").names() == []


def test_a_name_that_is_near_is_told(root: Path) -> None:
    with pytest.raises(NotFound) as caught:
        Files(root).load("agents/greter")
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
        Files(root).load(name)
    assert caught.value.code == "component_name"
    assert caught.value.message == f"{name[:MAX_NAME]!r} is no component name"


def test_a_link_cannot_lead_out(root: Path) -> None:
    (root / "link.md").symlink_to("../secret.md")
    (root / "inside.md").symlink_to("agents/greeter.md")
    with pytest.raises(ComponentError, match="'link' leads out of the components") as caught:
        Files(root).load("link")
    assert caught.value.code == "component_name"
    assert Files(root).load("inside").description == "Greets."


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
    found = Files(root).load_given(given.format(root=root), may_be_path)
    assert found.description == "Greets."


def test_a_persons_file_may_be_anywhere_but_a_models_may_not(root: Path, tmp_path: Path) -> None:
    secret = str(tmp_path / "secret.md")
    assert Files(root).load_given(secret, True) == Component(name="secret", text="the secret\n")
    with pytest.raises(ComponentError, match="is no component name"):
        Files(root).load_given(secret, False)


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
        Files(tmp_path).load_given(str(path), True)
    assert caught.value.message.startswith(f"cannot read the component '{path}': ")
    assert reason in caught.value.message


def test_a_component_is_written_whole_and_nothing_else_is_left(root: Path) -> None:
    Files(root).write("behaviors/deep/kind", "Be kind.\n", overwrite=False)
    directory = root / "behaviors" / "deep"
    assert [path.name for path in directory.iterdir()] == ["kind.md"]
    assert (directory / "kind.md").read_text() == "Be kind.\n"


def test_a_name_that_is_taken_is_overwritten_only_on_purpose(root: Path) -> None:
    files = Files(root)
    with pytest.raises(Conflict) as caught:
        files.write("agents/greeter", "New.\n", overwrite=False)
    assert caught.value.code == "already_exists"
    assert (root / "agents" / "greeter.md").read_text() == GREETER
    files.write("agents/greeter", "New.\n", overwrite=True)
    assert files.load("agents/greeter").text == "New.\n"
    assert len(list((root / "agents").iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        pytest.param("../up", "x", "component_name", id="up"),
        pytest.param("a.b", "x", "component_name", id="dots"),
        pytest.param("new", "---\nlimits: 1\n---\n", "component_invalid", id="not a component"),
        pytest.param("new", "a\0b", "component_invalid", id="NUL"),
        pytest.param("new", "a\ud800b", "component_invalid", id="half a character"),
        pytest.param("new", "x" * 70_000, "component_invalid", id="too large"),
        pytest.param("new", "---\na: &a [1]\nb: *a\n---\n", "component_invalid", id="an alias"),
        pytest.param("link/new", "x", "component_name", id="through a link to outside"),
        pytest.param("within/new", "x", "component_invalid", id="through a link within"),
        pytest.param("notes/new", "x", "component_invalid", id="through a file"),
    ],
)
def test_what_is_not_written(root: Path, name: str, content: str, code: str) -> None:
    (root / "link").symlink_to(root.parent)
    (root / "within").symlink_to(root / "agents")
    (root / "notes").write_text("a file")
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(ComponentError) as caught:
        Files(root).write(name, content, overwrite=True)
    assert caught.value.code == code
    assert sorted(root.parent.rglob("*")) == before


def test_a_link_is_replaced_and_not_followed(root: Path, tmp_path: Path) -> None:
    (root / "inside.md").symlink_to("agents/greeter.md")
    Files(root).write("inside", "New.\n", overwrite=True)
    assert not (root / "inside.md").is_symlink()
    assert (root / "agents" / "greeter.md").read_text() == GREETER


def test_a_draft_is_no_component_to_make_something_of(root: Path) -> None:
    files = Files(root)
    name = draft_name("bob", "agents/scout")
    files.write(name, "You scout.\n", overwrite=False)
    assert files.load(name).text == "You scout.\n"
    (root.parent / "link.md").symlink_to(root / f"{name}.md")
    for given in (name, f"components/{name}.md", f"{root}/{name}.md", f"{root.parent}/link.md"):
        with pytest.raises(ComponentError) as caught:
            files.load_given(given, True)
        assert caught.value.code == "component_draft"
        assert caught.value.hint == f"a person promotes it: ksi components promote {name}"


@pytest.mark.parametrize("name", ["agents/scout", "agents_drafts", "agents_drafts/bob", ""])
def test_what_is_no_draft(name: str) -> None:
    with pytest.raises(InvalidData, match="is no draft"):
        name_of_draft(name)


def test_the_name_that_an_agent_gave_its_draft() -> None:
    assert name_of_draft(draft_name("bob", "agents/scout")) == "agents/scout"


def test_links_in_a_circle_are_an_error(root: Path) -> None:
    (root / "loop.md").symlink_to("loop.md")
    with pytest.raises(ComponentError, match="cannot follow the component 'loop'") as caught:
        Files(root).load("loop")
    assert caught.value.code == "component_invalid"


def test_a_pipe_holds_nobody_up(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    with pytest.raises(NotFound):
        Files(root).load("pipe")
    with pytest.raises(ComponentError, match="is not a regular file"):
        Files(root).load_given(str(root / "pipe.md"), True)


def test_a_file_of_a_terabyte_is_refused_and_not_read(root: Path) -> None:
    with open(root / "large.md", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ComponentError, match="larger than 65536 bytes"):
        Files(root).load("large")


@pytest.mark.parametrize("number", range(5))
def test_a_directory_that_becomes_a_link_leads_nothing_out(root: Path, number: int) -> None:
    """Whoever swaps a directory for a link while files are written gets none of them."""
    outside = root.parent / "outside"
    outside.mkdir()
    files, place = Files(root), root / "drop"
    done = threading.Event()

    def swap() -> None:
        for turn in itertools.count():
            if done.is_set():
                break
            place.mkdir(exist_ok=True)
            aside = place.rename(root / f"aside-{turn}")
            with suppress(OSError):  # a file was written to it
                aside.rmdir()
            with suppress(FileExistsError):  # the writer made the directory anew
                place.symlink_to(outside)
                place.unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for each in range(50):
            with suppress(ComponentError):
                files.write(f"drop/note-{each}", "Mine.\n", overwrite=True)
    finally:
        done.set()
        swapping.join()
    assert list(outside.iterdir()) == []


def test_ones_own_components_stand_before_those_that_came_with_it(
    root: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    files = Files(own, root)
    assert files.names() == Files(root).names()
    assert files.load("agents/greeter").description == "Greets."
    with pytest.raises(Conflict):
        files.write("agents/greeter", "Mine.\n", overwrite=False)
    files.write("agents/greeter", "Mine.\n", overwrite=True)
    files.write("agents/new", "New.\n", overwrite=False)
    assert files.load("agents/greeter").text == "Mine.\n"
    assert files.names() == ["agents/greeter", "agents/new", "broken", "profiles/agent"]
    assert (root / "agents" / "greeter.md").read_text() == GREETER
    files.remove("agents/greeter")
    files.remove("profiles/agent")
    assert files.load("agents/greeter").description == "Greets."
    assert files.load("profiles/agent").allow == ["a:b"]


def test_no_link_leads_from_ones_own_components_to_the_others(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "it.md").symlink_to(root / "agents" / "greeter.md")
    with pytest.raises(ComponentError, match="leads out of the components"):
        Files(own, root).load("it")
