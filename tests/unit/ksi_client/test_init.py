from __future__ import annotations

import subprocess
import sys

import pytest

import ksi_client


@pytest.mark.parametrize("name", ksi_client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ksi_client, name).__name__ == name


def test_any_other_name_is_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = ksi_client.Nothing


def test_the_command_line_loads_no_event_loop() -> None:
    code = "import ksi_client.cli, ksi_client.commands.emit, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"asyncio", "anyio", "pydantic", "structlog"}.isdisjoint(loaded)
