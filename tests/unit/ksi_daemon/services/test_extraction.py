from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksi_daemon import extraction
from ksi_daemon.errors import KsiError
from ksi_daemon.testing import connected, running_daemon

# Without an id: lenient makes one, strict rejects the block.
TEXT = 'Done. {"type": "ksi_tool_use", "name": "agent:status", "input": {"status": "ready"}}'


@pytest.mark.parametrize(
    ("asked", "calls", "rejected"),
    [
        pytest.param({}, ["agent:status"], [], id="lenient by default"),
        pytest.param({"mode": "strict"}, [], ["missing_id"], id="strict"),
        pytest.param({"preset": "ksi"}, ["agent:status"], [], id="named preset"),
    ],
)
async def test_extract_is_what_the_library_says(
    var: Path, asked: dict[str, Any], calls: list[str], rejected: list[str]
) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = await peer.ask("extraction:extract", {"text": TEXT} | asked)
    assert [call["name"] for call in found["calls"]] == calls
    assert [block["code"] for block in found["rejected"]] == rejected
    settings = {"mode": asked["mode"]} if "mode" in asked else {}
    expected = extraction.to_json(extraction.extract(TEXT, extraction.protocol("ksi", **settings)))
    for each in (*found["calls"], *expected["calls"]):
        each.pop("id")
    assert found == expected


async def test_a_text_that_was_cut_is_told_with_its_stop_reason(var: Path) -> None:
    asked = {"text": TEXT[:-1], "stop_reason": "length"}
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = await peer.ask("extraction:extract", asked)
    assert (found["calls"], [block["code"] for block in found["rejected"]]) == (
        [],
        ["unterminated_block"],
    )


async def test_nothing_fires(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("extraction:extract", {"text": TEXT})
        assert (await peer.ask("system:health"))["last_seq"] == 1


async def test_the_prompt_teaches_and_its_compact_form_is_shorter(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        full = (await peer.ask("extraction:prompt"))["prompt"]
        compact = (await peer.ask("extraction:prompt", {"compact": True}))["prompt"]
    assert full == extraction.teach(extraction.protocol("ksi"))
    assert 0 < len(compact) < len(full)


@pytest.mark.conformance
async def test_S000_50_the_prompt_for_sessions_elsewhere_holds_their_tools(var: Path) -> None:
    tool = {"name": "read", "description": "Read.", "schema": {"type": "object", "properties": {}}}
    asked = {"preset": "json_action", "tools": [tool]}
    async with running_daemon(var) as socket, connected(socket) as peer:
        found = (await peer.ask("extraction:prompt", asked))["prompt"]
        tools = [extraction.Tool(**tool)]  # type: ignore[arg-type]
        proven = await peer.ask("extraction:prompt", {"tools": [tool], "nonce": "ABCDE234"})
    assert found == extraction.teach(extraction.protocol("json_action"), tools)
    assert "ksiu_ABCDE234_01" in proven["prompt"]


async def test_a_tool_whose_schema_is_none(var: Path) -> None:
    tool = {"name": "read", "description": "", "schema": {"properties": {"a": 5}}}
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(
            KsiError, match="the schema of 'read': /properties/a: a schema"
        ) as caught:
            await peer.ask("extraction:prompt", {"tools": [tool]})
    assert caught.value.details == {"path": "tools[0].schema"}


@pytest.mark.parametrize("event", ["extraction:extract", "extraction:prompt"])
async def test_a_preset_that_is_not_there(var: Path, event: str) -> None:
    data = {"preset": "ski"} | ({"text": ""} if event.endswith("extract") else {})
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="no preset 'ski'") as caught:
            await peer.ask(event, data)
    assert (caught.value.code, caught.value.hint) == ("not_found", "did you mean 'ksi'?")
