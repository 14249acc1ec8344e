from __future__ import annotations

from typing import Any

import pytest

from ksi_client import connect
from ksi_daemon.errors import InvalidData, KsiError, NotFound
from ksi_daemon.testing import running_daemon, short_directory
from ksi_daemon.transports.mcp.resources import RESOURCES, TEMPLATES, asked_for, shown

PAGE = {"limit": 50, "reverse": True}


@pytest.mark.parametrize(
    ("address", "event", "data"),
    [
        pytest.param("ksi://events", "monitor:get_events", PAGE, id="the newest"),
        pytest.param(
            "ksi://events/42",
            "monitor:get_events",
            {"after_seq": 41, "before_seq": 43, "limit": 1},
            id="one",
        ),
        pytest.param(
            "ksi://events?pattern=agent:*,state:set&status=failed&agent_id=a%20b",
            "monitor:get_events",
            {**PAGE, "patterns": ["agent:*", "state:set"], "status": "failed", "agent_id": "a b"},
            id="those that match",
        ),
        pytest.param(
            "ksi://events?after_seq=7&limit=5",
            "monitor:get_events",
            {"after_seq": 7, "limit": 5, "reverse": False},
            id="forward",
        ),
        pytest.param(
            "ksi://events?limit=999999",
            "monitor:get_events",
            {"limit": 1000, "reverse": True},
            id="not too many",
        ),
        pytest.param("ksi://stories/42", "monitor:tree", {"seq": 42}, id="a story"),
        pytest.param("ksi://reliability", "monitor:reliability", {}, id="reliability"),
        pytest.param(
            "ksi://reliability/agent,tool",
            "monitor:reliability",
            {"group_by": ["agent", "tool"]},
            id="by other keys",
        ),
        pytest.param("ksi://stats", "monitor:get_stats", {}, id="stats"),
        pytest.param("ksi://agents", "agent:list", {}, id="agents"),
        pytest.param("ksi://agents/ada", "agent:info", {"agent_id": "ada"}, id="one agent"),
    ],
)
def test_what_an_address_asks_for(address: str, event: str, data: dict[str, Any]) -> None:
    asked = asked_for(address)
    assert (asked.event, asked.data) == (event, data)


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        pytest.param("ksi://nothing", NotFound, "no resource 'ksi://nothing'", id="another"),
        pytest.param("ksi://stories", NotFound, "no resource", id="half of one"),
        pytest.param("ksi://stats/1", NotFound, "no resource", id="more of one"),
        pytest.param("http://events", NotFound, "no resource", id="another scheme"),
        pytest.param("file:///etc/passwd", NotFound, "no resource", id="a file"),
        pytest.param("", NotFound, "no resource", id="nothing"),
        pytest.param("ksi://[", InvalidData, "is no address", id="no address"),
        pytest.param("ksi://events?x", InvalidData, "is no address", id="no query"),
        pytest.param("ksi://events?color=red", InvalidData, "takes no 'color'", id="no filter"),
        pytest.param("ksi://stats?limit=1", InvalidData, "takes no query", id="query of another"),
        pytest.param("ksi://events/x", InvalidData, "seq must be a number", id="no number"),
        pytest.param("ksi://events/-1", InvalidData, "seq must be a number", id="negative"),
        pytest.param("ksi://events/" + "9" * 99, InvalidData, "must be a number", id="huge"),
        pytest.param("ksi://events?limit=\u0663", InvalidData, "must be a number", id="not ascii"),
    ],
)
def test_what_is_no_address(address: str, error: type[KsiError], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", "\\?")):
        asked_for(address)


def test_pages_follow_each_other_to_the_end() -> None:
    def page(address: str) -> Any:
        asked = asked_for(address)
        low, high = asked.data.get("after_seq", 0), asked.data.get("before_seq", 8)
        found = [{"seq": seq} for seq in range(low + 1, high)]
        ordered = found[::-1] if asked.data["reverse"] else found
        return asked.shape({"events": ordered[: asked.data["limit"]], "last_seq": 7}, 7)

    first = page("ksi://events?pattern=a:*&limit=3")
    assert [each["seq"] for each in first["events"]] == [6, 5]  # 7 is the reading itself
    assert first["next"] == "ksi://events?pattern=a:*&limit=3&before_seq=5"
    second = page(first["next"])
    assert [each["seq"] for each in second["events"]] == [4, 3, 2]
    last = page(second["next"])
    assert ([each["seq"] for each in last["events"]], last["next"]) == ([1], None)
    forward = page("ksi://events?after_seq=4&limit=2")
    assert forward["next"] == "ksi://events?after_seq=6&limit=2"


def test_an_event_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no event '42'"):
        asked_for("ksi://events/42").shape({"events": []}, 0)


def test_what_is_shown_is_what_may_be_read() -> None:
    assert [each.address for each in shown(["agent:list"], RESOURCES)] == ["ksi://agents"]
    assert shown([], TEMPLATES) == []


async def test_every_resource_needs_an_event_that_there_is() -> None:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as path, connect(str(path)) as ksi:
            known = {each["name"] for each in (await ksi.request("system:discover"))["events"]}
    assert {each.event for each in (*RESOURCES, *TEMPLATES)} <= known
    for each in RESOURCES:
        assert asked_for(each.address).event == each.event
