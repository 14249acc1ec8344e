from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.testing import connected, running_daemon


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("text", id="text"),
        pytest.param(None, id="null is a value"),
        pytest.param({"a": [1, 2.5, True, None]}, id="object"),
        pytest.param("\0 \U0001f600 \\u", id="odd characters"),
        pytest.param(2**70, id="a large number"),
    ],
)
async def test_what_is_set_is_got(var: Path, value: Any) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("state:set", {"key": "k", "value": value}) == {"version": 1}
        assert await peer.ask("state:get", {"key": "k"}) == {"value": value, "version": 1}


async def test_what_was_never_set_has_version_0(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("state:get", {"key": "k"}) == {"value": None, "version": 0}
        assert await peer.ask("state:delete", {"key": "k"}) == {"deleted": False}


async def test_versions_count_the_writes_of_a_key_and_never_come_back(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("state:set", {"key": "k", "value": 1}) == {"version": 1}
        assert await peer.ask("state:set", {"key": "k", "value": 2}) == {"version": 2}
        assert await peer.ask("state:delete", {"key": "k"}) == {"deleted": True}
        assert await peer.ask("state:get", {"key": "k"}) == {"value": None, "version": 0}
        assert await peer.ask("state:set", {"key": "k", "value": 3}) == {"version": 4}


async def test_namespaces_are_apart(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("state:set", {"key": "k", "value": 1})
        await peer.ask("state:set", {"namespace": "other", "key": "k", "value": 2})
        assert (await peer.ask("state:get", {"key": "k"}))["value"] == 1
        assert (await peer.ask("state:get", {"namespace": "other", "key": "k"}))["value"] == 2


@pytest.mark.parametrize(
    ("event", "data", "code", "message", "details"),
    [
        pytest.param(
            "state:set",
            {"key": "k", "value": 2, "expect_version": 0},
            "version_conflict",
            "'k' has version 1, not 0",
            {"version": 1},
            id="a key that shall be new",
        ),
        pytest.param(
            "state:set",
            {"key": "k", "value": 2, "expect_version": 2},
            "version_conflict",
            "'k' has version 1, not 2",
            {"version": 1},
            id="a version that was overtaken",
        ),
        pytest.param(
            "state:delete",
            {"key": "k", "expect_version": 2},
            "version_conflict",
            "'k' has version 1, not 2",
            {"version": 1},
            id="deleted under a condition",
        ),
        pytest.param(
            "state:set",
            {"key": "", "value": 2},
            "args_schema",
            "Expected `str` of length >= 1 - at `$.key`",
            {"path": "key"},
            id="no key",
        ),
        pytest.param(
            "state:set",
            {"key": "k"},
            "args_schema",
            "Object missing required field `value`",
            {"path": ""},
            id="no value",
        ),
        pytest.param(
            "state:get",
            {"key": "k", "extra": 1},
            "args_schema",
            "Object contains unknown field `extra`",
            {"path": ""},
            id="unknown field",
        ),
    ],
)
async def test_what_does_not_fit_changes_nothing(
    var: Path, event: str, data: Any, code: str, message: str, details: dict[str, Any]
) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("state:set", {"key": "k", "value": 1})
        with pytest.raises(KsiError) as caught:
            await peer.ask(event, data)
        assert (caught.value.code, caught.value.message) == (code, message)
        assert caught.value.details == details
        assert await peer.ask("state:get", {"key": "k"}) == {"value": 1, "version": 1}


async def test_a_number_that_no_reader_takes_is_refused(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        with pytest.raises(KsiError, match="value: Number out of range") as caught:
            await peer.ask("state:set", {"key": "k", "value": msgspec.Raw(b"[1e999]")})
        assert (caught.value.code, caught.value.details) == ("args_schema", {"path": "value"})
        assert await peer.ask("state:get", {"key": "k"}) == {"value": None, "version": 0}


async def test_of_many_writers_with_one_version_one_wins(var: Path) -> None:
    outcomes: list[bool] = []

    async def write(value: int) -> None:
        data = {"key": "k", "value": value, "expect_version": 0}
        async with connected(socket) as peer:
            outcomes.append((await peer.request("state:set", data))["ok"])

    async with running_daemon(var) as socket, anyio.create_task_group() as tasks:
        for value in range(8):
            tasks.start_soon(write, value)
    assert sorted(outcomes) == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param({}, ["a", "ab", "b*", "b[1]"], id="all, sorted"),
        pytest.param({"pattern": "a*"}, ["a", "ab"], id="prefix"),
        pytest.param({"pattern": "*b"}, ["ab"], id="suffix"),
        pytest.param({"pattern": "a"}, ["a"], id="exact"),
        pytest.param({"pattern": "b[1]"}, ["b[1]"], id="brackets are letters"),
        pytest.param({"pattern": "zz*"}, [], id="nothing"),
        pytest.param({"limit": 2}, ["a", "ab"], id="limit"),
        pytest.param({"namespace": "other"}, ["x"], id="namespace"),
    ],
)
async def test_query(var: Path, data: dict[str, Any], keys: list[str]) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        for key in ("b[1]", "ab", "a", "gone", "b*"):
            await peer.ask("state:set", {"key": key, "value": key})
        await peer.ask("state:set", {"namespace": "other", "key": "x", "value": 1})
        await peer.ask("state:delete", {"key": "gone"})
        found = (await peer.ask("state:query", data))["entries"]
    assert [entry["key"] for entry in found] == keys


async def test_a_query_tells_values_and_versions(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("state:set", {"key": "k", "value": 1})
        await peer.ask("state:set", {"key": "k", "value": [2]})
        assert await peer.ask("state:query") == {
            "entries": [{"key": "k", "value": [2], "version": 2}]
        }


async def test_values_outlive_the_daemon(var: Path) -> None:
    async with running_daemon(var) as socket, connected(socket) as peer:
        await peer.ask("state:set", {"key": "k", "value": 1})
    async with running_daemon(var) as socket, connected(socket) as peer:
        assert await peer.ask("state:get", {"key": "k"}) == {"value": 1, "version": 1}
