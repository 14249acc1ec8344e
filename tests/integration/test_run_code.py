"""An agent that may run code: from the text of its reply to the result that it is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ksi_client import connect
from ksi_daemon.config import CONFIG_EXIT, Settings
from ksi_daemon.daemon import Daemon
from ksi_daemon.errors import UsageError
from ksi_daemon.testing import running_daemon, short_directory

ASKING = '{"tool": "run_code", "arguments": {"code": "print(6 * 7)"}}'

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ,
    reason="bubblewrap is not installed (apt-get install bubblewrap)",
)


async def asked(allowed: dict[str, Any]) -> dict[str, Any]:
    """Return what came of a message to an agent that calls run_code."""
    agent = {
        "agent_id": "coder",
        "system": "You run code.",
        "protocol": "prompt_tools",
        "provider": {"type": "scripted", "replies": [ASKING, "Done."]},
        **allowed,
    }
    with short_directory() as directory:
        async with (
            running_daemon(directory / "v", run_code=True) as socket,
            connect(str(socket)) as ksi,
        ):
            await ksi.request("agent:spawn", agent)
            message = {"agent_id": "coder", "message": "What is 6 * 7?", "wait": True}
            answer: dict[str, Any] = await ksi.request("agent:send", message)
            return answer


@needs_bubblewrap
async def test_an_agent_runs_code() -> None:
    answer = await asked({"tools": ["run_code"]})
    (call,) = answer["calls"]
    assert (call["name"], call["status"]) == ("run_code", "handled")
    assert call["result"]["stdout"] == "42\n"


@needs_bubblewrap
async def test_an_agent_that_is_not_granted_it_does_not() -> None:
    answer = await asked({"allow": ["agent:status"]})
    assert [call["status"] for call in answer["calls"]] == ["denied"]


async def test_without_bubblewrap_the_daemon_does_not_start_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with short_directory() as directory:
        daemon = Daemon(Settings(var=str(directory / "v"), run_code=True))
        with pytest.raises(UsageError, match="no sandbox") as caught:
            await daemon.run(lambda socket: None)
    assert caught.value.exit_code == CONFIG_EXIT
