"""README is held to the code: what it names exists, what exists is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ksi_client import connect
from ksi_client.cli import COMMANDS
from ksi_daemon.config import Settings
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.providers import PROVIDERS
from ksi_daemon.providers.slips import PROFILES, SLIPS
from ksi_daemon.testing import running_daemon, short_directory

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", README))


@pytest.mark.parametrize("name", sorted(Settings.__struct_fields__))
def test_each_setting_is_named(name: str) -> None:
    assert name in QUOTED


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_is_named(name: str) -> None:
    assert name in QUOTED or f"ksi {name}" in README


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_each_dialect_is_named(name: str) -> None:
    assert name in QUOTED


@pytest.mark.parametrize("name", sorted({*PROVIDERS, *SLIPS, *PROFILES}))
def test_each_provider_and_slip_is_named(name: str) -> None:
    assert name in QUOTED


def test_each_command_that_is_named_exists() -> None:
    named = set(re.findall(r"(?:^\$ |`)ksi ([a-z]+)", README, re.MULTILINE))
    assert named - set(COMMANDS) == set()


async def test_the_table_of_events_is_that_of_the_daemon() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connect(str(socket)) as ksi:
            known = await ksi.request("system:discover")
    registered = {each["name"] for each in (*known["events"], *known["notices"])}
    rows = re.findall(r"^\| `([a-z]+:)` \| (.*) \|$", README, re.MULTILINE)
    named = {
        namespace + action
        for namespace, cells in rows
        for action in re.findall(r"`([a-z_]+)`", cells)
    }
    assert named == registered


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python_is_python(block: str) -> None:
    ast.parse(block)


def test_nothing_is_left_to_be_filled_in() -> None:
    assert "<!--" not in README
