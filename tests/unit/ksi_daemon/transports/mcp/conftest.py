from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ksi_daemon.testing import running_daemon, short_directory

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
async def wait() -> str:
    """Never return."""
    await anyio.sleep_forever()
'''


@pytest.fixture
async def var() -> AsyncIterator[Path]:
    """A daemon that has a plugin and a profile of our own; its directory."""
    with short_directory() as directory:
        components = directory / "c"
        for name, text in PROFILES.items():
            path = components / "profiles" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\ncomponent_type: profile\n{text}\n---\n")
        plugins = directory / "p"
        plugins.mkdir()
        (plugins / "things.py").write_text(PLUGIN)
        async with running_daemon(
            directory / "v",
            components=str(components),
            plugins=str(plugins),
            max_frame_bytes=64 * 1024,
            frame_timeout_s=0.5,
            stall_timeout_s=0.5,
            http_port=0,
        ):
            yield directory / "v"


PROFILES = {
    "reader": "allow: [system:help, 'monitor:*', agent:list, state:get]",
    "agent": "allow: [system:help]",
    "all": "allow: ['*']\nask: [state:delete]\ndeny: [state:query]",
}
