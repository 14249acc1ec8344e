"""What the README reads in the log of a bad night is in the log of such a night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_client import connect
from ksi_daemon.testing import running_daemon, short_directory
from tests.bad_night import live


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What a daemon says of the night: rows by model, by tool, what went wrong, recoveries."""
    return anyio.run(_asked)


async def _asked() -> dict[str, Any]:
    with short_directory() as directory:
        live(Path(directory) / "v")
        async with (
            running_daemon(Path(directory) / "v") as socket,
            connect(str(socket)) as ksi,
        ):
            recovered = {"patterns": ["system:recovered"], "limit": 1}
            return {
                "models": await ksi.request("monitor:reliability", {"group_by": ["model"]}),
                "tools": await ksi.request("monitor:reliability", {"group_by": ["tool"]}),
                "attempts": await ksi.request("monitor:attempts", {}),
                "recovered": await ksi.request("monitor:get_events", recovered),
            }


def row(report: dict[str, Any], **keys: str) -> dict[str, Any]:
    (found,) = [
        each for each in report["rows"] if all(each[name] == key for name, key in keys.items())
    ]
    return dict(found)


@pytest.mark.parametrize(
    ("model", "worse"),
    [
        pytest.param("middle", "repaired", id="middle"),
        pytest.param("small", "rejected", id="small"),
    ],
)
def test_which_model_wrote_worse(answers: dict[str, Any], model: str, worse: str) -> None:
    assert row(answers["models"], model="large")[worse] == 0
    assert row(answers["models"], model=model)[worse] > 2


def test_whose_fault_the_dead_tool_was(answers: dict[str, Any]) -> None:
    found = row(answers["tools"], tool="lookup")
    assert (found["seen"], found["handled"], found["failed"]) == (12, 6, 6)
    assert {name: count for name, count in found["faults"].items() if count} == {"tool": 6}


def test_what_was_tried_and_denied(answers: dict[str, Any]) -> None:
    denied = [each for each in answers["attempts"]["attempts"] if each["code"] == "denied"]
    assert [(each["agent_id"], each["event"]) for each in denied] == [("cleo", "agent:spawn")]


def test_what_the_crash_left(answers: dict[str, Any]) -> None:
    (event,) = answers["recovered"]["events"]
    assert (event["data"]["redispatched"], event["data"]["unknown"]) == (1, 0)


def test_nothing_was_lost(answers: dict[str, Any]) -> None:
    assert all(each["lost"] == 0 for each in answers["models"]["rows"])
