"""How the process fares, on stderr: lines for programs or for people, with the ids of the log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ksi_client import BlockingClient
from ksi_daemon.testing import short_directory

PROVIDER = {
    "type": "scripted",
    "replies": ['{"event": "state:get", "data": {"key": "k"}}', "Done."],
}


def said(*words: str) -> tuple[list[str], dict[str, str]]:
    """Run a daemon with an agent at work; return what it said and the event that was sent."""
    with short_directory() as directory:
        var = directory / "v"
        process = subprocess.Popen(
            [sys.executable, "-m", "ksi_daemon", "--var", str(var), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        with BlockingClient(Path(var, "run", "daemon.sock")) as client:
            client.request(
                "agent:spawn", {"agent_id": "a", "system": "Work.", "provider": PROVIDER}
            )
            client.request("agent:send", {"agent_id": "a", "message": "go", "wait": True})
            page = client.request("monitor:get_events", {"patterns": ["agent:send"]})
        process.terminate()
        _, lines = process.communicate(timeout=20)
    [sent] = page["events"]
    return lines.splitlines(), sent


@pytest.mark.parametrize("words", [[], ["--log-format", "json"]], ids=["no terminal", "asked for"])
def test_lines_of_json_have_the_ids_of_the_log(words: list[str]) -> None:
    lines, sent = said("--log-level", "debug", *words)
    rows = [json.loads(line) for line in lines]
    assert all({"event", "level", "timestamp"} <= set(row) for row in rows)
    parsed = [row for row in rows if row["event"] == "calls_parsed"]
    assert len(parsed) == 2
    for row in parsed:
        ids = (row["agent_id"], row["event_id"], row["correlation_id"])
        assert ids == ("a", sent["id"], sent["correlation_id"])


def test_lines_for_people() -> None:
    lines, sent = said("--log-level", "debug", "--log-format", "text")
    [line, _] = [line for line in lines if "calls_parsed" in line]
    assert re.match(r"\d{4}-\d\d-\d\d.* \[debug", line)
    assert f"correlation_id={sent['correlation_id']}" in line
    assert "\x1b" not in line
