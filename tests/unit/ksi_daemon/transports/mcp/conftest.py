from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory

PLUGIN = '''
"""What the tests call."""

import base64

import anyio

from ksi_daemon.tools import File, tool

PIXEL = base64.b64decode("iVBORw0KGgo=")


@tool(effect="observe")
def picture() -> list[object]:
    """Return a picture and a word."""
    return [File(PIXEL, "image/png"), "here"]


@tool(effect="observe")
def sound() -> File:
    """Return a sound."""
    return File(b"RIFF", "audio/wav")


@tool(effect="observe")
def word() -> str:
    """Return a word."""
    return "hello"


@tool(effect="observe")
async def wait_for(path: str) -> str:
    """Return once there is a file."""
    while not await anyio.Path(path).exists():
        await anyio.sleep(0)
    return "went"


@tool(effect="observe")
async def wait() -> str:
    """Never return."""
    await anyio.sleep_forever()
'''


PROFILES = {
    "auditor": "allow: [system:help, 'monitor:*', agent:list, state:get]",
    "agent": "allow: [system:help]",
    "all": "allow: ['*']\nask: [state:delete]\ndeny: [state:query]",
}


@pytest.fixture
def house() -> Iterator[Path]:
    """A directory with profiles (c), a plugin (p) and room for a daemon (v)."""
    with short_directory() as directory:
        (directory / "c" / "profiles").mkdir(parents=True)
        for name, text in PROFILES.items():
            front_matter = f"---\ncomponent_type: profile\n{text}\n---\n"
            (directory / "c" / "profiles" / f"{name}.md").write_text(front_matter)
        (directory / "p").mkdir()
        (directory / "p" / "things.py").write_text(PLUGIN)
        yield directory
